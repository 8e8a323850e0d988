"""int8 quantization of graphs: accuracy, coverage, scales, and what stays float32."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lite_runtime
from cloud import nn, ops
from cloud.compress import quantize
from cloud.compress.calibrate import observe, watch
from cloud.compress.forms import INT8, INT16, Form
from cloud.compress.noise import layer_noise, sqnr_db
from cloud.compress.quantize import calibrated
from cloud.interpreter import run
from cloud.train.engine import engine_for
from converter.passes import PASSES
from converter.training import choose_weights
from ir import model_file
from ir.errors import GraphError, ShapeError
from ir.graph import Constant, Graph, Model, Value, Weight
from ir.quantization import half_multipliers
from ir.symbol import symbol
from ir.verify import verify
from tests.cloud.compress.tasks import accuracy, graph_of, textures
from tests.converter.random_nets import random_net


def optimised(graph: Graph) -> Graph:
    graph = choose_weights(graph, None)
    for change in PASSES:
        graph = change(graph)
    return graph


def frozen(*shape: int, seed: int = 0, name: str | None = None) -> Weight:
    data = np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
    return Weight(data, name=name or f"w{seed}{shape}", trainable=False)


def op_names(graph: Graph) -> list[str]:
    return [n.op.name for n in graph.nodes]


def batch(*shape: int) -> Value:
    return Value((symbol("batch"), *shape), name="x")


def samples(*shape: int, count: int = 64, seed: int = 1) -> dict[str, np.ndarray]:
    return {"x": np.random.default_rng(seed).standard_normal((count, *shape)).astype(np.float32)}


def net_of(fn: Callable[[Value], Value], *shape: int) -> Graph:
    x = batch(*shape)
    return Graph((x,), (fn(x),), ("y",))


def test_a_trained_net_keeps_its_accuracy(trained: nn.Module) -> None:
    graph = optimised(graph_of(trained))
    data, test = textures(256, 1), textures(600, 9)
    small = quantize(graph, {"image": data.columns["image"]})
    assert {n for n in op_names(small) if "quant" not in n} == set()
    want, got = (run(g, test.columns["image"])[0] for g in (graph, small))
    assert accuracy(want, test) > 0.85
    assert abs(accuracy(got, test) - accuracy(want, test)) <= 0.02
    assert sqnr_db([want], [got]) > 25


@given(seed=st.integers(0, 2**31))
@settings(max_examples=30, deadline=None)
def test_random_nets_answer_nearly_the_same_and_alike_on_the_runtime(seed: int) -> None:
    graph = optimised(random_net(seed))
    x = samples(3, 6, 5)["x"]
    small = quantize(graph, {"x": x})
    verify(small)
    engine = engine_for(Model({"infer": small}), "lite", threads=1)
    on_lite = engine.run("infer", {"x": x[:4]})
    for name, want, got in zip(small.output_names, run(graph, x), run(small, x), strict=True):
        assert sqnr_db([want], [got]) > 8 or np.abs(want).max() < 1e-3
        np.testing.assert_allclose(on_lite[name], got[:4], rtol=1e-4, atol=1e-4)


def test_a_layer_that_trains_stays_float() -> None:
    head = Weight(frozen(3, 4).data, name="head")
    graph = net_of(lambda x: ops.linear(ops.linear(x, frozen(4, 6)), head), 6)
    small = quantize(graph, samples(6))
    assert op_names(small) == ["quantize", "quantized_linear", "dequantize", "linear"]
    assert head in small.weights


def test_branches_that_meet_in_sums_products_and_joins_stay_int8() -> None:
    def net(x: Value) -> Value:
        a, b = ops.linear(x, frozen(5, 6)), ops.linear(x, frozen(5, 6, seed=1))
        y = ops.concat(a + b, a * b, ops.tanh(a), axis=1)
        return ops.linear(y, frozen(2, 15))

    graph = net_of(net, 6)
    small = quantize(graph, samples(6))
    assert op_names(small).count("quantize") == op_names(small).count("dequantize") == 1
    x = samples(6)["x"]
    assert sqnr_db(run(graph, x), run(small, x)) > 25


def test_an_operator_without_an_int8_form_is_an_island_of_float() -> None:
    graph = net_of(
        lambda x: ops.linear(ops.softmax(ops.linear(x, frozen(5, 6)), axis=1), frozen(2, 5)), 6
    )
    small = quantize(graph, samples(6))
    assert op_names(small) == [
        "quantize", "quantized_linear", "dequantize", "softmax", "quantize", "quantized_linear",
        "dequantize",
    ]  # fmt: skip


def test_a_graph_without_layers_stays_as_it_is() -> None:
    graph = net_of(lambda x: ops.relu(x) + x, 6)
    assert op_names(quantize(graph, samples(6))) == ["relu", "add"]


@pytest.mark.parametrize("op", ["relu", "clip"])
def test_a_clamp_behind_a_sum_is_part_of_it(op: str) -> None:
    def net(x: Value) -> Value:
        y = ops.linear(x, frozen(5, 6)) + ops.linear(x, frozen(5, 6, seed=1))
        return ops.linear(getattr(ops, op)(y), frozen(2, 5))

    graph = net_of(net, 6)
    small = quantize(graph, samples(6))
    assert op_names(small).count("quantized_add") == 1
    assert "quantized_lookup" not in op_names(small)
    x = samples(6)["x"]
    assert sqnr_db(run(graph, x), run(small, x)) > 25


def test_a_sum_that_something_else_reads_keeps_its_own_result() -> None:
    def net(x: Value) -> Value:
        y = ops.linear(x, frozen(5, 6)) + ops.linear(x, frozen(5, 6, seed=1))
        return ops.linear(ops.relu(y) + y, frozen(2, 5))

    graph = net_of(net, 6)
    small = quantize(graph, samples(6))
    assert op_names(small).count("quantized_lookup") == 1
    x = samples(6)["x"]
    assert sqnr_db(run(graph, x), run(small, x)) > 25


def test_a_bias_far_beyond_its_weights_is_kept() -> None:
    w, b = frozen(4, 6), frozen(4, name="b")
    w.data[2] *= 1e-12
    b.data[2] = 3.0
    graph = net_of(lambda x: ops.linear(x, w, b), 6)
    x = samples(6)["x"]
    (y,) = run(quantize(graph, samples(6)), x)
    np.testing.assert_allclose(y[:, 2], 3.0, atol=0.05)


def test_a_channel_of_zeros_keeps_its_bias() -> None:
    w, b = frozen(4, 6), frozen(4, name="b")
    w.data *= 0.01
    w.data[2], b.data[2] = 0, 0.3
    data = {"x": samples(6)["x"] * 100}
    graph = net_of(lambda x: ops.linear(x, w, b), 6)
    (y,) = run(quantize(graph, data), data["x"])
    np.testing.assert_allclose(y[:, 2], 0.3, atol=0.05)


def test_a_channel_of_tiny_weights_leaves_its_layer_the_short_way() -> None:
    w = frozen(4, 6)
    w.data[2] *= 3e-7
    small = quantize(net_of(lambda x: ops.linear(x, w), 6), samples(6))
    (layer,) = (n for n in small.nodes if n.op.name == "quantized_linear")
    assert layer.inputs[1].data[2].any()
    _, shift = half_multipliers(layer.inputs[3].data)
    assert shift.min() == -22  # Quick::takes of kernels/int8/rescale.h


def test_so_does_one_of_a_weight_that_two_layers_share() -> None:
    w = frozen(6, 6)
    w.data[2] *= 3e-7
    graph = net_of(lambda x: ops.linear(ops.linear(x, w) * np.float32(1e4), w), 6)
    layers = [n for n in quantize(graph, samples(6)).nodes if n.op.name == "quantized_linear"]
    assert len(layers) == 2
    assert min(n.inputs[4].data.min() for n in layers) == -22


def test_layers_that_share_a_weight_with_a_channel_of_zeros_share_its_int8_form() -> None:
    w = frozen(6, 6)
    w.data[2] = 0
    graph = net_of(lambda x: ops.linear(ops.linear(x, w, frozen(6, name="b")), w), 6)
    small = quantize(graph, samples(6))
    first, second = (n.inputs[1] for n in small.nodes if n.op.name == "quantized_linear")
    assert first is second
    x = samples(6)["x"]
    assert sqnr_db(run(graph, x), run(small, x)) > 25


def test_a_constant_operand_is_stored_as_int8() -> None:
    scale = Constant(np.linspace(0.5, 1.5, 5).astype(np.float32))
    graph = net_of(lambda x: ops.linear(ops.linear(x, frozen(5, 6)) * scale, frozen(2, 5)), 6)
    small = quantize(graph, samples(6))
    assert "quantized_mul" in op_names(small)
    x = samples(6)["x"]
    assert sqnr_db(run(graph, x), run(small, x)) > 25


def test_layers_are_kept_float_by_name_of_node_or_weight() -> None:
    graph = net_of(lambda x: ops.linear(ops.linear(x, frozen(5, 6)), frozen(2, 5, name="v")), 6)
    for node, source in zip(graph.nodes, ("block.1", "block.2"), strict=True):
        node.source = source
    for pattern in ("v", "*.2"):
        small = quantize(graph, samples(6), keep_float=[pattern])
        assert op_names(small) == ["quantize", "quantized_linear", "dequantize", "linear"]
    with pytest.raises(GraphError, match="keep_float: no node or weight matches 'z'"):
        quantize(graph, samples(6), keep_float=["z"])


def test_ranges_are_those_of_all_samples() -> None:
    graph = net_of(lambda x: ops.relu(x * 2.0), 6)
    data = samples(6, count=100)
    data["x"][77, 3], data["x"][99, 0] = 50, -20
    found = observe(graph, data)
    assert found[graph.inputs[0]] == (-20, 50)
    assert found[graph.outputs[0]] == (0, 100)
    for engine in ("lite", "interpreter"):
        assert observe(graph, data, engine=engine) == found


def test_only_as_many_examples_are_watched_as_are_asked_for() -> None:
    graph = net_of(lambda x: x * 2.0, 6)
    seen = list(watch(graph, graph.outputs, samples(6, count=100), most=40))
    assert [len(a) for (a,) in seen] == [32, 32]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"z": np.ones((3, 6), np.float32)}, r"no samples for input \['x'\]; have \['z'\]"),
        ({"x": np.ones((0, 6), np.float32)}, r"\[0\] examples; want one number above 0"),
        ({"x": np.full((3, 6), np.nan, np.float32)}, "is empty or not finite on the samples"),
    ],
)
def test_samples_that_do_not_fit_are_refused(data: dict[str, np.ndarray], message: str) -> None:
    graph = net_of(lambda x: ops.linear(x, frozen(5, 6)), 6)
    with pytest.raises(ShapeError, match=message):
        quantize(graph, data)


def test_too_few_samples_for_a_fixed_batch_are_refused() -> None:
    x = Value((4, 6), name="x")
    graph = Graph((x,), (ops.linear(x, frozen(5, 6)),))
    quantize(graph, samples(6, count=9))
    with pytest.raises(ShapeError, match="3 examples; the model takes 4 at once"):
        quantize(graph, samples(6, count=3))


def test_noise_names_the_layer_that_int8_hurts() -> None:
    outlier = frozen(5, 6, seed=4)
    outlier.data[:, 0] = 0
    outlier.data[0, 0] = 1  # one channel passes a number through that is far larger than all else

    def net(x: Value) -> Value:
        return ops.linear(ops.tanh(ops.linear(x, frozen(6, 6))), outlier)

    graph = net_of(net, 6)
    for node, source in zip(graph.nodes, ("first", "tanh", "last"), strict=True):
        node.source = source
    found = calibrated(graph, samples(6)).quantized()
    noise = {n.source: n for n in layer_noise(found, samples(6))}
    assert list(noise) == ["first", "tanh", "last"]
    x = samples(6)["x"]
    (want,), (got,) = run(graph, x[:32]), run(found.graph, x[:32])
    assert noise["last"].sqnr_db == pytest.approx(sqnr_db([want], [got]), abs=0.01)
    assert noise["last"].operator == "linear"


def test_decibels_are_those_of_the_definition() -> None:
    want = np.array([3.0, 4.0], np.float32)
    assert sqnr_db([want], [want + np.float32([0.3, -0.4])]) == pytest.approx(20, abs=1e-4)
    assert sqnr_db([want], [want]) == np.inf
    assert sqnr_db([want * 0], [want]) == -np.inf


def test_noise_of_large_images_is_measured_on_the_same_examples() -> None:
    # A batch of what is watched in float32 is smaller than one of int8.
    w = frozen(24, 1, 1, 1)
    image = Value((symbol("batch"), 1024, 1024, 1), name="x")
    graph = Graph((image,), (ops.conv2d(image, w),))
    x = {"x": np.linspace(-1, 1, 4 << 20, dtype=np.float32).reshape(4, 1024, 1024, 1)}
    (found,) = layer_noise(calibrated(graph, x).quantized(), x)
    assert found.sqnr_db > 35


def one_layer(multiplier: float) -> tuple[Graph, dict[str, np.ndarray]]:
    """A layer whose sums on int16 are scaled by this much: its large input does not count."""
    data = np.zeros((4, 16), np.float32)
    data[:, 1] = 1
    w = Weight(data, name="w", trainable=False)
    x = np.zeros((6, 16), np.float32)
    x[:, 0], x[:, 1] = 127 * multiplier, 1
    return net_of(lambda x: ops.linear(x, w), 16), {"x": x}


@pytest.mark.parametrize(
    ("multiplier", "fits"), [(1, True), (120, True), (127.9, False), (129, False), (5e3, False)]
)
def test_a_layer_that_16_bits_cannot_scale_stays_float(multiplier: float, fits: bool) -> None:
    graph, x = one_layer(multiplier)
    made = calibrated(graph, x, form=INT16).quantized()
    want = ["quantize_16", "quantized_linear", "dequantize"] if fits else ["linear"]
    assert op_names(made.graph) == want
    data = model_file.write(Model({"infer": made.graph}))
    got = lite_runtime.load(data).run(x["x"])
    np.testing.assert_allclose(got, run(made.graph, x["x"])[0])
    assert fits or "want one below 128" in "".join(made.unfit.values())


@pytest.mark.parametrize("form", [INT8, INT16])
def test_samples_next_to_nothing_leave_layers_float_or_right(form: Form) -> None:
    graph, tiny = one_layer(1)[0], np.full((2, 16), 1e-42, np.float32)
    graph.weights[0].data[:] = 1000  # the results have a scale in float32, of 16 bits x has none
    made = calibrated(graph, {"x": tiny}, form=form).quantized()
    (got,) = run(made.graph, tiny)
    assert np.isfinite(got).all()
    assert (form is INT16) == bool(made.unfit)
