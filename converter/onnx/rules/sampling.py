"""Images read at places that are data: grids, regions, deformed windows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from converter.errors import ConvertError
from converter.items import (
    Item,
    as_value,
    floats,
    indices,
    iota,
    length,
    product,
    static,
)
from converter.onnx.rules.common import Reader, integers, rule
from converter.onnx.rules.windows import window
from ir.dtype import DType
from ir.graph import Constant, Value
from ir.ops.compare import greater, greater_equal, less, less_equal, logical_and, where
from ir.ops.conv import conv2d
from ir.ops.elementwise import clip, floor, maximum
from ir.ops.elementwise import round as rounded
from ir.ops.index import gather
from ir.ops.integers import mod
from ir.ops.reduce import reduce_max, reduce_mean
from ir.ops.scatter import gather_nd
from ir.ops.shaping import cast, concat, reshape, slice_axis, transpose

Tap = tuple[Value, Value]  # where along an axis, as floats, and with which weight
CUBIC = -0.75


@rule("GridSample")
def grid_sample(_: Reader, attrs: dict[str, Any], x: Item, grid: Item) -> Item:
    """Jaderberg et al. 2015"""
    v, g = floats(x), floats(grid)
    sizes = static(v.shape[2:], "GridSample")
    mode = {"bilinear": "linear", "bicubic": "cubic"}.get(
        attrs.get("mode", "linear"), attrs.get("mode", "linear")
    )
    padding, align = attrs.get("padding_mode", "zeros"), bool(attrs.get("align_corners", 0))
    places = product(g.shape[1:-1])
    axes = []
    for i, size in enumerate(sizes):
        k = len(sizes) - 1 - i  # a grid speaks of the last axis first
        own = reshape(slice_axis(g, k, k + 1, axis=g.rank - 1), shape=(g.shape[0], places))
        at = (own + 1.0) * ((size - 1) / 2) if align else ((own + 1.0) * size - 1.0) * 0.5
        at = rounded(at) if mode == "nearest" else at
        ends = (0.0, size - 1.0) if align else (-0.5, size - 0.5)
        axes.append([_kept(padding, t, size, ends)
                     for t in _taps(mode, _moved(padding, at, size, ends))])  # fmt: skip
    y = _read(_rows(v), axes, sizes)
    y = transpose(y, perm=(0, 2, 1))
    return reshape(y, shape=(*v.shape[:2], *g.shape[1:-1]))  # type: ignore[no-any-return]


def _rows(x: Value) -> Value:
    """[n,c,*s] -> [n,product of s,c]"""
    flat = reshape(x, shape=(*x.shape[:2], product(x.shape[2:])))
    return transpose(flat, perm=(0, 2, 1))  # type: ignore[no-any-return]


def _moved(padding: str, at: Value, size: int, ends: tuple[float, float]) -> Value:
    """Places beyond the image as the padding has it."""
    if padding == "border":
        return clip(at, low=0.0, high=size - 1.0)  # type: ignore[no-any-return]
    return _reflected(at, ends) if padding == "reflection" else at


def _reflected(at: Value, ends: tuple[float, float]) -> Value:
    low, high = ends
    reach = high - low
    if reach == 0:
        return at * 0.0  # type: ignore[no-any-return]
    t = mod(at - low, Constant(np.float32(2 * reach)))
    mirrored = where(greater(t, reach), 2 * reach - t, t) + low
    inside = logical_and(greater_equal(at, low), less_equal(at, high))
    return where(inside, at, mirrored)  # type: ignore[no-any-return]


def _taps(mode: str, at: Value) -> list[Tap]:
    if mode == "nearest":
        whole = rounded(at)
        return [(whole, whole * 0.0 + 1.0)]
    low = floor(at)
    part = at - low
    if mode == "linear":
        return [(low, 1.0 - part), (low + 1.0, part)]
    if mode != "cubic":
        raise ConvertError(f"mode {mode!r}; want nearest, linear or cubic")
    near, far = [CUBIC + 2, -(CUBIC + 3), 0, 1], [CUBIC, -5 * CUBIC, 8 * CUBIC, -4 * CUBIC]
    weights = [(far, part + 1.0), (near, part), (near, 1.0 - part), (far, 2.0 - part)]
    return [(low + float(i - 1), _polynomial(c, d)) for i, (c, d) in enumerate(weights)]


def _polynomial(coefficients: Sequence[float], x: Value) -> Value:
    total = x * coefficients[0] + coefficients[1]
    for c in coefficients[2:]:
        total = total * x + c
    return total


def _kept(padding: str, tap: Tap, size: int, ends: tuple[float, float]) -> Tap:
    """A tap inside the image; one that reads nothing has no weight."""
    at, weight = tap
    if padding == "reflection":
        at = rounded(_reflected(at, ends))
    elif padding == "zeros":
        inside = logical_and(greater_equal(at, 0.0), less(at, float(size)))
        weight = where(inside, weight, 0.0)
    return clip(at, low=0.0, high=size - 1.0), weight


def _read(rows: Value, axes: Sequence[Sequence[Tap]], sizes: Sequence[int]) -> Value:
    """The sum over all taps of rows [n,s,c] at places [n,p] -> [n,p,c]"""
    total = None
    for where_, weight in _combined(axes, sizes):
        at = reshape(cast(where_, to=DType.i32), shape=(*where_.shape, 1))
        part = gather_nd(rows, at, batch_dims=1) * reshape(weight, shape=(*weight.shape, 1))
        total = part if total is None else total + part
    assert total is not None
    return total


def _combined(axes: Sequence[Sequence[Tap]], sizes: Sequence[int]) -> list[Tap]:
    """All combinations of taps, as places in the flat image."""
    found = list(axes[0])
    for taps, size in zip(axes[1:], sizes[1:], strict=True):
        found = [(at * float(size) + own, w * v) for at, w in found for own, v in taps]
    return found


def _clamped_taps(at: Value, size: int) -> list[Tap]:
    """Two taps of a place that is moved to the image if it is less than one element beyond; of no
    weight further off."""
    inside = logical_and(greater_equal(at, -1.0), less_equal(at, float(size)))
    near = clip(at, low=0.0, high=size - 1.0)
    low = floor(near)
    part = near - low
    high = clip(low + 1.0, low=0.0, high=size - 1.0)
    return [(low, where(inside, 1.0 - part, 0.0)), (high, where(inside, part, 0.0))]


@rule("RoiAlign")
def roi_align(_: Reader, attrs: dict[str, Any], x: Item, rois: Item, batch: Item) -> Item:
    """He et al. 2017"""
    v, boxes = floats(x), floats(rois)
    h, w = static(v.shape[2:], "RoiAlign")
    points = attrs.get("sampling_ratio", 0)
    if points < 1:
        raise ConvertError(
            "sampling_ratio 0 takes as many samples as a region is wide; want a number"
        )
    out = attrs.get("output_height", 1), attrs.get("output_width", 1)
    scale = attrs.get("spatial_scale", 1.0)
    half = attrs.get("coordinate_transformation_mode", "half_pixel") == "half_pixel"
    n = boxes.shape[0]
    edges = [slice_axis(boxes, i, i + 1, axis=1) * scale - (0.5 if half else 0.0) for i in range(4)]
    axes = []
    for first, last, bins, size in (
        (edges[1], edges[3], out[0], h),
        (edges[0], edges[2], out[1], w),
    ):
        reach = last - first
        reach = reach if half else maximum(reach, 1.0)
        steps = (np.arange(bins * points, dtype=np.float32) + 0.5) / (bins * points)
        axes.append((first + reach * Constant(steps[None]), size, bins * points))
    (ys, _, down), (xs, _, across) = axes
    ys = reshape(ys, shape=(n, down, 1))
    xs = reshape(xs, shape=(n, 1, across))
    rows = reshape(_rows(v), shape=(v.shape[0] * h * w, v.shape[1]))
    base = reshape(as_value(indices(batch)) * (h * w), shape=(n, 1, 1))
    most = attrs.get("mode", "avg") == "max"
    total = None
    for at, weight in _combined([_clamped_taps(ys, h), _clamped_taps(xs, w)], (h, w)):
        part = gather(rows, cast(at, to=DType.i32) + base)
        part = part * reshape(weight, shape=(*weight.shape, 1))
        # ONNX's maximum is over the weighed corners, not over their sums
        total = part if total is None else maximum(total, part) if most else total + part
    apart = reshape(total, shape=(n, out[0], points, out[1], points, v.shape[1]))
    join = reduce_max if most else reduce_mean
    return transpose(join(apart, axes=(2, 4)), perm=(0, 3, 1, 2))  # type: ignore[no-any-return]


@rule("DeformConv")
def deformed_conv(
    _: Reader, attrs: dict[str, Any], x: Item, w: Item, offset: Item, bias: Item = None,
    mask: Item = None,
) -> Item:  # fmt: skip
    """A convolution whose windows' places are moved by data     Dai et al. 2017"""
    v, weight, moves = floats(x), floats(w), floats(offset)
    sizes = static(v.shape[2:], "DeformConv")
    kernel = static(weight.shape, "weight")[2:]
    over = window(attrs, v.shape[2:], tuple(kernel))
    groups, parts = attrs.get("group", 1), attrs.get("offset_group", 1)
    n, c = v.shape[:2]
    p, q = static(moves.shape[2:], "offset")
    moves = reshape(moves, shape=(n, parts, kernel[0] * kernel[1], 2, p * q))
    shares = (
        None
        if mask is None
        else reshape(floats(mask), shape=(n, parts, kernel[0] * kernel[1], p * q))
    )
    rows = _rows(v)
    each = c // parts
    total = None
    for tap in range(kernel[0] * kernel[1]):
        i, j = divmod(tap, kernel[1])
        read = []
        for part in range(parts):
            own = rows if parts == 1 else slice_axis(rows, part * each, (part + 1) * each, axis=2)
            axes = []
            for axis, number in ((0, i), (1, j)):
                start = np.arange((p, q)[axis]) * over.strides[axis] - over.before[axis]
                place = (start + number * over.dilations[axis]).astype(np.float32)
                place = np.broadcast_to(place[:, None] if axis == 0 else place, (p, q))
                move = _picked(moves, part, tap, axis)
                at = move + Constant(place.reshape(1, p * q))
                axes.append([_kept("zeros", t, sizes[axis], (0, 0)) for t in _taps("linear", at)])
            y = _read(own, axes, sizes)
            if shares is not None:
                y = y * reshape(_picked(shares, part, tap), shape=(n, p * q, 1))
            read.append(y)
        image = reshape(concat(*read, axis=2), shape=(n, p, q, c))
        one = slice_axis(slice_axis(weight, i, i + 1, axis=2), j, j + 1, axis=3)
        y = conv2d(image, transpose(one, perm=(0, 2, 3, 1)), groups=groups)
        total = y if total is None else total + y
    y = total if bias is None else total + floats(bias)
    return transpose(y, perm=(0, 3, 1, 2))  # type: ignore[no-any-return]


def _picked(v: Value, *at: int) -> Value:
    """[n,*s,p] at one number of each of s -> [n,p]"""
    for axis, i in enumerate(at, start=1):
        v = slice_axis(v, i, i + 1, axis=axis)
    return reshape(v, shape=(v.shape[0], v.shape[-1]))  # type: ignore[no-any-return]


@rule("AffineGrid")
def affine_grid(_: Reader, attrs: dict[str, Any], theta: Item, size: Item) -> Item:
    spatial = integers(size, "size")[2:]
    align = bool(attrs.get("align_corners", 0))
    t, rank = floats(theta), len(spatial)
    n = t.shape[0]
    lines = []
    for axis, s in enumerate(spatial):
        steps, many = floats(iota(s)), floats(np.asarray(s) if isinstance(s, int) else length(s))
        if align:
            line = steps * 2.0 / maximum(many - 1.0, 1.0) - 1.0
        else:
            line = (steps * 2.0 + 1.0) / many - 1.0
        lines.append(reshape(line, shape=(s, *(1,) * (rank - 1 - axis))))
    rows = []
    for k in range(rank):
        weights = [reshape(_cell(t, k, j), shape=(n, *(1,) * rank)) for j in range(rank + 1)]
        total = weights[rank]
        for weight, line in zip(weights, reversed(lines), strict=False):
            total = total + weight * line
        rows.append(reshape(total, shape=(n, *spatial, 1)))
    return concat(*rows, axis=rank + 1)  # type: ignore[no-any-return]


def _cell(t: Value, i: int, j: int) -> Value:
    """[n,r,c] -> [n,1,1] of one row and column."""
    return slice_axis(slice_axis(t, i, i + 1, axis=1), j, j + 1, axis=2)  # type: ignore[no-any-return]
