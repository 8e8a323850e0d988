"""The enrolment authority: a key in a file of its own, which certifies clients and revokes them.

Whoever holds this key can invent clients and so undo the floor on the size of a cohort; the server
needs it only to enrol. docs/protocol.md says what follows from keeping both in one place.
"""

from __future__ import annotations

from pathlib import Path

from fl_server.errors import SettingsError
from fl_server.secagg.certificate import (
    CLOCK_SLACK_S,
    Certificate,
    RevocationList,
    Subject,
    certify,
    revoke,
)
from fl_server.secagg.keys import KEY_SIZE, Identity, RandomBytes
from fl_server.storage.files import write_file


class Authority:
    """Signs what the devices trust."""

    def __init__(self, seed: bytes) -> None:
        self._identity = Identity(seed)
        self.public = self._identity.public

    def certify(
        self,
        client: int,
        public_key: bytes,
        tenant: str,
        population: str,
        now: float,
        days: int,
    ) -> Certificate:
        """A certificate from an hour ago until `days` from now; the serial is the client's id."""
        subject = Subject(
            serial=client,
            client=client,
            public_key=public_key,
            not_before=max(0, int(now) - CLOCK_SLACK_S),
            not_after=int(now) + days * 86400,
            tenant=tenant,
            population=population,
        )
        return certify(self._identity, subject)

    def revoke(self, number: int, serials: set[int]) -> RevocationList:
        """List `number` of what counts no longer.     raises RoundFailed where that is too much"""
        return revoke(self._identity, number, serials)


def load_authority(path: Path, random: RandomBytes) -> Authority:
    """The authority of a key file; a missing one is made, with its public key beside it."""
    if not path.exists():
        write_file(path, random(KEY_SIZE))
    seed = path.read_bytes()
    if len(seed) != KEY_SIZE:
        raise SettingsError(f"{path}: {len(seed)} bytes, an authority's key has {KEY_SIZE}")
    authority = Authority(seed)
    write_file(path.with_suffix(".pub"), authority.public.hex().encode() + b"\n", mode=0o644)
    return authority
