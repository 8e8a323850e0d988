"""The C interface: what is declared is exported, nothing else is, and nothing has moved."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.lite_runtime.abi import functions_declared, functions_exported, layout, structs
from tests.native import native_build

COMMITTED = (Path(__file__).parent / "abi.txt").read_text().splitlines()


@pytest.fixture(scope="module")
def exported() -> list[str]:
    return functions_exported(native_build("lite_shared") / "lite_runtime/liblite.so")


def test_the_library_exports_what_the_header_declares(exported: list[str]) -> None:
    assert exported == sorted(functions_declared())
    assert len(exported) == len(set(exported)) <= 42


def test_functions_and_structs_are_those_that_were_committed(exported: list[str]) -> None:
    assert [*exported, *layout()] == COMMITTED, "see tests/lite_runtime/abi.py"


def test_every_struct_of_the_header_is_measured() -> None:
    assert structs()["lite_tensor"] == ["name", "data", "size_bytes", "dtype", "rank", "shape"]
    assert {line.split()[0] for line in COMMITTED if ":" in line} == structs().keys()
