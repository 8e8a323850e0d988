"""The box in which a client sends a neighbour its two shares: AES-256-GCM under a key used once."""

from __future__ import annotations

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from fl_server.errors import SealBroken
from fl_server.secagg import labels
from fl_server.secagg.keys import derive, pair_info
from fl_server.secagg.shamir import SHARE_SIZE

BOX_SIZE = 2 * SHARE_SIZE + 16

# The key is of one session, sender and receiver, and seals one box; so the nonce may be fixed.
_NONCE = bytes(12)


def seal(shared: bytes, session: bytes, sender: int, receiver: int, shares: bytes) -> bytes:
    """82 bytes: the share of s_sk, the share of b (33 bytes each), and the tag."""
    return AESGCM(_key(shared, session, sender, receiver)).encrypt(
        _NONCE, bytes(shares), _bound(session, sender, receiver)
    )


def open_box(
    shared: bytes, session: bytes, sender: int, receiver: int, box: bytes
) -> tuple[bytearray, bytearray]:
    """The share of s_sk and the share of b.     raises SealBroken"""
    try:
        key = AESGCM(_key(shared, session, sender, receiver))
        plain = key.decrypt(_NONCE, box, _bound(session, sender, receiver))
    except InvalidTag:
        raise SealBroken(f"the box from client {sender} does not open", [sender]) from None
    return bytearray(plain[:SHARE_SIZE]), bytearray(plain[SHARE_SIZE:])


def _key(shared: bytes, session: bytes, sender: int, receiver: int) -> bytes:
    direction = b"\x00" if sender < receiver else b"\x01"
    return derive(shared, session, pair_info(labels.SHARE_KEY, sender, receiver, direction), 32)


def _bound(session: bytes, sender: int, receiver: int) -> bytes:
    return session + sender.to_bytes(4, "little") + receiver.to_bytes(4, "little")
