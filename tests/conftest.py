"""Fixtures that several test files share."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ir.cases import case_file
from tests.helpers import ROOT

PACKAGES = {"aarch64-linux-gnu-g++": "g++-aarch64-linux-gnu", "qemu-aarch64": "qemu-user"}


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
    for tool, package in PACKAGES.items():
        if not shutil.which(tool):
            pytest.skip(f"{tool} is missing: apt-get install {package}")
    return _built("aarch64", "-DCMAKE_TOOLCHAIN_FILE=cmake/aarch64.cmake")


def _built(name: str, *options: str) -> Path:
    folder = ROOT / "build" / f"check-{name}"
    python = f"-DPython_EXECUTABLE={sys.executable}"
    _run("cmake", "-S.", f"-B{folder}", "-GNinja", "-DLITE_PYTHON=OFF", python, *options)
    _run("cmake", "--build", str(folder), "--target", "check_kernels")
    return folder / "bin/check_kernels"


def _run(*command: str) -> None:
    """Run a command of this Python's environment, which has cmake and ninja."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    env = os.environ | {"PATH": path}
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}{done.stderr}"
