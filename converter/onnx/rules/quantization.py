"""Integers with a scale and a zero point. All is computed exactly as it is written: as floats
between the stored integers, and as int32 where ONNX says so; but layers of known weights are
written as such between quantizers, where they become int8."""

from __future__ import annotations

from types import NoneType
from typing import Any

import numpy as np

from converter.errors import ConvertError
from converter.items import Item, as_type, as_value, axis_of, compute, shape_of, static
from converter.onnx.rules.common import RULES, Reader, rule
from converter.onnx.rules.windows import to_channels_first, to_channels_last, window
from ir.dtype import DType
from ir.graph import Value, Weight
from ir.ops.compare import equal, where
from ir.ops.elementwise import add, clip, div, maximum, minimum, mul, sub
from ir.ops.elementwise import round as rounded
from ir.ops.index import gather
from ir.ops.linalg import matmul
from ir.ops.reduce import reduce_max, reduce_min
from ir.ops.shaping import cast, pad, reshape, slice, transpose

LEAST = 256  # elements of a weight that is worth a node


def _spread(p: Item, x: Item, attrs: dict[str, Any]) -> Item:
    """A scale or zero point in a shape that stretches to x: one for all, for each place along an
    axis, or for each block along it."""
    p = _array(p)  # scales do not train
    shape, dims = shape_of(p), shape_of(x)
    if len(shape) == 0 or (len(shape) == 1 and shape[0] == 1):
        return compute(reshape, p, shape=())
    axis = axis_of(attrs.get("axis", 1), len(dims))
    if len(shape) == 1:
        return compute(reshape, p, shape=(shape[0], *(1,) * (len(dims) - 1 - axis)))
    (n,) = static((dims[axis],), "a quantized axis")
    block = attrs.get("block_size") or -(-n // static(shape, "scale")[axis])
    return compute(gather, p, (np.arange(n) // block).astype(np.int32), axis=axis)


def _limits(dtype: DType) -> tuple[float, float]:
    limits = np.iinfo(dtype.numpy)
    return float(limits.min), float(limits.max)


def _stored(x: Item, zero: Item, dtype: DType) -> Item:
    """Real multiples of a scale as integers of a type."""
    whole = compute(rounded, x)
    whole = whole if zero is None else compute(add, whole, as_type(zero, DType.f32))
    low, high = _limits(dtype)
    to = DType.i32 if dtype is DType.i16 else dtype  # which there are no kernels for
    return compute(cast, compute(clip, whole, low=low, high=high), to=to)


def _type_of(item: Item) -> DType:
    return DType.of(item) if isinstance(item, np.ndarray) else as_value(item).dtype


@rule("QuantizeLinear")
def quantize(_: Reader, attrs: dict[str, Any], x: Item, scale: Item, zero: Item = None) -> Item:
    import onnx

    dtype = DType.u8 if zero is None else _type_of(zero)
    if zero is None and attrs.get("output_dtype"):
        dtype = DType.of(np.zeros(0, onnx.helper.tensor_dtype_to_np_dtype(attrs["output_dtype"])))
    spread = None if zero is None else _spread(zero, x, attrs)
    real = compute(div, as_type(x, DType.f32), as_type(_spread(scale, x, attrs), DType.f32))
    return _stored(real, spread, dtype)


@rule("DequantizeLinear")
def dequantize(_: Reader, attrs: dict[str, Any], x: Item, scale: Item, zero: Item = None) -> Item:
    whole = as_type(x, DType.f32)
    if zero is not None:
        whole = compute(sub, whole, as_type(_spread(zero, x, attrs), DType.f32))
    return compute(mul, whole, as_type(_spread(scale, x, attrs), DType.f32))


@rule("DynamicQuantizeLinear")
def dynamic_quantize(_: Reader, attrs: dict[str, Any], x: Item) -> tuple[Item, Item, Item]:
    v = as_value(x)
    axes = tuple(range(v.rank))
    high = maximum(reduce_max(v, axes=axes), 0.0)
    low = minimum(reduce_min(v, axes=axes), 0.0)
    scale = (high - low) * (1 / 255)
    step = where(equal(scale, 0.0), 1.0, scale)
    zero = _stored(-low / step, None, DType.u8)
    return _stored(v / step, zero, DType.u8), scale, zero


def _moved(x: Item, zero: Item, shape: tuple[int, ...] | None = None) -> Value:
    """x without its zero point, as int32."""
    v = as_value(as_type(x, DType.i32))
    if zero is None:
        return v
    z = as_type(zero, DType.i32)
    z = compute(reshape, z, shape=shape) if shape and len(shape_of(z)) == 1 else z
    return compute(sub, v, z)  # type: ignore[no-any-return]


def _row(zero: Item) -> tuple[int, ...] | None:
    """The shape of zero points of the rows of a matrix."""
    if zero is None or len(shape_of(zero)) != 1:
        return None
    return (*static(shape_of(zero), "zero point"), 1)


@rule("MatMulInteger")
def matmul_integer(
    _: Reader, attrs: dict[str, Any], a: Item, b: Item, a_zero: Item = None, b_zero: Item = None
) -> Item:
    right = b
    if isinstance(b, np.ndarray) and b.size >= LEAST:  # stays as small as it is in the file
        right = cast(as_value(b), to=DType.i32)
        b_zero = None if isinstance(b_zero, np.ndarray) and not b_zero.any() else b_zero
    return matmul(_moved(a, a_zero, _row(a_zero)), _moved(right, b_zero))  # type: ignore[no-any-return]


def _fixed(w: Item, w_scale: Item, *scales: Item) -> bool:
    """Whether a weight is known, and one scale each of what goes in and out: written as a layer
    between quantizers it is found with those (`find_int8`)."""
    known = isinstance(w, np.ndarray) and isinstance(_array(w_scale), np.ndarray)
    return known and all(isinstance(s, np.ndarray) and s.size == 1 for s in scales)


def _array(item: Item) -> Item:
    return item.data if isinstance(item, Weight) else item


@rule("QLinearMatMul")
def quantized_matmul(
    reader: Reader, attrs: dict[str, Any], a: Item, a_scale: Item, a_zero: Item, b: Item,
    b_scale: Item, b_zero: Item, y_scale: Item, y_zero: Item,
) -> Item:  # fmt: skip
    if _fixed(b, b_scale, a_scale, y_scale):
        x = dequantize(reader, {}, a, a_scale, a_zero)
        w = dequantize(reader, {"axis": -1}, b, b_scale, b_zero)
        return quantize(reader, {}, RULES["MatMul"](reader, {}, x, w), y_scale, y_zero)
    total = matmul_integer(reader, {}, a, b, a_zero, b_zero)
    a_scale = compute(reshape, a_scale, shape=_row(a_scale)) if _row(a_scale) else a_scale
    scale = compute(div, compute(mul, a_scale, b_scale), y_scale)
    return _stored(compute(mul, as_type(total, DType.f32), scale), y_zero, _type_of(y_zero))


@rule("ConvInteger")
def conv_integer(
    _: Reader, attrs: dict[str, Any], x: Item, w: Item, x_zero: Item = None, w_zero: Item = None
) -> Item:
    rank = len(shape_of(x))
    return to_channels_first(_sums(attrs, x, w, x_zero, w_zero), rank)


def _sums(attrs: dict[str, Any], x: Item, w: Item, x_zero: Item, w_zero: Item) -> Value:
    """A convolution of integers [n,*s,c] -> [n,*p,k]: a product for each place in the window."""
    shape = static(shape_of(w), "weight")
    rank, groups = len(shape), attrs.get("group", 1)
    if rank > 4:
        raise ConvertError(f"weight of rank {rank}; want 3 or 4")
    image = to_channels_last(_moved(x, x_zero))
    weight = _moved(w, w_zero, (shape[0], *(1,) * (rank - 1)))
    k, c, r, s = (*shape, 1) if rank == 3 else shape
    weight = reshape(weight, shape=(groups, k // groups, c, r, s))
    over = window(attrs, image.shape[1 : rank - 1], shape[2:])
    options = over.options()
    top, left, bottom, right = options["pads"]
    image = pad(image, before=(0, top, left, 0), after=(0, bottom, right, 0))
    n, h, v, _ = image.shape
    (down, across), (by, bx) = options["strides"], options["dilations"]
    p = (h - (r - 1) * by - 1) // down + 1
    q = (v - (s - 1) * bx - 1) // across + 1
    total = None
    for i in range(r):
        for j in range(s):
            begin = (0, i * by, j * bx, 0)
            end = (n, i * by + (p - 1) * down + 1, j * bx + (q - 1) * across + 1, image.shape[3])
            part = slice(image, begin=begin, end=end, step=(1, down, across, 1))
            rows = transpose(reshape(part, shape=(n * p * q, groups, c)), perm=(1, 0, 2))
            taps = slice(
                weight, begin=(0, 0, 0, i, j), end=(groups, k // groups, c, i + 1, j + 1),
                step=(1,) * 5,
            )  # fmt: skip
            y = matmul(rows, reshape(taps, shape=(groups, k // groups, c)), transpose_b=True)
            total = y if total is None else total + y
    assert total is not None
    return reshape(transpose(total, perm=(1, 0, 2)), shape=(n, p, q, k))  # type: ignore[no-any-return]


@rule("QLinearConv")
def quantized_conv(
    reader: Reader, attrs: dict[str, Any], x: Item, x_scale: Item, x_zero: Item, w: Item,
    w_scale: Item, w_zero: Item, y_scale: Item, y_zero: Item, bias: Item = None,
) -> Item:  # fmt: skip
    if _fixed(w, w_scale, x_scale, y_scale) and isinstance(bias, (np.ndarray, NoneType)):
        image = dequantize(reader, {}, x, x_scale, x_zero)
        real = dequantize(reader, {"axis": 0}, w, w_scale, w_zero)
        scale = x_scale * _array(w_scale)  # type: ignore[operator]
        b = None if bias is None else (bias * scale).astype(np.float32)
        return quantize(reader, {}, RULES["Conv"](reader, attrs, image, real, b), y_scale, y_zero)
    total = _sums(attrs, x, w, x_zero, w_zero)
    total = total if bias is None else compute(add, total, bias)
    scale = compute(div, compute(mul, x_scale, w_scale), y_scale)
    y = _stored(compute(mul, as_type(total, DType.f32), scale), y_zero, _type_of(y_zero))
    return to_channels_first(as_value(y), len(shape_of(x)))
