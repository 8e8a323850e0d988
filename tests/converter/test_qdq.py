"""Models with quantizers around their layers, as ONNX Runtime makes them, run on int8."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import onnx
import onnx.reference
import onnxruntime as ort
import pytest
from onnxruntime import quantization

import lite_runtime as lite
from converter import bisect, convert
from converter.onnx.reader import read_onnx
from converter.passes import find_int8
from ir.compression import exact_levels
from tests.converter.onnx_graphs import Node, floats, ints, model, quantized_net

HALVES = {"kernel_shape": [2, 2], "strides": [2, 2]}
RNG = np.random.default_rng(5)


def net() -> bytes:
    """Convolutions, a residual sum, a join, pools, sigmoid, a product and a linear layer."""
    return model(
        [("Conv", ["x", "w0", "b0"], ["a"], {"pads": [1, 1, 1, 1]}), ("Relu", ["a"], ["b"], {}),
         ("Conv", ["b", "w1", "b0"], ["c"], {"pads": [1, 1, 1, 1], "group": 8}),
         ("Clip", ["c", "low", "six"], ["d"], {}), ("Add", ["b", "d"], ["e"], {}),
         ("Relu", ["e"], ["f"], {}), ("MaxPool", ["f"], ["g"], HALVES),
         ("AveragePool", ["f"], ["h"], HALVES),
         ("Concat", ["g", "h"], ["i"], {"axis": 1}), ("Sigmoid", ["i"], ["j"], {}),
         ("Mul", ["i", "j"], ["k"], {}), ("Transpose", ["k"], ["l"], {"perm": [0, 2, 3, 1]}),
         ("Reshape", ["l", "flat"], ["m"], {}), ("Gemm", ["m", "w2", "b2"], ["y"], {"transB": 1})],
        {"x": (2, 3, 8, 8)}, ["y"],
        {"w0": floats(8, 3, 3, 3), "b0": floats(8), "w1": floats(8, 1, 3, 3, seed=1),
         "low": np.array(0, np.float32), "six": np.array(6, np.float32), "flat": ints(2, -1),
         "w2": floats(10, 1024 // 4, seed=2), "b2": floats(10)},
    )  # fmt: skip


class Samples(quantization.CalibrationDataReader):  # type: ignore[misc]
    def __init__(self) -> None:
        rng = np.random.default_rng(1)
        shape = (2, 3, 8, 8)
        self.left = iter([{"x": rng.standard_normal(shape).astype(np.float32)} for _ in range(8)])

    def get_next(self) -> dict[str, np.ndarray] | None:
        return next(self.left, None)


@pytest.mark.parametrize("activations", ["QInt8", "QUInt8"])
@pytest.mark.parametrize("each", [False, True])
def test_a_model_that_onnx_runtime_quantized_runs_on_int8(
    activations: str, each: bool, tmp_path: Path
) -> None:
    (tmp_path / "net.onnx").write_bytes(net())
    source = tmp_path / "qdq.onnx"
    quantization.quantize_static(
        tmp_path / "net.onnx", source, Samples(), per_channel=each,
        quant_format=quantization.QuantFormat.QDQ, weight_type=quantization.QuantType.QInt8,
        activation_type=getattr(quantization.QuantType, activations),
    )  # fmt: skip
    report = convert(source, tmp_path / "m.ms")
    kinds = ["conv2d", "depthwise_conv2d", "add", "mul", "avg_pool2d"]
    kinds += [] if each else ["linear"]  # its scales stand along the other axis
    for kind in kinds:
        assert report.nodes[f"quantized_{kind}"] == 1, kind
    assert report.nodes["quantized_lookup"] == 1
    assert each or not {"conv2d", "add", "mul", "round", "div"} & set(report.nodes)
    x = RNG.standard_normal((2, 3, 8, 8)).astype(np.float32)
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    want = ort.InferenceSession(str(source), options).run(None, {"x": x})[0]
    (got,) = lite.load(tmp_path / "m.ms").run({"x": x}).values()
    step = np.diff(np.unique(want)).min()
    assert np.abs(got - want).max() < 2.5 * step


def test_what_is_not_quantized_again_stays_float_with_weights_of_int8(tmp_path: Path) -> None:
    report = convert(quantized_net(), tmp_path / "m.ms", explain=True)
    (row,) = [r for r in report.explain if r["op"] == "quantized_conv2d"]
    assert "Conv" in row["node"]
    assert any("find_int8" in source for source in row["from"])
    assert report.nodes["linear"] == 1


def test_a_layer_that_something_else_reads_stays_float() -> None:
    proto = onnx.load_from_string(quantized_net())
    proto.graph.output.append(onnx.ValueInfoProto(name="c"))
    graph = read_onnx(proto).entries["infer"]
    assert not any(n.op.name.startswith("quantized_conv") for n in find_int8(graph).nodes)


@pytest.mark.parametrize("high", [127, 40, 1])
def test_integers_times_a_scale_are_found_again(high: int) -> None:
    levels = RNG.integers(-high, high + 1, (50, 30)).astype(np.int8)
    rows = levels * RNG.uniform(1e-6, 10, (50, 1)).astype(np.float32)
    found = exact_levels(rows)
    assert found is not None
    np.testing.assert_array_equal(found[0] * found[1][:, None], rows)


def test_integers_times_a_scale_are_found_again_behind_a_factor() -> None:
    levels = RNG.integers(-127, 128, (50, 30)).astype(np.int8)
    scale, factor = RNG.uniform(0.01, 10, (2, 50, 1)).astype(np.float32)
    rows = levels * scale * factor  # rounded twice
    found = exact_levels(rows)
    assert found is not None
    np.testing.assert_allclose(found[0] * found[1][:, None], rows, rtol=1e-6)


def test_numbers_that_no_scale_gives_are_not_called_integers() -> None:
    assert exact_levels(RNG.standard_normal((20, 30)).astype(np.float32)) is None


@pytest.mark.parametrize("kind", [np.int8, np.uint8])
def test_whole_numbers_in_and_out_need_no_floats(kind: type, tmp_path: Path) -> None:
    zero = np.array(3, kind)
    nodes = [
        ("DequantizeLinear", ["x", "s", "z"], ["a"], {}),
        ("DequantizeLinear", ["w", "s", "n"], ["b"], {}),
        ("Conv", ["a", "b"], ["c"], {}),
        ("QuantizeLinear", ["c", "t", "z"], ["y"], {}),
    ]
    arrays = {
        "s": np.array(0.02, np.float32), "t": np.array(0.3, np.float32), "z": zero,
        "w": RNG.integers(-127, 128, (5, 3, 3, 3)).astype(np.int8), "n": np.array(0, np.int8),
    }  # fmt: skip
    element = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(kind))
    source = model(nodes, {"x": (1, 3, 6, 6)}, ["y"], arrays, input_type=element)
    report = convert(source, tmp_path / "m.ms")
    assert report.nodes["quantized_conv2d"] == 1
    assert not {"conv2d", "dequantize", "quantize", "round"} & set(report.nodes)
    assert report.worst is not None
    assert report.worst.max_difference <= 1


def test_weights_of_a_product_of_integers_stay_int8(tmp_path: Path) -> None:
    nodes = [("MatMul", ["x", "a"], ["h"], {}), ("Relu", ["h"], ["r"], {}),
             ("MatMul", ["r", "b"], ["y"], {})]  # fmt: skip
    arrays = {"a": floats(64, 128), "b": floats(128, 32)}
    (tmp_path / "net.onnx").write_bytes(model(nodes, {"x": (4, 64)}, ["y"], arrays))
    quantization.quantize_dynamic(tmp_path / "net.onnx", tmp_path / "small.onnx")
    report = convert(tmp_path / "small.onnx", tmp_path / "m.ms")
    assert report.target_bytes < report.source_bytes + 4000
    x = RNG.standard_normal((4, 64)).astype(np.float32)
    # ONNX Runtime's products saturate on processors that have no other instruction for them.
    (want,) = onnx.reference.ReferenceEvaluator(str(tmp_path / "small.onnx")).run(None, {"x": x})
    got = lite.load(tmp_path / "m.ms").run(x)
    assert np.abs(got - want).max() < 1e-5 * np.abs(want).max()


@pytest.mark.parametrize("each", [False, True])
def test_quantized_operators_of_known_weights_are_layers_on_int8(
    each: bool, tmp_path: Path
) -> None:
    nodes = [("Conv", ["x", "a", "b"], ["h"], {"pads": [1, 1, 1, 1]}), ("Relu", ["h"], ["r"], {}),
             ("Conv", ["r", "c", "b"], ["i"], {"group": 16}), ("Reshape", ["i", "f"], ["k"], {}),
             ("MatMul", ["k", "d"], ["y"], {})]  # fmt: skip
    arrays = {"a": floats(16, 3, 3, 3), "b": floats(16), "c": floats(16, 1, 3, 3),
              "f": ints(2, -1), "d": floats(576, 10)}  # fmt: skip
    (tmp_path / "net.onnx").write_bytes(model(nodes, {"x": (2, 3, 8, 8)}, ["y"], arrays))
    quantization.quantize_static(
        tmp_path / "net.onnx", tmp_path / "q.onnx", Samples(), per_channel=each,
        quant_format=quantization.QuantFormat.QOperator,
    )  # fmt: skip
    report = convert(tmp_path / "q.onnx", tmp_path / "m.ms")
    for kind in ("conv2d", "depthwise_conv2d", "linear"):
        assert report.nodes[f"quantized_{kind}"] == 1
    assert report.worst is not None
    assert report.worst.rms < 0.02


Q, DQ = "QuantizeLinear", "DequantizeLinear"
NUMBERS = {"s": np.array(0.02, np.float32), "z": np.array(0, np.int8)}
IN = [(Q, ["x", "s", "z"], ["q"], {}), (DQ, ["q", "s", "z"], ["a"], {})]


def out(x: str, scale: str = "s") -> list[Node]:
    return [(Q, [x, scale, "z"], ["c"], {}), (DQ, ["c", scale, "z"], ["y"], {})]


def test_int8_inputs_that_are_quantized_as_they_were_are_results(tmp_path: Path) -> None:
    nodes = [(DQ, ["x", "s", "z"], ["a"], {}), (Q, ["a", "s", "z"], ["y"], {})]
    source = model(nodes, {"x": (2, 4)}, ["y"], NUMBERS, input_type=onnx.TensorProto.INT8)
    assert not convert(source, tmp_path / "m.ms").nodes


def test_what_is_the_same_on_int8_keeps_its_source() -> None:
    nodes = [*IN, ("Sigmoid", ["a"], ["b"], {}), (Q, ["b", "s", "z"], ["d"], {}),
             (DQ, ["d", "s", "z"], ["e"], {}), *out("e")]  # fmt: skip
    graph = read_onnx(onnx.load_from_string(model(nodes, {"x": (2, 4)}, ["y"], NUMBERS)))
    (node,) = [
        n for n in find_int8(graph.entries["infer"]).nodes if n.op.name == "quantized_lookup"
    ]
    assert "Sigmoid" in node.source


@pytest.mark.parametrize("kind", ["Identity", "Div", "Mod"])
def test_whole_numbers_times_a_number_are_no_dequantized_ones(kind: str, tmp_path: Path) -> None:
    nodes = [*IN, ("Sigmoid", ["a"], ["b"], {}), (Q, ["b", "s", "z"], ["c"], {}),
             ("Cast", ["c"], ["d"], {"to": onnx.TensorProto.INT32}),
             ("Mul", ["d", "three"], ["e"], {}),
             (kind, ["e"] if kind == "Identity" else ["e", "three"], ["y"], {})]  # fmt: skip
    source = model(nodes, {"x": (2, 4)}, ["y"], NUMBERS | {"three": np.array(3, np.int32)})
    report = convert(source, tmp_path / "m.ms")
    assert report.nodes["quantized_lookup"] == 1
    (y,) = lite.load(tmp_path / "m.ms").run({"x": np.ones((2, 4), np.float32)}).values()
    assert y.dtype == np.int32


FAR = {
    "a scale": [],
    "a product": [("Mul", ["a", "a"], ["b"], {})],
    "a sum": [("Add", ["a", "a"], ["b"], {})],
    "a mean": [("ReduceMean", ["a"], ["b"], {"axes": [1]})],
    "a join": [("Concat", ["a", "a"], ["b"], {"axis": 1})],
    "a layer": [("MatMul", ["a", "w"], ["b"], {})],
}


@pytest.mark.parametrize("nodes", FAR.values(), ids=FAR)
def test_scales_that_no_multiplier_brings_together_stay_float(
    nodes: list[Node], tmp_path: Path
) -> None:
    arrays = {"t": np.array(1e-20, np.float32), "w": np.ones((4, 4), np.float32)}
    source = model([*IN, *nodes, *out("b" if nodes else "a", "t")], {"x": (2, 4)}, ["y"],
                   NUMBERS | arrays)  # fmt: skip
    report = convert(source, tmp_path / "m.ms")
    assert report.nodes["round"] == 2
    assert not any(name.startswith("quantize") for name in report.nodes)


def test_a_mean_over_nothing_stays_float(tmp_path: Path) -> None:
    nodes = [*IN, ("ReduceMean", ["a"], ["b"], {"axes": [1]}), *out("b")]
    report = convert(model(nodes, {"x": (2, 0)}, ["y"], NUMBERS), tmp_path / "m.ms")
    assert report.nodes["reduce_mean"] == 1


def test_a_long_chain_of_what_moves_numbers_is_on_int8(tmp_path: Path) -> None:
    count = 1500
    names = ["a", *(f"v{i}" for i in range(count))]
    chain = [("Slice", [a, "begin", "end"], [b], {}) for a, b in pairwise(names)]
    arrays = NUMBERS | {"begin": ints(1), "end": ints(2000)}
    source = model([*IN, *chain, *out(names[-1])], {"x": (count + 5, 2)}, ["y"], arrays)
    report = convert(source, tmp_path / "m.ms")
    assert report.nodes == {"quantize": 1, "slice": count, "dequantize": 1}


def test_ties_that_the_source_rounds_the_other_way_are_left_to_floats(tmp_path: Path) -> None:
    nodes = [*IN, (Q, ["w", "s", "z"], ["v"], {}), (DQ, ["v", "s", "z"], ["d"], {}),
             ("Mul", ["a", "d"], ["b"], {}), *out("b", "t")]  # fmt: skip
    arrays = {"s": np.array(0.03, np.float32), "z": np.array(0, np.int8),
              "t": np.array(0.05, np.float32)}  # fmt: skip
    source = model(nodes, {"x": (1, 4), "w": (1,)}, ["y"], arrays)
    tie = {"x": np.full((1, 4), 25 * 0.03, np.float32), "w": np.full(1, 10 * 0.03, np.float32)}
    report = convert(source, tmp_path / "m.ms", check_data=tie)
    assert report.worst is not None
    assert report.worst.rms == 0
    assert report.nodes["round"] == 3
    assert "stays float; on int8 output y differs from the source by 0.25" in str(report)
    assert bisect(source, check_data=tie) is None
    whole = convert(source, tmp_path / "m.ms", check_data=tie, tol=0.3)
    assert whole.nodes["quantized_mul"] == 1
    assert not whole.stays_float
