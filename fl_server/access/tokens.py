"""Who may operate the server: tokens with scopes, of one tenant or of all, that run out."""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row, select, update

from fl_server.access.scopes import OF_ALL_TENANTS, SCOPES
from fl_server.errors import Forbidden, NotFound, ProtocolError, SettingsError, Unauthorised
from fl_server.settings import MOST_DAYS, Settings, check_name
from fl_server.storage.audit import SERVER
from fl_server.storage.store import Store
from fl_server.storage.tables import tokens as table

_ALL = "*"
_PREFIX = "ms_"
_ADMIN, _ENROL = "admin.token", "enrol.token"
# Whom else the audit log names.
_NAMED_ALREADY = frozenset({_ADMIN, _ENROL, SERVER})


@dataclass(frozen=True)
class Actor:
    """Who asks: `tenant` is empty for one who is of none, and may see all. `until`: seconds since
    1970 at which the token runs out, None if it does not."""

    name: str
    scopes: frozenset[str]
    tenant: str = ""
    until: float | None = None

    def check(self, scope: str) -> None:
        """raises Forbidden"""
        if _ALL not in self.scopes and scope not in self.scopes:
            raise Forbidden(f"token {self.name} is not good for {scope}")
        if self.tenant and scope in OF_ALL_TENANTS:
            raise Forbidden(f"token {self.name} is of one tenant, {scope} of all")

    def sees(self, tenant: str) -> bool:
        return self.tenant in ("", tenant)


class Tokens:
    """admin_token, enrol_token: those of the server's folder, good for all and for enrolment"""

    def __init__(
        self, store: Store, settings: Settings, admin_token: str, enrol_token: str
    ) -> None:
        self._store = store
        self._settings = settings
        self._own = {
            admin_token: Actor(_ADMIN, frozenset({_ALL})),
            enrol_token: Actor(_ENROL, frozenset({"enrol"}), settings.tenant),
        }

    def create(
        self,
        name: str,
        scopes: list[str],
        tenant: str,
        days: float | None,
        maker: Actor | None = None,
    ) -> str:
        """A new token, which nobody can read again. It is good for no more and no longer than the
        token of its `maker`, None for one who may all; without days it runs out with that, and
        whoever takes that back takes this one back.

        raises SettingsError, ProtocolError, Forbidden, Unauthorised
        """
        _check(name, scopes, tenant, days)
        secret, now = _PREFIX + self._settings.random(24).hex(), self._settings.clock()
        expires_at = None if days is None else now + days * 86400
        if maker is not None:
            tenant, expires_at = _within(maker, scopes, tenant, expires_at)
        row: dict[str, Any] = {
            "name": name,
            "digest": _digest(secret),
            "scopes": " ".join(sorted(set(scopes))),
        }
        row |= {"tenant": tenant, "created_at": now, "revoked": False}
        by = "" if maker is None or maker in self._own.values() else maker.name
        row |= {"expires_at": expires_at, "maker": by}
        with self._store.begin() as db:
            if by:
                self._lock_valid(db, by)
            if db.execute(select(table).where(table.c.name == name)).first():
                raise ProtocolError(f"there is a token {name} already")
            db.execute(table.insert().values(**row))
        return secret

    def listed(self, tenant: str = "") -> list[dict[str, Any]]:
        """All tokens, or those of a tenant, without their secrets."""
        query = select(table).order_by(table.c.created_at, table.c.name)
        with self._store.read() as db:
            rows = db.execute(query.where(table.c.tenant == tenant) if tenant else query).all()
        return [
            {
                "name": row.name,
                "scopes": row.scopes.split(),
                "tenant": row.tenant,
                "created_at": row.created_at,
                "expires_at": row.expires_at,
                "maker": row.maker,
                "state": self._state(row),
            }
            for row in rows
        ]

    def revoke(self, name: str, tenant: str = "") -> None:
        """Take a token back, and all that were made with it; names stay taken.

        raises NotFound
        """
        this = (table.c.name == name) & ((table.c.tenant == tenant) if tenant else True)
        with self._store.begin() as db:
            if not db.execute(update(table).where(this).values(revoked=True)).rowcount:
                raise NotFound(f"there is no token {name}")
            made = [name]
            while made:
                # Whoever makes one has locked its maker: it is there already, or is refused.
                made = list(db.scalars(select(table.c.name).where(table.c.maker.in_(made))))
                db.execute(update(table).where(table.c.name.in_(made)).values(revoked=True))

    def actor(self, secret: str) -> Actor:
        """Whose token this is.     raises Unauthorised"""
        for own, actor in self._own.items():
            if hmac.compare_digest(secret.encode(), own.encode()):
                return actor
        row = None
        if secret.startswith(_PREFIX):
            with self._store.read() as db:
                query = select(table).where(table.c.digest == _digest(secret))
                row = db.execute(query).first()
        if row is None:
            raise Unauthorised("a token of this server is needed")
        if (state := self._state(row)) != "valid":
            raise Unauthorised(f"token {row.name} is {state}")
        return Actor(row.name, frozenset(row.scopes.split()), row.tenant, row.expires_at)

    def _lock_valid(self, db: Connection, name: str) -> None:
        """Nothing, if the token is good, which it stays until the transaction ends.

        raises Unauthorised
        """
        row = db.execute(select(table).where(table.c.name == name).with_for_update()).one()
        if (state := self._state(row)) != "valid":
            raise Unauthorised(f"token {name} is {state}")

    def _state(self, row: Row[Any]) -> str:
        if row.revoked:
            return "revoked"
        expired = row.expires_at is not None and self._settings.clock() >= row.expires_at
        return "expired" if expired else "valid"


def _check(name: str, scopes: list[str], tenant: str, days: float | None) -> None:
    """raises SettingsError"""
    if not name.isprintable() or not 1 <= len(name) <= 64:
        raise SettingsError(f"token {name[:80]!r}: want a name of 1 to 64 characters")
    if name in _NAMED_ALREADY:
        raise SettingsError(f"token {name}: this is what the audit log calls another one")
    if "/" in name or name in (".", ".."):
        raise SettingsError(f"token {name}: want a name that is one part of a path, without /")
    if tenant:
        check_name("tenant", tenant)
    for scope in scopes:
        if scope not in SCOPES:
            raise SettingsError(f"no scope {scope[:80]!r}; there are {', '.join(SCOPES)}")
        if tenant and scope in OF_ALL_TENANTS:
            raise SettingsError(f"scope {scope} is of all tenants, not of {tenant}")
    if not scopes:
        raise SettingsError(f"token {name} is good for nothing; want scopes")
    if days is not None and not 0 < days <= MOST_DAYS:
        raise SettingsError(f"days is {days}, want a number above 0, and at most {MOST_DAYS}")


def _within(
    maker: Actor, scopes: list[str], tenant: str, expires_at: float | None
) -> tuple[str, float | None]:
    """The tenant and the end of a token that somebody makes who has one.     raises Forbidden"""
    for scope in scopes:
        maker.check(scope)
    if maker.tenant and tenant not in ("", maker.tenant):
        raise Forbidden(f"token {maker.name} makes tokens of {maker.tenant} alone")
    if maker.until is not None and expires_at is not None and expires_at > maker.until:
        days = (expires_at - maker.until) / 86400
        raise Forbidden(f"token {maker.name} runs out {days:.3g} days before the one it is to make")
    return maker.tenant or tenant, maker.until if expires_at is None else expires_at


def bearer(header: str) -> str:
    """The token in an authorization header, empty if it holds none."""
    scheme, _, token = header.partition(" ")
    return token if scheme == "Bearer" else ""


def _digest(secret: str) -> bytes:
    # Of 24 random bytes, which nobody guesses: a slow hash would add nothing.
    return hashlib.sha256(secret.encode()).digest()
