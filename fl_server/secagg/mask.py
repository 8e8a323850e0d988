"""Masks: AES-128-CTR over zeros, as words of the ring Z mod 2^B."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CTR

from fl_server.secagg import labels
from fl_server.secagg.keys import derive, pair_info
from fl_server.secagg.pack import Words, word_type

KEY_SIZE = 16

# 256 KiB of stream at a time: the sum stays in the second-level cache while all masks are added.
_BLOCK_BYTES = 1 << 18
_ZEROS = bytes(_BLOCK_BYTES)
# Of one stream, whose words are worked on as numbers of 8 bytes.
_PART_BYTES = 1 << 17


def pair_key(shared: bytes, session: bytes, a: int, b: int, bits: int) -> bytes:
    """The 16-byte key of the mask that clients a and b share."""
    return derive(shared, session, pair_info(labels.MASK_KEY, a, b, _use(bits)), KEY_SIZE)


def self_key(b: bytes | bytearray, session: bytes, client: int, bits: int) -> bytes:
    """The 16-byte key of a client's own mask, from its secret b."""
    return derive(b, session, pair_info(labels.SELF_KEY, client, client, _use(bits)), KEY_SIZE)


def pair_sign(client: int, other: int) -> int:
    """+1 where `client` adds the mask that it shares with `other`: the lower id adds."""
    return 1 if client < other else -1


def expand(key: bytes, count: int, bits: int) -> Words:
    """The mask itself     -> [count] of word_type(bits), below 2^bits"""
    words = np.empty(count, word_type(bits))
    for start, part in stream(key, count, bits):
        words[start : start + len(part)] = part
    return reduce_ring(words, bits)


def stream(key: bytes, count: int, bits: int) -> Iterator[tuple[int, Words]]:
    """The mask in parts, each with its place: modulo what its words hold, and there until the next
    one comes."""
    kind, made = word_type(bits), Cipher(AES(key), CTR(bytes(16))).encryptor()
    buffer = bytearray(_PART_BYTES + 15)
    step = _PART_BYTES // kind.itemsize
    for start in range(0, count, step):
        part = np.frombuffer(buffer, kind, min(step, count - start))
        made.update_into(memoryview(_ZEROS)[: part.nbytes], buffer)
        yield start, part


def add_masks(words: Words, masks: Sequence[tuple[bytes, int]]) -> None:
    """words += sign * mask for each (key, sign), in place.

    Words run modulo 2^32 or 2^64, of which 2^B is a divisor; `reduce_ring` cuts them at the end.
    """
    streams = [
        (Cipher(AES(key), CTR(bytes(16))).encryptor(), np.add if sign > 0 else np.subtract)
        for key, sign in masks
    ]
    size = words.dtype.itemsize
    buffer = bytearray(_BLOCK_BYTES + 15)
    step = _BLOCK_BYTES // size
    for start in range(0, len(words), step):
        part = words[start : start + step]
        mask = np.frombuffer(buffer, words.dtype, len(part))
        zeros = memoryview(_ZEROS)[: len(part) * size]
        for stream, apply in streams:
            stream.update_into(zeros, buffer)
            apply(part, mask, out=part)


def reduce_ring(words: Words, bits: int) -> Words:
    """words mod 2^bits, in place."""
    words &= words.dtype.type(2**bits - 1)
    return words


def _use(bits: int) -> bytes:
    return labels.VECTOR_NAME + bytes([bits])
