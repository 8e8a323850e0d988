"""Weights of 16 and 8 bits stay so in the file."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from cloud import ops
from cloud.interpreter import run
from converter import convert
from converter.passes import keep_stored
from ir import model_file
from ir.dtype import DType
from ir.graph import Graph, Value, Weight
from tests.converter.onnx_graphs import floats, model
from tests.converter.random_nets import random_net
from tests.converter.test_passes import assert_same, op_names
from tests.converter.tflite_graphs import G, O, T, constant, file_of


def net(kind: type) -> bytes:
    """An embedding, a convolution and a linear layer whose weights have another type."""
    arrays = {"table": floats(50, 16), "w": floats(16, 16, 3), "v": floats(16, 30, seed=1)}
    casts = [("Cast", [name], [f"{name}f"], {"to": 1}) for name in arrays]
    return model(
        [*casts, ("Gather", ["tablef", "x"], ["a"], {}),
         ("Transpose", ["a"], ["b"], {"perm": [0, 2, 1]}),
         ("Conv", ["b", "wf"], ["c"], {"pads": [1, 1]}),
         ("Transpose", ["c"], ["d"], {"perm": [0, 2, 1]}), ("MatMul", ["d", "vf"], ["y"], {})],
        {"x": (2, 7)}, ["y"], {k: v.astype(kind) for k, v in arrays.items()}, input_type=7,
    )  # fmt: skip


def test_weights_of_float16_stay_in_16_bits_and_lose_nothing(tmp_path: Path) -> None:
    report = convert(net(np.float16), tmp_path / "half.ms")
    whole = convert(net(np.float32), tmp_path / "whole.ms")
    for kind in ("compressed_gather", "decompress", "compressed_linear"):
        assert report.nodes[kind] == 1
        assert kind not in whole.nodes
    assert report.target_bytes < 0.65 * whole.target_bytes
    assert report.worst is not None
    assert report.worst.relative < 1e-6


def test_weights_of_int8_behind_floats_stay_int8(tmp_path: Path) -> None:
    levels = np.random.default_rng(0).integers(-127, 128, (64, 32)).astype(np.int8)
    scale = np.random.default_rng(1).uniform(0.01, 1, 32).astype(np.float32)
    nodes = [("DequantizeLinear", ["w", "s", "z"], ["wf"], {"axis": 1}),
             ("MatMul", ["x", "wf"], ["y"], {})]  # fmt: skip
    arrays = {"w": levels, "s": scale, "z": np.zeros(32, np.int8)}
    report = convert(model(nodes, {"x": (3, 64)}, ["y"], arrays), tmp_path / "m.ms")
    assert dict(report.nodes) == {"compressed_linear": 1}
    assert report.worst is not None
    assert report.worst.relative < 1e-5


def test_weights_that_fewer_bits_do_not_hold_stay_as_they_are() -> None:
    w = Weight(floats(20, 20), name="w", trainable=False)
    assert op_names(keep_stored(Graph.trace(lambda x: ops.linear(x, w), (2, 20)))) == ["linear"]


def test_no_number_of_an_int8_weight_changes() -> None:
    levels = np.random.default_rng(0).integers(-127, 128, (64, 64)).astype(np.int8)
    scale = np.random.default_rng(1).uniform(0.01, 1, (64, 1)).astype(np.float32)
    x = Value((64, 64), name="x")
    for factor, kind in ((1.0, "compressed_linear"), (0.3, "linear")):  # the second rounds again
        w = Weight(levels * scale * np.float32(factor), name="w", trainable=False)
        graph = keep_stored(Graph((x,), (ops.linear(x, w),)))
        assert op_names(graph) == [kind]
        np.testing.assert_array_equal(run(graph, np.eye(64, dtype=np.float32))[0], w.data.T)


def test_rows_that_are_shorter_than_their_scale_stay_floats() -> None:
    w = Weight(floats(2000, 1), name="w", trainable=False)
    assert op_names(keep_stored(Graph.trace(lambda x: ops.linear(x, w), (2, 1)))) == ["linear"]


def test_random_nets_of_halves_keep_their_function() -> None:
    names: set[str] = set()
    for seed in range(12):
        graph = random_net(seed, width=40)
        for w in graph.weights:
            w.data = w.data.astype(np.float16).astype(np.float32)
        after = keep_stored(graph)
        names |= set(op_names(after))
        assert_same(graph, after, seed, batch=2)
    assert {"decompress", "compressed_linear"} <= names


def test_entries_that_share_a_weight_of_float16_share_it_in_16_bits(tmp_path: Path) -> None:
    w = constant("w", floats(40, 30).astype(np.float16))
    ends = T("x", (3, 30)), T("y", (3, 40)), T("z", (3, 40))
    steps = [O("DEQUANTIZE", ["w"], ["v"]), O("FULLY_CONNECTED", ["x", "v"], ["y"])]
    tensors, last = [w, T("v", (40, 30)), *ends], O("TANH", ["y"], ["z"])
    data = file_of(
        G(tensors, steps, ["x"], ["y"]), G(tensors, [*steps, last], ["x"], ["z"]),
        signatures=[("one", 0, {"x": "x"}, {"y": "y"}), ("two", 1, {"x": "x"}, {"z": "z"})],
    )  # fmt: skip
    report = convert(data, tmp_path / "m.ms")
    made = model_file.read((tmp_path / "m.ms").read_bytes())
    assert list(made.entries) == ["infer", "two"]
    assert [w.dtype for w in made.weights if w.rank == 2] == [DType.f16]
    assert report.target_bytes < 40 * 30 * 2 + 2500
