"""Some hundred mutated ONNX models; `python -m tests.converter.mutations 5000` tries more."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from converter import ConvertError, convert
from tests.converter.mutations import originals
from tests.converter.onnx_graphs import floats, model
from tests.helpers import ROOT


@pytest.mark.parametrize("number", range(len(originals())))
def test_what_is_mutated_converts_whole(number: int, tmp_path: Path) -> None:
    convert(originals()[number], tmp_path / "m.ms")


def test_mutated_models_are_written_or_refused_in_one_line() -> None:
    command = [sys.executable, "-m", "tests.converter.mutations", "250", "1"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode in (0, 1), done.stderr[-2000:]
    found = json.loads(done.stdout)
    assert found["failures"] == []
    assert found["counts"]["change_parts refused"] > 50
    assert found["counts"]["change_parts written"] > 3
    assert found["peak_bytes"] < 1 << 30


@pytest.mark.parametrize(
    ("nodes", "wanted"),
    [
        ([("Add", ["x", "b"], ["a"], {}), ("Add", ["a", "x"], ["b"], {})], "'b' is read"),
        ([("Relu", ["b"], ["b"], {})], "'b' is read"),
    ],
)
def test_a_cycle_is_refused(nodes: list[object], wanted: str, tmp_path: Path) -> None:
    source = model(nodes, {"x": (2, 3)}, ["b"])  # type: ignore[arg-type]
    with pytest.raises(ConvertError, match=wanted):
        convert(source, tmp_path / "m.ms")


def test_weights_of_nan_are_refused_with_their_place(tmp_path: Path) -> None:
    w = floats(4, 3)
    w[2, 1] = np.nan
    source = model([("MatMul", ["x", "w"], ["y"], {})], {"x": (2, 4)}, ["y"], {"w": w})
    with pytest.raises(ConvertError, match=r"'w': 1 of 12 numbers are NaN, the first at \[2, 1\]"):
        convert(source, tmp_path / "m.ms")
