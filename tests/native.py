"""Build C++ targets for tests, in folders that are kept between runs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers import ROOT

PACKAGES = {"aarch64-linux-gnu-g++": "g++-aarch64-linux-gnu", "qemu-aarch64": "qemu-user"}


def native_build(target: str) -> Path:
    """The build folder for this machine, once it holds the target; programs are in `bin`."""
    return _build("native", target)


def model_build(*models: Path) -> Path:
    """The build folder of a shared library with the kernels of these model files alone, and of one
    instruction set."""
    return _build(
        "model", "lite", "-DBUILD_SHARED_LIBS=ON", "-DLITE_TOOLS=OFF", "-DLITE_ISAS=avx2;neon",
        f"-DLITE_MODEL={';'.join(map(str, models))}",
    )  # fmt: skip


def fuzz_build(compiler: str) -> Path:
    """The build folder of `fuzz_model` by that clang++, with AddressSanitizer and UBSan."""
    return _build(
        "fuzz", "fuzz_model", "-DLITE_FUZZ=ON", "-DLITE_WERROR=OFF", "-DLITE_ISAS=avx2;neon",
        f"-DCMAKE_CXX_COMPILER={compiler}", f"-DCMAKE_C_COMPILER={compiler.replace('++', '')}",
    )  # fmt: skip


def aarch64_build(target: str) -> Path:
    """The same for AArch64: programs run under qemu-aarch64. Skips the test without the tools."""
    for tool, package in PACKAGES.items():
        if not shutil.which(tool):
            pytest.skip(f"{tool} is missing: apt-get install {package}")
    return _build("aarch64", target, "-DCMAKE_TOOLCHAIN_FILE=cmake/aarch64.cmake")


def run_tool(*command: str) -> None:
    """Run a command of this Python's environment, which has cmake and ninja."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    env = os.environ | {"PATH": path}
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}{done.stderr}"


def _build(name: str, target: str, *options: str) -> Path:
    folder = ROOT / "build" / f"check-{name}"
    python = f"-DPython_EXECUTABLE={sys.executable}"
    run_tool("cmake", "-S.", f"-B{folder}", "-GNinja", "-DLITE_PYTHON=OFF", python, *options)
    run_tool("cmake", "--build", str(folder), "--target", target)
    return folder
