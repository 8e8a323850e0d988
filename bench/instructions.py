"""Instructions of kernels for ARM, counted under qemu: python -m bench.instructions

A table of instructions for each multiply-add of layers, by instruction set, beside the float32
kernel of the same layer. Instructions are no time: processors differ in how many they start at a
time. Wants qemu-user and g++-aarch64-linux-gnu; builds in build/instructions.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from ir.cases import encode
from ir.dtype import DType
from ir.op import OPS, Case, case, ints
from ir.ops.quant import int8s

ROOT = Path(__file__).resolve().parents[1]
BUILD = ROOT / "build/instructions"
TIMES = 5  # runs that are counted
ISAS = ("neon", "dotprod", "i8mm")


@dataclass(frozen=True)
class Layer:
    """A layer of the same sizes in both types; `x` is an image, channels last."""

    op: str  # of float32; that of int8 is quantized_<op>
    x: tuple[int, ...]
    w: tuple[int, ...]
    macs: int
    pad: int = 0


LAYERS = {
    "conv2d 1 x 1, 64 to 128, 14 x 14": Layer(
        "conv2d", (1, 14, 14, 64), (128, 1, 1, 64), 196 * 64 * 128
    ),
    "conv2d 3 x 3, 32 to 64, 14 x 14": Layer(
        "conv2d", (1, 14, 14, 32), (64, 3, 3, 32), 196 * 9 * 32 * 64, 1
    ),
    "depthwise_conv2d 3 x 3, 64, 14 x 14": Layer(
        "depthwise_conv2d", (1, 14, 14, 64), (3, 3, 64), 196 * 9 * 64, 1
    ),
}


def main() -> None:
    for tool in ("qemu-aarch64", "aarch64-linux-gnu-g++", "cc"):
        if not shutil.which(tool):
            sys.exit(f"bench.instructions: {tool} is missing: see docs/performance.md")
    build()
    print(
        f"{'instructions for a multiply-add':36}{'float32':>9}" + "".join(f"{i:>9}" for i in ISAS)
    )
    for name, layer in LAYERS.items():
        counts = [count(layer.op, float_case(layer), "neon")]
        counts += [count(f"quantized_{layer.op}", int8_case(layer), isa) for isa in ISAS]
        cells = [f"{n / layer.macs:9.3f}" if n else f"{'-':>9}" for n in counts]
        print(f"{name:36}" + "".join(cells), flush=True)


def build() -> None:
    """The tool for AArch64 and qemu's plugin for this machine."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    options = ["-DCMAKE_TOOLCHAIN_FILE=cmake/aarch64.cmake", "-DLITE_PYTHON=OFF", "-GNinja"]
    BUILD.mkdir(parents=True, exist_ok=True)
    for command in (
        ["cmake", "-S.", f"-B{BUILD}", *options, f"-DPython_EXECUTABLE={sys.executable}"],
        ["cmake", "--build", str(BUILD), "--target", "repeat_kernel"],
        [
            "cc",
            "-shared",
            "-fPIC",
            "-O2",
            "bench/count_instructions.c",
            "-o",
            str(BUILD / "count.so"),
        ],
    ):
        done = subprocess.run(
            command, cwd=ROOT, env=os.environ | {"PATH": path}, capture_output=True, text=True
        )
        if done.returncode != 0:
            sys.exit(f"{' '.join(command)}\n{done.stdout}{done.stderr}")


def float_case(layer: Layer) -> Case:
    return case(layer.x, layer.w, pads=(layer.pad,) * 4)


def int8_case(layer: Layer) -> Case:
    k = layer.w[0] if layer.op == "conv2d" else layer.w[-1]
    w = ints(*layer.w, low=-127, high=128, dtype=DType.i8)  # as quantize_weight makes them
    return case(
        int8s(*layer.x), w, ints(k), ints(k, low=2**30, high=2**31),
        ints(k, low=-12, high=-8), pads=(layer.pad,) * 4,
    )  # fmt: skip


def count(op: str, sample: Case, isa: str) -> float:
    """Instructions of one run on a processor that has all instruction sets; 0: no such kernel."""
    cases = BUILD / "one.cases"
    cases.write_bytes(encode([(OPS[op], sample)]))
    few, many = (_instructions(cases, isa, n) for n in (1, 1 + TIMES))
    return (many - few) / TIMES


def _instructions(cases: Path, isa: str, times: int) -> int:
    plugin, tool = f"{BUILD}/count.so", f"{BUILD}/bin/repeat_kernel"
    done = subprocess.run(
        ["qemu-aarch64", "-plugin", plugin, tool, str(cases), isa, str(times)],
        capture_output=True,
        text=True,
    )
    found = re.search(r"instructions (\d+)", done.stderr)
    return int(found[1]) if found and done.returncode == 0 else 0


if __name__ == "__main__":
    main()
