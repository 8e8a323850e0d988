"""What the enrolment authority signs: who a client is, and who is one no longer."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated

from fl_server.errors import BadCertificate, BadSignature, RoundFailed
from fl_server.secagg import labels
from fl_server.secagg.keys import Identity, verify
from fl_server.secagg.wire import U32, U64, Counted, Key, Message, Name, Signature

MOST_REVOKED = 65_535
# Clocks of devices may be a little behind.
CLOCK_SLACK_S = 3600
# Certificates whose signature was found valid: some MB at the most.
_KNOWN = 4096


@dataclass(frozen=True)
class Subject(Message):
    """Times are seconds since 1970."""

    serial: U64
    client: U32
    public_key: Key
    not_before: U64
    not_after: U64
    tenant: Name
    population: Name


@dataclass(frozen=True)
class Certificate(Message):
    subject: Subject
    signature: Signature


@dataclass(frozen=True)
class Serial(Message):
    number: U64


@dataclass(frozen=True)
class Revoked(Message):
    """The list's own number only grows, so that an old list cannot stand in for a new one."""

    number: U64
    serials: Annotated[tuple[Serial, ...], Counted(Serial, MOST_REVOKED)]


@dataclass(frozen=True)
class RevocationList(Message):
    revoked: Revoked
    signature: Signature


def certify(authority: Identity, subject: Subject) -> Certificate:
    """The authority's certificate of `subject`."""
    return Certificate(subject, authority.sign(labels.CERTIFICATE, subject.to_bytes()))


def revoke(authority: Identity, number: int, serials: set[int]) -> RevocationList:
    """The authority's list of the serials that count no longer, of certificates that would else.

    raises RoundFailed
    """
    if len(serials) > MOST_REVOKED:
        raise RoundFailed(
            f"{len(serials)} certificates are revoked and have not run out, a list holds "
            f"{MOST_REVOKED}; want certificates of fewer days, or a new key of the authority"
        )
    revoked = Revoked(number, tuple(Serial(s) for s in sorted(serials)))
    return RevocationList(revoked, authority.sign(labels.REVOCATION, revoked.to_bytes()))


def check_revocations(authority: bytes, revocations: RevocationList, least_number: int) -> set[int]:
    """The revoked serials.     raises BadCertificate if it is forged or old"""
    revoked = revocations.revoked
    try:
        verify(
            authority, labels.REVOCATION, revoked.to_bytes(), revocations.signature, "revocations"
        )
    except BadSignature as error:
        raise BadCertificate(str(error)) from None
    if revoked.number < least_number:
        raise BadCertificate(
            f"revocation list {revoked.number} is older than list {least_number}, seen before"
        )
    return {serial.number for serial in revoked.serials}


def check_certificate(
    authority: bytes,
    certificate: Certificate,
    tenant: str,
    population: str,
    now: float,
    revoked: set[int],
) -> Subject:
    """Whom the certificate names.     raises BadCertificate"""
    subject = certificate.subject
    what = f"certificate of client {subject.client}"
    try:
        _verify(authority, subject.to_bytes(), certificate.signature)
    except BadSignature:
        told = f"{what}: the signature does not verify"
        raise BadCertificate(told, [subject.client]) from None
    if not subject.not_before <= now <= subject.not_after:
        raise BadCertificate(f"{what}: not valid at this time", [subject.client])
    if subject.serial in revoked:
        raise BadCertificate(f"{what}: revoked", [subject.client])
    if (subject.tenant, subject.population) != (tenant, population):
        raise BadCertificate(
            f"{what}: of {subject.tenant}/{subject.population}, not of {tenant}/{population}",
            [subject.client],
        )
    return subject


@lru_cache(_KNOWN)
def _verify(authority: bytes, subject: bytes, signature: bytes) -> None:
    """Nothing, if the authority signed these bytes of a subject; the answer for the same bytes is
    the same in each round, and is remembered where it is yes.     raises BadSignature"""
    verify(authority, labels.CERTIFICATE, subject, signature, "certificate")
