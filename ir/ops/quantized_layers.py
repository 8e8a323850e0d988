"""Layers on int8 with TFLite's arithmetic, so that files and accelerators of that world agree.

Activations of 16 bits with weights of 8 are the same operators, with a zero point of 0, biases of
int64 and sums that 64 bits hold; `scale_sum` brings these back, with one rounding.

Activations have one scale and zero point (attributes); weights one scale a channel and no zero
point; accumulators are int32 and come back to int8 by a fixed-point multiplier and a shift, which
ir/quantization.py makes from scales; a layer's may also be one float16 a channel, whose integers
are exact. `low` and `high` clamp the stored result (a fused relu).
"""

from __future__ import annotations

import numpy as np

from ir.dtype import DType
from ir.errors import DTypeError, ShapeError
from ir.graph import shape_text
from ir.op import NO_GRAD, exactly, ints, op
from ir.ops.conv import conv2d, depthwise_conv2d
from ir.ops.quant import (
    WIDE,
    check_numbers,
    check_stored,
    int8s,
    int16s,
    store,
    stored_case,
)
from ir.ops.windows import check_equal, check_image
from ir.quantization import (
    HIGHEST,
    LOWEST,
    check_wide_layer,
    half_multipliers,
    scale_by_multiplier,
    scale_sum,
    wrap32,
)


def _layer(x, w, k, reach=8, **attrs):
    """A sample of a layer of k channels; its sums are about 2^reach times as large as int8."""
    bias = ints(k, low=-2000, high=2000)
    multiplier = ints(k, low=2**30, high=2**31)
    shift = ints(k, low=-reach - 1, high=-reach + 2)
    return stored_case(int8s(*x), int8s(*w), bias, multiplier, shift, **attrs)


def _halves(x, w, k, reach=8, **attrs):
    """The same with multipliers in float16."""
    real = 3 * 2.0**-reach * (np.arange(1, k + 1) * 0.618 % 1)
    real[0] = 3 * 2.0**-24
    bias = ints(k, low=-2000, high=2000)
    return stored_case(int8s(*x), int8s(*w), bias, exactly(real, DType.f16), **attrs)


def _wide(x, w, k, reach=9, **attrs):
    """A sample of a layer on 16 bits; its sums are about 2^reach times as large."""
    bias = ints(k, low=-3_000_000, high=3_000_000, dtype=DType.i64)
    multiplier = ints(k, low=2**30, high=2**31)
    shift = ints(k, low=-reach - 1, high=-reach + 2)
    return stored_case(int16s(*x), int8s(*w), bias, multiplier, shift, **{**WIDE, **attrs})


def _farthest(rows, depth):
    """A linear layer on 16 bits whose sums are as far from 0 as they can be: beyond 32 bits."""
    x = np.full((rows, depth), -(2**15))
    ends = exactly([2**40], DType.i64), exactly([2**30], DType.i32), exactly([-27], DType.i32)
    return stored_case(exactly(x, DType.i16), exactly(x[:1] * 0 - 128, DType.i8), *ends, **WIDE)


def _check_layer(name, k, bias, multiplier, shift, **attrs):
    check_numbers(name, **attrs)
    for what, shape in (("bias", bias), ("multiplier", multiplier), ("shift", shift)):
        if what != "shift" or shape is not None:
            check_equal(name, what, shape, (k,))


def _layer_types(name):
    i8, i32 = DType.i8, DType.i32

    biases = {i8: i32, DType.i16: DType.i64}

    def rule(x, w, bias, multiplier, shift, **attrs):
        ends = (multiplier, shift)
        if w is not i8 or biases.get(x) is not bias or ends not in ((i32, i32), (DType.f16, None)):
            raise DTypeError(
                f"{name}: inputs of {[x, w, bias, *ends]}, want i8, i8, i32 or i16, i8, i64, then "
                "two of i32 or one of f16"
            )
        check_stored(name, x, attrs)
        return x

    return rule


def _finish(sums, bias, multiplier, shift, y_zero, low, high):
    """Exact sums [..,k], held in float64, to int8 or, where the bias has 64 bits, int16."""
    if shift is None:
        multiplier, shift = half_multipliers(multiplier)
    if bias.dtype == np.int64:
        check_wide_layer(bias, shift)
        total = sums.astype(np.int64) + bias
        return store(scale_sum(total, multiplier, shift), 0, low, high, np.int16)
    accumulator = wrap32(sums.astype(np.int64) + bias)
    return store(scale_by_multiplier(accumulator, multiplier, shift), y_zero, low, high)


def _conv_shape(
    x, w, bias, multiplier, shift, *, strides, pads, dilations, groups, x_zero, y_zero, low, high
):
    name = "quantized_conv2d"
    check_image(name, "w", w)
    numbers = {"x_zero": x_zero, "y_zero": y_zero, "low": low, "high": high}
    _check_layer(name, w[0], bias, multiplier, shift, **numbers)
    windows = {"strides": strides, "pads": pads, "dilations": dilations, "groups": groups}
    return conv2d.shape(x, w, None, **windows, activation=conv2d.attrs["activation"])


@op(
    code=250,
    shape=_conv_shape,
    dtype=_layer_types("quantized_conv2d"),
    samples=[
        _layer((1, 5, 6, 3), (4, 3, 3, 3), 4, x_zero=3, y_zero=-5),
        _layer((2, 5, 6, 4), (18, 3, 2, 4), 18, strides=(2, 1), pads=(1, 0, 2, 1), x_zero=-128),
        _layer((1, 7, 8, 2), (3, 3, 3, 2), 3, dilations=(2, 3), pads=(2, 3, 2, 3), high=50),
        _layer((2, 4, 4, 6), (4, 3, 3, 3), 4, groups=2, pads=(1, 1, 1, 1), x_zero=9),
        _layer((1, 5, 5, 4), (8, 2, 2, 1), 8, groups=4, strides=(2, 2), y_zero=-128, low=-128),
        _layer((2, 3, 5, 33), (17, 1, 1, 33), 17, x_zero=-1, y_zero=4),
        _layer((1, 3, 3, 16), (32, 1, 1, 16), 32, reach=6, strides=(2, 1), x_zero=17),
        _layer((1, 6, 6, 34), (19, 3, 3, 34), 19, reach=10, pads=(1, 1, 1, 1), x_zero=-20),
        _layer((3, 1, 2, 21), (34, 1, 1, 21), 34, x_zero=5, y_zero=-7),
        _layer((2, 1, 1, 6), (5, 1, 1, 6), 5, pads=(0, 1, 0, 0), x_zero=5),
        _halves((1, 6, 6, 34), (19, 3, 3, 34), 19, reach=10, pads=(1, 1, 1, 1), x_zero=-20),
        _wide((1, 5, 6, 3), (4, 3, 3, 3), 4, pads=(1, 1, 0, 1)),
        _wide((2, 5, 6, 4), (6, 3, 2, 2), 6, groups=2, strides=(2, 1), low=0),
        _wide((1, 4, 4, 70), (19, 3, 3, 70), 19, 11, dilations=(2, 1), pads=(2, 1, 2, 1)),
        _wide((1, 3, 5, 33), (17, 1, 1, 33), 17),
    ],
    kernels=("i8", "i16"),
    grad=NO_GRAD,
)
def quantized_conv2d(
    x,
    w,
    bias,
    multiplier,
    shift=None,
    *,
    strides=(1, 1),
    pads=(0, 0, 0, 0),
    dilations=(1, 1),
    groups=1,
    x_zero=0,
    y_zero=0,
    low=LOWEST,
    high=HIGHEST,
):
    """y = (conv2d(x - x_zero, w) + bias) * multiplier / 2^31 * 2^shift + y_zero, clamped

    x: i8 [n,h,w,c], w: i8 [k,r,s,c/groups], bias, multiplier, shift: i32 [k] -> y: i8 [n,p,q,k];
    or x and y: i16, bias: i64.
    Without a shift multiplier is f16 and stands for itself.
    Sizes and attributes as in conv2d; places beyond the image hold x_zero. Jacob et al. 2018.
    """
    # Sums stay far below 2^53, so that float64, and with it BLAS, is exact.
    sums = conv2d.ref(
        x.astype(np.float64) - x_zero, w.astype(np.float64),
        strides=strides, pads=pads, dilations=dilations, groups=groups,
    )  # fmt: skip
    return _finish(sums, bias, multiplier, shift, y_zero, low, high)


def _depthwise_shape(
    x, w, bias, multiplier, shift, *, strides, pads, dilations, x_zero, y_zero, low, high
):
    y = depthwise_conv2d.shape(
        x, w, None, strides=strides, pads=pads, dilations=dilations,
        activation=depthwise_conv2d.attrs["activation"],
    )  # fmt: skip
    numbers = {"x_zero": x_zero, "y_zero": y_zero, "low": low, "high": high}
    _check_layer("quantized_depthwise_conv2d", w[2], bias, multiplier, shift, **numbers)
    return y


@op(
    code=251,
    shape=_depthwise_shape,
    dtype=_layer_types("quantized_depthwise_conv2d"),
    samples=[
        _layer((1, 5, 6, 3), (3, 3, 3), 3, x_zero=3, y_zero=-5),
        _layer((2, 5, 6, 9), (3, 2, 9), 9, pads=(1, 0, 2, 1), strides=(2, 1), x_zero=-128),
        _layer((1, 7, 8, 4), (3, 3, 4), 4, dilations=(2, 3), pads=(2, 3, 2, 3), high=50),
        _layer((1, 5, 5, 17), (3, 3, 17), 17, pads=(1, 1, 1, 1), x_zero=-20, y_zero=-128),
        _layer((1, 7, 6, 40), (5, 5, 40), 40, strides=(2, 2), pads=(2, 2, 2, 2), x_zero=127),
        _halves((1, 5, 5, 17), (3, 3, 17), 17, pads=(1, 1, 1, 1), x_zero=-20),
        _wide((1, 5, 6, 9), (3, 2, 9), 9, 7, pads=(1, 0, 2, 1), strides=(2, 1)),
        _wide((2, 5, 5, 37), (3, 3, 37), 37, 8, pads=(1, 1, 1, 1), high=20000),
    ],
    kernels=("i8", "i16"),
    grad=NO_GRAD,
)
def quantized_depthwise_conv2d(
    x,
    w,
    bias,
    multiplier,
    shift=None,
    *,
    strides=(1, 1),
    pads=(0, 0, 0, 0),
    dilations=(1, 1),
    x_zero=0,
    y_zero=0,
    low=LOWEST,
    high=HIGHEST,
):
    """y = (depthwise_conv2d(x - x_zero, w) + bias) * multiplier / 2^31 * 2^shift + y_zero, clamped

    x: i8 [n,h,w,c], w: i8 [r,s,c], bias, multiplier, shift: i32 [c] -> y: i8 [n,p,q,c]
    """
    sums = depthwise_conv2d.ref(
        x.astype(np.float64) - x_zero, w.astype(np.float64),
        strides=strides, pads=pads, dilations=dilations,
    )  # fmt: skip
    return _finish(sums, bias, multiplier, shift, y_zero, low, high)


def _linear_shape(x, w, bias, multiplier, shift, **attrs):
    if not x or len(w) != 2 or x[-1] != w[1]:
        raise ShapeError(
            f"quantized_linear: x is {shape_text(x)}, w is {shape_text(w)}; want [..,in], [out,in]"
        )
    _check_layer("quantized_linear", w[0], bias, multiplier, shift, **attrs)
    return (*x[:-1], w[0])


@op(
    code=252,
    shape=_linear_shape,
    dtype=_layer_types("quantized_linear"),
    samples=[
        _layer((3, 10), (4, 10), 4, reach=7, x_zero=3, y_zero=-5),
        _layer((1, 70), (19, 70), 19, reach=9, x_zero=-128, high=50),
        _layer((33,), (5, 33), 5, x_zero=1),
        _layer((2, 24), (70, 24), 70, x_zero=1),
        _layer((5, 3, 37), (21, 37), 21, x_zero=-7, y_zero=-128),
        _halves((5, 37), (21, 37), 21, x_zero=-7, y_zero=-128),
        _halves((12, 37), (3, 37), 3, reach=9, x_zero=6),
        _wide((5, 3, 37), (21, 37), 21, low=-30000),
        _wide((2, 1300), (5, 1300), 5, 12),
        _farthest(3, 1300),
    ],
    kernels=("i8", "i16"),
    grad=NO_GRAD,
)
def quantized_linear(
    x, w, bias, multiplier, shift=None, *, x_zero=0, y_zero=0, low=LOWEST, high=HIGHEST
):
    """y = ((x - x_zero) w^T + bias) * multiplier / 2^31 * 2^shift + y_zero, clamped

    x: i8 [..,in], w: i8 [out,in], bias, multiplier, shift: i32 [out] -> y: i8 [..,out]
    """
    sums = (x.astype(np.float64) - x_zero) @ w.astype(np.float64).T
    return _finish(sums, bias, multiplier, shift, y_zero, low, high)
