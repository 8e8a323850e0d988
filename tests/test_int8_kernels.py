"""Kernels of int8 and int16 on calls at random: every instruction set gives the bits of the numpy
reference, with weights packed beforehand or not, on any number of threads."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ir.cases import encode
from ir.dtype import DType
from ir.op import OPS, Case, Op, Spec, exactly, ints
from ir.ops.quant import MAX_LEFT_SHIFT_16, int8s, int16s, stored_case
from ir.quantization import MOST_BIAS_16, MOST_SHIFT_16
from tests.test_kernels import ARM, NATIVE, findings, listed, runs_here

CHANNELS = [1, 2, 3, 4, 5, 7, 8, 12, 16, 17, 24, 31, 32, 33, 48, 64, 65, 80, 96, 100, 130]
Rng = np.random.Generator


def numbers(rng: Rng) -> dict[str, int]:
    """Zero points and bounds."""
    low, high = sorted(int(n) for n in rng.choice(np.arange(-128, 128), 2, replace=False))
    whole = {"low": -128, "high": 127}
    zeros = {"x_zero": int(rng.integers(-128, 128)), "y_zero": int(rng.integers(-128, 128))}
    return zeros | (whole if rng.random() < 0.7 else {"low": low, "high": high})


def finish(rng: Rng, k: int, depth: int) -> tuple[Spec, ...]:
    """Bias, multiplier, shift: mostly as layers have them, sometimes as far out as may be."""
    reach = int(np.log2(40 * np.sqrt(depth) + 1)) + 1
    match rng.choice(["usual", "usual", "half", "half", "left", "wide", "exact"]):
        case "half":  # multipliers in float16, some of them below its normal numbers
            real = rng.uniform(0, 3 * 2.0**-reach, k) * rng.choice([1, 1, 1, 1e-5, 0], k)
            return ints(k, low=-2000, high=2000), exactly(real, DType.f16)
        case "left":  # shifts in both directions
            shift = ints(k, low=-3, high=4)
            return ints(k, low=-500, high=500), ints(k, low=2**30, high=2**31), shift
        case "wide":  # sums that wrap around, whatever multiplier and shift
            bias = ints(k, low=-(2**31), high=2**31)
            return bias, ints(k, low=0, high=2**31), ints(k, low=-31, high=31)
        case "exact":  # multipliers that are powers of two, so that there are ties
            bias, shift = ints(k, low=-9, high=9), ints(k, low=-reach, high=1)
            return bias, exactly(np.full(k, 2**30), DType.i32), shift
        case _:
            shift = ints(k, low=-reach - 1, high=-reach + 2)
            return ints(k, low=-2000, high=2000), ints(k, low=2**30, high=2**31), shift


def weights(rng: Rng, *shape: int, axis: int) -> Spec:
    """All of int8, and some results have none but zeros."""
    w = rng.integers(-128, 128, shape)
    none = [slice(None)] * len(shape)
    none[axis] = rng.random(shape[axis]) < 0.1
    w[tuple(none)] = 0
    return exactly(w, DType.i8)


def windows(rng: Rng, r: int, s: int) -> tuple[dict[str, Any], int, int]:
    """Strides, pads, dilations, and a height and width that they fit."""
    strides = tuple(int(n) for n in rng.choice([1, 1, 1, 2, 3], 2))
    dilations = tuple(int(n) for n in rng.choice([1, 1, 1, 2, 3], 2))
    pads = tuple(int(n) for n in rng.integers(0, 4, 4))
    h, w = (
        (n - 1) * d + 1 + int(rng.integers(0, 9)) for n, d in zip((r, s), dilations, strict=True)
    )
    return {"strides": strides, "pads": pads, "dilations": dilations}, h, w


def conv2d(rng: Rng) -> Case:
    r, s = (int(n) for n in rng.choice([1, 1, 2, 3, 3, 5, 7], 2))
    groups = int(rng.choice([1, 1, 1, 2, 3]))
    c, k = (int(n) for n in rng.choice(CHANNELS[:-3] if groups == 1 else CHANNELS[:8], 2))
    attrs, height, width = windows(rng, r, s)
    x = int8s(int(rng.integers(1, 3)), height, width, c * groups)
    w = weights(rng, k * groups, r, s, c, axis=0)
    return stored_case(
        x, w, *finish(rng, k * groups, r * s * c), groups=groups, **attrs, **numbers(rng)
    )


def depthwise(rng: Rng) -> Case:
    r, s = (int(n) for n in rng.choice([1, 2, 3, 3, 3, 4, 5, 7], 2))
    c = int(rng.choice(CHANNELS))
    attrs, height, width = windows(rng, r, s)
    x = int8s(int(rng.integers(1, 3)), height, width, c)
    w = weights(rng, r, s, c, axis=2)
    return stored_case(x, w, *finish(rng, c, r * s), **attrs, **numbers(rng))


def linear(rng: Rng) -> Case:
    rows = int(rng.choice([1, 1, 2, 3, 5, 6, 7, 8, 9, 23, 24, 25, 49, 70]))
    c, k = (int(n) for n in rng.choice(CHANNELS, 2))
    return stored_case(
        int8s(rows, c), weights(rng, k, c, axis=0), *finish(rng, k, c), **numbers(rng)
    )


def scale(rng: Rng, name: str = "", low: int = -8, high: int = 2) -> dict[str, int]:
    """A multiplier and a shift."""
    return {
        f"{name}multiplier": int(rng.integers(2**30, 2**31)),
        f"{name}shift": int(rng.integers(low, high)),
    }


def add(rng: Rng) -> Case:
    attrs = numbers(rng)
    attrs |= {"a_zero": attrs.pop("x_zero"), "b_zero": int(rng.integers(-128, 128))}
    attrs |= scale(rng, "a_", -3, 2) | scale(rng, "b_", -3, 2) | scale(rng, "y_", -22, -15)
    attrs["left_shift"] = int(rng.choice([20, 20, 20, 0, 22]))
    n, c = int(rng.integers(1, 80)), int(rng.choice(CHANNELS))
    other = [(n, c), (c,), (n, 1), (1,)][int(rng.integers(4))]
    return stored_case(int8s(n, c), int8s(*other), **attrs)


def mul(rng: Rng) -> Case:
    attrs = numbers(rng)
    attrs |= {"a_zero": attrs.pop("x_zero"), "b_zero": int(rng.integers(-128, 128))}
    n, c = int(rng.integers(1, 80)), int(rng.choice(CHANNELS))
    other = [(n, c), (c,), (n, 1), (1,)][int(rng.integers(4))]
    return stored_case(int8s(n, c), int8s(*other), **attrs, **scale(rng, low=-12, high=1))


def mean(rng: Rng) -> Case:
    n, h, w = (int(m) for m in rng.integers(1, 9, 3))
    return stored_case(int8s(n, h, w, int(rng.choice(CHANNELS))), **numbers(rng), **scale(rng))


def requantize(rng: Rng) -> Case:
    return stored_case(int8s(int(rng.integers(1, 300))), **numbers(rng), **scale(rng, high=4))


def pool(rng: Rng, **more: Any) -> Case:
    size = tuple(int(n) for n in rng.integers(1, 5, 2))
    attrs, height, width = windows(rng, *size)
    if "low" in more:
        del attrs["dilations"]
    x = int8s(int(rng.integers(1, 3)), height + 6, width + 6, int(rng.choice(CHANNELS)))
    return stored_case(x, size=size, **attrs, **more)


def average(rng: Rng) -> Case:
    attrs = numbers(rng)
    return pool(rng, low=attrs["low"], high=attrs["high"])


RANDOM: dict[str, tuple[Callable[[Rng], Case], int]] = {
    "quantized_conv2d": (conv2d, 60),
    "quantized_depthwise_conv2d": (depthwise, 60),
    "quantized_linear": (linear, 30),
    "quantized_add": (add, 20),
    "quantized_mul": (mul, 20),
    "quantized_mean": (mean, 20),
    "requantize": (requantize, 10),
    "max_pool2d": (pool, 30),
    "quantized_avg_pool2d": (average, 30),
}


LAYERS = ("quantized_conv2d", "quantized_depthwise_conv2d", "quantized_linear")


def wide(name: str, rng: Rng) -> Case:
    """A call as of int8, on int16: no zero points, bounds as far out, and what brings sums back
    shifts further."""
    made = RANDOM[name][0](rng)
    attrs = {k: 0 if k.endswith("zero") else v for k, v in made.attrs.items()}
    if "low" in attrs:
        attrs |= {"low": attrs["low"] * 256, "high": attrs["high"] * 256 + 255}
    if "left_shift" in attrs:
        attrs["left_shift"] = min(attrs["left_shift"], MAX_LEFT_SHIFT_16)
        attrs["y_shift"] += 5
    if name == "quantized_mul":
        attrs["shift"] -= 8
    if name not in LAYERS:
        return stored_case(*(int16s(*x.shape) for x in made.inputs if x), **attrs)
    x, w, bias, multiplier, *shift = made.inputs
    assert x is not None
    assert bias is not None
    farther = int(rng.choice([1 << 8, 1 << 15]))
    ends = (max(-MOST_BIAS_16, bias.low * farther), min(MOST_BIAS_16, bias.high * farther))
    far = ints(*bias.shape, low=int(ends[0]), high=int(ends[1]), dtype=DType.i64)
    return stored_case(int16s(*x.shape), w, far, multiplier, *map(_in_reach, shift), **attrs)


def _in_reach(shift: Spec | None) -> Spec:
    assert shift is not None
    return replace(shift, high=min(shift.high, MOST_SHIFT_16 + 1))


def large(rng: Rng) -> Iterator[tuple[Op, Case]]:
    """Layers that are shared among threads."""
    for shape, w, pads in [
        ((1, 14, 14, 64), (64, 3, 3, 64), (1, 1, 1, 1)),
        ((1, 40, 40, 24), (96, 1, 1, 24), (0, 0, 0, 0)),
        ((3, 4, 4, 128), (200, 2, 2, 128), (0, 0, 0, 0)),
    ]:
        layer = stored_case(
            int8s(*shape), int8s(*w), *finish(rng, w[0], w[1] * w[2] * w[3]),
            pads=pads, **numbers(rng),
        )  # fmt: skip
        yield OPS["quantized_conv2d"], layer
    for shape, stride in [((1, 50, 50, 112), 1), ((2, 60, 60, 112), 2)]:
        w = weights(rng, 3, 3, shape[3], axis=2)
        layer = stored_case(
            int8s(*shape), w, *finish(rng, shape[3], 9),
            pads=(1, 1, 1, 1), strides=(stride, stride), **numbers(rng),
        )  # fmt: skip
        yield OPS["quantized_depthwise_conv2d"], layer
    for rows, c, k in [(4, 800, 800), (300, 96, 96)]:
        layer = stored_case(int8s(rows, c), int8s(k, c), *finish(rng, k, c), **numbers(rng))
        yield OPS["quantized_linear"], layer


@pytest.fixture(scope="module")
def random_cases(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng = np.random.default_rng(20)
    calls = [(OPS[name], make(rng)) for name, (make, count) in RANDOM.items() for _ in range(count)]
    calls += [(OPS[n], wide(n, rng)) for n, (_, count) in RANDOM.items() for _ in range(count // 2)]
    path = tmp_path_factory.mktemp("int8") / "random.cases"
    path.write_bytes(encode([*calls, *large(rng)]))
    return path


def test_integer_kernels_agree_with_the_numpy_reference_on_random_calls(
    check_kernels: Path, random_cases: Path
) -> None:
    found = findings(str(check_kernels), str(random_cases), "--by-operator")
    assert found.failures == ()
    for name, (_, count) in RANDOM.items():
        assert found.passed[name, "i8", "ref"] >= count
        assert found.passed[name, "i16", "ref"] >= count // 2
    for isa in filter(runs_here, NATIVE):
        for name, dtype in listed(isa):
            if dtype == "i16" and name in RANDOM:
                assert found.passed[name, "i16", isa] >= RANDOM[name][1] // 2


@pytest.mark.skipif("neon" in NATIVE, reason="runs natively here")
@pytest.mark.parametrize("isa", [i for i in ARM if ("quantized_conv2d", "i8") in listed(i)])
def test_integer_kernels_for_arm_agree_with_the_numpy_reference_on_random_calls(
    isa: str, check_kernels_neon: Path, random_cases: Path
) -> None:
    command = ("qemu-aarch64", str(check_kernels_neon), str(random_cases), "--isa", isa)
    found = findings(*command, "--by-operator")
    assert found.failures == ()
    assert found.passed["quantized_conv2d", "i8", isa] >= RANDOM["quantized_conv2d"][1]
    for name, dtype in listed(isa):
        if dtype == "i16" and name in RANDOM:
            assert found.passed[name, "i16", isa] >= RANDOM[name][1] // 2
