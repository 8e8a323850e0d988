"""Parts of tensors: slices and gathers, of known and of computed places."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from converter.errors import ConvertError
from converter.items import Item, axis_of, known, shape_of
from converter.tflite.rules.common import (
    MOVES,
    Call,
    Reader,
    compute,
    rank_of,
    rule,
    sizes,
)
from ir.graph import Constant, Value, Weight
from ir.op import OPS
from ir.symbol import Dim, Expr


def reshaped(x: Item, dims: Any) -> Item:
    if isinstance(x, Value):
        return x if x.shape == tuple(dims) else OPS["reshape"](x, shape=tuple(dims))  # type: ignore[no-any-return]
    return known(x, "x").reshape(tuple(dims))


def split_at(x: Item, parts: list[Any], axis: int) -> list[Item]:
    out, at = [], 0
    for n in parts:
        out.append(along(x, axis, at, at + n))
        at = at + n
    return out


def along(x: Item, axis: int, begin: Dim, end: Dim, step: int = 1) -> Item:
    """x from `begin` to before `end` on one axis."""
    first: list[Dim] = [0] * rank_of(x)
    last, steps = list(shape_of(x)), [1] * rank_of(x)
    first[axis], last[axis], steps[axis] = begin, end, step
    return sliced(x, first, last, steps)


def sliced(x: Item, begin: list[Dim], end: list[Dim], step: list[int]) -> Item:
    if isinstance(x, np.ndarray):
        bounds = zip(begin, end, step, strict=True)
        return x[tuple(slice(b, None if s < 0 and e < 0 else e, s) for b, e, s in bounds)]
    if tuple(end) == shape_of(x) and not any(begin) and set(step) <= {1}:
        return x
    return compute(OPS["slice"], x, begin=tuple(begin), end=tuple(end), step=tuple(step))


@dataclass(frozen=True)
class Piece:
    """A part of x whose place or size the model computes; `replaced` takes two of them."""

    x: Item
    begin: Item
    size: Item


@rule(MOVES, "SLICE")
def slice_(_: Reader, call: Call, x: Item, begin: Item, size: Item) -> Any:
    if is_computed(size):
        return Piece(x, begin, size)
    if is_computed(begin):
        return Piece(x, begin, size) if -1 in sizes(size, "size") else _moving(x, begin, size)
    first, counts, dims = sizes(begin, "begin"), sizes(size, "size"), shape_of(x)
    if not len(first) == len(counts) == len(dims):
        raise ConvertError(f"slices {len(first)} axes of {len(dims)}")
    last = [
        d if not isinstance(n, Expr) and n == -1 else b + n
        for b, n, d in zip(first, counts, dims, strict=True)
    ]
    return sliced(x, first, last, [1] * len(dims))


def is_computed(x: Item) -> bool:
    return isinstance(x, Value) and not isinstance(x, (Constant, Weight))


def _moving(x: Item, begin: Item, size: Item) -> Item:
    """A part of known size whose first place is computed."""
    for axis, (n, d) in enumerate(zip(sizes(size, "size"), shape_of(x), strict=True)):
        if n != d:
            at = compute(OPS["add"], along(begin, 0, axis, axis + 1), np.arange(n, dtype=np.int32))
            x = compute(OPS["gather"], x, at, axis=axis)
    return x


def replaced(call: Call, before: Piece, v: Item, behind: Piece, axis: int) -> Item:
    """x with one place of an axis replaced by v: what lies before it, v, and what lies behind."""
    x = before.x
    shape, n = shape_of(x), shape_of(x)[axis]
    part = (*shape[:axis], 1, *shape[axis + 1 :])
    if behind.x is not x or shape_of(v) != part or call.y.shape != shape or not isinstance(n, int):
        raise ConvertError("parts of sizes that the model computes, want one place replaced")
    at = along(before.size, 0, axis, axis + 1)
    places = np.arange(n, dtype=np.int32)
    here = compute(OPS["equal"], at, places)
    return compute(OPS["where"], reshaped(here, (n, *[1] * (len(shape) - axis - 1))), v, x)


@rule(MOVES, "STRIDED_SLICE")
def strided_slice(_: Reader, call: Call, x: Item, begin: Item, end: Item, step: Item) -> Item:
    """Bounds axis by axis; a mask's bit i is of entry i of them."""
    attrs, dims = call.attrs, shape_of(x)
    entries = list(
        zip(sizes(begin, "begin"), sizes(end, "end"), sizes(step, "strides"), strict=True)
    )

    def has(mask: str, i: int) -> bool:
        return bool(attrs[f"{mask}_mask"] >> i & 1)

    used = sum(not has("new_axis", i) and not has("ellipsis", i) for i in range(len(entries)))
    first, last, steps, shape, axis = [], [], [], [], 0
    for i, (b, e, s) in enumerate(entries):
        if has("ellipsis", i):
            for _i in range(len(dims) - used):
                first, last, steps = [*first, 0], [*last, dims[axis]], [*steps, 1]
                shape, axis = [*shape, True], axis + 1
            continue
        if has("new_axis", i):
            shape.append(None)
            continue
        if axis >= len(dims) or s == 0:
            raise ConvertError(f"slices {len(entries)} axes of {len(dims)} by {s}")
        e = b + e if attrs["offset"] else e
        bounds = _bounds(b, e, s, dims[axis], has("begin", i), has("end", i))
        if has("shrink_axis", i):
            at = _from_front(b, dims[axis])
            bounds, s = (at, at + 1), 1
        first, last, steps = [*first, bounds[0]], [*last, bounds[1]], [*steps, s]
        shape, axis = [*shape, not has("shrink_axis", i)], axis + 1
    rest = len(dims) - axis
    y = sliced(x, [*first, *[0] * rest], [*last, *dims[axis:]], [*steps, *[1] * rest])
    kept, taken = [], iter(shape_of(y))
    for keep in [*shape, *[True] * rest]:
        d = 1 if keep is None else next(taken)
        if keep is None or keep:
            kept.append(d)
    return reshaped(y, kept)


def _from_front(at: Any, size: Dim) -> Any:
    return at + size if not isinstance(at, Expr) and at < 0 else at


def _bounds(b: Any, e: Any, s: int, size: Dim, whole_begin: bool, whole_end: bool) -> Any:
    """Begin and end inside an axis, counted from the front."""
    low, high = (0, size) if s > 0 else (-1, size - 1)
    begin = (low if s > 0 else high) if whole_begin else _from_front(b, size)
    end = (high if s > 0 else low) if whole_end else _from_front(e, size)
    if not isinstance(size, int):
        return begin, size if not isinstance(end, Expr) and end >= 2**31 - 1 else end
    begin = min(max(begin, max(low, 0)), high if s < 0 else size)
    end = min(max(end, low), size)
    return (begin, max(begin, end)) if s > 0 else (begin, min(begin, end))


@rule(MOVES, "GATHER", "EMBEDDING_LOOKUP")
def gather(_: Reader, call: Call, x: Item, indices: Item) -> Item:
    if call.name == "EMBEDDING_LOOKUP":
        x, indices = indices, x
    axis = axis_of(call.attrs.get("axis", 0), rank_of(x))
    if call.attrs.get("batch_dims"):
        return _gather_rows(x, indices, axis, call.attrs["batch_dims"])
    if isinstance(x, np.ndarray) and isinstance(indices, np.ndarray):
        return np.asarray(np.take(x, indices, axis=axis))
    return compute(OPS["gather"], x, indices, axis=axis)


def _gather_rows(x: Item, indices: Item, axis: int, batches: int) -> Item:
    """Each batch has indices of its own."""
    shape, places = shape_of(x), shape_of(indices)
    batches = axis_of(batches, len(places) + 1)
    if axis != batches or shape[:batches] != places[:batches]:
        raise ConvertError(f"gathers along axis {axis} with {batches} axes of batches")
    each = reshaped(_int32(indices), (*places, 1))
    return compute(OPS["gather_nd"], x, each, batch_dims=batches)


def _int32(x: Item) -> Item:
    return x.astype(np.int32) if isinstance(x, np.ndarray) else x


@rule(MOVES, "GATHER_ND")
def gather_nd(_: Reader, call: Call, x: Item, indices: Item) -> Item:
    return compute(OPS["gather_nd"], x, _int32(indices))
