"""Weights that are rounded for samples of their inputs."""

from __future__ import annotations

import numpy as np
import pytest

from cloud import ops
from cloud.compress.noise import sqnr_db
from cloud.compress.rounding import Moments, learned, read_back, rounded
from cloud.compress.weights import Scheme, compressed_weights
from cloud.interpreter import run
from ir.compression import compress, expand
from ir.graph import Array, Graph, Weight


def inputs(count: int, n: int, seed: int = 0) -> Array:
    """Rows of numbers that go together, with means."""
    rng = np.random.default_rng(seed)
    mixed = rng.standard_normal((count, 6)) @ np.random.default_rng(9).standard_normal((6, n))
    return (mixed + 0.3 * rng.standard_normal((count, n)) + 1).astype(np.float32)


def weight(k: int, n: int) -> Weight:
    data = np.random.default_rng(1).standard_normal((k, n)).astype(np.float32)
    return Weight(data, name="w", trainable=False)


@pytest.mark.parametrize(("bits", "group"), [(4, 32), (8, 0), (4, 64), (8, 16)])
def test_rounding_that_follows_samples_moves_results_less(bits: int, group: int) -> None:
    w, x = weight(24, 80).data, inputs(500, 80)
    covariance = np.cov(x.T, bias=True)
    plain = expand(*compress(w, bits, group), 80, bits, group)
    better = read_back(*rounded(w, covariance, bits, group), 80, bits, group)
    other = inputs(200, 80, seed=5)
    errors = [np.var((v - w) @ other.T, axis=1).sum() for v in (plain, better)]
    assert errors[1] < 0.5 * errors[0]


def test_inputs_that_do_not_go_together_leave_rounding_as_it_is() -> None:
    w = weight(8, 64).data
    stored, scale = rounded(w, np.eye(64), 4, 32)
    want, want_scale = compress(w, 4, 32)
    np.testing.assert_array_equal(stored, want)
    np.testing.assert_array_equal(scale, want_scale)


def net(kind: str) -> Graph:
    """A layer of 64 inputs."""
    w = weight(48, 64)
    if kind == "linear":
        return Graph.trace(lambda x: ops.linear(x, w), (4, 64))
    w = Weight(w.data.reshape(48, 1, 1, 64), name="w", trainable=False)
    return Graph.trace(lambda x: ops.conv2d(x, w, strides=(2, 2)), (4, 4, 4, 64))


@pytest.mark.parametrize("kind", ["linear", "conv"])
def test_a_layer_for_its_samples_has_no_shift_of_means(kind: str) -> None:
    graph = net(kind)
    shape = (100, *graph.inputs[0].shape[1:])
    x = inputs(int(np.prod(shape[:-1])), 64).reshape(shape)
    rounding = learned(graph, {graph.inputs[0].name or "": x})
    small = [compressed_weights(graph, Scheme(4, 32), rounding=r).graph for r in (None, rounding)]
    want = run(graph, x[:4])
    plain, better = (run(g, x[:4]) for g in small)
    assert sqnr_db(want, better) > sqnr_db(want, plain) + 6
    every = [np.concatenate([run(g, x[i : i + 4])[0] for i in range(0, 100, 4)]) for g in small]
    exact = np.concatenate([run(graph, x[i : i + 4])[0] for i in range(0, 100, 4)])
    shifts = [np.abs((y - exact).reshape(-1, 48).mean(0)).max() for y in every]
    assert shifts[1] < 0.02 * shifts[0]


def test_the_smallest_weights_have_8_bits() -> None:
    tiny, large = weight(8, 40), weight(400, 60)
    graph = Graph.trace(lambda x, y: (ops.linear(x, tiny), ops.linear(y, large)), (2, 40), (2, 60))
    found = compressed_weights(graph, Scheme(4, 32)).graph
    assert [n.attrs["bits"] for n in found.nodes] == [8, 4]


def test_a_weight_that_is_an_embedding_too_is_rounded_for_nothing() -> None:
    w, at = weight(60, 64), np.arange(4, dtype=np.int32)
    graph = Graph.trace(lambda x: ops.linear(x + ops.gather(w, at, axis=0), w), (4, 64))
    assert not learned(graph, {"input0": inputs(100, 64)}).moments


def test_samples_that_are_no_numbers_say_nothing() -> None:
    x = inputs(100, 64)
    x[3, 5] = np.nan
    assert not learned(net("linear"), {"input0": x}).moments


@pytest.mark.parametrize("count", [1, 2, 8, 64, 128, 512])
@pytest.mark.parametrize("offset", [0, 1])
def test_few_rows_do_no_harm_on_fresh_data(count: int, offset: int) -> None:
    w = weight(64, 256)
    graph = Graph.trace(lambda x: ops.linear(x, w), (1, 256))
    rng = np.random.default_rng(4)
    seen, fresh = (
        (rng.standard_normal((n, 256)) + offset).astype(np.float32) for n in (count, 2000)
    )
    rounding = learned(graph, {"input0": seen})
    small = [compressed_weights(graph, Scheme(4, 32), rounding=r).graph for r in (None, rounding)]
    plain, better = (noise(w, g, fresh) for g in small)
    assert better < 1.01 * plain
    assert offset == 0 or count < 8 or better < 0.8 * plain


@pytest.mark.parametrize("count", [16, 64, 128, 512])
def test_few_rows_that_go_together_are_a_gain_on_fresh_data(count: int) -> None:
    w = weight(64, 256)
    graph = Graph.trace(lambda x: ops.linear(x, w), (1, 256))
    rounding = learned(graph, {"input0": inputs(count, 256)})
    small = [compressed_weights(graph, Scheme(4, 32), rounding=r).graph for r in (None, rounding)]
    plain, better = (noise(w, g, inputs(2000, 256, seed=5)) for g in small)
    assert better < 0.75 * plain


def noise(w: Weight, small: Graph, x: Array) -> float:
    """Root mean square of what a layer's stored weight and its bias change on rows."""
    node = small.nodes[-1]
    stored, scale, bias = (None if v is None else v.data for v in node.inputs[1:])  # type: ignore[attr-defined]
    rows = read_back(stored, scale, w.data.shape[1], node.attrs["bits"], node.attrs["group"])
    change = x @ (rows - w.data).T + (0 if bias is None else bias)
    return float(np.sqrt(np.mean(np.square(change))))


@pytest.mark.parametrize("count", [2, 64, 300, 1000])
@pytest.mark.parametrize("largest", [1, 255, 1e6])
def test_one_example_many_times_leaves_rounding_as_it_is(count: int, largest: float) -> None:
    w = weight(64, 256)
    graph = Graph.trace(lambda x: ops.linear(x, w), (1, 256))
    one = np.random.default_rng(0).uniform(0, largest, (1, 256)).astype(np.float32)
    rounding = learned(graph, {"input0": np.repeat(one, count, 0)})
    stored = rounding.compressed(w, w.data, 4, 32)
    for got, want in zip(stored, compress(w.data, 4, 32), strict=True):
        np.testing.assert_array_equal(got, want)


def test_moments_in_parts_are_those_of_all_rows_beside_a_large_mean() -> None:
    x = np.random.default_rng(3).standard_normal((300, 8)).astype(np.float32) + np.float32(1e4)
    moments = Moments.none(8)
    for part in np.split(x, [1, 1, 40, 210]):
        moments.add(part)
    wide = x.astype(np.float64)
    np.testing.assert_allclose(moments.mean, wide.mean(0), rtol=1e-12)
    np.testing.assert_allclose(moments.scatter / 300, np.cov(wide.T, bias=True), rtol=1e-9)


@pytest.mark.parametrize("size", [0.0, 1e-42, 1e18, 3e38])
def test_inputs_of_any_size_leave_a_layer_stored(size: float) -> None:
    graph = net("linear")
    x = np.full((20, 64), size, np.float32)
    small = compressed_weights(graph, Scheme(4, 32), rounding=learned(graph, {"input0": x})).graph
    assert [n.op.name for n in small.nodes] == ["compressed_linear"]
