"""Pooling, by windows and over whole images.

A pool over three axes is one over the last two and then one over the first: largest values and
sums of boxes are those of their slices.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from converter.errors import ConvertError
from converter.items import (
    Item,
    as_type,
    as_value,
    compute,
    floats,
    indices,
    iota,
    product,
    shape_of,
    static,
)
from converter.onnx.rules.common import Reader, integers, rule
from converter.onnx.rules.windows import (
    Window,
    images_as_slices,
    slices_as_images,
    to_channels_first,
    to_channels_last,
    window,
)
from ir.dtype import DType
from ir.graph import Constant, Value
from ir.op import OPS
from ir.ops.conv import depthwise_conv2d
from ir.ops.elementwise import abs, pow
from ir.ops.pool import avg_pool2d, max_pool2d, max_pool2d_at
from ir.ops.scatter import scatter_elements
from ir.ops.shaping import broadcast_to, reshape


def _window(attrs: dict[str, Any], x: Value) -> tuple[Window, Window]:
    """The window over x [n,*s,c], as it is asked for and as ceil mode makes it."""
    size = tuple(attrs["kernel_shape"])
    spatial = x.shape[1 : 1 + len(size)]
    asked = window(attrs, spatial, size)
    if not attrs.get("ceil_mode"):
        return asked, asked
    sizes = static(spatial, "ceil_mode")
    after = list(asked.after)
    for i, n in enumerate(sizes):
        extent, stride = n + asked.before[i] + asked.after[i], asked.strides[i]
        steps = -(-(extent - asked.reach(i)) // stride)
        if steps * stride >= n + asked.before[i]:  # the last window must start inside
            steps -= 1
        after[i] += max(steps * stride + asked.reach(i) - extent, 0)
    return asked, replace(asked, after=tuple(after))


def _pooled(x: Value, w: Window, pool: Callable[[Value, Window], Value]) -> Value:
    """`pool` over the window of x [n,*s,c]."""
    if len(w.size) < 3:
        return pool(x, w)
    depth = x.shape[1]
    y = images_as_slices(pool(slices_as_images(x), w), depth)
    flat = reshape(y, shape=(*y.shape[:2], product(y.shape[2:4]), y.shape[4]))
    flat = pool(flat, w.first())
    return reshape(flat, shape=(*flat.shape[:2], *y.shape[2:]))  # type: ignore[no-any-return]


def _largest(x: Value, w: Window) -> Value:
    return max_pool2d(x, size=w.two(w.size, 1), **w.options())  # type: ignore[no-any-return]


MOST_PLACES = 2**24  # that float32 tells apart


@rule("MaxPool")
def max_pool(reader: Reader, attrs: dict[str, Any], x: Item) -> Any:
    v, rank = as_value(x), len(shape_of(x))
    small = v.dtype is DType.u8 or (v.dtype is DType.i8 and rank != 4)
    xt = to_channels_last(floats(v) if small else v)
    _, grown = _window(attrs, xt)
    y = to_channels_first(_pooled(xt, grown, _largest), rank)
    y = as_type(y, v.dtype)
    if v.dtype is DType.i8:
        return y
    spatial = xt.shape[1 : rank - 1]
    if reader.results < 2 or any(not isinstance(d, int) for d in v.shape[1:]):
        return y  # places are numbers in the whole input, whose size is free
    return y, _places(attrs, xt, grown, static(spatial, "Indices"), rank)


def _places(attrs: dict[str, Any], x: Value, w: Window, sizes: tuple[int, ...], rank: int) -> Value:
    """Where each window's largest stands in the whole input [n,c,*s], as int64."""
    if product(sizes) > MOST_PLACES:
        raise ConvertError(f"Indices of {product(sizes)} places; want at most {MOST_PLACES}")
    order = "F" if attrs.get("storage_order") else "C"
    own = np.arange(np.prod(sizes), dtype=np.float32).reshape(sizes, order=order)
    own = own.reshape(1, *sizes, *([1] if rank == 3 else []), 1)
    at = broadcast_to(Constant(own), shape=x.shape)
    found = _pooled_at(at, x, w)
    y = as_type(to_channels_first(found, rank), DType.i64)
    channels = x.shape[-1]
    images = iota(x.shape[0] * channels, DType.i64)
    base = compute(OPS["mul"], images, np.full((), np.prod(sizes), np.int64))
    base = reshape(as_value(base), shape=(x.shape[0], channels, *(1,) * (y.rank - 2)))
    return y + base  # type: ignore[no-any-return]


def _pooled_at(at: Value, x: Value, w: Window) -> Value:
    """The elements of `at` where the windows of x have their largest."""

    def chosen(v: Value, like: Value, part: Window) -> Value:
        return max_pool2d_at(v, like, size=w.two(part.size, 1), **part.options())  # type: ignore[no-any-return]

    if len(w.size) < 3:
        return chosen(at, x, w)
    depth = x.shape[1]
    flat, where = slices_as_images(x), slices_as_images(at)
    pair = [images_as_slices(y, depth) for y in (_largest(flat, w), chosen(where, flat, w))]
    shape = (*pair[0].shape[:2], product(pair[0].shape[2:4]), pair[0].shape[4])
    like, places = (reshape(y, shape=shape) for y in pair)
    y = chosen(places, like, w.first())
    return reshape(y, shape=(*y.shape[:2], *pair[0].shape[2:]))  # type: ignore[no-any-return]


@rule("AveragePool")
def average_pool(_: Reader, attrs: dict[str, Any], x: Item) -> Item:
    xt, rank = to_channels_last(x), len(shape_of(x))
    asked, grown = _window(attrs, xt)
    include = bool(attrs.get("count_include_pad", 0))
    plain = set(asked.dilations) == {1} and len(asked.size) < 3
    if plain and not (include and grown != asked):
        options = grown.options()
        del options["dilations"]
        y = avg_pool2d(xt, size=grown.two(grown.size, 1), count_include_pad=include, **options)
        return to_channels_first(y, rank)
    total = _pooled(xt, grown, _sum)
    return to_channels_first(total * Constant(1 / _counts(xt, asked, grown, include)), rank)


def _counts(x: Value, asked: Window, grown: Window, include: bool) -> np.ndarray:
    """[1,*p,1]: how many places each window averages over; those that ceil mode added never."""
    out: np.ndarray = np.ones((1,), np.float32)
    for i, n in enumerate(static(x.shape[1 : 1 + len(asked.size)], "AveragePool")):
        before, after = (asked.before[i], asked.after[i]) if include else (0, 0)
        windows = (n + grown.before[i] + grown.after[i] - grown.reach(i)) // grown.strides[i] + 1
        starts = np.arange(windows) * grown.strides[i] - grown.before[i]
        at = starts[:, None] + np.arange(grown.size[i]) * grown.dilations[i]
        out = np.multiply.outer(out, ((at >= -before) & (at < n + after)).sum(1))
    if len(asked.size) == 1:
        out = out[..., None]
    return np.maximum(out, 1).astype(np.float32)[..., None]


def _sum(x: Value, w: Window) -> Value:
    (channels,) = static(x.shape[3:], "channels")
    ones = Constant(np.ones((*w.two(w.size, 1), channels), np.float32))
    return depthwise_conv2d(x, ones, **w.options())  # type: ignore[no-any-return]


@rule("LpPool")
def lp_pool(_: Reader, attrs: dict[str, Any], x: Item) -> Item:
    p = float(attrs.get("p", 2))
    xt, rank = to_channels_last(x), len(shape_of(x))
    _, grown = _window(attrs, xt)
    total = _pooled(pow(abs(xt), p), grown, _sum)
    return to_channels_first(pow(total, 1 / p), rank)


@rule("GlobalAveragePool")
def global_average_pool(_: Reader, attrs: dict[str, Any], x: Item) -> Item:
    return _global("reduce_mean", x)


@rule("GlobalMaxPool")
def global_max_pool(_: Reader, attrs: dict[str, Any], x: Item) -> Item:
    return _global("reduce_max", x)


@rule("GlobalLpPool")
def global_lp_pool(_: Reader, attrs: dict[str, Any], x: Item) -> Item:
    p = float(attrs.get("p", 2))
    return pow(_global("reduce_sum", pow(abs(as_value(x)), p)), 1 / p)  # type: ignore[no-any-return]


def _global(op: str, x: Item) -> Value:
    xt = to_channels_last(x)
    y = OPS[op](xt, axes=tuple(range(1, xt.rank - 1)), keep_dims=True)
    return to_channels_first(y, len(shape_of(x)))


@rule("MaxUnpool")
def max_unpool(_: Reader, attrs: dict[str, Any], x: Item, places: Item, shape: Item = None) -> Item:
    """Elements at their places in zeros of the shape before pooling, or of `shape`: places are
    numbers in the former all the same."""
    v = as_value(x)
    lead, spatial = v.shape[:2], static(v.shape[2:], "MaxUnpool")
    n = len(spatial)
    strides, pads = attrs.get("strides", (1,) * n), attrs.get("pads", (0,) * 2 * n)
    kernel = attrs["kernel_shape"]
    inner = [(spatial[i] - 1) * strides[i] - pads[i] - pads[i + n] + kernel[i] for i in range(n)]
    whole = (*lead, *inner)
    count = product(static(whole, "MaxUnpool"))
    flat = reshape(v, shape=(product(v.shape),))
    zeros = broadcast_to(Constant(np.zeros((), v.dtype.numpy)), shape=(count,))
    at = reshape(as_value(indices(places)), shape=flat.shape)
    y = reshape(scatter_elements(zeros, at, flat), shape=whole)
    wanted = whole if shape is None else tuple(integers(shape, "output_shape"))
    if wanted == whole:
        return y
    grown = tuple(w - o for w, o in zip(wanted, whole, strict=True))
    if any(isinstance(g, int) and g < 0 for g in grown):
        raise ConvertError(f"output_shape {list(wanted)}; want at least {list(whole)}")
    return OPS["pad"](y, before=(0,) * len(grown), after=grown)
