"""Batch norm in training and the ReLU behind it as one: the same numbers and gradients."""

from __future__ import annotations

import numpy as np
import pytest

from cloud import ops
from cloud.autodiff import value_and_gradients
from cloud.compile.fuse_norm_relu import fuse_norm_relu
from cloud.interpreter import run
from ir.graph import Graph, Value

SHAPE, CHANNELS = (6, 3, 4), 4


def normal(x: Value, scale: Value, bias: Value) -> tuple[Value, Value, Value]:
    return tuple(ops.batch_norm_train(x, scale, bias))


def kinds(graph: Graph) -> list[str]:
    return [n.op.name for n in graph.nodes]


@pytest.mark.parametrize("high", [float("inf"), 6.0])
def test_results_moments_and_gradients_are_the_same(high: float) -> None:
    inputs = [Value(s) for s in (SHAPE, (CHANNELS,), (CHANNELS,))]
    y, mean, variance = normal(*inputs)
    plain = Graph(inputs, (ops.clip(y, low=0.0, high=high), mean, variance))
    fused = fuse_norm_relu(plain)
    assert kinds(fused) == ["batch_norm_relu"]
    rng = np.random.default_rng(0)
    arrays = [rng.normal(0, 3, v.shape) for v in inputs]
    arrays[1] += 4  # so that some results are above 6
    seeds = [Value(v.shape) for v in plain.outputs]
    arrays += [rng.normal(0, 1, v.shape) for v in seeds]
    found = []
    for graph in (plain, fused):
        values, g = value_and_gradients(graph.outputs, seeds, inputs)
        found.append(run(Graph((*inputs, *seeds), (*values, *g)), *arrays))
    assert (found[0][0] == 0).any()
    assert high == float("inf") or (found[0][0] == high).any()
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)


def test_what_is_read_elsewhere_or_limited_otherwise_stays() -> None:
    def shared(x: Value, scale: Value, bias: Value) -> tuple[Value, Value]:
        y = normal(x, scale, bias)[0]
        return ops.relu(y), y

    def other(x: Value, scale: Value, bias: Value) -> Value:
        return ops.clip(normal(x, scale, bias)[0], low=-1.0, high=1.0)

    def of_the_mean(x: Value, scale: Value, bias: Value) -> Value:
        return ops.relu(normal(x, scale, bias)[1])

    for net in (shared, other, of_the_mean):
        graph = Graph.trace(net, SHAPE, (CHANNELS,), (CHANNELS,))
        assert kinds(fuse_norm_relu(graph)) == kinds(graph)
