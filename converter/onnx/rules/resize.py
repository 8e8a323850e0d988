"""Resizing: every axis on its own, as elements chosen by their place and weighed.

Where sizes and scales are known, so are places and weights, and they are constants. They are
computed by the same formulas where the model has them as data.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from converter.errors import ConvertError
from converter.found_sizes import traced
from converter.items import (
    Item,
    as_type,
    as_value,
    axis_of,
    compute,
    floats,
    indices,
    iota,
    known,
    length,
    shape_of,
    static,
)
from converter.onnx.rules.common import READING, Reader, integers, rule
from converter.onnx.rules.windows import to_channels_first, to_channels_last
from ir.dtype import DType
from ir.graph import Constant, Value, Weight
from ir.ops.compare import greater, greater_equal, less, less_equal, logical_and, where
from ir.ops.elementwise import abs, add, ceil, div, floor, maximum, minimum, mul, sub
from ir.ops.index import gather
from ir.ops.linalg import matmul
from ir.ops.reduce import reduce_sum
from ir.ops.shaping import cast, concat, reshape, slice_axis, transpose
from ir.symbol import Dim, Expr

FINEST = 64  # the largest denominator of a scale that a free size is multiplied with


@rule("Resize")
def resize(reader: Reader, attrs: dict[str, Any], x: Item, *parts: Item) -> Item:
    parts = (None, *parts) if reader.opset < 11 else parts
    roi, scales, sizes = (*parts, None, None, None)[:3]
    old = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    return _resized((old if reader.opset < 11 else {}) | attrs, x, roi, scales, sizes)


@rule("Upsample")
def upsample(_: Reader, attrs: dict[str, Any], x: Item, scales: Item = None) -> Item:
    given = np.asarray(attrs["scales"], np.float32) if scales is None else scales
    old = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    return _resized(old | {"mode": attrs.get("mode", "nearest")}, x, None, given, None)


def _settled(item: Item) -> Item:
    """An array where the model holds it, as an initializer of floats for one."""
    return item.data if isinstance(item, (Constant, Weight)) else item


def _resized(attrs: dict[str, Any], x: Item, roi: Item, scales: Item, sizes: Item) -> Item:
    v = as_value(x)
    roi, scales, sizes = map(_settled, (roi, scales, sizes))
    kind = v.dtype
    v = as_type(v, DType.f32) if attrs.get("mode", "nearest") != "nearest" else v
    axes = [axis_of(a, v.rank) for a in attrs.get("axes", range(v.rank))]
    image = v.rank == 4 and all(_is_kept(i, a, scales, sizes, v) for i, a in enumerate(axes)
                                if a < 2)  # fmt: skip
    if image:
        v = to_channels_last(v)
    crops = attrs.get("coordinate_transformation_mode") == "tf_crop_and_resize"
    ends = _region(roi, len(axes)) if crops else None
    spans = None if ends is None else compute(sub, *reversed(ends))
    places = [{0: 0, 1: 3, 2: 1, 3: 2}[a] if image else a for a in axes]
    own = [v.shape[a] for a in places]
    for i, (size, scale) in enumerate(_targets(attrs, v, own, scales, sizes, spans)):
        if crops or not (size == own[i] and isinstance(scale, float) and scale == 1):
            part = (None, None) if ends is None else tuple(_one(e, i) for e in ends)
            v = _along(attrs, v, places[i], size, scale, part)
    y = to_channels_first(v, 4) if image else v
    return y if y.dtype is kind else as_type(y, kind)


def _region(roi: Item, rank: int) -> tuple[Item, Item]:
    """Where the part of each axis that is taken starts and ends, in units of the axis."""
    if isinstance(roi, Value) and traced(roi) is None:
        return slice_axis(roi, 0, rank, axis=0), slice_axis(roi, rank, 2 * rank, axis=0)
    region = known(roi, "roi").astype(np.float64)
    return region[:rank], region[rank:]


def _one(ends: Item, i: int) -> Item:
    return ends[i] if isinstance(ends, np.ndarray) else _element(as_value(ends), i)


def _is_kept(i: int, axis: int, scales: Item, sizes: Item, x: Value) -> bool:
    """Whether an axis that may be resized is known not to be."""
    if isinstance(scales, np.ndarray) and scales.size:
        return bool(scales.ravel()[i] == 1)
    if isinstance(sizes, np.ndarray) and sizes.size:
        return bool(integers(sizes, "sizes")[i] == x.shape[axis])
    return False


def _targets(
    attrs: dict[str, Any], x: Value, own: Sequence[Dim], scales: Item, sizes: Item, spans: Any
) -> list[tuple[Dim, Item]]:
    """For each axis its new size and its scale; `spans`: the part of each axis that is taken."""
    if sizes is not None and shape_of(sizes) != (0,):
        return _to_sizes(attrs, x, own, sizes)
    if not isinstance(scales, Value):
        factors = known(scales, "scales").astype(np.float64).ravel()
        if spans is None or isinstance(spans, np.ndarray):
            grown = factors if spans is None else factors * spans
            return [(_scaled(o, g), f) for o, g, f in zip(own, grown, factors, strict=True)]
        scales = factors
    factors = floats(scales)
    grown = factors if spans is None else factors * floats(spans)
    lengths = [_length(o) for o in own]
    column = concat(*(reshape(floats(v), shape=(1,)) for v in lengths), axis=0)
    new = READING.get().found.sizes(cast(floor(column * grown), to=DType.i32))
    return [(n, _element(factors, i)) for i, n in enumerate(new)]


def _to_sizes(
    attrs: dict[str, Any], x: Value, own: Sequence[Dim], sizes: Item
) -> list[tuple[Dim, Item]]:
    policy = attrs.get("keep_aspect_ratio_policy", "stretch")
    wanted = integers(sizes, "sizes")
    ratios = [
        compute(div, as_type(_length(w), DType.f32), as_type(_length(o), DType.f32))
        if isinstance(w, Expr) or isinstance(o, Expr)
        else np.float64(w / max(o, 1))
        for w, o in zip(wanted, own, strict=True)
    ]
    if policy == "stretch":
        return list(zip(wanted, ratios, strict=True))
    ratio = ratios[0]
    for other in ratios[1:]:
        ratio = compute(minimum if policy == "not_larger" else maximum, ratio, other)
    half = np.float64(0.5)
    new = [compute(floor, compute(add, compute(mul, ratio, _length(o)), half)) for o in own]
    if any(isinstance(n, Value) for n in new):
        column = concat(*(reshape(floats(n), shape=(1,)) for n in new), axis=0)
        return [(n, ratio) for n in READING.get().found.sizes(cast(column, to=DType.i32))]
    return [(int(n), ratio) for n in new]


def _element(v: Value, i: int) -> Value:
    return reshape(slice_axis(v, i, i + 1, axis=0), shape=())  # type: ignore[no-any-return]


def _scaled(size: Dim, factor: float) -> Dim:
    if isinstance(size, int):
        return int(np.floor(size * factor))
    exact = Fraction(float(factor)).limit_denominator(FINEST)
    return size * exact.numerator // exact.denominator


def _length(size: Dim) -> Item:
    """A size as a number to compute with."""
    return np.float64(size) if isinstance(size, int) else floats(length(size))


def _along(
    attrs: dict[str, Any], x: Value, axis: int, size: Dim, scale: Item, ends: tuple[Item, Item]
) -> Value:
    mode = attrs.get("mode", "nearest")
    own, new = _length(x.shape[axis]), _length(size)
    at = _places(attrs, as_type(iota(size), DType.f64 if isinstance(size, int) else DType.f32),
                 scale, own, new, ends)  # fmt: skip
    if mode == "nearest":
        whole = _nearest(attrs.get("nearest_mode", "round_prefer_floor"), at)
        y = gather(x, _inside(whole, own), axis=axis)
    elif attrs.get("antialias") and not (isinstance(scale, np.ndarray | float) and scale >= 1):
        y = _filtered(attrs, x, axis, at, scale)
    else:
        y = _weighed(attrs, x, axis, at, own)
    if attrs.get("coordinate_transformation_mode") != "tf_crop_and_resize":
        return y
    inside = compute(logical_and, compute(greater_equal, at, np.float64(0)),
                     compute(less_equal, at, compute(sub, own, np.float64(1))))  # fmt: skip
    beyond = np.asarray(attrs.get("extrapolation_value", 0.0)).astype(y.dtype.numpy)
    return compute(where, _line(inside, axis, y.rank), y, beyond)  # type: ignore[no-any-return]


def _places(
    attrs: dict[str, Any], x: Item, scale: Item, own: Item, new: Item, ends: tuple[Item, Item]
) -> Item:
    """Where each new element lies among the old ones."""
    half, one = np.float64(0.5), np.float64(1)
    centred = compute(sub, compute(div, compute(add, x, half), scale), half)
    match attrs.get("coordinate_transformation_mode", "half_pixel"):
        case "half_pixel":
            return centred
        case "half_pixel_symmetric":
            exact = compute(div, new, compute(mul, scale, own))
            offset = compute(mul, compute(mul, own, half), compute(sub, one, exact))
            return compute(add, offset, centred)
        case "pytorch_half_pixel":
            return compute(where, compute(greater, new, one), centred, compute(mul, x, one * 0))
        case "align_corners":
            # of the rounded size, as ONNX Runtime and PyTorch have it
            steps = compute(where, compute(greater, new, one), compute(sub, new, one), one)
            return compute(div, compute(mul, x, compute(sub, own, one)), steps)
        case "asymmetric":
            return compute(div, x, scale)
        case "tf_half_pixel_for_nn":
            return compute(div, compute(add, x, half), scale)
        case "tf_crop_and_resize":
            first, last = ends
            reach = compute(sub, own, one)
            step = compute(div, compute(mul, compute(sub, last, first), reach),
                           compute(maximum, compute(sub, new, one), one))  # fmt: skip
            many = compute(add, compute(mul, first, reach), compute(mul, x, step))
            middle = compute(mul, compute(add, first, last), half)
            single = compute(add, compute(mul, middle, reach), compute(mul, x, one * 0))
            return compute(where, compute(greater, new, one), many, single)
        case other:
            raise ConvertError(f"coordinate_transformation_mode {other!r}")


def _nearest(how: str, at: Item) -> Item:
    half = np.float64(0.5)
    match how:
        case "round_prefer_floor":
            return compute(ceil, compute(sub, at, half))
        case "round_prefer_ceil":
            return compute(floor, compute(add, at, half))
        case "floor":
            return compute(floor, at)
        case "ceil":
            return compute(ceil, at)
    raise ConvertError(f"nearest_mode {how!r}")


def _inside(at: Item, own: Item) -> Value:
    last = compute(sub, own, np.float64(1))
    kept = compute(minimum, compute(maximum, at, np.float64(0)), last)
    return as_value(indices(as_type(kept, DType.i32)))


def _line(item: Item, axis: int, rank: int) -> Value:
    """One number for each place along an axis, to stretch over the others."""
    v = as_value(item)
    return reshape(v, shape=(*v.shape, *(1,) * (rank - 1 - axis)))  # type: ignore[no-any-return]


def _weighed(attrs: dict[str, Any], x: Value, axis: int, at: Item, own: Item) -> Value:
    low = compute(floor, at)
    part = compute(sub, at, low)
    steps = (0, 1) if attrs["mode"] == "linear" else (-1, 0, 1, 2)
    weights = [_kernel(attrs, compute(abs, compute(sub, part, np.float64(s)))) for s in steps]
    taps = [compute(add, low, np.float64(s)) for s in steps]
    if attrs.get("exclude_outside"):
        inside = [
            compute(logical_and, compute(greater, t, np.float64(-0.5)), compute(less, t, own))
            for t in taps
        ]
        weights = [
            compute(where, i, w, np.float64(0)) for i, w in zip(inside, weights, strict=True)
        ]
        total = weights[0]
        for w in weights[1:]:
            total = compute(add, total, w)
        weights = [compute(div, w, total) for w in weights]
    parts = [
        gather(x, _inside(t, own), axis=axis) * _line(w, axis, x.rank)
        for t, w in zip(taps, weights, strict=True)
    ]
    return sum(parts[1:], start=parts[0])


def _kernel(attrs: dict[str, Any], distance: Item) -> Item:
    """The weight of an element at a distance     Keys 1981"""
    one, d = np.float64(1), distance
    if attrs["mode"] == "linear":
        return compute(maximum, compute(sub, one, d), one * 0)
    a = np.float64(attrs.get("cubic_coeff_a", -0.75))

    def polynomial(*coefficients: float) -> Item:
        total: Item = np.float64(coefficients[0])
        for c in coefficients[1:]:
            total = compute(add, compute(mul, total, d), np.float64(c))
        return total

    near = polynomial(a + 2, -(a + 3), 0, 1)
    far = polynomial(a, -5 * a, 8 * a, -4 * a)
    beyond = compute(where, compute(less, d, one * 2), far, one * 0)
    return compute(where, compute(less_equal, d, one), near, beyond)


def _filtered(attrs: dict[str, Any], x: Value, axis: int, at: Item, scale: Item) -> Value:
    """With a kernel as wide as a new element is: a product with a matrix of weights. What a kernel
    has beyond the ends is given to these, unless it is to be left out."""
    (n,) = static((x.shape[axis],), "antialias")
    beyond = 0 if attrs.get("exclude_outside") else 2 * n
    places = np.arange(-beyond, n + beyond)
    column = at[:, None] if isinstance(at, np.ndarray) else reshape(at, shape=(*at.shape, 1))
    narrow = compute(minimum, scale, np.float64(1))
    far = compute(abs, compute(sub, places.astype(np.float64), column))
    weights = _kernel(attrs, compute(mul, far, narrow))
    if beyond:
        ends = np.eye(n)[np.clip(places, 0, n - 1)]
        weights = compute(matmul, weights, ends)
    total = compute(reduce_sum, weights, axes=(1,), keep_dims=True)
    matrix = as_value(compute(div, weights, total))
    rest = tuple(i for i in range(x.rank) if i != axis)
    turned = transpose(x, perm=(*rest, axis))
    y = matmul(turned, matrix, transpose_b=True)
    back = sorted(range(x.rank), key=(*rest, axis).__getitem__)
    return transpose(y, perm=tuple(back))  # type: ignore[no-any-return]
