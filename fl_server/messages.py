"""What travels over HTTP around the protocol's own messages (secagg/messages.py), declared once."""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Annotated

from fl_server.errors import Malformed
from fl_server.secagg import labels
from fl_server.secagg.certificate import Certificate
from fl_server.secagg.keys import Identity, hashed, verify
from fl_server.secagg.messages import Context
from fl_server.secagg.params import Encoding
from fl_server.secagg.wire import U8, U16, U32, U64, Digest, Key, Message, Name, Signature, Sized

MEDIA_TYPE = "application/x-mindspan"

# Headers: who calls, when to come again, and the last counter that the server has seen of a caller.
AUTHORIZATION = "authorization"
SCHEME = "MS1"
RETRY_MS = "x-retry-ms"
LAST_COUNTER = "x-last-counter"
# Of an upload in parts: where one goes (RFC 9110), the digest of the whole (RFC 9530), how much is
# there.
CONTENT_RANGE = "content-range"
REPR_DIGEST = "repr-digest"
UPLOAD_OFFSET = "upload-offset"

# Of a check-in that asks for work: which rounds its sender has declined. It is not signed: whoever
# could change it could as well drop the request.
DECLINED = "x-declined"
MOST_DECLINED = 32

# What a check-in is answered with.
WAIT = 0
OFFER = 1
SESSION = 2
IDLE = 3

# Chains of X.509 certificates, as Android's keystore makes them, are about 4 KiB.
MOST_ATTESTATION = 16384


@dataclass(frozen=True)
class Enrol(Message):
    """A new identity, the token that lets it in, an attestation of its platform's, which may be
    empty, and its signature over all (`asked`)."""

    public_key: Key
    population: Name
    token: Annotated[bytes, Sized(1024)]
    attestation: Annotated[bytes, Sized(MOST_ATTESTATION)]
    signature: Signature

    @property
    def asked(self) -> Asked:
        """What others than the server may see of it."""
        digest = hashed(labels.TOKEN, self.public_key, self.token)
        return Asked(self.public_key, self.population, digest, self.attestation, self.signature)

    @classmethod
    def of(
        cls, identity: Identity, population: str, token: bytes, attestation: bytes = b""
    ) -> Enrol:
        """The message of an identity, signed.     raises Malformed"""
        blank = cls(identity.public, population, token, attestation, bytes(64))
        return replace(blank, signature=identity.sign(labels.ENROL, blank.asked.signed))


@dataclass(frozen=True)
class Asked(Message):
    """An enrolment without its token, which only the server that gave it out needs to know; this is
    what the device has signed, and what an authority apart from the server checks."""

    public_key: Key
    population: Name
    token_digest: Digest
    attestation: Annotated[bytes, Sized(MOST_ATTESTATION)]
    signature: Signature

    @property
    def signed(self) -> bytes:
        return self.to_bytes()[:-64]

    def verify(self) -> None:
        """raises BadSignature"""
        verify(self.public_key, labels.ENROL, self.signed, self.signature, "enrolment")


@dataclass(frozen=True)
class Enrolled(Message):
    certificate: Certificate
    authority: Key


@dataclass(frozen=True)
class CheckIn(Message):
    """Asks for work (round 0, no advert), or joins the round that was offered with an advert."""

    task: Name
    round: U64
    advert: Annotated[bytes, Sized(148)]


@dataclass(frozen=True)
class Offer(Message):
    """A round to join: what to download, how the update will be encoded, the cohort's size, and the
    plan (plan/plan.py), empty for plain training."""

    context: Context
    model: Digest
    weights: Digest
    encoding: Encoding
    min_cohort: U16
    target_cohort: U16
    plan: Annotated[bytes, Sized(512)] = b""


@dataclass(frozen=True)
class CheckInReply(Message):
    """OFFER carries an Offer, SESSION the session id; WAIT and IDLE say when to come again."""

    kind: U8
    retry_ms: U32
    body: Annotated[bytes, Sized(1024)]


@dataclass(frozen=True)
class Part:
    """Bytes first to last of a body of `total`, whose SHA-256 is `digest`."""

    first: int
    last: int
    total: int
    digest: bytes

    @property
    def size(self) -> int:
        return self.last - self.first + 1

    @property
    def headers(self) -> dict[str, str]:
        digest = base64.b64encode(self.digest).decode()
        return {
            CONTENT_RANGE: f"bytes {self.first}-{self.last}/{self.total}",
            REPR_DIGEST: f"sha-256=:{digest}:",
        }

    @classmethod
    def from_headers(cls, content_range: str, repr_digest: str) -> Part:
        """raises Malformed"""
        place = re.fullmatch(r"bytes ([0-9]{1,12})-([0-9]{1,12})/([0-9]{1,12})", content_range)
        digest = re.fullmatch(r"sha-256=:([A-Za-z0-9+/=]{44}):", repr_digest)
        if place is None or digest is None:
            want = f"{CONTENT_RANGE}: bytes FIRST-LAST/TOTAL and {REPR_DIGEST}: sha-256=:BASE64:"
            raise Malformed(f"a part has {want}")
        first, last, total = map(int, place.groups())
        try:
            whole = base64.b64decode(digest[1], validate=True)
        except binascii.Error:
            whole = b""
        if not first <= last < total or len(whole) != 32:
            raise Malformed(f"{content_range} of a body with {len(whole)} bytes of digest")
        return cls(first, last, total, whole)


Place = tuple[str, int]
_PLACE = re.compile(r"([A-Za-z0-9][A-Za-z0-9_.-]{0,63})/([0-9]{1,19})")


def declined_text(places: Iterable[Place]) -> str:
    """The last of these rounds, each a task and a number, as a header; names that no task of an
    honest server has are left out."""
    named = [f"{task}/{number}" for task, number in places]
    return ", ".join([name for name in named if _PLACE.fullmatch(name)][-MOST_DECLINED:])


def declined_of(text: str) -> frozenset[Place]:
    """The rounds that a header names.     raises Malformed"""
    named = text.split(", ") if text else []
    found = [_PLACE.fullmatch(name) for name in named]
    if not all(found) or len(found) > MOST_DECLINED:
        raise Malformed(
            f"{DECLINED}: want at most {MOST_DECLINED} of TASK/ROUND, with ', ' between"
        )
    return frozenset((place[1], int(place[2])) for place in found if place)


def request_signed(
    method: str, target: str, counter: int, body: bytes, part: Part | None = None
) -> bytes:
    """What a device signs for each request; the counter grows, so that none can be replayed."""
    return digest_signed(method, target, counter, hashlib.sha256(body).digest(), part)


def digest_signed(
    method: str, target: str, counter: int, digest: bytes, part: Part | None = None
) -> bytes:
    """The same for a body of this SHA-256."""
    lines = [f"{method} {target}", str(counter), digest.hex()]
    lines += [] if part is None else part.headers.values()
    return "\n".join(lines).encode()
