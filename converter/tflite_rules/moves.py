"""Operators that move elements about: they take stored numbers and real ones alike."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from converter.errors import ConvertError
from converter.onnx_rules.common import (
    Item,
    as_value,
    axis_of,
    check_count,
    known,
    number,
    product,
    shape_of,
    static,
)
from converter.tflite_rules.common import (
    MOVES,
    UNSIGNED,
    Call,
    Reader,
    activation_kind,
    compute,
    is_stored,
    rank_of,
    rescaled,
    rule,
    shape_array,
    sizes,
    tabled,
    with_activation,
    zero_of,
)
from ir.graph import Constant, Value, Weight
from ir.op import OPS
from ir.ops.rules import broadcast
from ir.symbol import Dim, Expr


def reshaped(x: Item, dims: Any) -> Item:
    if isinstance(x, Value):
        return x if x.shape == tuple(dims) else OPS["reshape"](x, shape=tuple(dims))  # type: ignore[no-any-return]
    return known(x, "x").reshape(tuple(dims))


@rule(MOVES, "RESHAPE")
def reshape(_: Reader, call: Call, x: Item, dims: Item = None) -> Item:
    given = list(call.attrs["new_shape"]) if dims is None else sizes(dims, "shape")
    old = shape_of(x)
    if -1 in given:
        rest = product(d for d in given if isinstance(d, Expr) or d != -1)
        given[given.index(-1)] = product(old) // rest
    free = [d for d in old if isinstance(d, Expr)]
    if free and product(given) != product(old) and given and given[0] == 1:
        given[0] = free[0]  # written down when the batch was still 1
    return reshaped(x, given)


@rule(MOVES, "SQUEEZE")
def squeeze(_: Reader, call: Call, x: Item) -> Item:
    old = shape_of(x)
    axes = [axis_of(a, len(old)) for a in call.attrs["squeeze_dims"]]
    axes = axes or [i for i, d in enumerate(old) if d == 1]
    if any(old[a] != 1 for a in axes):
        raise ConvertError(f"squeezes axes {axes} of {list(map(str, old))}, want sizes of 1")
    return reshaped(x, [d for i, d in enumerate(old) if i not in axes])


@rule(MOVES, "EXPAND_DIMS")
def expand_dims(_: Reader, call: Call, x: Item, axis: Item) -> Item:
    dims = list(shape_of(x))
    dims.insert(axis_of(int(number(axis, "axis")), len(dims) + 1), 1)
    return reshaped(x, dims)


@rule(MOVES, "TRANSPOSE")
def transpose(_: Reader, call: Call, x: Item, perm: Item) -> Item:
    axes = tuple(axis_of(p, rank_of(x)) for p in sizes(perm, "perm"))
    return compute(OPS["transpose"], x, perm=axes)


@rule(MOVES, "CONCATENATION")
def concatenation(_: Reader, call: Call, *items: Any) -> Item:
    if len(items) == 3 and isinstance(items[0], Piece) and isinstance(items[2], Piece):
        axis = axis_of(call.attrs["axis"], rank_of(items[1]))
        return replaced(call, items[0], items[1], items[2], axis)
    axis = axis_of(call.attrs["axis"], rank_of(items[0]))
    return joined(call, items, axis)


def joined(call: Call, items: Any, axis: int) -> Item:
    """One behind the other, all in the result's scale."""
    if is_stored(call.y):
        if activation_kind(call) != "none":
            raise ConvertError("a fused activation on 8 bits")
        change = tabled if call.y.element == UNSIGNED else rescaled
        items = [change(x, call.input(i), call.y) for i, x in enumerate(items)]
    if any(isinstance(i, np.ndarray) and i.dtype == object for i in items):
        return np.concatenate([known(i, "part").astype(object) for i in items], axis)
    return with_activation(activation_kind(call), compute(OPS["concat"], *items, axis=axis))


@rule(MOVES, "PACK")
def pack(_: Reader, call: Call, *items: Item) -> Item:
    shape = shape_of(items[0])
    axis = axis_of(call.attrs["axis"], len(shape) + 1)
    parts = [reshaped(x, (*shape[:axis], 1, *shape[axis:])) for x in items]
    y = joined(call, parts, axis)
    if isinstance(y, np.ndarray) and y.dtype == object:
        flat = shape_array(y.ravel().tolist())
        return flat.reshape(y.shape)
    return y


@rule(MOVES, "UNPACK")
def unpack(_: Reader, call: Call, x: Item) -> list[Item]:
    shape = shape_of(x)
    axis = axis_of(call.attrs["axis"], len(shape))
    rest = (*shape[:axis], *shape[axis + 1 :])
    parts = split_at(x, [1] * call.attrs["num"], axis)
    return [reshaped(p, rest) for p in parts]


@rule(MOVES, "SPLIT")
def split(_: Reader, call: Call, axis: Item, x: Item) -> list[Item]:
    where, count = axis_of(int(number(axis, "axis")), rank_of(x)), call.attrs["num_splits"]
    (total,) = static((shape_of(x)[where],), "split")
    if count < 1 or total % count:
        raise ConvertError(f"{total} places into {count} parts")
    return split_at(x, [total // count] * count, where)


@rule(MOVES, "SPLIT_V")
def split_v(_: Reader, call: Call, x: Item, parts: Item, axis: Item) -> list[Item]:
    where, given = axis_of(int(number(axis, "axis")), rank_of(x)), sizes(parts, "sizes")
    if -1 in given:
        given[given.index(-1)] = shape_of(x)[where] - (sum(given) + 1)
    return split_at(x, given, where)


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
    """Each batch has indices of its own: batches lie behind each other in one long axis."""
    shape, places = shape_of(x), shape_of(indices)
    batches = axis_of(batches, len(places) + 1)
    if axis != batches or shape[:batches] != places[:batches]:
        raise ConvertError(f"gathers along axis {axis} with {batches} axes of batches")
    count, size = product(static(shape[:batches], "batches")), shape[axis]
    (size,) = static((size,), "gather")
    base = np.arange(count, dtype=np.int32).reshape(
        (*places[:batches], *[1] * (len(places) - batches))
    )
    flat = reshaped(x, (count * size, *shape[axis + 1 :]))
    moved = compute(OPS["add"], _int32(indices), base * np.int32(size))
    return compute(OPS["gather"], flat, moved, axis=0)


def _int32(x: Item) -> Item:
    return x.astype(np.int32) if isinstance(x, np.ndarray) else x


@rule(MOVES, "GATHER_ND")
def gather_nd(_: Reader, call: Call, x: Item, indices: Item) -> Item:
    shape, places = static(shape_of(x), "gather_nd"), shape_of(indices)
    depth = places[-1]
    if not isinstance(depth, int) or depth > len(shape):
        raise ConvertError(f"indices of {depth} numbers into rank {len(shape)}")
    strides = [int(np.prod(shape[i + 1 : depth])) for i in range(depth)]
    flat = reshaped(x, (product(shape[:depth]), *shape[depth:]))
    weighted = compute(OPS["mul"], _int32(indices), np.array(strides, np.int32))
    index = compute(OPS["reduce_sum"], weighted, axes=(len(places) - 1,))
    return compute(OPS["gather"], flat, index, axis=0)


@rule(MOVES, "TILE")
def tile(_: Reader, call: Call, x: Item, repeats: Item) -> Item:
    counts = sizes(repeats, "multiples")
    shape = shape_of(x)
    check_count(product(shape) * product(counts) if isinstance(x, np.ndarray) else 0)
    apart = [d for n, s in zip(counts, shape, strict=True) for d in (1, s)]
    wide = [d for n, s in zip(counts, shape, strict=True) for d in (n, s)]
    if isinstance(x, np.ndarray):
        return np.tile(x, counts)
    merged = [n * s for n, s in zip(counts, shape, strict=True)]
    if len(wide) <= 8:
        return reshaped(OPS["broadcast_to"](reshaped(x, apart), shape=tuple(wide)), merged)
    y: Item = x
    for axis, n in enumerate(counts):
        y = compute(OPS["concat"], *[y] * n, axis=axis) if n != 1 else y
    return y


@rule(MOVES, "BROADCAST_TO")
def broadcast_to(_: Reader, call: Call, x: Item, dims: Item) -> Item:
    return compute(
        OPS["broadcast_to"], x, shape=broadcast(shape_of(x), tuple(sizes(dims, "shape")))
    )


@rule(MOVES, "PAD", "PADV2")
def pad(_: Reader, call: Call, x: Item, pads: Item, value: Item = None) -> Item:
    widths = known(pads, "paddings").reshape(-1, 2)
    fill = 0.0 if value is None else number(value, "value")
    if is_stored(call.y):
        fill = float(zero_of(call.y)) if value is None else float(known(value, "value").item())
        x = rescaled(x, call.input(0), call.y)
    before, after = (tuple(int(n) for n in widths[:, i]) for i in (0, 1))
    return compute(OPS["pad"], x, before=before, after=after, value=fill)


@rule(MOVES, "MIRROR_PAD")
def mirror_pad(_: Reader, call: Call, x: Item, pads: Item) -> Item:
    widths = known(pads, "paddings").reshape(-1, 2)
    if call.attrs["mode"] == 0:
        before, after = (tuple(int(n) for n in widths[:, i]) for i in (0, 1))
        return compute(OPS["pad"], x, before=before, after=after, mode="reflect")
    for axis, (b, a) in enumerate(widths.tolist()):  # the edge itself is mirrored too
        size = shape_of(x)[axis]
        if not 0 <= max(b, a) <= size or min(b, a) < 0:
            raise ConvertError(f"mirrors {b} and {a} of an axis of {size}")
        front = along(x, axis, b - 1, -1, -1) if b else None
        back = along(x, axis, size - 1, size - 1 - a, -1) if a else None
        parts = [p for p in (front, x, back) if p is not None]
        x = compute(OPS["concat"], *parts, axis=axis) if len(parts) > 1 else x
    return x


@rule(MOVES, "REVERSE_V2")
def reverse(_: Reader, call: Call, x: Item, axes: Item) -> Item:
    for axis in sizes(axes, "axis"):
        at = axis_of(axis, rank_of(x))
        x = along(x, at, shape_of(x)[at] - 1, -1, -1)
    return x


def blocks(x: Item, sizes_: Any, perm: tuple[int, ...], result: Any) -> Item:
    return reshaped(compute(OPS["transpose"], reshaped(x, sizes_), perm=perm), result)


@rule(MOVES, "SPACE_TO_DEPTH")
def space_to_depth(_: Reader, call: Call, x: Item) -> Item:
    n, h, w, c = _image(x)
    b = _block(call)
    apart = (n, h // b, b, w // b, b, c)
    return blocks(x, apart, (0, 1, 3, 2, 4, 5), (n, h // b, w // b, b * b * c))


@rule(MOVES, "DEPTH_TO_SPACE")
def depth_to_space(_: Reader, call: Call, x: Item) -> Item:
    n, h, w, c = _image(x)
    b = _block(call)
    d = c // (b * b)
    return blocks(x, (n, h, w, b, b, d), (0, 1, 3, 2, 4, 5), (n, h * b, w * b, d))


def _block(call: Call) -> int:
    size = call.attrs["block_size"]
    if size < 1:
        raise ConvertError(f"blocks of {size}")
    return int(size)


def _image(x: Item) -> tuple[Dim, ...]:
    if rank_of(x) != 4:
        raise ConvertError(f"input of rank {rank_of(x)}, want [n,h,w,c]")
    return shape_of(x)


@rule(MOVES, "SPACE_TO_BATCH_ND")
def space_to_batch(_: Reader, call: Call, x: Item, block: Item, pads: Item) -> Item:
    widths, b = known(pads, "paddings").reshape(-1, 2), sizes(block, "block")
    rank, m = rank_of(x), len(b)
    before = (0, *(int(v) for v in widths[:, 0]), *[0] * (rank - m - 1))
    after = (0, *(int(v) for v in widths[:, 1]), *[0] * (rank - m - 1))
    fill = float(zero_of(call.y)) if is_stored(call.y) else 0.0
    x = compute(OPS["pad"], x, before=before, after=after, value=fill)
    n, *space = shape_of(x)[: m + 1]
    rest = shape_of(x)[m + 1 :]
    inner = [d for size, k in zip(space, b, strict=True) for d in (size // k, k)]
    perm = (*range(2, 2 * m + 1, 2), 0, *range(1, 2 * m, 2), *range(2 * m + 1, rank + m))
    small = [size // k for size, k in zip(space, b, strict=True)]
    return blocks(x, (n, *inner, *rest), perm, (n * product(b), *small, *rest))


@rule(MOVES, "BATCH_TO_SPACE_ND")
def batch_to_space(_: Reader, call: Call, x: Item, block: Item, crops: Item) -> Item:
    cuts, b = known(crops, "crops").reshape(-1, 2).tolist(), sizes(block, "block")
    rank, m = rank_of(x), len(b)
    n, *space = shape_of(x)[: m + 1]
    rest = shape_of(x)[m + 1 :]
    images = n // product(b)
    pairs = [i for k in range(m) for i in (m + 1 + k, k)]
    perm = (m, *pairs, *range(2 * m + 1, rank + m))
    wide = [size * k for size, k in zip(space, b, strict=True)]
    y = blocks(x, (*b, images, *space, *rest), perm, (images, *wide, *rest))
    for axis, (first, last) in enumerate(cuts, start=1):
        y = along(y, axis, first, shape_of(y)[axis] - last)
    return y


@rule(MOVES, "SHAPE")
def shape(_: Reader, call: Call, x: Item) -> Item:
    return shape_array(shape_of(x))


@rule(MOVES, "RANK")
def rank(_: Reader, call: Call, x: Item) -> Item:
    return np.array(rank_of(x), np.int32)


@rule(MOVES, "FILL")
def fill(_: Reader, call: Call, dims: Item, value: Item) -> Item:
    wanted = tuple(sizes(dims, "dims"))
    if isinstance(value, np.ndarray) and not any(isinstance(d, Expr) for d in wanted):
        check_count(product(wanted))
        return np.full(wanted, value.item(), value.dtype)
    return OPS["broadcast_to"](as_value(value), shape=wanted)  # type: ignore[no-any-return]


@rule(MOVES, "ZEROS_LIKE")
def zeros_like(_: Reader, call: Call, x: Item) -> Item:
    zero = np.int8(zero_of(call.y)) if is_stored(call.y) else np.float32(0)
    value = as_value(x)
    zero = np.asarray(zero).astype(value.dtype.numpy)
    return OPS["broadcast_to"](as_value(zero), shape=value.shape)  # type: ignore[no-any-return]


@rule(MOVES, "BROADCAST_ARGS")
def broadcast_args(_: Reader, call: Call, a: Item, b: Item) -> Item:
    return shape_array(broadcast(tuple(sizes(a, "shape")), tuple(sizes(b, "shape"))))


@rule(MOVES, "SELECT", "SELECT_V2")
def select(_: Reader, call: Call, condition: Item, a: Item, b: Item) -> Item:
    if is_stored(call.y):
        a, b = rescaled(a, call.input(1), call.y), rescaled(b, call.input(2), call.y)
    rank_ = rank_of(a)
    if call.name == "SELECT" and rank_of(condition) == 1 and rank_ > 1:
        condition = reshaped(condition, (shape_of(condition)[0], *[1] * (rank_ - 1)))
    return compute(OPS["where"], condition, a, b)
