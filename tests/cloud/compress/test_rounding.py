"""Weights that are rounded for samples of their inputs."""

from __future__ import annotations

import numpy as np
import pytest

from cloud import ops
from cloud.compress.noise import sqnr_db
from cloud.compress.rounding import learned, read_back, rounded
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
