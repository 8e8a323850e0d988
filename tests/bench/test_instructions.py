"""Kernels for ARM take fewer instructions and, as llvm-mca has it, cycles than plain intrinsics."""

from __future__ import annotations

import shutil

import pytest

from bench import instructions
from bench.instructions import CPUS, KERNELS_OF, LAYERS, TOOLS
from ir.dtype import DType

MISSING = [t for t in TOOLS if not shutil.which(t)]
ORDER = 1.02  # what the order of the same instructions makes, as llvm-mca has it
ADDED = 1.04  # of numbers that are only added, where loads are most of it
WIDENED = 1.05
RELOADED = 1.12  # in depthwise layers, where float32 loads a pixel once for all results that see it
READ, MULTIPLIED = 1.25, 0.96  # of float32
PACKAGES = "qemu-user g++-aarch64-linux-gnu gcc llvm-19"


@pytest.fixture(scope="module", autouse=True)
def built() -> None:
    if MISSING:
        pytest.skip(f"missing: {', '.join(MISSING)}; apt-get install {PACKAGES}")
    instructions.build()


@pytest.mark.parametrize("unit", ["instructions", *CPUS])
@pytest.mark.parametrize("name", LAYERS)
def test_a_kernel_takes_no_more_than_plain_intrinsics(name: str, unit: str) -> None:
    found = list(instructions.row(LAYERS[name], unit))
    for dtype in (DType.f32, DType.i8):
        assert found[KERNELS_OF.index((dtype, "neon"))][0] > 0
    if LAYERS[name].op == "conv2d":
        assert len(found) == len(KERNELS_OF)
        assert all(ours > 0 for ours, _ in found)  # each set has a kernel, which ran
    most = ADDED if LAYERS[name].op == "add" else ORDER
    for ours, plain in found:
        assert ours <= most * plain, f"{name}: {ours:.3f} {unit} a multiply-add, plain {plain:.3f}"


@pytest.mark.parametrize("name", [n for n, layer in LAYERS.items() if layer.op != "add"])
def test_int8_takes_no_more_instructions_than_float32(name: str) -> None:
    """But for WIDENED and RELOADED: plain NEON makes int16 of products of int8 first."""
    float32, _, _, plain, *others = (
        ours for ours, _ in instructions.row(LAYERS[name], "instructions")
    )
    report = f"{name}: {[plain, *others]} instructions, float32 {float32}"
    most = WIDENED if LAYERS[name].op == "conv2d" else RELOADED
    assert 0 < plain <= most * float32, report
    assert all(n <= float32 for n in others), report  # 0: no kernel of that set


@pytest.mark.parametrize("unit", ["instructions", *CPUS])
@pytest.mark.parametrize("name", [n for n, layer in LAYERS.items() if layer.op == "conv2d"])
def test_float16_costs_little_to_read_and_less_to_multiply(name: str, unit: str) -> None:
    float32, read, multiplied, *_ = (ours for ours, _ in instructions.row(LAYERS[name], unit))
    report = f"{name}: {read:.3f} and {multiplied:.3f} {unit}, float32 {float32:.3f}"
    assert 0 < read <= READ * float32, report
    assert 0 < multiplied <= MULTIPLIED * float32, report
