"""Words of B bits to bytes without gaps, and back: word 0 fills the lowest bits of byte 0."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from fl_server.errors import Malformed

Words = npt.NDArray[np.unsignedinteger[Any]]

# 64 words of B bits are exactly B words of 64 bits; this many such groups are a megabyte, where
# numpy's calls cost little beside their work, and what they work on is still near.
_GROUP = 64
_GROUPS_A_BLOCK = 2048


def word_type(bits: int) -> np.dtype[Any]:
    """The dtype to compute in: uint32 up to 32 bits, uint64 above."""
    if not 1 <= bits <= 64:
        raise ValueError(f"words of {bits} bits; 1 to 64 are possible")
    return np.dtype("<u4" if bits <= 32 else "<u8")


def packed_size(count: int, bits: int) -> int:
    """Bytes of `count` words of `bits` bits."""
    return (count * bits + 7) // 8


def pack(words: Words, bits: int) -> bytes:
    """Each word's lowest `bits` bits, one after another     words: [n] -> ceil(n*bits/8) bytes"""
    count = len(words)
    groups = -(-count // _GROUP)
    out = np.empty(groups * bits, "<u8")
    for first in range(0, groups, _GROUPS_A_BLOCK):
        last = min(first + _GROUPS_A_BLOCK, groups)
        block = np.zeros(((last - first) * _GROUP), "<u8")
        part = words[first * _GROUP : last * _GROUP]
        block[: len(part)] = part
        packed = _pack_block(block.reshape(-1, _GROUP), bits)
        out[first * bits : last * bits] = packed.ravel()
    return out.tobytes()[: packed_size(count, bits)]


def unpack(data: bytes, count: int, bits: int) -> Words:
    """The `count` words of `data`     -> [count] of word_type(bits); raises Malformed

    The unused bits of the last byte must be zero: a vector has one encoding.
    """
    size = packed_size(count, bits)
    if len(data) != size:
        raise Malformed(f"vector: {len(data)} bytes, {count} words of {bits} bits take {size}")
    spare = size * 8 - count * bits
    if spare and data[-1] >> (8 - spare):
        raise Malformed("vector: the unused bits of the last byte are not zero")
    groups = -(-count // _GROUP)
    padded = np.zeros(groups * bits * 8, np.uint8)
    padded[:size] = np.frombuffer(data, np.uint8)
    rows = padded.view("<u8").reshape(groups, bits)
    out = np.empty((groups, _GROUP), word_type(bits))
    for first in range(0, groups, _GROUPS_A_BLOCK):
        _unpack_block(rows[first : first + _GROUPS_A_BLOCK], bits, out[first:])
    return out.reshape(-1)[:count]


def _pack_block(block: Words, bits: int) -> Words:
    """[m, 64] words -> [m, bits] words of 64 bits; columns are made contiguous first, for speed."""
    columns = np.ascontiguousarray(block.T) & np.uint64(2**bits - 1)
    out = np.zeros((bits, block.shape[0]), "<u8")
    for i in range(_GROUP):
        at, shift = divmod(i * bits, 64)
        out[at] |= columns[i] << np.uint64(shift)
        if shift + bits > 64:
            out[at + 1] |= columns[i] >> np.uint64(64 - shift)
    return np.ascontiguousarray(out.T)


def _unpack_block(rows: Words, bits: int, out: Words) -> None:
    columns = np.ascontiguousarray(rows.T)
    words = np.empty((_GROUP, rows.shape[0]), "<u8")
    for i in range(_GROUP):
        at, shift = divmod(i * bits, 64)
        np.right_shift(columns[at], np.uint64(shift), out=words[i])
        if shift + bits > 64:
            words[i] |= columns[at + 1] << np.uint64(64 - shift)
    words &= np.uint64(2**bits - 1)
    out[: rows.shape[0]] = words.T
