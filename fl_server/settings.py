"""Settings of a server, checked when they are made."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path

from fl_server.errors import SettingsError
from fl_server.secagg.keys import RandomBytes

MOST_DAYS = 36500  # that a certificate or a token may be good for
_DAY_S = 86400
# Devices take no larger model (device/http.py).
_MOST = {"certificate_days": MOST_DAYS, "max_model_bytes": 1 << 28, "max_connections": 10**6}
_WITH_OPTION = ("workers", "poll_s")


@dataclass(frozen=True)
class Settings:
    """A server: where its state lies and how long it lets others wait.

    database_url: SQLAlchemy's; by default SQLite in the folder · files_url: where models, weights
    and vectors lie, a folder or an fsspec URL; by default the folder · workers:
    processes that share the address, which need a database that they can share · log: the form and
    level of what ms-serve writes ·
    authority_key: file of the enrolment key; by default `ca.key` in the folder · authority_public:
    the authority's key where that lies apart, and the server has none · attest: a command that
    decides whether a device may enrol, of a server that has the authority's key · attest_s: how
    long it may take · poll_s: how long a request is held open for something to happen · retry_s:
    when a device without work comes again ·
    max_connections: those above are answered 503 · rate_per_s, client_rate_per_s: requests that
    are taken from one address and from one client, 0 for any number ·
    checkins_per_s: devices without work are told to come again so late that this many come, 0 for
    as soon as retry_s ·
    header_s, body_s, read_s: how long the headers of a request may take, a small body, and a caller
    to read what it was sent
    """

    folder: Path
    tenant: str = "default"
    admin_token: str = ""
    enrol_token: str = ""
    authority_key: Path | None = None
    authority_public: bytes = b""
    attest: Sequence[str] = ()
    attest_s: float = 30.0
    database_url: str = ""
    files_url: str = ""
    workers: int = 1
    log: tuple[str, str] = ("text", "warning")
    poll_s: float = 20.0
    retry_s: float = 1.0
    certificate_days: int = 365
    max_model_bytes: int = 1 << 28
    max_connections: int = 4096
    rate_per_s: float = 0.0
    client_rate_per_s: float = 20.0
    checkins_per_s: float = 0.0
    header_s: float = 10.0
    body_s: float = 20.0
    read_s: float = 20.0
    clock: Callable[[], float] = time.time
    random: RandomBytes = field(default=os.urandom)

    def __post_init__(self) -> None:
        for name in ("rate_per_s", "client_rate_per_s", "checkins_per_s"):
            if not 0 <= getattr(self, name) < math.inf:
                raise SettingsError(f"{name} is {getattr(self, name)}, want 0 or more")
        if self.attest and self.authority_public:
            raise SettingsError(
                "--attest with --ca-pub: the authority decides about devices; give it to ca sign"
            )
        for name in ("attest_s", "poll_s", "retry_s", "header_s", "body_s", "read_s"):
            if not 0 < getattr(self, name) <= _DAY_S:
                want = "want seconds above 0, a day at the most"
                raise SettingsError(f"{name} is {getattr(self, name)}, {want}")
        for name, most in _MOST.items():
            if not 1 <= getattr(self, name) <= most:
                raise SettingsError(f"{name} is {getattr(self, name)}, want 1 to {most}")
        if self.workers < 1:
            raise SettingsError(f"workers is {self.workers}, want 1 or more")
        check_name("tenant", self.tenant)


def number_of(text: str) -> tuple[str, float]:
    """The name and value of NAME=NUMBER, a setting without an option of its own.

    raises SettingsError
    """
    name, _, value = text.partition("=")
    known = {f.name: type(f.default) for f in fields(Settings) if f.name not in _WITH_OPTION}
    kinds = {name: kind for name, kind in known.items() if kind in (int, float)}
    if name not in kinds:
        raise SettingsError(f"no setting {name[:80]!r}; there are {', '.join(kinds)}")
    try:
        return name, kinds[name](value)
    except ValueError:
        want = "a whole number" if kinds[name] is int else "a number"
        raise SettingsError(f"{name} is {value[:80]!r}, want {want}") from None


def check_name(what: str, name: str) -> None:
    """Nothing, if databases and certificates can hold the name of a tenant or a population.

    raises SettingsError
    """
    if not name.isprintable() or not 1 <= len(name.encode()) <= 64:
        raise SettingsError(f"{what} {name[:80]!r}: want 1 to 64 bytes of text")
