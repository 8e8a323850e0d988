"""int8 arithmetic against an independent computation with Python's own integers and floats."""

from __future__ import annotations

import itertools
import json
import math
import re

import numpy as np
import pytest

import ir.ops  # noqa: F401
from ir import quantization
from ir.errors import AttrError, DTypeError
from ir.graph import Array, Value
from ir.op import OPS
from ir.quantization import quantize_multiplier, scale_by_multiplier
from tests.helpers import ROOT

RNG = np.random.default_rng(7)


def int8s(*shape: int) -> Array:
    return RNG.integers(-128, 128, shape).astype(np.int8)


def doubling_high_mul(a: int, b: int) -> int:
    """gemmlowp's SaturatingRoundingDoublingHighMul, word for word: it divides towards zero."""
    if a == b == -(2**31):
        return 2**31 - 1
    product = a * b
    nudged = product + (2**30 if product >= 0 else 1 - 2**30)
    return abs(nudged) // 2**31 * (1 if nudged >= 0 else -1)


def rounding_divide(x: int, exponent: int) -> int:
    """gemmlowp's RoundingDivideByPOT, from its definition: to nearest, halves away from zero."""
    size, half = abs(x), (1 << exponent) >> 1
    return (size + half >> exponent) * (1 if x >= 0 else -1)


def by_multiplier(x: int, multiplier: int, shift: int) -> int:
    return rounding_divide(doubling_high_mul(x * 2 ** max(shift, 0), multiplier), max(-shift, 0))


def stored(x: int, zero: int, low: int = -128, high: int = 127) -> int:
    return min(max(x + zero, low), high)


def layer(k: int) -> tuple[Array, Array, Array]:
    """bias, multiplier and shift of k channels."""
    pairs = [quantize_multiplier(float(r)) for r in RNG.uniform(0.0005, 0.01, k)]
    multiplier, shift = np.array(pairs, np.int32).T
    return RNG.integers(-3000, 3000, k).astype(np.int32), multiplier, shift


EDGES = [0, 1, -1, 2, -2, 3, -3, 2**30, -(2**30), 2**31 - 1, -(2**31), 12345, -12345]


@pytest.mark.parametrize("shift", [-31, -30, -8, -1, 0])
def test_fixed_point_scaling_rounds_as_gemmlowp_does(shift: int) -> None:
    numbers = EDGES + RNG.integers(-(2**31), 2**31, 500).tolist()
    for multiplier in (0, 1, 2**30, 1518500250, 2**31 - 1):
        got = scale_by_multiplier(np.array(numbers), multiplier, shift)
        assert got.tolist() == [by_multiplier(x, multiplier, shift) for x in numbers]


def test_fixed_point_scaling_shifts_left_before_it_multiplies() -> None:
    got = scale_by_multiplier(np.array([7, -7]), np.array([2**30 + 1, 2**30 + 1]), np.array([3, 3]))
    assert got.tolist() == [by_multiplier(7, 2**30 + 1, 3), by_multiplier(-7, 2**30 + 1, 3)]


@pytest.mark.parametrize("real", [0.0, 1e-12, 2**-33, 0.00123, 0.5, 0.99999999999, 1.0, 77.7])
def test_a_multiplier_and_its_shift_stand_for_the_real_number(real: float) -> None:
    multiplier, shift = quantize_multiplier(real)
    assert multiplier == 0 or 2**30 <= multiplier < 2**31
    assert -31 <= shift <= 30
    assert math.isclose(multiplier * 2.0 ** (shift - 31), real, rel_tol=1e-9, abs_tol=2**-32)


def test_a_multiplier_in_float16_stands_for_itself() -> None:
    every = np.arange(31 << 10, dtype=np.uint16).view(np.float16)  # all that are finite
    multiplier, shift = quantization.half_multipliers(every)
    assert np.array_equal(multiplier * 2.0 ** (shift - 31.0), every.astype(np.float64))
    assert ((multiplier == 0) | (multiplier >= 2**30)).all()
    assert shift.min() == -23
    for bad in (-1, -0.0, np.inf, np.nan):
        with pytest.raises(ValueError, match="no finite numbers of at least 0"):
            quantization.half_multipliers(np.array([bad], np.float16))


def test_the_least_float16_above_a_number() -> None:
    real = np.concatenate([RNG.uniform(0, 1, 50), [0, 2.0**-30, 0.5, 1e6]])
    found = quantization.halves_above(real).astype(np.float64)
    below = np.nextafter(found.astype(np.float16), np.float16(-1)).astype(np.float64)
    assert (found >= real).all()
    assert (below[:-1] < real[:-1]).all()
    assert np.isinf(found[-1])


@pytest.mark.parametrize("real", [-0.1, 2.0**30, math.inf, math.nan])
def test_a_real_number_beyond_multipliers_is_refused(real: float) -> None:
    with pytest.raises(ValueError, match="want one from 0 to"):
        quantize_multiplier(real)


@pytest.mark.parametrize(("low", "high"), [(-1.0, 3.0), (0.5, 6.0), (-4.0, -1.0), (0.0, 0.0)])
def test_an_affine_scale_stores_zero_exactly_and_reaches_both_ends(low: float, high: float) -> None:
    scale, zero = quantization.affine_scale(low, high)
    assert -128 <= zero <= 127
    assert (-128 - zero) * scale <= min(low, 0) + scale / 2
    assert (127 - zero) * scale >= max(high, 0) - scale / 2


def test_a_weight_comes_back_within_half_a_step_of_its_channel() -> None:
    w = RNG.normal(size=(4, 3, 5)).astype(np.float32) * np.array([[[1], [10], [0.1]]], np.float32)
    scale = quantization.symmetric_scale(w, axis=1)
    q = quantization.quantize_weight(w, scale, axis=1)
    back = OPS["dequantize_weight"](q, scale, axis=1)
    assert q.min() >= -127
    assert np.all(np.abs(back - w) <= scale[:, None] * 0.5001)


@pytest.mark.parametrize("groups", [1, 2])
def test_quantized_conv2d_agrees_with_sums_of_integers(groups: int) -> None:
    x, w = int8s(2, 5, 4, 4), int8s(6, 3, 2, 4 // groups)
    bias, multiplier, shift = layer(6)
    attrs = {"strides": (2, 1), "pads": (1, 0, 1, 2), "dilations": (1, 2), "groups": groups}
    y = OPS["quantized_conv2d"](
        x, w, bias, multiplier, shift, **attrs, x_zero=-9, y_zero=11, low=-100, high=101
    )
    assert len(np.unique(y)) > 40
    for n, p, q, k in itertools.product(*map(range, y.shape)):
        total = int(bias[k])
        for i, j, c in itertools.product(*map(range, w.shape[1:])):
            row, column = 2 * p + i - 1, q + 2 * j
            if 0 <= row < 5 and 0 <= column < 4:
                channel = k // (6 // groups) * w.shape[3] + c
                total += (int(x[n, row, column, channel]) + 9) * int(w[k, i, j, c])
        scaled = by_multiplier(total, int(multiplier[k]), int(shift[k]))
        assert y[n, p, q, k] == stored(scaled, 11, -100, 101)


def test_quantized_depthwise_conv2d_agrees_with_sums_of_integers() -> None:
    x, w = int8s(1, 6, 5, 7), int8s(3, 2, 7)
    bias, multiplier, shift = layer(7)
    y = OPS["quantized_depthwise_conv2d"](
        x, w, bias, multiplier, shift, strides=(1, 2), pads=(2, 1, 0, 0), x_zero=30, y_zero=-4
    )
    for _, p, q, c in itertools.product(*map(range, y.shape)):
        total = int(bias[c])
        for i, j in itertools.product(range(3), range(2)):
            row, column = p + i - 2, 2 * q + j - 1
            if 0 <= row < 6 and 0 <= column < 5:
                total += (int(x[0, row, column, c]) - 30) * int(w[i, j, c])
        scaled = by_multiplier(total, int(multiplier[c]), int(shift[c]))
        assert y[0, p, q, c] == stored(scaled, -4)


def test_quantized_linear_agrees_with_sums_of_integers() -> None:
    x, w = int8s(2, 3, 40), int8s(5, 40)
    bias, multiplier, shift = layer(5)
    y = OPS["quantized_linear"](x, w, bias, multiplier, shift, x_zero=5, y_zero=-6)
    for a, b, k in itertools.product(*map(range, y.shape)):
        total = sum((int(x[a, b, i]) - 5) * int(w[k, i]) for i in range(40)) + int(bias[k])
        assert y[a, b, k] == stored(by_multiplier(total, int(multiplier[k]), int(shift[k])), -6)


def test_quantized_add_agrees_with_integers_and_with_real_numbers() -> None:
    a, b = int8s(50), int8s(50)
    scales = {"a": 0.031, "b": 0.012, "y": 0.04}
    zeros = {"a_zero": 3, "b_zero": -60, "y_zero": 7}
    attrs = quantization.add_attrs(*scales.values())
    y = OPS["quantized_add"](a, b, **attrs, **zeros)
    for i in range(50):
        fine = sum(
            by_multiplier(
                (int(x[i]) - zeros[f"{n}_zero"]) << 20,
                attrs[f"{n}_multiplier"],
                attrs[f"{n}_shift"],
            )
            for n, x in (("a", a), ("b", b))
        )
        assert y[i] == stored(by_multiplier(fine, attrs["y_multiplier"], attrs["y_shift"]), 7)
    real = (a - 3.0) * scales["a"] + (b + 60.0) * scales["b"]
    assert np.all(np.abs(y - np.clip(real / scales["y"] + 7, -128, 127)) <= 0.51)


def test_quantized_mul_agrees_with_real_numbers() -> None:
    a, b = int8s(60), int8s(60)
    multiplier, shift = quantize_multiplier(0.02 * 0.03 / 0.08)
    y = OPS["quantized_mul"](
        a, b, a_zero=9, b_zero=-2, y_zero=1, multiplier=multiplier, shift=shift
    )
    real = (a - 9.0) * 0.02 * (b + 2.0) * 0.03
    assert np.all(np.abs(y - np.clip(real / 0.08 + 1, -128, 127)) <= 0.51)


@pytest.mark.parametrize("count", [1, 5, 49, 4096])
def test_quantized_mean_agrees_with_integers_and_with_real_numbers(count: int) -> None:
    x = int8s(1, 1, count, 6)
    multiplier, shift = quantization.mean_multiplier(0.05, 0.02, count)
    y = OPS["quantized_mean"](x, x_zero=-3, y_zero=8, multiplier=multiplier, shift=shift)
    sums = [sum(int(v) + 3 for v in x[0, 0, :, c]) for c in range(6)]
    assert y[0].tolist() == [stored(by_multiplier(s, multiplier, shift), 8) for s in sums]
    real = np.array(sums) / count * 0.05 / 0.02 + 8
    assert np.all(np.abs(y[0] - np.clip(real, -128, 127)) <= 0.51)


def test_quantized_avg_pool2d_rounds_halves_away_from_zero() -> None:
    x = np.array([[[[1], [2]], [[-1], [-2]]]], np.int8)
    y = OPS["quantized_avg_pool2d"](x, size=(1, 2), strides=(1, 2))
    assert y.ravel().tolist() == [2, -2]


def test_requantize_changes_the_scale_and_keeps_the_numbers() -> None:
    x = np.arange(-128, 128).astype(np.int8)
    multiplier, shift = quantize_multiplier(0.5 / 0.7)
    y = OPS["requantize"](x, x_zero=10, y_zero=-20, multiplier=multiplier, shift=shift)
    want = np.clip((x - 10.0) * 0.5 / 0.7 - 20, -128, 127)
    assert np.all(np.abs(y - want) <= 0.51)


def test_a_lookup_table_computes_its_function() -> None:
    x = np.arange(-128, 128).astype(np.int8)
    table = quantization.lookup_table(np.tanh, (0.05, 4), (1 / 128, 0))
    y = OPS["quantized_lookup"](x, table)
    np.testing.assert_allclose(
        y / 128, np.clip(np.tanh((x - 4.0) * 0.05), -1, 127 / 128), atol=0.004
    )


def test_quantize_rounds_halves_away_saturates_and_stores_nan_as_the_lowest() -> None:
    x = np.array([0.5, -0.5, 1.5, 0.49999997, 1e30, -1e30, np.inf, np.nan], np.float32)
    assert OPS["quantize"](x).tolist() == [1, -1, 2, 0, 127, -128, 127, -128]


def test_fake_quantize_stores_and_reads_back_and_its_gradient_passes_where_unclamped() -> None:
    x = np.array([0.3, 0.25, -0.74, 9.0, -9.0], np.float32)
    attrs = {"scale": 0.5, "zero_point": 1, "low": -3, "high": 4}
    np.testing.assert_array_equal(
        OPS["fake_quantize"](x, **attrs), np.array([0.5, 0.5, -0.5, 1.5, -2.0], np.float32)
    )
    g = np.arange(1, 6, dtype=np.float32)
    np.testing.assert_array_equal(OPS["fake_quantize_dx"](g, x, **attrs), [1, 2, 3, 0, 0])
    from cloud.autodiff import vjp
    from cloud.interpreter import run
    from ir.graph import Graph

    back = vjp(Graph.trace(lambda v: OPS["fake_quantize"](v, **attrs), (5,)))
    np.testing.assert_array_equal(run(back, x, g)[0], [1, 2, 3, 0, 0])


@pytest.mark.parametrize(
    ("name", "attrs", "message"),
    [
        ("quantize", {"scale": 0.0}, "quantize: scale is 0.0, want a finite number above 0"),
        ("quantize", {"zero_point": 128}, "zero_point is 128, want one from -128 to 127"),
        ("requantize", {"shift": 31}, "shift is 31, want one from -31 to 30"),
        ("requantize", {"multiplier": -1}, "multiplier is -1, want one from 0 to 2147483647"),
        ("requantize", {"low": 5, "high": 4}, "low is 5, want at most high, 4"),
        ("quantized_mean", {"axes": (0, 2)}, r"axes are \[0, 2\], want neighbours"),
    ],
)
def test_numbers_out_of_range_are_named(name: str, attrs: dict[str, object], message: str) -> None:
    x = OPS[name].samples[0].inputs[0]
    with pytest.raises(AttrError, match=message):
        OPS[name](Value(x.shape, x.dtype), **attrs)


def test_floats_where_stored_numbers_are_wanted_are_named() -> None:
    with pytest.raises(DTypeError, match=r"requantize: inputs of \[f32\], want i8 or i16"):
        OPS["requantize"](Value((3,)))


GOLDEN = np.load(ROOT / "tests/golden/tflite_int8/int8.npz")
CALLS = [
    pytest.param(i, name, count, attrs, id=f"{name}-{i}")
    for i, (name, count, attrs) in enumerate(json.loads(str(GOLDEN["index"])))
]


@pytest.mark.parametrize(("i", "name", "count", "attrs"), CALLS)
def test_every_bit_is_that_of_tflite_reference_kernels(
    i: int, name: str, count: int, attrs: dict[str, object]
) -> None:
    y = OPS[name](*(GOLDEN[f"{i}_x{j}"] for j in range(count)), **attrs)
    assert len(np.unique(y)) > 20
    np.testing.assert_array_equal(y, GOLDEN[f"{i}_y"])


@pytest.mark.parametrize(
    ("bias", "shift", "message"),
    [
        (2**46 + 1, 0, "a bias of 70368744177665: want one from -2^46 to 2^46"),
        (-(2**63), 0, "a bias of -9223372036854775808: want one from"),
        (2**46, 8, "a shift of 8: want at most 7"),
    ],
)
def test_a_layer_of_16_bits_takes_no_numbers_that_its_sums_do_not_hold(
    bias: int, shift: int, message: str
) -> None:
    x, w = np.ones((2, 3), np.int16), np.ones((1, 3), np.int8)
    ends = np.array([bias], np.int64), np.array([2**30], np.int32), np.array([shift], np.int32)
    with pytest.raises(ValueError, match=re.escape(message)):
        OPS["quantized_linear"](x, w, *ends, low=-(2**15), high=2**15 - 1)
    most = np.array([2**46], np.int64), ends[1], np.array([7], np.int32)
    y = OPS["quantized_linear"](x, w, *most, low=-(2**15), high=2**15 - 1)
    assert y.tolist() == [[2**15 - 1]] * 2
