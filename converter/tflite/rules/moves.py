"""Operators that move elements about: they take stored numbers and real ones alike."""

from __future__ import annotations

from typing import Any

import numpy as np

from converter.errors import ConvertError
from converter.items import Item, axis_of, check_count, known, number, product, shape_of, static
from converter.tflite.rules.common import (
    MOVES,
    UNSIGNED,
    Call,
    Reader,
    activation_kind,
    as_value,
    compute,
    is_scaled,
    rank_of,
    rescaled,
    rule,
    shape_array,
    sizes,
    tabled,
    with_activation,
    zero_of,
)
from converter.tflite.rules.parts import Piece, along, replaced, reshaped, split_at
from ir.op import OPS
from ir.ops.rules import broadcast
from ir.symbol import Dim, Expr


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
    if is_scaled(call.y):
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
    if is_scaled(call.y):
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
    fill = float(zero_of(call.y)) if is_scaled(call.y) else 0.0
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
    zero = np.int8(zero_of(call.y)) if is_scaled(call.y) else np.float32(0)
    value = as_value(x)
    zero = np.asarray(zero).astype(value.dtype.numpy)
    return OPS["broadcast_to"](as_value(zero), shape=value.shape)  # type: ignore[no-any-return]


@rule(MOVES, "BROADCAST_ARGS")
def broadcast_args(_: Reader, call: Call, a: Item, b: Item) -> Item:
    return shape_array(broadcast(tuple(sizes(a, "shape")), tuple(sizes(b, "shape"))))


@rule(MOVES, "SELECT", "SELECT_V2")
def select(_: Reader, call: Call, condition: Item, a: Item, b: Item) -> Item:
    if is_scaled(call.y):
        a, b = rescaled(a, call.input(1), call.y), rescaled(b, call.input(2), call.y)
    rank_ = rank_of(a)
    if call.name == "SELECT" and rank_of(condition) == 1 and rank_ > 1:
        condition = reshaped(condition, (shape_of(condition)[0], *[1] * (rank_ - 1)))
    return compute(OPS["where"], condition, a, b)
