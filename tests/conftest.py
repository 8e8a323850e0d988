"""Fixtures that several test files share."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from examples.watch.data import WATCH_DATA
from ir.cases import case_file
from tests.helpers import fetched
from tests.native import aarch64_build, native_build

# Files that wait for builds or for one long program: where several processes share the tests, these
# begin first, so that no process is left alone with one of them at the end.
LONG = (
    "tests/lite_runtime/test_c_api.py",
    "tests/lite_runtime/test_mutations.py",
    "tests/lite_runtime/test_wasm.py",
    "tests/lite_runtime/test_size.py",
    "tests/test_kernels.py",
    "tests/test_ops.py",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    rank = {file: at for at, file in enumerate(LONG)}
    items.sort(key=lambda item: rank.get(item.nodeid.partition("::")[0], len(LONG)))


def pytest_configure() -> None:
    """A shell's job in the background has SIGINT ignored, and whatever it starts inherits that: the
    tests of interrupted programs would wait for their ends."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def watch_file() -> Path:
    """The recordings of a wrist watch that the demo learns from."""
    return fetched(WATCH_DATA)


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
