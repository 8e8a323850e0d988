"""Every kernel on every sample of its operator, through the tool check_kernels: made from the table
and from the lists of fast kernels, so that a new kernel needs no new test."""

from __future__ import annotations

import platform
import re
import struct
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from ir.cases import case_file
from ir.op import OPS
from tests.helpers import ROOT

ARM = ("neon", "fp16", "dotprod", "i8mm")
NATIVE = (
    ARM
    if platform.machine() in ("aarch64", "arm64")
    else ("avx2", "avxvnni", "avx512", "avx512vnni")
)
KERNELS = ROOT / "lite_runtime/kernels"


def listed(isa: str) -> list[tuple[str, str]]:
    """(operator, type) of every fast kernel of an instruction set."""
    text = (KERNELS / isa / "list.inc").read_text()
    return re.findall(r"^X[SPHA]?\((\w+), (\w+)\)", text, re.MULTILINE)


AVX512 = {"avx512f", "avx512bw", "avx512dq", "avx512vl"}
FLAGS = {  # what a kernel's instruction set needs, as Linux names it
    "avx2": {"avx2", "fma", "f16c"},
    "avxvnni": {"avx2", "fma", "f16c", "avx_vnni"},
    "avx512": AVX512,
    "avx512vnni": AVX512 | {"avx512_vnni"},
    "neon": {"asimd"},
    "fp16": {"asimdhp"},
    "dotprod": {"asimddp"},
    "i8mm": {"i8mm"},
}


def runs_here(isa: str) -> bool:
    """Whether this processor has an instruction set."""
    return FLAGS[isa] <= set(Path("/proc/cpuinfo").read_text().split())


REFERENCE = [(op.name, dtype) for op in OPS.values() for dtype in op.kernels]
CHECKED = [op.name for op in OPS.values() if op.kernels]


@dataclass(frozen=True)
class Findings:
    """What check_kernels said: (operator, type, isa) -> samples passed; and its failures."""

    passed: dict[tuple[str, str, str], int]
    failures: tuple[str, ...]

    def of(self, op: str, isa: str) -> list[str]:
        return [f for f in self.failures if f.startswith(f"FAIL {op}[") and f"] {isa}: " in f]


def findings(*command: str) -> Findings:
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode in (0, 1), (
        f"{' '.join(command)}: {done.returncode}\n{done.stdout}{done.stderr}"
    )
    scores = re.findall(r"^(\w+) (\S+) (\w+) (\d+) \d+$", done.stdout, re.MULTILINE)
    failures = re.findall(r"^FAIL .*$", done.stdout, re.MULTILINE)
    return Findings({(op, t, isa): int(n) for op, t, isa, n in scores}, tuple(failures))


@pytest.fixture(scope="session")
def native(check_kernels: Path, cases: Path) -> Findings:
    return findings(str(check_kernels), str(cases), "--by-operator")


@pytest.fixture(scope="session")
def emulated(check_kernels_neon: Path, cases: Path) -> Findings:
    # One by one: the reference need not run there, and takes long.
    found = [
        findings("qemu-aarch64", str(check_kernels_neon), str(cases), "--isa", isa, "--by-operator")
        for isa in ARM
    ]
    return Findings(
        {k: n for f in found for k, n in f.passed.items()},
        tuple(failure for f in found for failure in f.failures),
    )


@pytest.mark.parametrize(("op", "dtype"), REFERENCE)
def test_reference_kernel_agrees_with_the_numpy_reference(
    op: str, dtype: str, native: Findings
) -> None:
    assert native.of(op, "ref") == []
    assert native.passed.get((op, dtype, "ref"), 0) > 0


@pytest.mark.parametrize(
    ("isa", "op", "dtype"), [(isa, *kernel) for isa in NATIVE for kernel in listed(isa)]
)
def test_fast_kernel_agrees_with_the_numpy_reference(
    isa: str, op: str, dtype: str, native: Findings
) -> None:
    if not runs_here(isa):
        pytest.skip(f"this processor lacks {isa}")
    assert native.of(op, isa) == []
    assert native.passed.get((op, dtype, isa), 0) > 0


@pytest.mark.parametrize("op", CHECKED)
def test_no_call_that_passes_the_check_leads_out_of_its_tensors(op: str, native: Findings) -> None:
    assert native.of(op, "check") == []
    assert native.passed.get((op, "-", "check"), 0) > 0


@pytest.mark.skipif("neon" in NATIVE, reason="runs natively here")
@pytest.mark.parametrize(
    ("isa", "op", "dtype"), [(isa, *kernel) for isa in ARM for kernel in listed(isa)]
)
def test_arm_kernel_agrees_with_the_numpy_reference(
    isa: str, op: str, dtype: str, emulated: Findings
) -> None:
    assert emulated.of(op, isa) == []
    assert emulated.passed.get((op, dtype, isa), 0) > 0


@pytest.mark.skipif("neon" in NATIVE, reason="runs natively here")
@pytest.mark.parametrize(
    ("processor", "has"),
    [
        ("cortex-a53", {"neon"}),
        ("cortex-a72", {"neon"}),
        ("cortex-a76", {"neon", "fp16", "dotprod"}),
        ("neoverse-n1", {"neon", "fp16", "dotprod"}),
        ("max", {"neon", "fp16", "dotprod", "i8mm"}),
    ],
)
def test_a_processor_runs_the_kernels_that_it_can(
    processor: str, has: set[str], check_kernels_neon: Path, tmp_path: Path
) -> None:
    cases = tmp_path / "conv.cases"
    cases.write_bytes(case_file(only=["quantized_conv2d", "conv2d"]))
    command = ("qemu-aarch64", "-cpu", processor, str(check_kernels_neon), str(cases))
    found = findings(*command, "--by-operator")
    assert found.failures == ()
    assert {isa for _, _, isa in found.passed} == has | {"ref", "check"}


def test_a_wrong_result_is_reported(check_kernels: Path, tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.cases"
    wrong.write_bytes(case_file(only=["softplus"])[:-4] + struct.pack("<f", 77))
    found = findings(str(check_kernels), str(wrong), "--isa", "ref")
    assert len(found.failures) == 1
    assert found.failures[0].startswith("FAIL softplus[f32[]] ref: result 0: element 0 is ")
    assert found.failures[0].endswith("want 77")


@pytest.mark.parametrize("damage", ["cut short", "longer", "of another version"])
def test_a_damaged_case_file_is_refused(
    damage: str, check_kernels: Path, cases: Path, tmp_path: Path
) -> None:
    whole = cases.read_bytes()
    broken = tmp_path / "broken.cases"
    broken.write_bytes(
        {
            "cut short": whole[:-8],
            "longer": whole + b"0000",
            "of another version": b"CASE\x09" + whole[5:],
        }[damage]
    )
    done = subprocess.run([check_kernels, broken], capture_output=True, text=True)
    assert done.returncode == 2
    assert "damaged, or written from another operator table" in done.stderr
