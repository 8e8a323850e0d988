"""Types that are computed with in wider ones, and integers of 64 bits that 32 do not hold, against
ONNX Runtime."""

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
from converter import ConvertError, convert
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


N = helper.make_node
LARGE = i64(1, -5, -(2**15), 2**15 - 1, 70001, 123456789)
NARROW = {n: int(getattr(TensorProto, n.upper())) for n in ("int16", "uint16", "uint32", "uint64")}


def between(
    nodes: list[onnx.NodeProto], kind: str, known: dict[str, Array], to: int = I64
) -> bytes:
    """Nodes from `a`, which is x as a narrow type, to `b`, which is y as a wide one."""
    ends = [N("Cast", ["x"], ["a"], to=NARROW[kind]), *nodes, N("Cast", ["b"], ["y"], to=to)]
    graph = helper.make_graph(
        ends, "test", [helper.make_tensor_value_info("x", I64, [6])],
        [helper.make_tensor_value_info("y", to, None)],
        [onnx.numpy_helper.from_array(a, n) for n, a in known.items()],
    )  # fmt: skip
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    return made.SerializeToString()  # type: ignore[no-any-return]


OPERATORS = "Add", "Sub", "Mul", "Div", "Mod", "Max", "Abs", "Sign", "BitwiseNot", "BitShift"
MISSING = {("int16", "BitShift"), ("int16", "Max"), ("uint16", "Max")}  # in ONNX Runtime


@pytest.mark.parametrize(
    ("kind", "operator"),
    [(k, o) for k in ("int16", "uint16", "uint32") for o in OPERATORS if (k, o) not in MISSING],
)
def test_narrow_integers_wrap_around_in_the_middle_of_a_model(
    kind: str, operator: str, tmp_path: Path
) -> None:
    known = {"c": np.array([3, 2, 7, 2, 300, 5], kind)}
    alone = operator in ("Abs", "Sign", "BitwiseNot")
    attrs = {"direction": "LEFT"} if operator == "BitShift" else {}
    nodes = [
        N("Add", ["a", "c"], ["s"]),
        N(operator, ["s"] if alone else ["s", "c"], ["t"], **attrs),
        N("Mul", ["t", "t"], ["u"]),
        N("Div", ["u", "c"], ["b"]),
    ]
    both(between(nodes, kind, known), tmp_path / "m.ms", {"x": LARGE})


@pytest.mark.parametrize("declared", [True, False])
def test_narrow_integers_wrap_around_in_a_loop(declared: bool, tmp_path: Path) -> None:
    info = helper.make_tensor_value_info
    short, yes = [TensorProto.INT16, [6]], [TensorProto.BOOL, []]
    results = [("on", yes), ("u", short), ("row", short)]
    body = helper.make_graph(
        [N("Mul", ["s", "s"], ["t"]), N("Add", ["t", "a"], ["u"]), N("Identity", ["go"], ["on"]),
         N("Sub", ["u", "s"], ["row"])],
        "body",
        [info("i", I64, []), info("go", *yes), info("s", *short if declared else [I16, None])],
        [info(n, *kind) if declared else onnx.ValueInfoProto(name=n) for n, kind in results],
    )  # fmt: skip
    nodes = [
        N("Loop", ["n", "", "a"], ["last", "rows"], body=body),
        N("Mul", ["last", "rows"], ["all"]),
        N("Div", ["all", "c"], ["b"]),
    ]
    known = {"n": np.array(3), "c": np.array([3, 2, 7, 2, 300, 5], np.int16)}
    both(between(nodes, "int16", known), tmp_path / "m.ms", {"x": LARGE})


def test_the_largest_of_int16_are_chosen(tmp_path: Path) -> None:
    known = {"k": np.array([3])}
    data = between([N("TopK", ["a", "k"], ["b", "places"])], "int16", known)
    both(data, tmp_path / "m.ms", {"x": LARGE})
    ends = {"v": I16, "i": I64}
    data = built("TopK", {"x": (I16, [4]), "k": (I64, [1])}, ends, largest=0)
    both(data, tmp_path / "n.ms", {"x": SHORT, "k": np.array([2])})


@pytest.mark.parametrize("operator", ["Add", "Mul", "BitwiseXor"])
def test_uint64_is_computed_modulo_its_range(operator: str, tmp_path: Path) -> None:
    nodes = [N(operator, ["a", "c"], ["b"])]
    known = {"c": np.array([2**63, 2, 2**64 - 1, 2, 300, 5], np.uint64)}
    both(between(nodes, "uint64", known), tmp_path / "m.ms", {"x": LARGE})


@pytest.mark.parametrize("operator", ["Div", "Max", "Less"])
def test_what_depends_on_the_sign_of_uint64_is_refused(operator: str, tmp_path: Path) -> None:
    nodes = [N(operator, ["a", "c"], ["b"])]
    known = {"c": np.array([2**63, 2, 2**64 - 1, 2, 300, 5], np.uint64)}
    with pytest.raises(ConvertError, match="uint64 are not computed with; want int64"):
        convert(between(nodes, "uint64", known), tmp_path / "m.ms")


# Ties, what becomes infinite, numbers below the smallest normal one, and what is no number.
ODD = np.float32([
    1.00390625, 1.01171875, 3.4e38, -3.3999e38, 1e-40, np.nan, np.inf, -np.inf, 0.1, -0.0, 65520,
])  # fmt: skip


@pytest.mark.parametrize("kind", ["BFLOAT16", "FLOAT16"])
@pytest.mark.parametrize("like", [False, True])
def test_casts_to_16_bits_round_to_even_ones(kind: str, like: bool, tmp_path: Path) -> None:
    number = getattr(TensorProto, kind)
    known = [helper.make_tensor("like", number, [1], [1.0])] if like else []
    first = N("CastLike", ["x", "like"], ["h"]) if like else N("Cast", ["x"], ["h"], to=number)
    info = helper.make_tensor_value_info
    graph = helper.make_graph(
        [first, N("Cast", ["h"], ["y"], to=TensorProto.FLOAT)], "test",
        [info("x", TensorProto.FLOAT, [11])], [info("y", TensorProto.FLOAT, [11])], known,
    )  # fmt: skip
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    convert(made.SerializeToString(), tmp_path / "m.ms", check_data={"x": ODD[None]})
    with np.errstate(over="ignore"):
        want = ODD.astype(helper.tensor_dtype_to_np_dtype(number)).astype(np.float32)
    np.testing.assert_array_equal(lite.load(tmp_path / "m.ms").run(ODD), want)
