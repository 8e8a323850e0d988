"""Weights in 16, 8 or 4 bits: what is stored and what is read back; see ir/ops/compressed.py."""

from __future__ import annotations

import numpy as np

from ir.graph import Array

BITS = (4, 8, 16)
BLOCK = 32  # elements of 4 bits that lie together
LEVELS = {8: 127, 4: 7}  # the largest stored number; scales are symmetric
SHRINKS = np.linspace(1.0, 0.7, 13)  # of a group's largest weight, tried for its scale
HALF_ERROR = 1e-3  # of scales that are stored in f16: far below that of what they scale
LARGEST_HALF = 65504.0
WHOLE = 1e-4  # how far a quotient of float32 may be from the integer that it stands for
PROBE = 16  # weights of a row that are looked at first


def stored_size(n: int, bits: int) -> int:
    """Elements of the stored row of n weights."""
    return -(-n // BLOCK) * BLOCK // 2 if bits == 4 else n


def groups_of(n: int, group: int) -> int:
    """How many scales a row of n weights has."""
    return -(-n // group) if group else 1


def compress(rows: Array, bits: int, group: int = 0) -> tuple[Array, Array | None]:
    """(stored, scale) of float32 rows [rows, n], no numbers infinite: as the operators take them.

    A scale is the one of 13 between 0.7 and 1 times that of the group's largest weight with the
    least mean square error; in 8 bits that of the largest weight. 16 bits have none; raises
    ValueError where a number is beyond them.
    """
    if bits == 16:
        if (largest := np.max(np.abs(rows), initial=0)) > LARGEST_HALF:
            raise ValueError(f"{largest:g} is beyond float16, want at most {LARGEST_HALF:g}")
        return rows.astype(np.float16), None
    parts = _grouped(rows, group)
    full = np.abs(parts).max(axis=2) / LEVELS[bits]
    scale, least = full, np.full(full.shape, np.inf)
    for shrink in SHRINKS if bits == 4 else (1.0,):
        tried = _as_stored(full * shrink)
        error = np.square(_levels(parts, tried, bits) * tried[..., None] - parts).sum(axis=2)
        better = error < least
        scale, least = np.where(better, tried, scale), np.where(better, error, least)
    scale = _as_stored(scale)
    levels = _levels(parts, scale, bits).reshape(len(rows), -1)[:, : rows.shape[1]]
    return pack_levels(levels.astype(np.int8), bits), scale


def row_levels(numbers: Array, scale: Array, bits: int) -> Array:
    """What numbers are stored as with these scales, one for each."""
    y: Array = np.clip(np.rint(numbers / scale), -LEVELS[bits], LEVELS[bits]).astype(np.int8)
    return y


def pack_levels(levels: Array, bits: int) -> Array:
    """Stored rows of int8 levels [rows, n]: two in a byte where they have 4 bits."""
    return _nibbles(levels) if bits == 4 else levels


def exact_levels(rows: Array) -> tuple[Array, Array] | None:
    """(int8 [k, n], scale float32 [k]) whose products are the float32 rows [k, n]; None where there
    are none such for all rows.

    A row's scale is the finest that gives it exactly, else the finest that gives it up to rounding.
    """
    most = np.abs(rows).max(axis=1, initial=0).astype(np.float64)
    scale, found = np.ones(len(rows), np.float32), most == 0
    left = np.flatnonzero(most)
    for level in (*range(LEVELS[8], 0, -1), LEVELS[8] + 1):
        tried = most / level
        near = left[_all_whole(rows[left, :PROBE] / tried[left, None])]
        near = near[_all_whole(rows[near] / tried[near, None])]
        if not near.size:
            continue
        finest, exact = _exact_scale(rows[near], tried[near])
        better = exact | ~found[near]
        scale[near[better]] = finest[better]
        found[near] = True
        left = np.setdiff1d(left, near[exact])
        if not left.size:
            break
    levels = np.rint(rows / scale[:, None])
    if not found.all() or levels.max(initial=0) > LEVELS[8]:
        return None
    return levels.astype(np.int8), scale


def _all_whole(rows: Array) -> Array:
    return np.asarray((np.abs(rows - np.rint(rows)) <= WHOLE).all(axis=1))


def _exact_scale(rows: Array, scale: Array) -> tuple[Array, Array]:
    """Float32 scales beside float64 ones of rows, and which of them give their rows exactly.

    A row's largest number was rounded, so its scale was the nearest float32 or one beside it.
    """
    nearest = scale.astype(np.float32)
    levels = np.rint(rows / scale[:, None]).astype(np.float32)
    chosen, exact = nearest, np.zeros(len(rows), bool)
    for end in (nearest, np.float32(0), np.float32(np.inf)):
        tried = np.nextafter(nearest, end)
        fits = (levels * tried[:, None] == rows).all(axis=1) & ~exact
        chosen, exact = np.where(fits, tried, chosen), exact | fits
    return chosen, exact


def expand(stored: Array, scale: Array | None, n: int, bits: int, group: int) -> Array:
    """Rows of n float32 numbers from what is stored."""
    if bits == 16 or scale is None:
        return stored.astype(np.float32)
    if bits == 4:
        halves = stored.view(np.uint8).reshape(len(stored), -1, BLOCK // 2)
        pairs = np.concatenate([halves & 15, halves >> 4], axis=2).astype(np.int8) - np.int8(8)
        stored = pairs.reshape(len(stored), stored.shape[1] * 2)[:, :n]
    each = np.repeat(scale.astype(np.float32), group or n, axis=1)[:, :n]
    return stored.astype(np.float32) * each


def _grouped(rows: Array, group: int) -> Array:
    """[rows, n] -> [rows, groups, group], zeros behind the last one."""
    size = group or rows.shape[1]
    count = groups_of(rows.shape[1], group)
    padded = np.pad(rows, ((0, 0), (0, count * size - rows.shape[1])))
    return padded.reshape(len(rows), count, size)


def _as_stored(scale: Array) -> Array:
    """Scales as float16 where that is fine enough for all of them, else float32; none is 0."""
    scale = np.where(scale == 0, np.float32(1), scale).astype(np.float32)
    half = np.minimum(scale, LARGEST_HALF).astype(np.float16)
    fine = np.all(np.abs(half.astype(np.float32) - scale) <= HALF_ERROR * scale)
    return half if fine else scale


def _levels(parts: Array, scale: Array, bits: int) -> Array:
    most = LEVELS[bits]
    return np.clip(np.rint(parts / scale.astype(np.float32)[..., None]), -most, most)


def _nibbles(levels: Array) -> Array:
    """int8 levels [rows, n] -> two in a byte."""
    n = levels.shape[1]
    padded = np.pad(levels, ((0, 0), (0, stored_size(n, 4) * 2 - n)))
    blocks = (padded + 8).astype(np.uint8).reshape(len(levels), -1, 2, BLOCK // 2)
    packed = blocks[:, :, 0] | blocks[:, :, 1] << 4
    return np.ascontiguousarray(packed).reshape(len(levels), -1).view(np.int8)
