"""Integers of 64 bits that 32 do not hold, and integers of 16, against ONNX Runtime."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.reference
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper

import lite_runtime as lite
from converter import convert
from ir.graph import Array

I64 = TensorProto.INT64


def built(
    kind: str, inputs: dict[str, tuple[int, Any]], results: dict[str, int], **attrs: Any
) -> bytes:
    graph = helper.make_graph(
        [helper.make_node(kind, list(inputs), list(results), **attrs)],
        "test",
        [helper.make_tensor_value_info(n, t, s) for n, (t, s) in inputs.items()],
        [helper.make_tensor_value_info(n, t, None) for n, t in results.items()],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    return made.SerializeToString()  # type: ignore[no-any-return]


def both(data: bytes, path: Path, feed: dict[str, Array]) -> None:
    """Our answers and those of ONNX Runtime are the same, and of one type."""
    if not path.exists():
        convert(data, path)
    peer = ort.InferenceSession(data, providers=["CPUExecutionProvider"])
    ours = lite.load(path).run(feed)
    ours = ours if isinstance(ours, dict) else {peer.get_outputs()[0].name: ours}
    for end, want in zip(peer.get_outputs(), peer.run(None, feed), strict=True):
        assert ours[end.name].dtype == want.dtype
        np.testing.assert_array_equal(ours[end.name], want)


def i64(*values: int) -> Array:
    return np.array(values, np.int64)


def test_ranges_are_counted_in_64_bits(tmp_path: Path) -> None:
    data = built("Range", dict.fromkeys("abc", (I64, [])), {"y": I64})
    path = tmp_path / "m.ms"
    for bounds in [
        (2**40, 2**40 + 3, 1),
        (0, 2**33, 2**31),
        (2**62, 2**62 - 2**35, -(2**33) - 1),
        (2**40, 7, 1),
    ]:
        both(data, path, {n: np.array(v) for n, v in zip("abc", bounds, strict=True)})
    session = lite.load(path)
    y = session.run({"a": np.array(-(2**62)), "b": np.array(2**62), "c": np.array(2**61)})
    assert (y["y"] if isinstance(y, dict) else y).tolist() == [-(2**62), -(2**61), 0, 2**61]
    for refused in ((0, 2**62, 1), (0, 3, 0), (-(2**63), 2**63 - 1, 1)):
        with pytest.raises(lite.LiteError):
            session.run({n: np.array(v) for n, v in zip("abc", refused, strict=True)})


def test_what_is_found_has_64_bits(tmp_path: Path) -> None:
    x = i64(2**32, 0, 5, 2**32, -(2**40), 2**40, 5 - 2**32)
    both(built("NonZero", {"x": (I64, [7])}, {"y": I64}), tmp_path / "n.ms", {"x": x})
    data = built("Unique", {"x": (I64, [7])}, dict.fromkeys("yfgc", I64))
    both(data, tmp_path / "u.ms", {"x": x})


F = TensorProto.FLOAT
CHOOSERS: dict[str, tuple[str, dict[str, tuple[int, Any]], dict[str, Any]]] = {
    "gather": ("Gather", {"x": (F, [4, 3]), "i": (I64, [1])}, {}),
    "elements": ("GatherElements", {"x": (F, [4, 3]), "i": (I64, [1, 1])}, {}),
    "nd": ("GatherND", {"x": (F, [4, 3]), "i": (I64, [1, 1])}, {}),
    "scatter nd": ("ScatterND", {"x": (F, [4]), "i": (I64, [1, 1]), "u": (F, [1])}, {}),
    "scatter": ("ScatterElements", {"x": (F, [4]), "i": (I64, [1]), "u": (F, [1])}, {"axis": 0}),
}


@pytest.mark.parametrize("case", CHOOSERS)
def test_indices_beyond_32_bits_are_outside(tmp_path: Path, case: str) -> None:
    kind, inputs, attrs = CHOOSERS[case]
    data, path = built(kind, inputs, {"y": F}, **attrs), tmp_path / "m.ms"
    feed = {n: np.ones(s, np.float32) for n, (t, s) in inputs.items() if t == F}
    feed["x"] = np.arange(feed["x"].size, dtype=np.float32).reshape(feed["x"].shape)
    at = np.ones(inputs["i"][1], np.int64)
    for i in (1, -1):
        both(data, path, feed | {"i": at * i})
    session = lite.load(path)
    for i in (2**32, 2**32 + 1, -(2**32), 2**63 - 1, -(2**63), 2**31):
        with pytest.raises(lite.LiteError, match=r"outside|range|ind"):
            session.run(feed | {"i": at * i})


def test_one_hot_of_numbers_beyond_32_bits_is_off(tmp_path: Path) -> None:
    node = helper.make_node("OneHot", ["i", "d", "v"], ["y"])
    graph = helper.make_graph(
        [node],
        "test",
        [helper.make_tensor_value_info("i", I64, [4])],
        [helper.make_tensor_value_info("y", F, None)],
        [
            onnx.numpy_helper.from_array(np.array(3), "d"),
            onnx.numpy_helper.from_array(np.float32([0, 1]), "v"),
        ],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    feed = {"i": i64(2**32, 1, -1, -(2**32) + 1)}
    both(made.SerializeToString(), tmp_path / "m.ms", feed)


I16 = TensorProto.INT16
SHORT = np.array([1, -5, -(2**15), 2**15 - 1], np.int16)


@pytest.mark.parametrize("kind", ["Abs", "Neg", "Sign", "Add", "Sub", "Mul", "Div", "Mod"])
def test_results_of_int16_are_int16(tmp_path: Path, kind: str) -> None:
    two = kind not in ("Abs", "Neg", "Sign")
    data = built(kind, dict.fromkeys("ab" if two else "a", (I16, [4])), {"y": I16})
    convert(data, tmp_path / "m.ms")
    other = np.array([3, 2, 7, 2], np.int16)
    feed = {"a": SHORT, "b": other} if two else {"a": SHORT}
    want = onnx.reference.ReferenceEvaluator(onnx.load_from_string(data)).run(None, feed)[0]
    got = lite.load(tmp_path / "m.ms").run(feed)
    got = got["y"] if isinstance(got, dict) else got
    assert got.dtype == np.int16
    np.testing.assert_array_equal(got, want)


def test_a_cast_to_int16_wraps_around(tmp_path: Path) -> None:
    data = built("Cast", {"x": (TensorProto.INT32, [3])}, {"y": I16}, to=I16)
    both(data, tmp_path / "m.ms", {"x": np.array([1, 70000, -40000], np.int32)})
