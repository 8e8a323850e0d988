"""Sequences and optional values of ONNX: they fold away, against ONNX Runtime."""

from __future__ import annotations

import argparse
import re
from pathlib import Path

import numpy as np
import onnx
import pytest

import lite_runtime as lite
from converter import ConvertError, convert
from converter.cli import main
from converter.flags import shape
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


def test_the_elements_of_a_result_are_results(tmp_path: Path) -> None:
    nodes: Nodes = [
        ("Neg", ["x"], ["y.1"], {}),  # a name as an element's
        ("Neg", ["y.1"], ["z"], {}),
        ("SplitToSequence", ["z", "n"], ["y"], {}),
    ]
    model = made(nodes, X, ["y"], {"n": i64(3, 1)})
    convert(model.SerializeToString(), tmp_path / "m.ms")
    x = floats(4, 3)
    found = lite.load(tmp_path / "m.ms").run({"x": x})
    assert list(found) == ["y.0", "y.1"]
    np.testing.assert_array_equal(np.concatenate([*found.values()]), x)


def test_a_sequence_that_a_loop_fills_is_one_result(tmp_path: Path) -> None:
    body = inner(
        [("Mul", ["v", "v"], ["w"], {}), ("SequenceInsert", ["s", "w"], ["t"], {}),
         ("Identity", ["c"], ["d"], {})],
        {"i": "i", "c": "b", "v": "f", "s": "f"}, ["d", "w", "t"],
    )  # fmt: skip
    nodes: Nodes = [
        ("SequenceEmpty", [], ["e"], {}),
        ("Loop", ["n", "", "x", "e"], ["z", "s"], {"body": with_lists(body, "s")}),
    ]
    model = made(nodes, X | {"n": ("i", [])}, ["s"]).SerializeToString()
    data = {"x": floats(4, 3)[None], "n": np.array([3])}
    report = convert(model, tmp_path / "m.ms", check_data=data)
    assert report.reference == "ONNX Runtime"
    found = lite.load(tmp_path / "m.ms").run({"x": data["x"][0], "n": data["n"][0]})["s"]
    x = data["x"][0]
    np.testing.assert_allclose(found, np.stack([x**2, x**4, x**8]), rtol=1e-6)


LISTS = (
    [("SequenceInsert", ["s", "x"], ["t"], {}), ("SequenceAt", ["t", "one"], ["a"], {}),
     ("Neg", ["a"], ["y"], {})],
    X | {"s": ("f", [])}, ["t", "y"], {"one": np.array(1)},
)  # fmt: skip


def with_lists(graph: onnx.GraphProto, *names: str) -> onnx.GraphProto:
    """The graph with inputs that are sequences of float32."""
    for v in graph.input:
        if v.name in names:
            v.CopyFrom(onnx.helper.make_tensor_sequence_value_info(v.name, 1, None))
    return graph


def listing() -> bytes:
    model = made(*LISTS)
    with_lists(model.graph, "s")
    return model.SerializeToString()  # type: ignore[no-any-return]


def test_the_elements_of_an_input_are_inputs(tmp_path: Path) -> None:
    target = tmp_path / "m.ms"
    shapes = {"s.0": ("n", 2), "s.1": (5,)}
    report = convert(listing(), target, shapes=shapes)
    assert report.reference == "ONNX Runtime"
    given = {"x": floats(4, 3), "s.0": floats(3, 2), "s.1": floats(5)}
    found = lite.load(target).run(given)
    assert list(found) == ["t.0", "t.1", "t.2", "y"]
    np.testing.assert_array_equal(found["t.2"], given["x"])
    np.testing.assert_array_equal(found["y"], -given["s.1"])
    flags = ["--input", "s.0=n,2", "--input", "s.1=5", "--check", "2"]
    (tmp_path / "l.onnx").write_bytes(listing())
    assert main([str(tmp_path / "l.onnx"), "-o", str(tmp_path / "c.ms"), *flags]) == 0
    assert lite.load(tmp_path / "c.ms").run(given)["y"].shape == (5,)


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        ({}, "input 's' is a sequence: say of how many elements by their shapes, --input s.0=…"),
        ({"s.0": (2,), "s.2": (2,)}, "input 's': elements ['s.0', 's.2']; want ['s.0', 's.1']"),
        ({"s": ()}, "SequenceAt '': position 1 of a sequence of 1"),
        ({"r.0": (2,), "s.0": (2,)}, "no input ['r.0']; has ['x', 's.0']"),
    ],
)
def test_a_sequence_that_is_not_given_is_named(
    shapes: dict[str, tuple[int, ...]], message: str, tmp_path: Path
) -> None:
    with pytest.raises(ConvertError, match=re.escape(message)):
        convert(listing(), tmp_path / "m.ms", shapes=shapes)


def test_a_shape_may_have_no_sizes_but_not_no_sign() -> None:
    assert shape("s=") == ("s", [])
    with pytest.raises(argparse.ArgumentTypeError, match="'s': want NAME=SIZES"):
        shape("s")


@pytest.mark.parametrize("count", [1, 2])
def test_branches_give_sequences_and_read_those_of_the_outside(count: int, tmp_path: Path) -> None:
    two = {"one": np.array(1), "first": np.array(0)}
    then = inner([("SequenceAt", ["s", "one"], ["a"], {}),
                  ("SequenceConstruct", ["a"] * count, ["t"], {})], {}, ["t"], two)  # fmt: skip
    other = inner([("SequenceAt", ["s", "first"], ["b"], {}),
                   ("SequenceConstruct", ["b", "b"], ["e"], {})], {}, ["e"], two)  # fmt: skip
    nodes: Nodes = [
        ("SplitToSequence", ["x", "n"], ["s"], {}),
        ("If", ["c"], ["q"], {"then_branch": then, "else_branch": other}),
        ("ConcatFromSequence", ["q"], ["y"], {"axis": 0}),
    ]
    for v in (*then.output, *other.output):
        v.CopyFrom(onnx.helper.make_tensor_sequence_value_info(v.name, 1, None))
    model = made(nodes, X | {"c": ("b", [])}, ["y"], {"n": i64(3, 1)})
    feeds = [{"x": floats(4, 3), "c": np.array(c)} for c in (True, False)]
    if count == 2:
        agrees(model, tmp_path / "m.ms", *feeds)
    else:
        with pytest.raises(ConvertError, match="branches give sequences of different lengths"):
            convert(model.SerializeToString(), tmp_path / "m.ms")


def test_an_optional_input_is_one_that_is_there(tmp_path: Path) -> None:
    nodes: Nodes = [("OptionalGetElement", ["o"], ["a"], {}), ("Neg", ["a"], ["y"], {})]
    model = made(nodes, {"o": ("f", [2])}, ["y"])
    kind = model.graph.input[0].type.SerializeToString()
    model.graph.input[0].type.optional_type.elem_type.ParseFromString(kind)
    convert(model.SerializeToString(), tmp_path / "m.ms")
    x = floats(2)
    np.testing.assert_array_equal(lite.load(tmp_path / "m.ms").run(x), -x)
