"""What all stages of the server share: who has sent what, and what clients sent in R1."""

from __future__ import annotations

import hashlib

from fl_server.errors import Gone, Malformed, RoundFailed, StageReplayed
from fl_server.secagg.messages import SealedShares
from fl_server.secagg.seal import BOX_SIZE
from fl_server.secagg.session import Session


class Stage:
    """Remembers who sent what: a repeated message is harmless and a second one is refused."""

    def __init__(self, allowed: frozenset[int] | None) -> None:
        self.closed = False
        self._allowed = allowed
        self._seen: dict[int, bytes] = {}

    @property
    def senders(self) -> frozenset[int]:
        return frozenset(self._seen)

    @property
    def complete(self) -> bool:
        """Whether everybody who may send has sent."""
        return self._allowed is not None and self.senders == self._allowed

    def is_repeat(self, client: int, message: bytes, digest: bytes = b"") -> bool:
        """Whether the message is here already.     raises Gone, StageReplayed

        digest: the message's SHA-256, where that is known
        """
        if self._allowed is not None and client not in self._allowed:
            raise Gone(f"client {client} is not, or no longer, part of this round", [client])
        seen = self._seen.get(client)
        if seen is not None and seen != (digest or hashlib.sha256(message).digest()):
            raise StageReplayed(f"client {client} sent another message for this stage", [client])
        if seen is None and self.closed:
            raise Gone(f"client {client} is too late: the stage is over", [client])
        return seen is not None

    def remember(self, client: int, message: bytes, digest: bytes = b"") -> None:
        self._seen[client] = digest or hashlib.sha256(message).digest()


class Boxes:
    """The R1 messages of U2, as they came: N messages of k boxes are too many to be objects."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._messages: dict[int, bytes] = {}

    @property
    def owners(self) -> frozenset[int]:
        return frozenset(self._messages)

    def __contains__(self, client: int) -> bool:
        return client in self._messages

    def check(self, message: bytes) -> None:
        """Nothing, if these are the shares of a client of this session.     raises Malformed"""
        neighbours = self._session.params.neighbours
        wanted = _HEAD_SIZE + neighbours * _SEALED_SIZE
        if len(message) != wanted:
            raise Malformed(
                f"shares: {len(message)} bytes, boxes for {neighbours} neighbours take {wanted}"
            )
        if message[:32] != self._session.id:
            raise Malformed("the shares are of another session")

    def add(self, owner: int, message: bytes) -> None:
        self._messages[owner] = message

    def commitment(self, owner: int) -> bytes:
        """What a client committed to as its secret b."""
        return self._messages[owner][32:_HEAD_SIZE]

    def sealed(self, owner: int, holder: int) -> bytes:
        """The box and the digests that `owner` made for `holder`."""
        at = _HEAD_SIZE + _SEALED_SIZE * (self._session.share_x(owner, holder) - 1)
        return self._messages[owner][at : at + _SEALED_SIZE]

    def digests(self, owner: int, holder: int) -> SealedShares:
        return SealedShares.from_bytes(self.sealed(owner, holder))


def require(session: Session, count: int, did: str) -> None:
    """Nothing, if enough clients are left.     raises RoundFailed

    Fewer than this and no client would reveal: each wants the signatures of a quorum.
    """
    needed = session.params.quorum
    if count < needed:
        raise RoundFailed(f"{count} of {session.params.clients} clients {did}, {needed} are needed")


_HEAD_SIZE = 64
_SEALED_SIZE = BOX_SIZE + 32
