"""Between floats and stored integers, and these to others, with TFLite's arithmetic; see
docs/quantization.md. Numbers are int8 or, where operators say so, int16 with a zero point of 0."""

from __future__ import annotations

import math

import numpy as np

from ir.dtype import DType
from ir.errors import AttrError, DTypeError, ShapeError
from ir.graph import shape_text
from ir.op import NO_GRAD, Case, case, exactly, floats, ints, op
from ir.ops.elementwise import mul
from ir.ops.reduce import reduce_sum
from ir.ops.windows import check_equal
from ir.quantization import (
    HIGHEST,
    HIGHEST_16,
    LOWEST,
    LOWEST_16,
    SHIFTS,
    round_half_away,
    scale_by_multiplier,
)

MAX_LEFT_SHIFT = 22  # 255 shifted so far still fits
MAX_LEFT_SHIFT_16 = 15  # and 2^15
BOUNDS = {DType.i8: (LOWEST, HIGHEST), DType.i16: (LOWEST_16, HIGHEST_16)}


def int8s(*shape):
    """A sample input that uses all of int8."""
    return ints(*shape, low=LOWEST, high=HIGHEST + 1, dtype=DType.i8)


def int16s(*shape):
    """A sample input that uses all of int16."""
    return ints(*shape, low=LOWEST_16, high=HIGHEST_16 + 1, dtype=DType.i16)


def stored_case(*inputs, **attrs):
    """A sample call; `low` and `high` are attributes of the operator."""
    return Case(inputs, attrs)


WIDE = {"low": LOWEST_16, "high": HIGHEST_16}
EDGES = [0.5, -0.5, 1.5, -1.5, 0.49999997, 126.5, -128.5, 1e30, -1e30, np.inf, -np.inf, np.nan] * 2


def types(name, result, *wanted):
    """A type rule: these inputs, this result."""

    def rule(*dtypes, **_):
        if dtypes != wanted:
            raise DTypeError(f"{name}: inputs of {list(dtypes)}, want {list(wanted)}")
        return result

    return rule


def stored_types(name, count, result=None):
    """A type rule: `count` inputs of int8 or of int16, and attributes that such numbers allow."""

    def rule(*dtypes, **attrs):
        if dtypes not in ((DType.i8,) * count, (DType.i16,) * count):
            raise DTypeError(f"{name}: inputs of {list(dtypes)}, want i8 or i16, all the same")
        check_stored(name, dtypes[0], attrs)
        return result or dtypes[0]

    return rule


def check_stored(name, dtype, attrs):
    """Raise AttrError unless bounds and zero points are of `dtype`; the latter of int16 are 0."""
    least, most = BOUNDS[dtype]
    for attr, value in attrs.items():
        if attr in ("low", "high") and not least <= value <= most:
            raise AttrError(f"{name}: {attr} is {value}, want one from {least} to {most}")
        if dtype is DType.i16 and attr.endswith(("zero", "zero_point")) and value != 0:
            raise AttrError(f"{name}: {attr} is {value}, want 0 for numbers of 16 bits")
        if dtype is DType.i16 and attr == "left_shift" and value > MAX_LEFT_SHIFT_16:
            raise AttrError(f"{name}: left_shift is {value}, want at most {MAX_LEFT_SHIFT_16}")


def check_numbers(name, **attrs):
    """Raise AttrError unless zero points, shifts, multipliers and bounds are in range."""
    for attr, value in attrs.items():
        if attr.endswith("shift"):
            allowed = range(MAX_LEFT_SHIFT + 1) if attr == "left_shift" else SHIFTS
        elif attr.endswith("multiplier"):
            allowed = range(2**31)
        elif attr == "scale":
            if not (math.isfinite(value) and value > 0):
                raise AttrError(f"{name}: scale is {value}, want a finite number above 0")
            continue
        elif attr in ("low", "high"):
            allowed = range(LOWEST_16, HIGHEST_16 + 1)
        else:
            allowed = range(LOWEST, HIGHEST + 1)
        if value not in allowed:
            raise AttrError(
                f"{name}: {attr} is {value}, want one from {allowed[0]} to {allowed[-1]}"
            )
    if attrs.get("low", LOWEST) > attrs.get("high", HIGHEST):
        raise AttrError(f"{name}: low is {attrs['low']}, want at most high, {attrs['high']}")


def store(x, zero, low=LOWEST, high=HIGHEST, dtype=np.int8):
    """Integers, moved by the zero point and clamped, as `dtype`."""
    return np.clip(x + zero, low, high).astype(dtype)


def _real_to_stored(x, scale, zero_point, low, high):
    """round(x / scale) + zero_point within [low, high], as floats; NaN becomes low."""
    q = round_half_away(x / scale) + zero_point
    return np.where(q > low, np.minimum(q, high), low).astype(x.dtype)


def _checked_same(name):
    def rule(x, *_, **attrs):
        check_numbers(name, **attrs)
        return x

    return rule


def _near_halves(scale):
    """Where rounding turns: halves of the scale, and the floats beside them."""
    turns = ((np.arange(-140, 140) + 0.5) * scale).astype(np.float32)
    return np.concatenate([turns, *(np.nextafter(turns, np.float32(to)) for to in (-1e9, 1e9))])


@op(
    code=240,
    shape=_checked_same("quantize"),
    dtype=types("quantize", DType.i8, DType.f32),
    samples=[
        case((3, 7), scale=0.017, zero_point=5),
        case((2, 3, 4), scale=0.01, zero_point=-128),
        case((20, 900), low=-300.0, high=300.0, scale=1.5),
        case(exactly(EDGES)),
        case(exactly(_near_halves(0.0123)), scale=0.0123, zero_point=-3),
        case(exactly(_near_halves(1e-32)), scale=1e-32),
    ],
    grad=NO_GRAD,
)
def quantize(x, *, scale=1.0, zero_point=0):
    """y = round(x / scale) + zero_point in int8, halves away from zero     x: f32 -> y: i8

    Out of range and NaN saturate. Jacob et al. 2018.
    """
    return _real_to_stored(x, scale, zero_point, LOWEST, HIGHEST).astype(np.int8)


@op(
    code=241,
    shape=_checked_same("dequantize"),
    dtype=stored_types("dequantize", 1, DType.f32),
    samples=[
        case(int8s(3, 7), scale=0.017, zero_point=5),
        case(int8s(20, 900), scale=0.1),
        case(int16s(3, 70), scale=0.0017),
    ],
    kernels=("i8", "i16"),
    grad=NO_GRAD,
)
def dequantize(x, *, scale=1.0, zero_point=0):
    """y = (x - zero_point) * scale     x: i8 or i16 -> y: f32"""
    return (x.astype(np.float32) - np.float32(zero_point)) * np.float32(scale)


def _fake_shape(name):
    def rule(*shapes, low, high, **attrs):
        check_numbers(name, **attrs)
        if low > high:
            raise AttrError(f"{name}: low is {low}, want at most high, {high}")
        if len(set(shapes)) != 1:
            texts = " and ".join(map(shape_text, shapes))
            raise ShapeError(f"{name}: inputs are {texts}, want one shape")
        return shapes[0]

    return rule


def _fake_grad(g, y, x, **attrs):
    return (fake_quantize_dx(g, x, **attrs),)


def _fake_dx_grad(gg, y, g, x, **attrs):
    return fake_quantize_dx(gg, x, **attrs), None


FAKE = {"scale": 0.017, "zero_point": -3, "low": -128, "high": 90}


@op(
    code=242,
    shape=_fake_shape("fake_quantize"),
    samples=[case((3, 50), **FAKE), case((9,), scale=0.5, low=-1, high=1)],
    grad=_fake_grad,
)
def fake_quantize(x, *, scale=1.0, zero_point=0, low=LOWEST, high=HIGHEST):
    """y = what is left of x after storing it in [low, high] and reading it back

    The gradient passes straight through where nothing was clamped. Jacob et al. 2018.
    """
    q = _real_to_stored(x, scale, zero_point, low, high)
    return ((q - zero_point) * scale).astype(x.dtype)


@op(
    code=243,
    shape=_fake_shape("fake_quantize_dx"),
    samples=[case((3, 50), (3, 50), **FAKE), case((9,), (9,), scale=0.5, low=-1, high=1)],
    grad=_fake_dx_grad,
)
def fake_quantize_dx(g, x, *, scale=1.0, zero_point=0, low=LOWEST, high=HIGHEST):
    """y = g where fake_quantize did not clamp x, else 0     g and x have one shape"""
    q = round_half_away(x / scale) + zero_point
    return np.where((q >= low) & (q <= high), g, 0).astype(g.dtype)


def _weight_shape(x, scale, *, axis):
    if not 0 <= axis < len(x):
        raise AttrError(f"dequantize_weight: axis is {axis}, x is {shape_text(x)}")
    check_equal("dequantize_weight", "scale", scale, (x[axis],))
    return x


def _weight_grad(g, y, x, scale, *, axis):
    others = tuple(i for i in range(x.rank) if i != axis)
    return None, reduce_sum(mul(g, dequantize(x)), axes=others)


@op(
    code=244,
    shape=_weight_shape,
    dtype=types("dequantize_weight", DType.f32, DType.i8, DType.f32),
    samples=[
        case(int8s(4, 3, 3, 2), floats(4), axis=0),
        case(int8s(3, 2, 5), floats(5), axis=2),
        case(int8s(6), floats(6)),
    ],
    kernels=("i8",),
    grad=_weight_grad,
)
def dequantize_weight(x, scale, *, axis=0):
    """y = x * scale, one scale for each place along `axis`     x: i8, scale: f32 [k] -> y: f32"""
    return x * scale.reshape([-1 if i == axis else 1 for i in range(x.ndim)])


@op(
    code=245,
    shape=_checked_same("requantize"),
    dtype=stored_types("requantize", 1),
    samples=[
        stored_case(int8s(3, 50), x_zero=3, y_zero=-20, multiplier=1717986918, shift=0),
        stored_case(int8s(40), x_zero=-128, y_zero=-128, multiplier=1288490189, shift=2, high=60),
        stored_case(int8s(40), multiplier=1 << 30, shift=-2, low=-5),
        stored_case(int16s(3, 50), multiplier=1717986918, shift=0, **WIDE),
        stored_case(int16s(40), multiplier=1288490189, shift=2, low=0, high=30000),
    ],
    kernels=("i8", "i16"),
    grad=NO_GRAD,
)
def requantize(x, *, x_zero=0, y_zero=0, multiplier=1 << 30, shift=1, low=LOWEST, high=HIGHEST):
    """y = (x - x_zero) * multiplier / 2^31 * 2^shift + y_zero     x: i8 or i16 -> y of its type

    Another scale for the same numbers; TFLite's Requantize.
    """
    moved = x.astype(np.int64) - x_zero
    return store(scale_by_multiplier(moved, multiplier, shift), y_zero, low, high, x.dtype)


def _lookup_shape(x, table):
    check_equal("quantized_lookup", "table", table, (256,))
    return x


@op(
    code=246,
    shape=_lookup_shape,
    dtype=types("quantized_lookup", DType.i8, DType.i8, DType.i8),
    samples=[case(int8s(3, 50), int8s(256)), case(int8s(2, 3, 4), int8s(256))],
    kernels=("i8",),
    grad=NO_GRAD,
)
def quantized_lookup(x, table):
    """y = table[x + 128], any function of one number     x: i8, table: i8 [256] -> y: i8"""
    return table[x.astype(np.int64) - LOWEST]


@op(
    code=257,
    shape=_checked_same("quantize_16"),
    dtype=types("quantize_16", DType.i16, DType.f32),
    samples=[
        case((3, 7), scale=0.00017),
        case((20, 90), low=-300.0, high=300.0, scale=0.005),
        case(exactly([*EDGES, 32766.5, -32768.5, 32767.6])),
    ],
    grad=NO_GRAD,
)
def quantize_16(x, *, scale=1.0):
    """y = round(x / scale) in int16, halves away from zero     x: f32 -> y: i16

    Out of range saturates, and NaN becomes the lowest. Activations of TFLite's int16x8.
    """
    return _real_to_stored(x, scale, 0, LOWEST_16, HIGHEST_16).astype(np.int16)
