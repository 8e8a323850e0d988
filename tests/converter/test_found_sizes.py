"""ONNX models whose shapes depend on data, against ONNX Runtime."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import helper, numpy_helper

import lite_runtime as lite
from converter import ConvertError, convert
from ir.graph import Array
from tests.converter.onnx_graphs import TYPES

Nodes = list[tuple[str, list[str], list[str], dict[str, object]]]


def made(nodes: Nodes, inputs: dict[str, tuple[str, list[object]]], outputs: list[str],
         arrays: dict[str, Array] | None = None, opset: int = 18) -> onnx.ModelProto:  # fmt: skip
    graph = helper.make_graph(
        [helper.make_node(k, i, o, **a) for k, i, o, a in nodes],
        "test",
        [helper.make_tensor_value_info(n, TYPES[t], s) for n, (t, s) in inputs.items()],
        [onnx.ValueInfoProto(name=n) for n in outputs],
        [numpy_helper.from_array(np.asarray(a), n) for n, a in (arrays or {}).items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def agrees(model: onnx.ModelProto, path: Path, *feeds: dict[str, Array]) -> lite.Session:
    """Converts it, which compares the answers to each feed, and runs them all in one session, the
    first one twice."""
    data = {k: np.stack([feed[k] for feed in feeds]) for k in feeds[0]}
    convert(model.SerializeToString(), path, check=len(feeds), check_data=data)
    session = lite.load(path)
    peer = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    for feed in (*feeds, feeds[0]):
        got = session.run({k: narrow(v) for k, v in feed.items()})
        for (name, y), want in zip(got.items(), peer.run(None, feed), strict=True):
            assert y.shape == want.shape, name
            np.testing.assert_allclose(y, want, rtol=1e-5, atol=1e-6, err_msg=name)
    return session


def narrow(a: Array) -> Array:
    return a.astype(np.int32) if a.dtype == np.int64 else a


def i64(*values: int) -> Array:
    return np.array(values, np.int64)


X = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
X_IN = {"x": ("f", [2, 3, 4])}


@pytest.mark.parametrize("opset", [13, 18])
def test_reshape_by_a_shape_that_is_an_input(tmp_path: Path, opset: int) -> None:
    model = made([("Reshape", ["x", "s"], ["y"], {})], X_IN | {"s": ("i", [2])}, ["y"], opset=opset)
    feeds = [{"x": X, "s": i64(*s)} for s in [(4, 6), (0, -1), (-1, 2), (24, 1), (4, 6)]]
    session = agrees(model, tmp_path / "m.ms", *feeds)
    with pytest.raises(lite.LiteError, match="do not fit"):
        session.run({"x": X, "s": np.array([5, 5], np.int32)})
    with pytest.raises(lite.LiteError, match="its inputs do not fit"):
        session.run({"x": X, "s": np.array([-1, -1], np.int32)})


def test_a_shape_that_is_known_in_part_keeps_what_is_known(tmp_path: Path) -> None:
    nodes: Nodes = [
        ("Shape", ["x"], ["s"], {}),
        ("Gather", ["s", "first"], ["n"], {}),
        ("Concat", ["n", "k", "four"], ["t"], {"axis": 0}),
        ("Reshape", ["x", "t"], ["r"], {}),
        ("MatMul", ["r", "w"], ["y"], {}),
    ]
    arrays = {"first": i64(0), "four": i64(4), "w": np.ones((4, 5), np.float32)}
    model = made(nodes, X_IN | {"k": ("i", [1])}, ["y"], arrays)
    session = agrees(model, tmp_path / "m.ms", {"x": X, "k": i64(3)})
    shape = session.outputs()[0].shape
    assert (shape[0], shape[2]) == (2, 5)


def test_expand_tile_and_constant_of_shape_by_inputs(tmp_path: Path) -> None:
    nodes: Nodes = [
        ("Expand", ["x", "s"], ["a"], {}),
        ("Tile", ["x", "t"], ["b"], {}),
        ("ConstantOfShape", ["t"], ["c"], {}),
    ]
    inputs = {"x": ("f", [1, 3]), "s": ("i", [3]), "t": ("i", [2])}
    x = X[0, :1, :3]
    model = made(nodes, inputs, ["a", "b", "c"])  # type: ignore[arg-type]
    feeds = [
        {"x": x, "s": i64(*s), "t": i64(*t)}
        for s, t in [((2, 4, 3), (2, 1)), ((1, 1, 1), (1, 3)), ((2, 1, 3), (0, 2))]
    ]
    agrees(model, tmp_path / "m.ms", *feeds)


def test_a_constant_is_stretched_to_a_free_size(tmp_path: Path) -> None:
    nodes: Nodes = [
        ("Shape", ["x"], ["n"], {}),
        ("Expand", ["k", "n"], ["e"], {}),
        ("Mul", ["x", "e"], ["y"], {}),
    ]
    model = made(nodes, {"x": ("f", ["n", 4])}, ["y"], {"k": np.array(3, np.float32)})
    agrees(model, tmp_path / "m.ms", {"x": X[0]})


@pytest.mark.parametrize(
    "bounds",
    [
        ((1, 0), (2, 3), (0, 2), (1, 1)),
        ((-1, -100), (-4, 100), (1, 2), (-1, 2)),
        ((0, 3), (2**40, -(2**40)), (-3, -1), (1, -2)),
        ((1, 1), (1, 0), (0, 1), (1, 1)),
    ],
)
def test_slice_by_bounds_axes_and_steps_that_are_inputs(tmp_path: Path, bounds: object) -> None:
    names = ("s", "e", "a", "t")
    model = made(
        [("Slice", ["x", *names], ["y"], {})], X_IN | {n: ("i", [2]) for n in names}, ["y"]
    )
    wide = dict(zip(names, (i64(*b) for b in bounds), strict=True))  # type: ignore[attr-defined]
    limited = {k: np.clip(v, -(2**31), 2**31 - 1) for k, v in wide.items()}
    agrees(model, tmp_path / "m.ms", {"x": X, **limited})


@pytest.mark.parametrize("kind", ["i", "f"])
def test_range_of_inputs(tmp_path: Path, kind: str) -> None:
    names = ("a", "b", "c")
    model = made([("Range", list(names), ["y"], {})], {n: (kind, []) for n in names}, ["y"])
    dtype = {"i": np.int64, "f": np.float32}[kind]
    feeds = [
        dict(zip(names, (np.array(v, dtype) for v in values), strict=True))
        for values in [(0, 5, 1), (10, 2, -3), (4, 4, 1), (1, 7, 2)]
    ]
    agrees(model, tmp_path / "m.ms", *feeds)


def test_nonzero_compress_and_unique(tmp_path: Path) -> None:
    nodes: Nodes = [
        ("NonZero", ["x"], ["a"], {}),
        ("Greater", ["x", "one"], ["g"], {}),
        ("Flatten", ["g"], ["f"], {"axis": 0}),
        ("Squeeze", ["f"], ["h"], {}),
        ("Compress", ["x", "h"], ["b"], {}),
        ("Unique", ["x"], ["c", "d", "e", "k"], {}),
        ("Unique", ["x"], ["m"], {"axis": 1, "sorted": 0}),
    ]
    model = made(nodes, {"x": ("f", [3, 4])}, list("abcdekm"), {"one": np.float32(1)})
    rng = np.random.default_rng(0)
    feeds = [{"x": rng.integers(0, n, (3, 4)).astype(np.float32)} for n in (1, 2, 3, 9)]
    agrees(model, tmp_path / "m.ms", *feeds)


@pytest.mark.parametrize("center", [0, 1])
def test_non_max_suppression(tmp_path: Path, center: int) -> None:
    model = made(
        [("NonMaxSuppression", ["x", "s", "m", "o", "t"], ["y"], {"center_point_box": center})],
        {"x": ("f", [2, 30, 4]), "s": ("f", [2, 3, 30])},
        ["y"],
        {"m": i64(7), "o": np.float32([0.3]), "t": np.float32([0.2])},
    )
    rng = np.random.default_rng(1)
    feeds = [
        {
            "x": rng.uniform(0, 10, (2, 30, 4)).astype(np.float32) + np.float32([0, 0, 2, 2]),
            "s": rng.uniform(0, high, (2, 3, 30)).astype(np.float32),
        }
        for high in (1.0, 0.1, 0.5)
    ]
    agrees(model, tmp_path / "m.ms", *feeds)


def test_sizes_that_a_source_does_not_name_are_free_each_by_itself(tmp_path: Path) -> None:
    model = made([("Relu", ["x"], ["y"], {})], {"x": ("f", ["?", "?", -1, -1])}, ["y"])
    convert(model.SerializeToString(), tmp_path / "m.ms")
    assert lite.load(tmp_path / "m.ms").inputs()[0].shape == ("x_0", "x_1", "x_2", "x_3")


@pytest.mark.parametrize("keep", [0, 1])
@pytest.mark.parametrize("kind", ["ReduceSum", "ReduceMax", "ReduceLogSumExp"])
def test_reductions_over_axes_that_are_inputs(tmp_path: Path, kind: str, keep: int) -> None:
    model = made([(kind, ["x", "a"], ["y"], {"keepdims": keep})], X_IN | {"a": ("i", [2])}, ["y"])
    feeds = [{"x": X / 24, "a": i64(*a)} for a in [(0, 1), (-1, 0), (2, 1)]]
    agrees(model, tmp_path / "m.ms", *feeds)


def test_axes_that_are_inputs(tmp_path: Path) -> None:
    nodes: Nodes = [
        ("CumSum", ["x", "a"], ["c"], {"reverse": 1}),
        ("Unsqueeze", ["x", "b"], ["u"], {}),
        ("Squeeze", ["u", "b"], ["s"], {}),
    ]
    model = made(nodes, X_IN | {"a": ("i", []), "b": ("i", [1])}, ["c", "u", "s"])
    feeds = [{"x": X, "a": np.array(a), "b": i64(b)} for a, b in [(0, 0), (-1, 2), (1, -1)]]
    agrees(model, tmp_path / "m.ms", *feeds)


@pytest.mark.parametrize("mode", ["constant", "edge", "wrap"])
def test_pads_along_axes_that_are_inputs(tmp_path: Path, mode: str) -> None:
    value = "v" if mode == "constant" else ""
    inputs = X_IN | {"p": ("i", [4]), "a": ("i", [2])} | ({"v": ("f", [])} if value else {})
    model = made([("Pad", ["x", "p", value, "a"], ["y"], {"mode": mode})], inputs, ["y"], opset=19)
    feeds = [
        {"x": X, "p": i64(1, 0, 2, 1), "a": i64(*a)}
        | ({"v": np.array(7, np.float32)} if value else {})
        for a in [(0, 2), (-1, 1)]
    ]
    agrees(model, tmp_path / "m.ms", *feeds)


def test_depth_and_parts_that_are_inputs(tmp_path: Path) -> None:
    nodes: Nodes = [
        ("OneHot", ["i", "d", "v"], ["h"], {"axis": 1}),
        ("Split", ["x", "n"], ["a", "b"], {"axis": 2}),
        ("TopK", ["x", "k"], ["t", "j"], {"axis": 1}),
    ]
    inputs = X_IN | {"i": ("i", [2, 3]), "d": ("i", []), "v": ("f", [2]), "n": ("i", [2]),
                     "k": ("i", [1])}  # fmt: skip
    model = made(nodes, inputs, ["h", "a", "b", "t", "j"])
    feeds = [
        {"x": X, "i": np.array([[0, -1, 2], [1, 1, 0]]), "d": np.array(d),
         "v": np.float32([-1, 3]), "n": i64(n, 4 - n), "k": i64(k)}
        for d, n, k in [(3, 1, 2), (4, 3, 1), (3, 0, 3)]
    ]  # fmt: skip
    agrees(model, tmp_path / "m.ms", *feeds)


def test_axes_that_no_run_could_mean_are_refused_in_one_line(tmp_path: Path) -> None:
    model = made([("Squeeze", ["x", "a"], ["y"], {})], X_IN | {"a": ("i", [4])}, ["y"])
    with pytest.raises(ConvertError, match=r"node 0 Squeeze .*4 of 3 axes"):
        convert(model.SerializeToString(), tmp_path / "m.ms")
