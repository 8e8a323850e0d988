"""Numbers of int8 quantization: scales, zero points and fixed-point multipliers, as in TFLite.

A real number r is stored as q = round(r / scale) + zero_point; docs/quantization.md has the scheme.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from ir.graph import Array

LOWEST, HIGHEST = -128, 127  # of int8
LOWEST_16, HIGHEST_16 = -(2**15), 2**15 - 1  # of int16
ADD_LEFT_SHIFT = 20  # headroom that quantized_add gives its inputs
ADD_LEFT_SHIFT_16 = 15  # those of 16 bits
MOST_SHIFT_16 = 7  # of the multiplier of a layer on 16 bits
MOST_BIAS_16 = 2**46  # of such a layer: its sums fit 48 bits, and with their multiplier 64
SHIFTS = range(-31, 31)  # that a fixed-point multiplier may have
MOST_MULTIPLIER = 2.0**30  # what the real numbers that one stands for are below


class MultiplierError(ValueError):
    """A multiplier that no integers stand for, or that kernels do not take."""


def affine_scale(low: float, high: float) -> tuple[float, int]:
    """(scale, zero_point) of activations between `low` and `high`; 0 is always a stored number."""
    low, high = min(low, 0.0), max(high, 0.0)
    scale = float(np.float32((high - low) / (HIGHEST - LOWEST)))
    if scale == 0:
        return 1.0, 0
    zero_point = round(LOWEST - low / scale)
    return scale, min(max(zero_point, LOWEST), HIGHEST)


def symmetric_scale(w: Array, axis: int, empty: float = 1.0) -> Array:
    """One scale for each channel along `axis`, float32 [k]; zero points are 0, -128 is not used.

    `empty`: that of channels of zeros.
    """
    others = tuple(i for i in range(w.ndim) if i != axis)
    scale = (np.max(np.abs(w), axis=others) / HIGHEST).astype(np.float32)
    return np.where(scale == 0, np.float32(empty), scale)


def quantize_weight(w: Array, scale: Array, axis: int) -> Array:
    """The weight as int8, with `scale` [k] along `axis`."""
    exact = round_half_away(w / along(scale, axis, w.ndim))
    q: Array = np.clip(exact, -HIGHEST, HIGHEST).astype(np.int8)
    return q


def along(numbers: Array, axis: int, rank: int) -> Array:
    """One number a channel, [k], in the shape that stretches along `axis` of a tensor."""
    return numbers.reshape([-1 if i == axis else 1 for i in range(rank)])


def quantize_bias(b: Array, x_scale: float, w_scale: Array) -> Array:
    """The bias as int32 [k], in units of the accumulator: x_scale * w_scale."""
    exact = round_half_away(b.astype(np.float64) / (x_scale * w_scale.astype(np.float64)))
    info = np.iinfo(np.int32)
    q: Array = np.clip(exact, info.min, info.max).astype(np.int32)
    return q


def quantize_multiplier(real: float) -> tuple[int, int]:
    """(multiplier, shift) with real = multiplier / 2^31 * 2^shift and 2^30 <= multiplier < 2^31.

    TFLite's QuantizeMultiplier. A real below 2^-32 becomes (0, 0). Raises MultiplierError
    for a negative one and for one of 2^30 and more.
    """
    if not 0 <= real < MOST_MULTIPLIER:
        raise MultiplierError(f"multiplier {real}: want one from 0 to 2^30")
    fraction, shift = math.frexp(real)
    multiplier = math.floor(fraction * 2**31 + 0.5)
    if multiplier == 2**31:
        multiplier, shift = 2**30, shift + 1
    return (0, 0) if shift < SHIFTS[0] else (multiplier, shift)


def channel_multipliers(x_scale: float, w_scale: Array, y_scale: float) -> tuple[Array, Array]:
    """`multiplier` and `shift`, int32 [k], from a layer's accumulators to its result's scale."""
    pairs = [quantize_multiplier(x_scale * float(s) / y_scale) for s in w_scale]
    multiplier, shift = np.array(pairs, np.int32).reshape(-1, 2).T
    return multiplier, shift


def rounded_once(real: Array) -> tuple[Array, Array]:
    """`multiplier` and `shift` of real numbers for sums that are rounded once: without a shift to
    the right there is but one rounding. The multiplier then has fewer bits, still enough for all
    but some ties."""
    pairs = [quantize_multiplier(float(r)) for r in real]
    fine = [
        (m, s) if s >= 0 else (round(float(r) * 2**31), 0)
        for r, (m, s) in zip(real, pairs, strict=True)
    ]
    multiplier, shift = np.array(fine, np.int64).T.astype(np.int32)
    return multiplier, shift


def half_multipliers(real: Array) -> tuple[Array, Array]:
    """`multiplier` and `shift`, int32 [k], of float16 numbers, exactly. Raises ValueError for one
    that is no finite number of at least 0; -0 is none."""
    if not np.isfinite(real).all() or np.signbit(real).any():
        raise ValueError("multipliers in float16 that are no finite numbers of at least 0")
    fraction, shift = np.frexp(real.astype(np.float64))
    return (fraction * 2**31).astype(np.int32), np.where(fraction == 0, 0, shift).astype(np.int32)


def halves_above(real: Array) -> Array:
    """The least float16 that are no smaller than float64 numbers; infinity above the largest."""
    with np.errstate(over="ignore"):
        near = real.astype(np.float16)
    above = np.nextafter(near, np.float16(np.inf))
    return np.where(near < real, above, near)


def add_attrs(
    a_scale: float, b_scale: float, y_scale: float, left_shift: int = ADD_LEFT_SHIFT
) -> dict[str, int]:
    """The multipliers and shifts of quantized_add."""
    unit = 2 * max(a_scale, b_scale)
    reals = {"a": a_scale / unit, "b": b_scale / unit, "y": unit / (2**left_shift * y_scale)}
    attrs = {"left_shift": left_shift}
    for name, real in reals.items():
        attrs[f"{name}_multiplier"], attrs[f"{name}_shift"] = quantize_multiplier(real)
    return attrs


def mean_multiplier(x_scale: float, y_scale: float, count: int) -> tuple[int, int]:
    """(multiplier, shift) of quantized_mean over `count` elements: TFLite folds the division in."""
    multiplier, shift = quantize_multiplier(x_scale / y_scale)
    extra = min(count.bit_length() - 1, 32, 31 + shift)
    return (multiplier << extra) // count, shift - extra


def lookup_table(
    function: Callable[[Array], Array], x: tuple[float, int], y: tuple[float, int]
) -> Array:
    """The int8 [256] table of quantized_lookup for `function`; x and y are (scale, zero_point)."""
    stored = np.arange(LOWEST, HIGHEST + 1, dtype=np.float64)
    exact = function((stored - x[1]) * x[0])
    q: Array = np.clip(round_half_away(exact / y[0]) + y[1], LOWEST, HIGHEST).astype(np.int8)
    return q


def round_half_away(x: Array) -> Array:
    """The nearest integers, halves away from zero (C's `round`); exact, so x + 0.5 will not do."""
    size = np.abs(x)
    whole = np.floor(size)
    with np.errstate(invalid="ignore"):  # of infinity; it stays what it is
        rest = size - whole
    rounded: Array = np.copysign(whole + (rest >= 0.5), x).astype(x.dtype)
    return rounded


def wrap32(x: Array) -> Array:
    """int64 numbers as 32-bit arithmetic leaves them."""
    return x.astype(np.int64).astype(np.int32).astype(np.int64)


def wide_scale(length: float) -> float:
    """The scale of activations of 16 bits whose numbers are at most `length` from 0."""
    return float(np.float32(length / HIGHEST_16)) or 1.0


def check_wide_layer(bias: Array, shift: Array) -> None:
    """Raises ValueError for a bias or shift that no layer on 16 bits takes: its sums would not
    fit."""
    far = bias[(bias > MOST_BIAS_16) | (bias < -MOST_BIAS_16)]
    if far.size:
        raise ValueError(f"a bias of {far[0]}: want one from -2^46 to 2^46")
    if shift.max(initial=0) > MOST_SHIFT_16:
        raise ValueError(f"a shift of {shift.max()}: want at most {MOST_SHIFT_16}")


def scale_sum(x: Array, multiplier: Array | int, shift: Array | int) -> Array:
    """x * multiplier / 2^31 * 2^shift of sums of 64 bits: the upper 16 bits of the multiplier, and
    one rounding (halves up), as TFLite's MultiplyByQuantizedMultiplier of int64."""
    wide = np.asarray(multiplier, np.int64)
    short = np.where(wide < 0x7FFF0000, (wide + (1 << 15)) >> 16, 0x7FFF)
    right = 15 - np.asarray(shift, np.int64)
    y: Array = (x * short + (np.int64(1) << (right - 1))) >> right
    return y


def scale_by_multiplier(x: Array, multiplier: Array | int, shift: Array | int) -> Array:
    """x * multiplier / 2^31 * 2^shift in integers, as int64: MultiplyByQuantizedMultiplier.

    Rounded twice, as TFLite's reference kernels do by default: the doubled product's high half to
    nearest (halves up), then the right shift to nearest (halves away from zero).
    """
    left, right = np.maximum(shift, 0), np.maximum(np.negative(shift), 0)
    shifted = wrap32(np.left_shift(x.astype(np.int64), left))
    high = (shifted * np.asarray(multiplier, np.int64) + (1 << 30)) >> 31
    mask = np.left_shift(np.int64(1), right) - 1
    y: Array = (high >> right) + ((high & mask) > (mask >> 1) + (high < 0))
    return y
