"""The messages of the protocol, stage by stage, as bytes. docs/protocol.md lists every offset."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from fl_server.secagg.certificate import Certificate, RevocationList
from fl_server.secagg.params import Params
from fl_server.secagg.seal import BOX_SIZE
from fl_server.secagg.shamir import MOST_SHARES, SHARE_SIZE
from fl_server.secagg.wire import (
    U8,
    U32,
    U64,
    Counted,
    Digest,
    Fixed,
    Key,
    Message,
    Name,
    Rest,
    Seen,
    Signature,
    Sized,
    ToTheEnd,
)

DIGEST_SIZE = 16
MOST_CLIENTS = 10_000

Box = Annotated[bytes, Fixed(BOX_SIZE), Seen.SEALED]
ShareDigest = Annotated[bytes, Fixed(DIGEST_SIZE), Seen.HASHED]

# What a reveal says about one neighbour.
NOTHING = 0
SHARE_OF_B = 1
SHARE_OF_S = 2
BAD_SHARE = 3


@dataclass(frozen=True)
class Advert(Message):
    """R0 up, 148 bytes."""

    client: U32
    share_key: Key
    mask_key: Key
    nonce: Annotated[bytes, Fixed(16)]
    signature: Signature


@dataclass(frozen=True)
class Context(Message):
    """What a session is about; each client knows it before it joins."""

    tenant: Name
    population: Name
    task: Name
    round: U64
    model: Digest


@dataclass(frozen=True)
class CohortReply(Message):
    """R0 down: everything that the session id is made of."""

    context: Context
    server_nonce: Digest
    params: Params
    adverts: Annotated[tuple[Advert, ...], Counted(Advert, MOST_CLIENTS)]
    certificates: Annotated[tuple[Certificate, ...], Counted(Certificate, MOST_CLIENTS)]
    revocations: RevocationList


@dataclass(frozen=True)
class SealedShares(Message):
    """114 bytes: the box for one neighbour, and digests of the two shares in it."""

    box: Box
    digest_of_s: ShareDigest
    digest_of_b: ShareDigest


@dataclass(frozen=True)
class SharesUp(Message):
    """R1 up: 64 + 114k bytes, neighbours in order of their ids."""

    session: Digest
    commitment: Annotated[Digest, Seen.HASHED]
    sealed: Annotated[tuple[SealedShares, ...], ToTheEnd(SealedShares, MOST_SHARES)]


@dataclass(frozen=True)
class SharesDown(Message):
    """R1 down: the bitmap of U2, and the boxes from the neighbours in it in order of their ids."""

    shared: Annotated[bytes, Sized(-(-MOST_CLIENTS // 8))]
    sealed: Annotated[tuple[SealedShares, ...], ToTheEnd(SealedShares, MOST_SHARES)]


@dataclass(frozen=True)
class Vector(Message):
    """R2 up: the masked words, packed."""

    words: Annotated[bytes, Rest(), Seen.MASKED]


@dataclass(frozen=True)
class Agree(Message):
    """R3a up: a signature over (S, H(U2), H(U3))."""

    signature: Signature


@dataclass(frozen=True)
class Signed(Message):
    """68 bytes: one client's signature over (S, H(U2), H(U3))."""

    client: U32
    signature: Signature


@dataclass(frozen=True)
class Agreement(Message):
    """R3a down: the signatures of all who signed."""

    signed: Annotated[tuple[Signed, ...], ToTheEnd(Signed, MOST_CLIENTS)]


@dataclass(frozen=True)
class RevealedShare(Message):
    """34 bytes: which share, and the share, zeros where there is none."""

    kind: U8
    share: Annotated[bytes, Fixed(SHARE_SIZE), Seen.REVEALED]


@dataclass(frozen=True)
class Reveal(Message):
    """R3b up: 34k bytes, neighbours in order of their ids."""

    shares: Annotated[tuple[RevealedShare, ...], ToTheEnd(RevealedShare, MOST_SHARES)]
