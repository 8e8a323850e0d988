"""Words of B bits to bytes without gaps, and back: word 0 fills the lowest bits of byte 0."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from fl_server.errors import Malformed

Words = npt.NDArray[np.unsignedinteger[Any]]

# 64 words of B bits are exactly B words of 64 bits; this many such groups are half a megabyte or
# one, where numpy's calls cost little beside their work, and what they work on is still near.
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
    words = np.ascontiguousarray(words, word_type(bits))
    groups = -(-len(words) // _GROUP)
    out = np.empty((groups, bits), "<u8")
    for first in range(0, groups, _GROUPS_A_BLOCK):
        part = words[first * _GROUP : (first + _GROUPS_A_BLOCK) * _GROUP]
        if missing := -len(part) % _GROUP:
            part = np.concatenate([part, np.zeros(missing, part.dtype)])
        _pack_block(part, bits, out[first:])
    return out.reshape(-1).view(np.uint8)[: packed_size(len(words), bits)].tobytes()


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
    whole = count // _GROUP
    rows = np.frombuffer(data, "<u8", whole * bits).reshape(whole, bits)
    out = np.empty((-(-count // _GROUP), _GROUP), word_type(bits))
    for first in range(0, whole, _GROUPS_A_BLOCK):
        _unpack_block(rows[first : first + _GROUPS_A_BLOCK], bits, out[first:])
    if whole < len(out):
        last = np.zeros((1, bits), "<u8")
        rest = np.frombuffer(data, np.uint8, offset=rows.nbytes)
        last.view(np.uint8)[0, : len(rest)] = rest
        _unpack_block(last, bits, out[whole:])
    return out.reshape(-1)[:count]


def _pack_block(part: Words, bits: int, out: Words) -> None:
    """[64 m] words -> the first [m, bits] words of 64 bits"""
    wide, lanes, width = part, _GROUP, bits
    if part.itemsize == 4:
        wide, lanes, width = _paired(part, bits), _GROUP // 2, 2 * bits
    # Columns are made contiguous first, for speed.
    columns = np.ascontiguousarray(wide.reshape(-1, lanes).T) & np.uint64(2**width - 1)
    packed = np.zeros((bits, columns.shape[1]), "<u8")
    moved = np.empty(columns.shape[1], "<u8")
    for i in range(lanes):
        at, shift = divmod(i * width, 64)
        packed[at] |= np.left_shift(columns[i], np.uint64(shift), out=moved)
        if shift + width > 64:
            packed[at + 1] |= np.right_shift(columns[i], np.uint64(64 - shift), out=moved)
    out[: packed.shape[1]] = packed.T


def _unpack_block(rows: Words, bits: int, out: Words) -> None:
    """[m, bits] words of 64 bits -> the first [m, 64] words"""
    lanes, width = (_GROUP // 2, 2 * bits) if out.itemsize == 4 else (_GROUP, bits)
    columns = np.ascontiguousarray(rows.T)
    wide = np.empty((lanes, rows.shape[0]), "<u8")
    moved = np.empty(rows.shape[0], "<u8")
    for i in range(lanes):
        at, shift = divmod(i * width, 64)
        np.right_shift(columns[at], np.uint64(shift), out=wide[i])
        if shift + width > 64:
            wide[i] |= np.left_shift(columns[at + 1], np.uint64(64 - shift), out=moved)
    wide &= np.uint64(2**width - 1)
    out[: rows.shape[0]] = wide.T if width == bits else _apart(wide.T, bits)


def _paired(words: Words, bits: int) -> Words:
    """Neighbours as one word of 2 * bits bits each: half as many to be moved     [2 n] -> [n]"""
    pairs = words.view("<u8")
    if bits == 32:
        return pairs
    return pairs >> np.uint64(32) << np.uint64(bits) | pairs & np.uint64(2**bits - 1)


def _apart(pairs: Words, bits: int) -> Words:
    """The inverse of `_paired`     [m, n] -> [m, 2 n]"""
    pairs = np.ascontiguousarray(pairs)
    if bits < 32:
        high = pairs >> np.uint64(bits) << np.uint64(32)
        pairs &= np.uint64(2**bits - 1)
        pairs |= high
    return pairs.view("<u4")
