"""Who may call: enrolment, the signature on each request, revocation."""

from __future__ import annotations

import re
import threading
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, bindparam, func, select, true, update

from fl_server import messages as wire
from fl_server.access.tokens import Actor, Tokens
from fl_server.authority.enrolment import Authority
from fl_server.authority.registry import Registry
from fl_server.errors import BadSignature, CertificateNeeded, NotFound, Unauthorised
from fl_server.secagg import labels
from fl_server.secagg.certificate import CLOCK_SLACK_S, Certificate, RevocationList
from fl_server.secagg.keys import verify
from fl_server.settings import Settings, check_name
from fl_server.storage import audit
from fl_server.storage.store import Store
from fl_server.storage.tables import clients, facts

_HEADER = re.compile(rf"{wire.SCHEME} ([0-9]{{1,10}}) ([0-9]{{1,19}}) ([0-9a-f]{{128}})")
# Counters are nanoseconds: a device's bound is written once a minute.
_COUNTER_LEASE = 60 * 10**9
_REVOCATION_NUMBER = "revocation number"
_count = (
    update(clients)
    .where((clients.c.id == bindparam("client")) & (clients.c.counter < bindparam("to")))
    .values(counter=bindparam("to"))
    .returning(clients)
)
_by_id = select(clients).where(clients.c.id == bindparam("client"))
_certificate_of = select(clients.c.certificate).where(clients.c.id == bindparam("client"))
_number_query = select(facts.c.value).where(facts.c.name == _REVOCATION_NUMBER)


class StaleCounter(Unauthorised):
    """The request, or a later one, was seen before. `last` is the counter that must be exceeded."""

    def __init__(self, counter: int, last: int) -> None:
        super().__init__(f"counter {counter} is not above {last}: the request is a replay")
        self.last = last


@dataclass(frozen=True)
class Caller:
    """A client whose request signature was checked."""

    id: int
    population: str
    certificate: Certificate

    @property
    def tenant(self) -> str:
        return self.certificate.subject.tenant

    def sees(self, tenant: str) -> bool:
        return self.tenant == tenant


class Clients:
    """The enrolled clients of a server."""

    def __init__(
        self, store: Store, authority: Authority | Registry, settings: Settings, tokens: Tokens
    ) -> None:
        self._store = store
        self._authority = authority
        self._settings = settings
        self._tokens = tokens
        self._lock = threading.Lock()
        self._counters: dict[int, int] = {}

    def authority_public(self, within: Connection | None = None) -> bytes:
        """The key that certificates are checked with."""
        authority = self._authority
        return authority.public(within) if isinstance(authority, Registry) else authority.public

    def sponsor(self, request: wire.Enrol) -> tuple[Actor, str]:
        """Whose token lets a device in, and the tenant that it will be of.

        raises Unauthorised, Forbidden, BadSignature, SettingsError
        """
        actor = self._tokens.actor(request.token.decode("latin-1"))
        actor.check("enrol")
        request.asked.verify()
        check_name("population", request.population)
        return actor, actor.tenant or self._settings.tenant

    def enrol(self, request: wire.Enrol, address: str = "") -> wire.Enrolled | None:
        """A certificate for a new identity, or again the one it has; a new one when that runs out.
        None while an authority apart from the server has yet to sign it. Whether a hook wants more
        than a token is the caller's to ask (authority/attestation.py).

        address: where the request came from, for the audit log
        raises Unauthorised, Forbidden, BadSignature, SettingsError
        """
        actor, tenant = self.sponsor(request)
        with self._store.begin() as db:
            found = db.execute(
                select(clients).where(clients.c.public_key == request.public_key)
            ).first()
            if found is not None:
                kept = self._known(db, found, tenant, request)
                return kept or self._certify(db, found.id, tenant, request)
            where = {"tenant": tenant, "population": request.population}
            values = {"public_key": request.public_key, "certificate": b"", **where}
            (client,) = db.execute(clients.insert().values(**values)).inserted_primary_key or (0,)
            told = {"client": client, "from": address, **where}
            now = self._settings.clock()
            audit.append(self._store, db, now, actor.name, "enrolled a client", **told)
            return self._certify(db, client, tenant, request)

    def _known(
        self, db: Connection, found: Row[Any], tenant: str, request: wire.Enrol
    ) -> wire.Enrolled | None:
        """What an identity that was here before has already, None if it needs a certificate.

        raises Unauthorised
        """
        if found.revoked:
            raise Unauthorised("this identity is revoked")
        if found.tenant not in ("", tenant):
            raise Unauthorised("this identity is another tenant's")
        if found.population != request.population:
            raise Unauthorised(f"this identity is of population {found.population}")
        if not found.tenant:
            this = clients.c.id == found.id
            db.execute(update(clients).where(this).values(tenant=tenant))
        if found.certificate:
            certificate = Certificate.from_bytes(found.certificate)
            if self._settings.clock() < certificate.subject.not_after:
                return wire.Enrolled(certificate, self.authority_public(db))
        return None

    def authenticate(
        self, header: str, method: str, target: str, digest: bytes, part: wire.Part | None = None
    ) -> Caller:
        """Who signed the request, whose body has this SHA-256.     raises Unauthorised"""
        client, counter, signature = _parse(header)
        signed = wire.digest_signed(method, target, counter, digest, part)
        if self._store.is_shared:
            row = self._count_and_check(client, counter, signed, signature)
        else:
            with self._store.read() as db:
                found = db.execute(_by_id, {"client": client}).first()
            row = _check(found, client, signed, signature)
            self._use_counter(client, counter, row.counter)
        return Caller(client, row.population, Certificate.from_bytes(row.certificate))

    def _count_and_check(
        self, client: int, counter: int, signed: bytes, signature: bytes
    ) -> Row[Any]:
        """The client's row, its counter written; nothing is where the signature does not verify.

        raises Unauthorised, StaleCounter
        """
        with self._store.begin() as db:
            row = db.execute(_count, {"client": client, "to": counter}).first()
            if row is None:
                kept = db.execute(_by_id, {"client": client}).first()
                raise StaleCounter(counter, _check(kept, client, signed, signature).counter)
            return _check(row, client, signed, signature)

    def _certify(
        self, db: Connection, client: int, tenant: str, request: wire.Enrol
    ) -> wire.Enrolled | None:
        now, days = self._settings.clock(), self._settings.certificate_days
        if isinstance(self._authority, Registry):
            self._authority.ask(db, client, tenant, request.asked, now)
            return None
        certificate = self._authority.certify(
            client, request.public_key, tenant, request.population, now, days
        )
        row = clients.c.id == client
        db.execute(update(clients).where(row).values(certificate=certificate.to_bytes()))
        return wire.Enrolled(certificate, self._authority.public)

    def _use_counter(self, client: int, counter: int, kept: int) -> None:
        """Take each counter once, over restarts and in all workers.     raises StaleCounter

        The only process at a database keeps a bound there that is ahead of what was seen, so that
        few requests wait for the disk; after a restart a device is told the bound and goes on from
        there. Workers that share a database write each counter.
        """
        with self._lock:
            last = self._counters.get(client, kept)
            if counter <= last:
                raise StaleCounter(counter, last)
            if counter > kept:
                ahead = min(counter + _COUNTER_LEASE, 2**63 - 1)
                with self._store.begin() as db:
                    db.execute(update(clients).where(clients.c.id == client).values(counter=ahead))
            self._counters[client] = counter

    def certificate(self, client: int, within: Connection | None = None) -> Certificate:
        """The certificate of an enrolled client.     raises NotFound"""
        with self._store.read(within) as db:
            found = db.scalar(_certificate_of, {"client": client})
        if not found:
            raise NotFound(f"there is no client {client} with a certificate")
        return Certificate.from_bytes(found)

    def tenant(self, client: int) -> str:
        """Whose an enrolled client is, with a certificate or without.     raises NotFound"""
        with self._store.read() as db:
            found: str | None = db.scalar(select(clients.c.tenant).where(clients.c.id == client))
        if found is None:
            raise NotFound(f"there is no client {client}")
        return found

    def revoke(self, client: int) -> None:
        """Let a client in no longer, or not at all if it waits for a certificate.

        raises NotFound
        """
        self.tenant(client)
        with self._store.begin() as db:
            db.execute(update(clients).where(clients.c.id == client).values(revoked=True))
            if isinstance(self._authority, Registry):
                self._authority.forget(db, client)
            number = int(db.scalar(_number_query) or 0) + 1
            db.execute(facts.delete().where(facts.c.name == _REVOCATION_NUMBER))
            db.execute(facts.insert().values(name=_REVOCATION_NUMBER, value=str(number)))

    def revocations(self, within: Connection | None = None) -> RevocationList:
        """The authority's list of today.     raises RoundFailed"""
        if isinstance(self._authority, Registry):
            return self._authority.revocations(within)
        with self._store.read(within) as db:
            number = int(db.scalar(_number_query) or 0)
            kept = db.scalars(select(clients.c.certificate).where(clients.c.revoked))
            subjects = [Certificate.from_bytes(data).subject for data in kept if data]
        # One that has run out for every device is as good as revoked.
        over = self._settings.clock() - CLOCK_SLACK_S
        revoked = {subject.serial for subject in subjects if subject.not_after >= over}
        return self._authority.revoke(number, revoked)

    def fleet(self, tenant: str = "") -> dict[str, int]:
        """Clients that are enrolled, were heard of in the last day and hour, and are revoked: those
        of a tenant, or all."""
        now, number = self._settings.clock(), func.count()
        asked = {"enrolled": clients.c.revoked.is_(False), "revoked": clients.c.revoked}
        # Devices count in nanoseconds of their clocks, so a counter tells when they last called.
        for name, seconds in (("day", 86400), ("hour", 3600)):
            asked[name] = clients.c.counter >= int((now - seconds) * 10**9)
        with self._store.read() as db:
            queries = {name: select(number).where(w, _of(tenant)) for name, w in asked.items()}
            return {name: int(db.scalar(query) or 0) for name, query in queries.items()}

    def count(self, tenant: str = "") -> int:
        """Enrolled clients that are not revoked: those of a tenant, or all."""
        with self._store.read() as db:
            query = select(func.count()).where(clients.c.revoked.is_(False), _of(tenant))
            return int(db.scalar(query) or 0)


def _of(tenant: str) -> ColumnElement[bool]:
    return clients.c.tenant == tenant if tenant else true()


def _check(row: Row[Any] | None, client: int, signed: bytes, signature: bytes) -> Row[Any]:
    """The row, if its client may call and has signed.     raises Unauthorised"""
    if row is None or row.revoked:
        raise Unauthorised("the request is not of an enrolled client")
    if not row.certificate:
        raise CertificateNeeded(f"client {client} has no certificate; enrol for one")
    try:
        verify(row.public_key, labels.REQUEST, signed, signature, "request")
    except BadSignature as error:
        raise Unauthorised(str(error)) from None
    return row


def claimed_client(header: str) -> int:
    """Whom an authorization header names; nothing is proven by that.     raises Unauthorised"""
    return _parse(header)[0]


def _parse(header: str) -> tuple[int, int, bytes]:
    found = _HEADER.fullmatch(header)
    if found is None:
        raise Unauthorised(f"an {wire.AUTHORIZATION} header of scheme {wire.SCHEME} is needed")
    client, counter, signature = found.groups()
    if int(client) >= 2**31 or int(counter) >= 2**63:
        raise Unauthorised("client or counter is out of range")
    return int(client), int(counter), bytes.fromhex(signature)
