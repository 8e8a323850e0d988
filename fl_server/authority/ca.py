"""An enrolment authority in a folder of its own, away from the server: its keys, and all it signed.

The folder holds `ca.key` (encrypted where there is a passphrase), `ca.pub` and `ca.crl` for servers
and devices, `handovers` from older keys, `issued.jsonl` (issued.py), and `revoked`, the numbers of
all that were ever revoked, of which `ca.crl` has those whose certificate has not run out.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from fl_server import messages as wire
from fl_server.authority.attestation import attest
from fl_server.authority.enrolment import Authority
from fl_server.authority.handover import Handover, hand_over, parse_chain
from fl_server.authority.issued import Issued
from fl_server.errors import FlError, Malformed, SettingsError, Unauthorised
from fl_server.secagg.certificate import CLOCK_SLACK_S, Certificate, RevocationList
from fl_server.secagg.keys import KEY_SIZE, Identity, RandomBytes
from fl_server.storage.files import write_file


@dataclass(frozen=True)
class Request:
    """A device that a server has given a number and wants certified."""

    client: int
    tenant: str
    message: wire.Asked


class CertificateAuthority:
    """The authority of a folder. Every method raises SettingsError where the folder is damaged."""

    def __init__(self, folder: Path, passphrase: str = "") -> None:
        self.folder = folder
        self._passphrase = passphrase.encode()
        seed = _read_key(folder / "ca.key", self._passphrase)
        self._identity = Identity(seed)
        self.authority = Authority(seed)
        self._finish_rotation()
        self.handovers = parse_chain(_read(folder / "handovers"))
        kept = _read(folder / "ca.crl")
        self.revocations = RevocationList.from_bytes(kept) if kept else self._revoke(1, set())

    @classmethod
    def create(
        cls, folder: Path, random: RandomBytes, passphrase: str = ""
    ) -> CertificateAuthority:
        """A new authority in an empty folder.     raises SettingsError"""
        if (folder / "ca.key").exists():
            raise SettingsError(f"{folder}: there is an authority already")
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o700)
        _write_key(folder / "ca.key", random(KEY_SIZE), passphrase.encode())
        made = cls(folder, passphrase)
        made._publish()
        return made

    @property
    def public(self) -> bytes:
        return self.authority.public

    @cached_property
    def revoked(self) -> set[int]:
        """All who were ever revoked: they get no certificate any more."""
        kept = _read(self.folder / "revoked")
        try:
            numbers = {int(line) for line in kept.splitlines()}
        except ValueError:
            raise SettingsError(f"{self.folder / 'revoked'}: want a number in each line") from None
        return numbers | {serial.number for serial in self.revocations.revoked.serials}

    def certify(
        self, asked: Request, now: float, days: int, command: Sequence[str] = ()
    ) -> Certificate:
        """A certificate for one device; `command` decides about its attestation.

        raises BadSignature, Unauthorised where the device, or the server that asks for it, may not,
        HookFailed where the command cannot tell
        """
        message = asked.message
        message.verify()
        if asked.client in self.revoked:
            raise Unauthorised(f"client {asked.client} is revoked")
        owner = self._issued.owner(asked.client)
        if owner not in (None, message.public_key.hex()):
            raise Unauthorised(f"client {asked.client} is another device: {owner}")
        attest(command, message, asked.tenant)
        arguments = message.public_key, asked.tenant, message.population, now, days
        certificate = self.authority.certify(asked.client, *arguments)
        self._note(asked, now, days)
        return certificate

    def revoke(self, clients: set[int], now: float = 0.0) -> RevocationList:
        """The next list, with these clients on it, too; the same one if all were revoked before.
        Left off are those whose certificate has run out by `now`.

        raises RoundFailed where that is more than a list can hold; then nothing has changed
        """
        if clients <= self.revoked:
            return self.revocations
        revoked, over = self.revoked | clients, now - CLOCK_SLACK_S
        listed = {client for client in revoked if self._issued.until(client) >= over}
        self.revocations = self._revoke(self.revocations.revoked.number + 1, listed)
        self.revoked = revoked
        self._publish()
        return self.revocations

    def rotate(self, random: RandomBytes) -> Handover:
        """A new key takes the old one's place; the old one signs that, and is erased."""
        seed = random(KEY_SIZE)
        link = hand_over(self._identity, len(self.handovers) + 2, Identity(seed).public)
        chain = b"".join(known.to_bytes() for known in (*self.handovers, link))
        # First what the old key says: without it no device would find its way to the new one.
        write_file(self.folder / "handovers.next", chain)
        _write_key(self.folder / "ca.key", seed, self._passphrase)
        os.replace(self.folder / "handovers.next", self.folder / "handovers")
        revoked = {serial.number for serial in self.revocations.revoked.serials}
        number = self.revocations.revoked.number + 1
        self._identity, self.authority = Identity(seed), Authority(seed)
        self.handovers = [*self.handovers, link]
        self.revocations = self._revoke(number, revoked)
        self._publish()
        return link

    def describe(self) -> dict[str, Any]:
        """What may be known of it."""
        return {
            "public": self.public.hex(),
            "key": len(self.handovers) + 1,
            "issued": len(self._issued),
            "revocation_list": self.revocations.revoked.number,
            "revoked": sorted(self.revoked),
        }

    def _finish_rotation(self) -> None:
        """One that was cut off is whole if the new key is there, and else never was."""
        left = self.folder / "handovers.next"
        if left.exists() and parse_chain(left.read_bytes())[-1].key == self.public:
            os.replace(left, self.folder / "handovers")
            self.handovers = parse_chain(_read(self.folder / "handovers"))
            old = RevocationList.from_bytes(_read(self.folder / "ca.crl")).revoked
            number, revoked = old.number + 1, {serial.number for serial in old.serials}
            self.revocations = self._revoke(number, revoked)
            self._publish()

    def _revoke(self, number: int, clients: set[int]) -> RevocationList:
        return self.authority.revoke(number, clients)

    def _publish(self) -> None:
        # First, so that none is forgotten who is on no list any more.
        numbers = "".join(f"{client}\n" for client in sorted(self.revoked))
        write_file(self.folder / "revoked", numbers.encode())
        write_file(self.folder / "ca.pub", self.public.hex().encode() + b"\n", mode=0o644)
        write_file(self.folder / "ca.crl", self.revocations.to_bytes(), mode=0o644)

    @cached_property
    def _issued(self) -> Issued:
        return Issued(self.folder / "issued.jsonl")  # read when it is needed: it may be long

    def _note(self, asked: Request, now: float, days: int) -> None:
        entry = {"client": asked.client, "public_key": asked.message.public_key.hex()}
        entry |= {"tenant": asked.tenant, "population": asked.message.population}
        entry |= {"at": round(now, 3), "days": days}
        self._issued.add(entry)


def parse_request(entry: dict[str, Any]) -> Request:
    """A request as a server tells it.     raises Malformed"""
    try:
        message = wire.Asked.from_bytes(bytes.fromhex(entry["message"]))
        return Request(int(entry["client"]), str(entry["tenant"]), message)
    except (KeyError, ValueError, TypeError, FlError) as error:
        raise Malformed(f"no request for a certificate: {error}") from None


def _read(path: Path) -> bytes:
    return path.read_bytes() if path.exists() else b""


def _write_key(path: Path, seed: bytes, passphrase: bytes) -> None:
    if not passphrase:
        write_file(path, seed)
        return
    pem = Ed25519PrivateKey.from_private_bytes(seed).private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(passphrase),
    )
    write_file(path, pem)


def _read_key(path: Path, passphrase: bytes) -> bytes:
    if not path.exists():
        raise SettingsError(f"{path}: not there; ms-serve ca init makes an authority")
    data = path.read_bytes()
    if len(data) == KEY_SIZE:
        return data
    try:
        key = serialization.load_pem_private_key(data, passphrase or None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise SettingsError(f"{path}: no key of an authority, or another passphrase's") from None
    if not isinstance(key, Ed25519PrivateKey):
        raise SettingsError(f"{path}: not an Ed25519 key")
    return key.private_bytes_raw()
