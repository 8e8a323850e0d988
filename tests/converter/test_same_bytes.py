"""The bytes of a file do not depend on the program that converts."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from converter import convert
from tests.converter.onnx_graphs import floats, inner, model

X = {"x": (3, 1, 4)}
W = {"w": floats(1, 12, 4), "r": floats(1, 12, 3)}
ADD = inner([("Add", ["x", "x"], ["t"], {})], {}, ["t"])
MUL = inner([("Mul", ["x", "x"], ["e"], {})], {}, ["e"])
BODY = inner(
    [("Identity", ["c"], ["d"], {}), ("Add", ["v", "v"], ["w"], {})],
    {"i": "i", "c": "b", "v": "f"},
    ["d", "w"],
)
MODELS = {
    "lstm": model([("LSTM", ["x", "w", "r"], ["y"], {"hidden_size": 3})], X, ["y"], W),
    "nonzero": model([("NonZero", ["x"], ["y"], {})], X, ["y"]),
    "if": model(
        [
            ("ReduceSum", ["x"], ["s"], {"keepdims": 0}),
            ("Greater", ["s", "z"], ["k"], {}),
            ("If", ["k"], ["y"], {"then_branch": ADD, "else_branch": MUL}),
        ],
        X,
        ["y"],
        {"z": np.zeros((), np.float32)},
    ),
    "loop": model(
        [
            ("ReduceMax", ["x"], ["s"], {"keepdims": 0}),
            ("Cast", ["s"], ["n"], {"to": 7}),
            ("Loop", ["n", "", "x"], ["y"], {"body": BODY}),
        ],
        X,
        ["y"],
    ),
}


@pytest.mark.parametrize("name", MODELS)
def test_files_hold_no_line_of_who_converts(tmp_path: Path, name: str) -> None:
    found = []
    for caller, lines in (("one.py", 0), ("another.py", 700)):
        path = tmp_path / f"{caller}.ms"
        program = "\n" * lines + "convert(data, path)"
        exec(
            compile(program, caller, "exec"),
            {"convert": convert, "data": MODELS[name], "path": path},
        )
        found.append(path.read_bytes())
    assert found[0] == found[1]
    assert re.findall(rb"\w+\.py:\d+", found[0]) == []
