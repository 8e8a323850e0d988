"""What travels over HTTP around the protocol's own messages (secagg/messages.py), declared once."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Annotated

from fl_server.secagg.certificate import Certificate
from fl_server.secagg.messages import Context
from fl_server.secagg.params import Encoding
from fl_server.secagg.wire import U8, U16, U32, U64, Digest, Key, Message, Name, Signature, Sized

MEDIA_TYPE = "application/x-mindspan"

# Headers: who calls, when to come again, and the last counter that the server has seen of a caller.
AUTHORIZATION = "authorization"
SCHEME = "MS1"
RETRY_MS = "x-retry-ms"
LAST_COUNTER = "x-last-counter"

# What a check-in is answered with.
WAIT = 0
OFFER = 1
SESSION = 2
IDLE = 3


@dataclass(frozen=True)
class Enrol(Message):
    """A new identity, the evidence that it may join, and its signature over both."""

    public_key: Key
    population: Name
    evidence: Annotated[bytes, Sized(4096)]
    signature: Signature

    @property
    def signed(self) -> bytes:
        return self.to_bytes()[:-64]


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
    """A round to join: what to download, how the update will be encoded, and the cohort's size."""

    context: Context
    model: Digest
    weights: Digest
    encoding: Encoding
    min_cohort: U16
    target_cohort: U16


@dataclass(frozen=True)
class CheckInReply(Message):
    """OFFER carries an Offer, SESSION the session id; WAIT and IDLE say when to come again."""

    kind: U8
    retry_ms: U32
    body: Annotated[bytes, Sized(1024)]


def request_signed(method: str, target: str, counter: int, body: bytes) -> bytes:
    """What a device signs for each request; the counter grows, so that none can be replayed."""
    digest = hashlib.sha256(body).hexdigest()
    return f"{method} {target}\n{counter}\n{digest}".encode()
