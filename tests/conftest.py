"""Fixtures that several test files share."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from ir.cases import case_file
from tests.native import aarch64_build, native_build


def pytest_configure() -> None:
    """A shell's job in the background has SIGINT ignored, and whatever it starts inherits that: the
    tests of interrupted programs would wait for their ends."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def cases(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with the samples of every operator."""
    path = tmp_path_factory.mktemp("cases") / "all.cases"
    path.write_bytes(case_file())
    return path


@pytest.fixture(scope="session")
def check_kernels() -> Path:
    """The tool, built for this machine."""
    return native_build("check_kernels") / "bin/check_kernels"


@pytest.fixture(scope="session")
def check_kernels_neon() -> Path:
    """The tool, built for AArch64; runs under qemu-aarch64."""
    return aarch64_build("check_kernels") / "bin/check_kernels"
