"""Fixtures that several test files share."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from ir.cases import case_file
from tests.helpers import ROOT


@pytest.fixture(scope="session")
def cases(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with the samples of every operator."""
    path = tmp_path_factory.mktemp("cases") / "all.cases"
    path.write_bytes(case_file())
    return path


@pytest.fixture(scope="session")
def check_kernels() -> Path:
    """The tool, built for this machine."""
    return _built("native")


@pytest.fixture(scope="session")
def check_kernels_neon() -> Path:
    """The tool, built for AArch64; runs under qemu-aarch64."""
    for tool, package in (("aarch64-linux-gnu-g++", "g++-aarch64-linux-gnu"), ("qemu-aarch64", "qemu-user")):
        if not shutil.which(tool):
            pytest.skip(f"{tool} is missing: apt-get install {package}")
    return _built("aarch64", "-DCMAKE_TOOLCHAIN_FILE=cmake/aarch64.cmake")


def _built(name: str, *options: str) -> Path:
    folder = ROOT / "build" / f"check-{name}"
    _run("cmake", "-S", "lite_runtime", "-B", str(folder), "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release", *options)
    _run("cmake", "--build", str(folder), "--target", "check_kernels")
    return folder / "check_kernels"


def _run(*command: str) -> None:
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}{done.stderr}"
