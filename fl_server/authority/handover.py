"""How an authority hands over to another key: the old one signs the new one.

A device that has pinned any key of the chain follows it to the newest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fl_server.errors import BadCertificate, BadSignature
from fl_server.secagg import labels
from fl_server.secagg.keys import Identity, verify
from fl_server.secagg.wire import U32, Key, Message, Signature


@dataclass(frozen=True)
class Handover(Message):
    """104 bytes: key `number` of an authority, signed by the key before it (key 1 is the first)."""

    number: U32
    previous: Key
    key: Key
    signature: Signature

    @property
    def signed(self) -> bytes:
        return self.to_bytes()[:-64]


HANDOVER_SIZE = 4 + 32 + 32 + 64


def hand_over(old: Identity, number: int, new: bytes) -> Handover:
    """The statement of `old` that `new` takes its place as key `number`."""
    unsigned = Handover(number, old.public, new, bytes(64))
    return Handover(number, old.public, new, old.sign(labels.HANDOVER, unsigned.signed))


def follow(pinned: bytes, chain: Sequence[Handover]) -> bytes:
    """The newest key that the pinned one leads to.     raises BadCertificate if a link is forged"""
    key = pinned
    for link in sorted(chain, key=lambda link: link.number):
        if link.previous != key:
            continue  # from before the key that was pinned
        try:
            verify(key, labels.HANDOVER, link.signed, link.signature, "handover")
        except BadSignature as error:
            raise BadCertificate(str(error)) from None
        key = link.key
    return key


def parse_chain(data: bytes) -> list[Handover]:
    """Handovers one after the other.     raises Malformed"""
    starts = range(0, len(data), HANDOVER_SIZE)
    return [Handover.from_bytes(data[start : start + HANDOVER_SIZE]) for start in starts]
