"""Layers with weights."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from converter.items import (
    Item,
    as_value,
    compute,
    iota,
    length,
    product,
    shape_of,
    static,
)
from converter.onnx.rules.common import Reader, integers, rule
from converter.onnx.rules.found import fitted
from converter.onnx.rules.windows import (
    Window,
    images_as_slices,
    slices_as_images,
    to_channels_first,
    to_channels_last,
    window,
)
from ir.graph import Constant, Value, Weight
from ir.op import OPS
from ir.ops.compare import greater_equal, less, logical_and, where
from ir.ops.conv import conv2d, conv2d_dx, depthwise_conv2d
from ir.ops.elementwise import div
from ir.ops.integers import mod
from ir.ops.scatter import scatter_elements
from ir.ops.shaping import broadcast_to, concat, pad, reshape, slice_axis, slice_dx, transpose
from ir.symbol import Dim


@rule("Conv")
def conv(reader: Reader, attrs: dict[str, Any], x: Item, w: Item, b: Item = None) -> Item:
    shape = static(shape_of(w), "weight")
    rank, groups = len(shape), attrs.get("group", 1)
    xt = to_channels_last(x)
    over = window(attrs, xt.shape[1 : rank - 1], shape[2:])
    bias = None if b is None else as_value(b)
    if rank == 5:
        return to_channels_first(_conv3d(reader, xt, w, bias, over, groups), rank)
    options = over.options()
    four = (*shape, 1) if rank == 3 else shape
    if groups > 1 and groups == xt.shape[3] == shape[0]:
        w = reader.arrange(
            w,
            "depthwise",
            lambda a: transpose(reshape(a, shape=(four[0], *four[2:])), perm=(1, 2, 0)),
        )
        y = depthwise_conv2d(xt, as_value(w), bias, **options)
    else:
        w = reader.arrange(
            w, "conv", lambda a: transpose(reshape(a, shape=four), perm=(0, 2, 3, 1))
        )
        y = conv2d(xt, as_value(w), bias, groups=groups, **options)
    return to_channels_first(y, rank)


def _conv3d(
    reader: Reader, x: Value, w: Item, bias: Value | None, over: Window, groups: int
) -> Value:
    """The slices that a window sees lie behind each other as channels of one image."""
    k, c, depth, r, s = static(shape_of(w), "weight")
    padded = _along_depth(x, over.before[0], over.after[0])
    reach, stride = over.reach(0), over.strides[0]
    count = (padded.shape[1] - reach) // stride + 1
    taps = []
    for i in range(depth):
        first = i * over.dilations[0]
        part = slice_axis(padded, first, first + (count - 1) * stride + 1, axis=1, step=stride)
        taps.append(reshape(part, shape=(*part.shape[:4], groups, 1, c)))
    stacked = concat(*taps, axis=5)
    image = slices_as_images(reshape(stacked, shape=(*stacked.shape[:4], groups * depth * c)))
    w = reader.arrange(
        w,
        "conv3d",
        lambda a: reshape(transpose(a, perm=(0, 3, 4, 2, 1)), shape=(k, r, s, depth * c)),
    )
    y = conv2d(image, as_value(w), bias, groups=groups, **over.options())
    return images_as_slices(y, count)


def _along_depth(x: Value, before: int, after: int) -> Value:
    if before == after == 0:
        return x
    return pad(x, before=(0, before, 0, 0, 0), after=(0, after, 0, 0, 0))  # type: ignore[no-any-return]


@rule("ConvTranspose")
def conv_transpose(reader: Reader, attrs: dict[str, Any], x: Item, w: Item, b: Item = None) -> Item:
    shape = static(shape_of(w), "weight")
    rank = len(shape)
    xt = to_channels_last(x)
    over, extra = _transposed_window(attrs, xt.shape[1 : rank - 1], shape[2:])
    y = _spread(reader, xt, w, over, attrs.get("group", 1), rank)
    y = _cropped(y, over.before, tuple(a - e for a, e in zip(over.after, extra, strict=True)))
    if b is not None:
        y = compute(OPS["add"], y, b)
    return to_channels_first(y, rank)


def _transposed_window(
    attrs: dict[str, Any], spatial: tuple[Dim, ...], size: tuple[int, ...]
) -> tuple[Window, tuple[int, ...]]:
    """The window of the convolution whose gradient this is, and how much longer each axis is."""
    n = len(size)
    auto = attrs.get("auto_pad", "NOTSET")
    plain = {k: v for k, v in attrs.items() if k not in ("auto_pad", "pads")}
    over = window(plain, spatial, size)
    extra = tuple(attrs.get("output_padding", (0,) * n))
    wanted = attrs.get("output_shape")
    if wanted is None and auto in ("SAME_UPPER", "SAME_LOWER"):
        wanted = [s * t for s, t in zip(static(spatial, auto), over.strides, strict=True)]
    if wanted is None:
        pads = attrs.get("pads", (0,) * 2 * n) if auto == "NOTSET" else (0,) * 2 * n
        return replace(over, before=tuple(pads[:n]), after=tuple(pads[n:])), extra
    before, after = [], []
    for i, s in enumerate(static(spatial, "output_shape")):
        total = over.strides[i] * (s - 1) + extra[i] + over.reach(i) - wanted[-n:][i]
        first = total // 2 if auto == "SAME_UPPER" else total - total // 2
        before.append(first)
        after.append(total - first)
    return replace(over, before=tuple(before), after=tuple(after)), extra


def _spread(reader: Reader, x: Value, w: Item, over: Window, groups: int, rank: int) -> Value:
    """Every window's products where they fall, without pads: x [n,*s,k] -> [n,*full,c]"""
    full = tuple(
        (x.shape[1 + i] - 1) * over.strides[i] + over.reach(i) for i in range(len(over.size))
    )
    bare = replace(over, before=(0,) * len(full), after=(0,) * len(full))
    shape = static(shape_of(w), "weight")
    last = (*shape, 1) if rank == 3 else shape

    def spread(image: Value, weight: Item) -> Value:
        size = over.two(full, 1)
        return conv2d_dx(image, as_value(weight), size=size, groups=groups, **bare.options())  # type: ignore[no-any-return]

    if rank < 5:
        w = reader.arrange(w, "dx", lambda a: transpose(reshape(a, shape=last), perm=(0, 2, 3, 1)))
        return spread(x, w)
    image, depth = slices_as_images(x), x.shape[1]
    total = None
    for i in range(shape[2]):
        part = reader.arrange(w, f"dx {i}", lambda a, i=i: _slice_of(a, i))  # type: ignore[misc]
        y = images_as_slices(spread(image, part), depth)
        whole = (y.shape[0], full[0], *y.shape[2:])
        first, stride = i * over.dilations[0], over.strides[0]
        end = (y.shape[0], first + (depth - 1) * stride + 1, *y.shape[2:])
        y = slice_dx(y, shape=whole, begin=(0, first, 0, 0, 0), end=end, step=(1, stride, 1, 1, 1))
        total = y if total is None else total + y
    assert total is not None
    return total


def _slice_of(w: Any, i: int) -> Any:
    """[k,c,d,r,s] -> [k,r,s,c] of one d."""
    k, c, _, r, s = w.shape
    end = (k, c, i + 1, r, s)
    part = OPS["slice"](w, begin=(0, 0, i, 0, 0), end=end, step=(1,) * 5)
    return transpose(reshape(part, shape=(k, c, r, s)), perm=(0, 2, 3, 1))


def _cropped(y: Value, before: tuple[int, ...], after: tuple[int, ...]) -> Value:
    """[n,*s,c] without so much of each axis; a negative amount is zeros more."""
    for i, (b, a) in enumerate(zip(before, after, strict=True), start=1):
        if b > 0 or a > 0:
            y = slice_axis(y, max(b, 0), y.shape[i] - max(a, 0), axis=i)
    ends = [tuple(max(-v, 0) for v in side) for side in (before, after)]
    if any(map(any, ends)):
        fill = (0,) * (y.rank - 1 - len(before))
        y = pad(y, before=(0, *ends[0], *fill), after=(0, *ends[1], *fill))
    return y


@rule("Gemm")
def gemm(reader: Reader, attrs: dict[str, Any], a: Item, b: Item, c: Item = None) -> Item:
    alpha, beta = attrs.get("alpha", 1.0), attrs.get("beta", 1.0)
    x = OPS["transpose"](as_value(a), perm=(1, 0)) if attrs.get("transA") else as_value(a)
    transposed = bool(attrs.get("transB"))
    if c is not None and beta != 1.0:
        c = compute(OPS["mul"], c, np.float32(beta))
    if isinstance(b, (Weight, np.ndarray)) and x.dtype.is_float:
        how = f"linear {transposed} {alpha}"
        w = reader.arrange(b, how, lambda m: (m if transposed else m.T) * np.float32(alpha))
        if c is None or shape_of(c) == (shape_of(w)[0],):
            return OPS["linear"](x, as_value(w), None if c is None else as_value(c))
        return compute(OPS["add"], OPS["linear"](x, as_value(w)), c)
    y = compute(OPS["matmul"], x, b, transpose_b=transposed)
    y = y if alpha == 1.0 else y * alpha
    return y if c is None else compute(OPS["add"], y, c)


@rule("MatMul")
def matmul(reader: Reader, attrs: dict[str, Any], a: Item, b: Item) -> Item:
    """Vectors count as a row and as a column, whose axis goes again."""
    ranks = len(shape_of(a)), len(shape_of(b))
    of_floats = isinstance(a, Value) and a.dtype.is_float
    if of_floats and ranks[1] == 2 and ranks[0] > 1 and isinstance(b, (Weight, np.ndarray)):
        w = reader.arrange(b, "linear False 1.0", lambda m: m.T)
        return OPS["linear"](a, as_value(w))
    if of_floats and ranks[0] > 1 and ranks[1] == 2 and (w := _turned_weight(b)) is not None:
        return OPS["linear"](a, w)
    if 1 not in ranks:
        return compute(OPS["matmul"], a, b)
    x, y = as_value(a), as_value(b)
    x = reshape(x, shape=(1, *x.shape)) if ranks[0] == 1 else x
    y = reshape(y, shape=(*y.shape, 1)) if ranks[1] == 1 else y
    z = compute(OPS["matmul"], x, y)
    shape = list(z.shape)
    if ranks[0] == 1:
        del shape[-2]
    if ranks[1] == 1:
        del shape[-1]
    return reshape(z, shape=tuple(shape))


def _turned_weight(b: Item) -> Weight | None:
    """The weight whose transpose b is: it may stay single where another layer uses it as it is."""
    made = b.node if isinstance(b, Value) else None
    if made is None or made.op is not transpose or made.attrs["perm"] != (1, 0):
        return None
    return made.inputs[0] if isinstance(made.inputs[0], Weight) else None


@rule("Col2Im")
def column_to_image(_: Reader, attrs: dict[str, Any], x: Item, image: Item, block: Item) -> Item:
    """Columns [n, c and the places of a block, blocks], added where their blocks lie."""
    v = as_value(x)
    size, sizes = integers(block, "block_shape"), integers(image, "image_shape")
    rank = len(size)
    strides, dilations = (attrs.get(k, (1,) * rank) for k in ("strides", "dilations"))
    pads = attrs.get("pads", (0,) * 2 * rank)
    counts = [
        (s + pads[i] + pads[i + rank] - (k - 1) * dilations[i] - 1) // strides[i] + 1
        for i, (s, k) in enumerate(zip(sizes, size, strict=True))
    ]
    n, rows, blocks = v.shape
    places = product(size)
    channels = rows // places
    at = reshape(as_value(iota(n * channels)), shape=(n, channels, 1, 1))
    inside = greater_equal(at, 0)
    for i, s in enumerate(sizes):
        own = reshape(_digit(places, size, i), shape=(places, 1)) * dilations[i]
        spot = own + _digit(blocks, counts, i) * strides[i] - pads[i]
        inside = logical_and(inside, logical_and(greater_equal(spot, 0), less(spot, length(s))))
        at = at * length(s) + spot
    whole = (n, channels, *sizes)
    apart = fitted(v, (n, channels, places, blocks))
    apart = compute(where, inside, apart, np.zeros((), v.dtype.numpy))
    at = where(inside, at, 0)
    flat = (product(apart.shape),)
    empty = broadcast_to(Constant(np.zeros((), v.dtype.numpy)), shape=(product(whole),))
    y = scatter_elements(
        empty, reshape(at, shape=flat), reshape(apart, shape=flat), reduction="add"
    )
    return reshape(y, shape=whole)  # type: ignore[no-any-return]


def _digit(count: Dim, sizes: list[Dim], i: int) -> Value:
    """Of the numbers below the product of some sizes, the place along axis i: int32[count]"""
    steps = div(as_value(iota(count)), _number(product(sizes[i + 1 :])))
    return mod(steps, _number(sizes[i]))  # type: ignore[no-any-return]


def _number(size: Dim) -> Value:
    return Constant(np.int32(size)) if isinstance(size, int) else length(size)
