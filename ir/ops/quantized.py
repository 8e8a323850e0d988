"""Sums, products, means and pooling of int8 with TFLite's arithmetic.

Each activation has one scale and zero point, of which its operators have fixed-point multipliers
and shifts that ir/quantization.py makes. Those of 16 bits have a zero point of 0.
"""

from __future__ import annotations

import numpy as np

from ir.errors import AttrError
from ir.graph import shape_text
from ir.op import NO_GRAD, op
from ir.ops.quant import WIDE, check_numbers, int8s, int16s, store, stored_case, stored_types
from ir.ops.rules import broadcast
from ir.ops.windows import check_attrs, check_image, pad_image, taps, window_count
from ir.quantization import HIGHEST, LOWEST, scale_by_multiplier, wrap32


def _binary_shape(name):
    def rule(a, b, **attrs):
        check_numbers(name, **attrs)
        return broadcast(a, b)

    return rule


ADD = {
    "a_zero": 3, "b_zero": -7, "y_zero": 1, "left_shift": 20,
    "a_multiplier": 1 << 30, "a_shift": 0, "b_multiplier": 1503238553, "b_shift": -1,
    "y_multiplier": 1288490189, "y_shift": -18,
}  # fmt: skip
ADD_16 = {**ADD, **WIDE, "a_zero": 0, "b_zero": 0, "y_zero": 0, "left_shift": 15, "y_shift": -13}


@op(
    code=253,
    shape=_binary_shape("quantized_add"),
    samples=[
        stored_case(int8s(3, 50), int8s(3, 50), **ADD),
        stored_case(int8s(20, 900), int8s(20, 900), **ADD),
        stored_case(int8s(2, 1, 5), int8s(3, 1), **ADD, low=-20, high=99),
        stored_case(int8s(3, 4), int8s(4), **{**ADD, "y_shift": -19, "a_zero": -128}),
        stored_case(int8s(1, 1, 1, 3), int8s(2, 40, 7, 3), **ADD),
        stored_case(int8s(1, 24), int8s(24), **ADD),  # one row, of either rank
        stored_case(int8s(24), int8s(1, 24), **ADD),
        stored_case(int16s(3, 50), int16s(3, 50), **ADD_16),
        stored_case(int16s(2, 3, 5), int16s(3, 1), **{**ADD_16, "low": 0}),
    ],
    dtype=stored_types("quantized_add", 2),
    kernels=("i8", "i16"),
    grad=NO_GRAD,
)
def quantized_add(
    a,
    b,
    *,
    a_zero=0,
    b_zero=0,
    y_zero=0,
    left_shift=20,
    a_multiplier=1 << 30,
    a_shift=0,
    b_multiplier=1 << 30,
    b_shift=0,
    y_multiplier=1 << 30,
    y_shift=-18,
    low=LOWEST,
    high=HIGHEST,
):
    """y = a + b of three scales     a, b: i8 -> y: i8, stretched by the numpy rule

    Both are brought to one fine scale (left_shift bits of headroom), added, brought to y's.
    """
    terms = [
        scale_by_multiplier((x.astype(np.int64) - zero) << left_shift, multiplier, shift)
        for x, zero, multiplier, shift in (
            (a, a_zero, a_multiplier, a_shift),
            (b, b_zero, b_multiplier, b_shift),
        )
    ]
    total = wrap32(terms[0] + terms[1])
    return store(scale_by_multiplier(total, y_multiplier, y_shift), y_zero, low, high, a.dtype)


@op(
    code=254,
    shape=_binary_shape("quantized_mul"),
    samples=[
        stored_case(int8s(3, 50), int8s(3, 50), a_zero=3, b_zero=-7, y_zero=1, shift=-6),
        stored_case(int8s(1, 9, 11, 16), int8s(1, 1, 1, 16), a_zero=-9, b_zero=4, shift=-7),
        stored_case(
            int8s(2, 3, 3, 5), int8s(2, 1, 1, 5), b_zero=-128, shift=-7, multiplier=1503238553
        ),
        stored_case(int8s(2, 3, 2, 37), int8s(2, 1, 1, 37), a_zero=5, b_zero=-128, shift=-7),
        stored_case(int8s(1, 21), int8s(3, 1), b_zero=4, y_zero=-9, high=20),
        stored_case(int8s(1, 1, 21), int8s(21), a_zero=7, shift=-7),
        stored_case(int16s(3, 50), int16s(3, 50), shift=-14, **WIDE),
        stored_case(
            int16s(2, 3, 2, 37), int16s(2, 1, 1, 37), shift=-15, multiplier=1503238553, **WIDE
        ),
    ],
    dtype=stored_types("quantized_mul", 2),
    kernels=("i8", "i16"),
    grad=NO_GRAD,
)
def quantized_mul(
    a, b, *, a_zero=0, b_zero=0, y_zero=0, multiplier=1 << 30, shift=-6, low=LOWEST, high=HIGHEST
):
    """y = (a - a_zero) (b - b_zero) * multiplier / 2^31 * 2^shift + y_zero, clamped

    a, b: i8 -> y: i8, stretched by the numpy rule
    """
    product = (a.astype(np.int64) - a_zero) * (b.astype(np.int64) - b_zero)
    return store(scale_by_multiplier(product, multiplier, shift), y_zero, low, high, a.dtype)


def _mean_shape(x, *, axes, keep_dims, **attrs):
    neighbours = axes and tuple(axes) == tuple(range(axes[0], axes[0] + len(axes)))
    if not neighbours or axes[0] < 0 or axes[-1] >= len(x):
        raise AttrError(
            f"quantized_mean: axes are {list(axes)}, want neighbours in order, of x {shape_text(x)}"
        )
    check_numbers("quantized_mean", **attrs)
    return (*x[: axes[0]], *((1,) * len(axes) if keep_dims else ()), *x[axes[-1] + 1 :])


@op(
    code=255,
    shape=_mean_shape,
    dtype=stored_types("quantized_mean", 1),
    samples=[
        stored_case(int8s(2, 3, 4, 5), x_zero=3, y_zero=-5, multiplier=1431655765, shift=-3),
        stored_case(
            int8s(1, 7, 7, 19),
            keep_dims=True,
            multiplier=1402438300,
            shift=-5,
            x_zero=-128,
            y_zero=-99,
        ),
        stored_case(int8s(3, 8), axes=(1,), multiplier=1 << 30, shift=-2),
        stored_case(
            int8s(2, 5, 5, 8), x_zero=-128, y_zero=-128, multiplier=1374389535, shift=-4, high=50
        ),
        stored_case(int16s(2, 5, 5, 8), multiplier=1374389535, shift=-4, **WIDE),
    ],
    kernels=("i8", "i16"),
    grad=NO_GRAD,
)
def quantized_mean(
    x,
    *,
    axes=(1, 2),
    keep_dims=False,
    x_zero=0,
    y_zero=0,
    multiplier=1 << 30,
    shift=0,
    low=LOWEST,
    high=HIGHEST,
):
    """y = the sum of x - x_zero over `axes` * multiplier / 2^31 * 2^shift + y_zero, clamped

    x: i8 -> y: i8. The division by the number of elements is part of the multiplier. `axes` are
    neighbours, in order: (1, 2) is global average pooling.
    """
    sums = np.sum(x.astype(np.int64) - x_zero, axis=tuple(axes), keepdims=keep_dims)
    return store(scale_by_multiplier(wrap32(sums), multiplier, shift), y_zero, low, high, x.dtype)


def _pool_shape(x, *, size, strides, pads, low, high):
    name = "quantized_avg_pool2d"
    check_image(name, "x", x)
    check_attrs(name, strides=strides, pads=pads)
    if len(size) != 2 or min(size) < 1:
        raise AttrError(f"{name}: size is {list(size)}, want two numbers of at least 1")
    check_numbers(name, low=low, high=high)
    return (x[0], *window_count(name, x[1:3], size, strides, pads, (1, 1)), x[3])


@op(
    code=256,
    shape=_pool_shape,
    dtype=stored_types("quantized_avg_pool2d", 1),
    samples=[
        stored_case(int8s(1, 4, 6, 3)),
        stored_case(
            int8s(2, 5, 6, 9), size=(3, 2), strides=(2, 1), pads=(1, 0, 1, 1), low=-90, high=80
        ),
        stored_case(int8s(1, 5, 5, 17), size=(3, 3), strides=(1, 1), pads=(1, 1, 1, 1)),
        stored_case(int16s(1, 5, 5, 7), size=(3, 3), strides=(1, 1), pads=(1, 1, 1, 1), **WIDE),
    ],
    kernels=("i8", "i16"),
    grad=NO_GRAD,
)
def quantized_avg_pool2d(
    x, *, size=(2, 2), strides=(2, 2), pads=(0, 0, 0, 0), low=LOWEST, high=HIGHEST
):
    """y = the mean of the stored numbers of each window, halves away from zero, clamped

    x: i8 [n,h,w,c] -> y: i8 [n,p,q,c], of x's scale and zero point. Places beyond the image do not
    count; a window of none of the image gives 0.
    """
    counts = window_count("quantized_avg_pool2d", x.shape[1:3], size, strides, pads, (1, 1))
    padded = pad_image(x.astype(np.int64), pads)
    inside = pad_image(np.ones((1, *x.shape[1:3], 1), np.int64), pads)
    places = list(taps(size, counts, strides, (1, 1)))
    total = sum(padded[at] for _, _, at in places)
    count = np.maximum(sum(inside[at] for _, _, at in places), 1)
    mean = np.sign(total) * ((np.abs(total) + count // 2) // count)
    return store(mean, 0, low, high, x.dtype)
