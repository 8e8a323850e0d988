"""Weights that a TFLite file holds without their zeros, written out (format of Park et al. 2020).

Axes, and blocks within them, are walked in a given order. Each level is dense, or says for every
place of the level above which of its own places there are.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from converter.errors import ConvertError
from converter.tflite.flat import Table
from ir.graph import Array

VECTORS = {1: np.int32, 2: np.uint16, 3: np.uint8}  # kinds of a list of places
MOST_LEVELS = 16


def dense(values: Array, shape: tuple[int, ...], t: Table, place: str) -> Array:
    """The tensor of `shape` whose elements, where there are any, are `values`, as walked."""
    order, blocks, levels = t.ints(0), t.ints(1), t.tables(2)
    rank, inner = len(shape), len(blocks)
    if sorted(order) != list(range(rank + inner)) or len(levels) != len(order) > 0:
        raise ConvertError(f"{place}: sparse levels {order} for shape {list(shape)}")
    if len(order) > MOST_LEVELS or any(not 0 <= b < rank for b in blocks):
        raise ConvertError(f"{place}: sparse blocks {blocks} for shape {list(shape)}")
    sizes = [s.scalar(1, "i32", 0) for s in levels]
    at = np.zeros((1, 0), np.int64)  # of each element: its place on every level so far
    parent = np.zeros(1, np.int64)
    for level, size in zip(levels, sizes, strict=True):
        if level.scalar(0, "i8", 0) == 0:
            at, parent = _dense_level(at, parent, size, values.size, place)
        else:
            at, parent = _sparse_level(at, parent, level, place)
    if len(at) != values.size:
        raise ConvertError(f"{place}: {values.size} sparse elements at {len(at)} places")
    coordinates = at[:, np.argsort(order)]
    full = coordinates[:, :rank].copy()
    for k, axis in enumerate(blocks):
        width = sizes[order.index(rank + k)]
        full[:, axis] = full[:, axis] * width + coordinates[:, rank + k]
    if len(full) and ((full < 0) | (full >= np.array(shape, np.int64))).any():
        raise ConvertError(f"{place}: sparse elements outside of {list(shape)}")
    y = np.zeros(shape, values.dtype)
    y[tuple(full.T)] = values
    return y


def _dense_level(at: Array, parent: Array, size: int, most: int, place: str) -> tuple[Array, Array]:
    if not 0 < size <= max(most, 1) or len(at) * size > max(most, 1):
        raise ConvertError(f"{place}: a level of {size} in each of {len(at)} places, of {most}")
    own = np.tile(np.arange(size), len(at))
    found = np.concatenate([at.repeat(size, 0), own[:, None]], 1)
    return found, (parent[:, None] * size + np.arange(size)).reshape(-1)


def _sparse_level(at: Array, parent: Array, level: Table, place: str) -> tuple[Array, Array]:
    segments, indices = _list(level, 2, place), _list(level, 4, place)
    if (
        len(segments) < 2
        or (np.diff(segments) < 0).any()
        or segments[0]
        or (segments[-1] > len(indices) or parent.max(initial=0) + 1 >= len(segments))
    ):
        raise ConvertError(f"{place}: {len(segments)} sparse segments of {len(indices)} places")
    counts = segments[parent + 1] - segments[parent]
    starts = segments[parent].repeat(counts)
    within = np.arange(counts.sum()) - (np.cumsum(counts) - counts).repeat(counts)
    taken = starts + within
    found = np.concatenate([at.repeat(counts, 0), indices[taken][:, None]], 1)
    return found, taken


def _list(level: Table, field: int, place: str) -> Array:
    kind, holder = level.scalar(field, "u8", 0), level.table(field + 1)
    if kind not in VECTORS or holder is None:
        raise ConvertError(f"{place}: a list of sparse places of kind {kind}")
    values: Any = holder.array(0, VECTORS[kind])
    return np.zeros(0, np.int64) if values is None else values.astype(np.int64)
