"""Kernels for ARM without such a processor: python -m bench.instructions

Tables of what a multiply-add (of `add`: a number) takes, by the type of weights and the
instruction set, beside the same layer in plain intrinsics (arm_reference.cc): instructions, counted
under qemu, and cycles of two processors as llvm-mca has them, block by block, weighted by how often
each ran. These are models, no times. Wants qemu-user, g++-aarch64-linux-gnu and llvm-19; builds in
build/instructions.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from ir.cases import encode
from ir.dtype import DType
from ir.op import OPS, Case, case, exactly, ints
from ir.ops.quant import int8s
from ir.quantization import add_attrs

ROOT = Path(__file__).resolve().parents[1]
BUILD = ROOT / "build/instructions"
KERNELS, REFERENCE = BUILD / "bin/repeat_kernel", BUILD / "arm_reference"
TIMES = 3  # runs that are counted
PAGE = 4096  # bytes
KERNELS_OF = (  # the type of a layer's weights, an instruction set
    (DType.f32, "neon"), (DType.f16, "neon"), (DType.f16, "fp16"),
    (DType.i8, "neon"), (DType.i8, "dotprod"), (DType.i8, "i8mm"),
)  # fmt: skip
CPUS = ("neoverse-n1", "cortex-a55")
TOOLS = ("qemu-aarch64", "aarch64-linux-gnu-g++", "cc", "llvm-mca-19")
Blocks = dict[tuple[int, int], float]  # how often blocks run: by address, number of instructions


@dataclass(frozen=True)
class Layer:
    """A layer of the same sizes in all types, on an image of size by size pixels."""

    op: str  # of float32; that of int8 is quantized_<op>
    size: int
    channels: int
    results: int
    window: int = 1

    @property
    def macs(self) -> int:
        inputs = self.channels if self.op == "conv2d" else 1
        return self.size**2 * self.window**2 * inputs * self.results

    def case(self, dtype: DType) -> Case:
        """With weights of a type."""
        int8 = dtype is DType.i8
        x, k, r = (1, self.size, self.size, self.channels), self.results, self.window
        if self.op == "add":
            attrs = add_attrs(0.05, 0.0357, 0.0659)
            return case(int8s(*x), int8s(*x), **attrs) if int8 else case(x, x)
        shape = (k, r, r, self.channels) if self.op == "conv2d" else (r, r, k)
        pads = (r // 2,) * 4
        if dtype is DType.f16:
            halves = np.random.default_rng(0).uniform(-1, 1, shape)
            return case(x, exactly(halves, DType.f16), pads=pads)
        if not int8:
            return case(x, shape, pads=pads)
        w = ints(*shape, low=-127, high=128, dtype=DType.i8)  # as quantize_weight makes them
        return case(
            int8s(*x), w, ints(k), ints(k, low=2**30, high=2**31), ints(k, low=-12, high=-8),
            pads=pads,
        )  # fmt: skip


LAYERS = {
    "conv2d 1 x 1, 64 to 128, 14 x 14": Layer("conv2d", 14, 64, 128),
    "conv2d 3 x 3, 32 to 64, 14 x 14": Layer("conv2d", 14, 32, 64, 3),
    "depthwise_conv2d 3 x 3, 64, 14 x 14": Layer("depthwise_conv2d", 14, 64, 64, 3),
    "depthwise_conv2d 5 x 5, 64, 14 x 14": Layer("depthwise_conv2d", 14, 64, 64, 5),
    "add 64, 14 x 14": Layer("add", 14, 64, 64),
}


def main() -> None:
    if missing := [t for t in TOOLS if not shutil.which(t)]:
        sys.exit(f"bench.instructions: {', '.join(missing)} missing: see docs/performance.md")
    build()
    for unit in ("instructions", *CPUS):
        heads = "".join(f"{f'{dtype.name}, {isa}':>16}" for dtype, isa in KERNELS_OF)
        print(f"{unit + ', kernel / reference':38}{heads}")
        for name, layer in LAYERS.items():
            cells = [f"{a:.3f} / {b:.3f}" if a else "-" for a, b in row(layer, unit)]
            print(f"{name:38}" + "".join(f"{c:>16}" for c in cells), flush=True)


def row(layer: Layer, unit: str) -> Iterator[tuple[float, float]]:
    """What a multiply-add takes in each of KERNELS_OF and in its reference, 0 where there is no
    such kernel. `unit`: instructions or a processor."""
    for dtype, isa in KERNELS_OF:
        both = blocks_of_kernel(layer, dtype, isa), blocks_of_reference(layer, dtype, isa)
        costs = [
            cost(tool, blocks, unit) / layer.macs
            for tool, blocks in zip((KERNELS, REFERENCE), both, strict=True)
        ]
        yield costs[0], costs[1]


def build() -> None:
    """The tool for AArch64, the reference, and qemu's plugin for this machine."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    options = ["-DCMAKE_TOOLCHAIN_FILE=cmake/aarch64.cmake", "-DLITE_PYTHON=OFF", "-GNinja"]
    plain = ["-O2", "-std=c++17", "-static", "-march=armv8.2-a+fp16+dotprod+i8mm"]
    BUILD.mkdir(parents=True, exist_ok=True)
    for command in (
        ["cmake", "-S.", f"-B{BUILD}", *options, f"-DPython_EXECUTABLE={sys.executable}"],
        ["cmake", "--build", str(BUILD), "--target", "repeat_kernel"],
        ["aarch64-linux-gnu-g++", *plain, "bench/arm_reference.cc", "-o", str(REFERENCE)],
        ["cc", "-shared", "-fPIC", "-O2", "bench/count_instructions.c", "-o", f"{BUILD}/count.so"],
    ):
        done = subprocess.run(
            command, cwd=ROOT, env=os.environ | {"PATH": path}, capture_output=True, text=True
        )
        if done.returncode != 0:
            sys.exit(f"{' '.join(command)}\n{done.stdout}{done.stderr}")


@cache
def blocks_of_kernel(layer: Layer, dtype: DType, isa: str) -> Blocks:
    """Of one run on a processor that has all instruction sets; none: no such kernel."""
    if dtype is DType.f16 and layer.op != "conv2d":
        return {}  # these read weights as floats
    op = f"quantized_{layer.op}" if dtype is DType.i8 else layer.op
    cases = BUILD / "one.cases"
    cases.write_bytes(encode([(OPS[op], layer.case(dtype))]))
    return _once(KERNELS, [str(cases), isa])


@cache
def blocks_of_reference(layer: Layer, dtype: DType, isa: str) -> Blocks:
    op = {DType.i8: "quantized_", DType.f16: "half_"}.get(dtype, "") + layer.op
    numbers = (layer.size, layer.channels, layer.results, layer.window, layer.window // 2)
    return _once(REFERENCE, [op, isa, *map(str, numbers)])


def _once(tool: Path, arguments: Sequence[str]) -> Blocks:
    few, many = (_blocks(tool, [*arguments, str(n)]) for n in (1, 1 + TIMES))
    return _joined({b: (n - few[b]) / TIMES for b, n in many.items() if n > few[b]})


def _joined(blocks: Blocks) -> Blocks:
    """The same without the cuts that qemu makes where a page of memory ends."""
    whole = Counter(blocks)
    for (address, size), n in blocks.items():
        end = address + 4 * size
        behind = [b for b in blocks if b[0] == end and end % PAGE == 0]
        for next_block in behind[:1]:
            both = min(n, whole[next_block])
            whole[address, size + next_block[1]] += both
            whole[address, size] -= both
            whole[next_block] -= both
    return {b: n for b, n in whole.items() if n > 0}


def _blocks(tool: Path, arguments: Sequence[str]) -> Counter[tuple[int, int]]:
    command = ["qemu-aarch64", "-plugin", f"{BUILD}/count.so", str(tool), *arguments]
    done = subprocess.run(command, capture_output=True, text=True)
    counts: Counter[tuple[int, int]] = Counter()
    if done.returncode == 0:
        for address, size, n in re.findall(r"block (\w+) (\d+) (\d+)", done.stderr):
            counts[int(address, 16), int(size)] += int(n)
    return counts


def cost(tool: Path, blocks: Blocks, unit: str) -> float:
    """Instructions, or a processor's cycles of the blocks that are not too rare to matter."""
    total = sum(size * n for (_, size), n in blocks.items())
    if unit == "instructions":
        return total
    often = {b: n for b, n in blocks.items() if b[1] * n > 1e-3 * total}
    return sum(n * cycles(tool, *block, unit) for block, n in often.items())


@cache
def cycles(tool: Path, address: int, size: int, cpu: str) -> float:
    """Cycles of a block that runs again and again."""
    lines = disassembled(tool)
    text = "\n".join(lines[a] for a in range(address, address + 4 * size, 4) if a in lines)
    command = ["llvm-mca-19", "-march=aarch64", f"-mcpu={cpu}", "-mattr=+fullfp16,+dotprod,+i8mm"]
    done = subprocess.run([*command, "-iterations=100"], input=text, capture_output=True, text=True)
    found = re.search(r"Total Cycles:\s+(\d+)", done.stdout)
    if found is None:
        sys.exit(f"llvm-mca: {done.stderr}")
    return int(found[1]) / 100


@cache
def disassembled(tool: Path) -> dict[int, str]:
    """Instructions by address, branches without their targets' names."""
    command = ["aarch64-linux-gnu-objdump", "-d", "--no-show-raw-insn", str(tool)]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found = re.findall(r"^ +([0-9a-f]+):\t([^<\n/]+?)(?: <.*)?(?:\s*//.*)?$", text, re.M)
    return {int(a, 16): _plain(line) for a, line in found}


def _plain(line: str) -> str:
    """An address that is jumped to as a number that the assembler takes."""
    jump = re.match(r"((?:b|bl|cbn?z|tbn?z|adrp?|b\.\w+)\t.*?)[0-9a-f]+$", line)
    return jump[1] + "0" if jump else line


if __name__ == "__main__":
    main()
