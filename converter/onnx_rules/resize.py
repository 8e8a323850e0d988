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
from converter.onnx_rules.common import (
    Item,
    Reader,
    as_type,
    as_value,
    axis_of,
    compute,
    indices,
    integers,
    iota,
    known,
    rule,
)
from converter.onnx_rules.windows import to_channels_first, to_channels_last
from ir.dtype import DType
from ir.graph import Value
from ir.ops.compare import greater, greater_equal, less, less_equal, logical_and, where
from ir.ops.elementwise import abs, add, ceil, div, floor, maximum, minimum, mul, sub
from ir.ops.index import gather
from ir.ops.linalg import matmul
from ir.ops.reduce import count, reduce_sum
from ir.ops.shaping import reshape, transpose
from ir.symbol import Dim

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


def _resized(attrs: dict[str, Any], x: Item, roi: Item, scales: Item, sizes: Item) -> Item:
    v = as_value(x)
    kind = v.dtype
    v = as_type(v, DType.f32) if attrs.get("mode", "nearest") != "nearest" else v
    axes = [axis_of(a, v.rank) for a in attrs.get("axes", range(v.rank))]
    image = v.rank == 4 and all(_is_kept(i, a, scales, sizes, v) for i, a in enumerate(axes)
                                if a < 2)  # fmt: skip
    if image:
        v = to_channels_last(v)
    places = {a: {0: 0, 1: 3, 2: 1, 3: 2}[a] if image else a for a in axes}
    for i, (axis, size, scale) in enumerate(_targets(attrs, v, places, axes, scales, sizes)):
        if size is None:
            continue
        ends = (None, None)
        if attrs.get("coordinate_transformation_mode") == "tf_crop_and_resize":
            region = known(roi, "roi").astype(np.float64)
            ends = region[i], region[i + len(axes)]
        v = _along(attrs, v, axis, size, scale, ends)
    y = to_channels_first(v, 4) if image else v
    return y if y.dtype is kind else as_type(y, kind)


def _is_kept(i: int, axis: int, scales: Item, sizes: Item, x: Value) -> bool:
    """Whether an axis that may be resized is known not to be."""
    if isinstance(scales, np.ndarray) and scales.size:
        return bool(scales.ravel()[i] == 1)
    if isinstance(sizes, np.ndarray) and sizes.size:
        return bool(integers(sizes, "sizes")[i] == x.shape[axis])
    return False


def _targets(
    attrs: dict[str, Any], x: Value, places: dict[int, int], axes: Sequence[int], scales: Item,
    sizes: Item,
) -> list[tuple[int, Dim | None, Item]]:  # fmt: skip
    """For each axis: where it is, its new size (None: it stays) and its scale."""
    own = [x.shape[places[a]] for a in axes]
    crops = attrs.get("coordinate_transformation_mode") == "tf_crop_and_resize"
    if sizes is not None and np.prod(np.shape(sizes)) != 0:
        wanted = integers(sizes, "sizes")
        policy = attrs.get("keep_aspect_ratio_policy", "stretch")
        if policy != "stretch":
            ratios = [Fraction(w, o) for w, o in zip(wanted, own, strict=True)]
            ratio = min(ratios) if policy == "not_larger" else max(ratios)
            wanted = [int(ratio * o + Fraction(1, 2)) for o in own]
            found = [float(ratio)] * len(own)
        else:
            found = [_ratio(x, places[a], w) for a, w in zip(axes, wanted, strict=True)]
        rows = zip(axes, own, wanted, found, strict=True)
        return [(places[a], None if w == o and not crops else w, s) for a, o, w, s in rows]
    factors = known(scales, "scales").astype(np.float64).ravel()
    rows = zip(axes, own, factors, strict=True)
    return [(places[a], None if f == 1 and not crops else _scaled(o, f), f) for a, o, f in rows]


def _ratio(x: Value, axis: int, wanted: Dim) -> Item:
    own = x.shape[axis]
    if isinstance(own, int) and isinstance(wanted, int):
        return np.float64(wanted / max(own, 1))
    return compute(div, _length(x, axis, wanted), _length(x, axis, own))


def _scaled(size: Dim, factor: float) -> Dim:
    if isinstance(size, int):
        return int(np.floor(size * factor))
    exact = Fraction(float(factor)).limit_denominator(FINEST)
    return size * exact.numerator // exact.denominator


def _length(x: Value, axis: int, size: Dim) -> Item:
    """A size as a number to compute with."""
    if isinstance(size, int):
        return np.float64(size)
    if size == x.shape[axis]:
        return count(x, axes=(axis,))
    return count(as_value(iota(size)), axes=(0,))


def _along(
    attrs: dict[str, Any], x: Value, axis: int, size: Dim, scale: Item, ends: tuple[Any, Any]
) -> Value:
    mode = attrs.get("mode", "nearest")
    own, new = _length(x, axis, x.shape[axis]), _length(x, axis, size)
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
    attrs: dict[str, Any], x: Item, scale: Item, own: Item, new: Item, ends: tuple[Any, Any]
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
            steps = compute(maximum, compute(sub, new, one), one)
            return compute(div, compute(mul, x, compute(sub, own, one)), steps)
        case "asymmetric":
            return compute(div, x, scale)
        case "tf_half_pixel_for_nn":
            return compute(div, compute(add, x, half), scale)
        case "tf_crop_and_resize":
            first, last = ends
            reach = compute(sub, own, one)
            step = compute(div, compute(mul, np.float64(last - first), reach),
                           compute(maximum, compute(sub, new, one), one))  # fmt: skip
            many = compute(add, compute(mul, np.float64(first), reach), compute(mul, x, step))
            single = compute(add, compute(mul, np.float64((first + last) / 2), reach),
                             compute(mul, x, one * 0))  # fmt: skip
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
    """With a kernel as wide as a new element is: a product with a matrix of weights."""
    own = as_type(iota(x.shape[axis]), DType.f64 if isinstance(at, np.ndarray) else DType.f32)
    column = at[:, None] if isinstance(at, np.ndarray) else reshape(at, shape=(*at.shape, 1))
    narrow = compute(minimum, scale, np.float64(1))
    far = compute(mul, compute(abs, compute(sub, own, column)), narrow)
    weights = _kernel(attrs, far)
    total = compute(reduce_sum, weights, axes=(1,), keep_dims=True)
    matrix = as_value(compute(div, weights, total))
    rest = tuple(i for i in range(x.rank) if i != axis)
    turned = transpose(x, perm=(*rest, axis))
    y = matmul(turned, matrix, transpose_b=True)
    back = sorted(range(x.rank), key=(*rest, axis).__getitem__)
    return transpose(y, perm=tuple(back))  # type: ignore[no-any-return]
