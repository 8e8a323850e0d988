"""Sequences and optional values of ONNX: they fold away, against ONNX Runtime."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from converter import ConvertError, convert
from tests.converter.test_found_sizes import Nodes, agrees, i64, made
from tests.converter.test_onnx_control import floats, inner

X: dict[str, tuple[str, list[object]]] = {"x": ("f", [4, 3])}


@pytest.mark.parametrize("parts", [None, i64(2)[0], i64(1, 3)])
@pytest.mark.parametrize("new_axis", [0, 1])
def test_what_is_split_and_joined_again(
    tmp_path: Path, parts: np.ndarray | None, new_axis: int
) -> None:
    nodes: Nodes = [
        ("SplitToSequence", ["x"] if parts is None else ["x", "n"], ["s"], {"axis": 0}),
        ("SequenceAt", ["s", "last"], ["a"], {}),
        ("SequenceErase", ["s", "first"], ["t"], {}),
        ("SequenceInsert", ["t", "a", "first"], ["u"], {}),
        ("SequenceInsert", ["u", "a"], ["v"], {}),
        ("SequenceLength", ["v"], ["n2"], {}),
        ("ConcatFromSequence", ["v"], ["y"], {"axis": 0, "new_axis": new_axis}),
    ]
    if new_axis and parts is not None and parts.ndim:
        pytest.skip("parts of different sizes have no new axis")
    arrays = {"last": np.array(-1), "first": np.array(0)}
    arrays |= {} if parts is None else {"n": parts}
    agrees(made(nodes, X, ["y", "n2"], arrays), tmp_path / "m.ms", {"x": floats(4, 3)})


def test_parts_without_their_axis_and_the_order_of_elements(tmp_path: Path) -> None:
    nodes: Nodes = [
        ("SplitToSequence", ["x"], ["s"], {"axis": 1, "keepdims": 0}),
        ("SequenceAt", ["s", "one"], ["a"], {}),
        ("SequenceConstruct", ["a", "a"], ["t"], {}),
        ("ConcatFromSequence", ["t"], ["y"], {"axis": -1, "new_axis": 1}),
    ]
    agrees(made(nodes, X, ["y"], {"one": np.array(1)}), tmp_path / "m.ms", {"x": floats(4, 3)})


def test_a_sequence_that_a_loop_fills_is_one_tensor(tmp_path: Path) -> None:
    body = inner(
        [("Mul", ["v", "v"], ["w"], {}), ("SequenceInsert", ["s", "w"], ["t"], {}),
         ("Identity", ["c"], ["d"], {})],
        {"i": "i", "c": "b", "v": "f", "s": "f"}, ["d", "w", "t"],
    )  # fmt: skip
    for v in body.input:
        if v.name == "s":  # a sequence of tensors
            v.type.sequence_type.elem_type.tensor_type.elem_type = 1
    nodes: Nodes = [
        ("SequenceEmpty", [], ["e"], {}),
        ("Loop", ["n", "", "x", "e"], ["z", "s"], {"body": body}),
        ("ConcatFromSequence", ["s"], ["a"], {"axis": 1}),
        ("ConcatFromSequence", ["s"], ["b"], {"axis": -1, "new_axis": 1}),
        ("SequenceAt", ["s", "last"], ["y"], {}),
    ]
    inputs = X | {"n": ("i", [])}
    model = made(nodes, inputs, ["z", "a", "b", "y"], {"last": np.array(-1)})
    feeds = [{"x": floats(4, 3), "n": np.array(n, np.int64)} for n in (1, 3, 2)]
    agrees(model, tmp_path / "m.ms", *feeds)


def test_a_body_runs_on_each_element(tmp_path: Path) -> None:
    body = inner([("Mul", ["a", "z"], ["m"], {})], {"a": "f", "z": "f"}, ["m"])
    body.output[0].type.tensor_type.elem_type = 1
    nodes: Nodes = [
        ("SplitToSequence", ["x"], ["s"], {"axis": 0}),
        ("SequenceMap", ["s", "x"], ["t"], {"body": body}),
        ("ConcatFromSequence", ["t"], ["y"], {"axis": 0}),
    ]
    agrees(made(nodes, X, ["y"]), tmp_path / "m.ms", {"x": floats(4, 3)})


def test_optional_values_are_there_or_not(tmp_path: Path) -> None:
    there = inner([("OptionalGetElement", ["o"], ["t"], {})], {}, ["t"])
    none = inner([("Neg", ["x"], ["e"], {})], {}, ["e"])
    nodes: Nodes = [
        ("Optional", ["x"], ["o"], {}),
        ("OptionalHasElement", ["o"], ["h"], {}),
        ("If", ["h"], ["y"], {"then_branch": there, "else_branch": none}),
    ]
    agrees(made(nodes, X, ["y"]), tmp_path / "m.ms", {"x": floats(4, 3)})


def test_a_sequence_as_a_result_is_refused_in_one_line(tmp_path: Path) -> None:
    model = made([("SplitToSequence", ["x"], ["y"], {})], X, ["y"])
    with pytest.raises(ConvertError, match="a sequence is used as a tensor"):
        convert(model.SerializeToString(), tmp_path / "m.ms")
