"""Simplification: the same bits from fewer nodes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from cloud import ops
from cloud.autodiff import vjp
from cloud.compile.simplify import simplify
from cloud.interpreter import run, step
from ir.dtype import DType
from ir.graph import Constant, Graph, Value, Weight
from ir.symbol import symbol
from tests.random_graphs import random_arrays, random_symbolic_graph, random_training_graph

SEEDS = range(15)


def kinds(graph: Graph) -> list[str]:
    return [n.op.name for n in graph.nodes]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("make", [random_training_graph, random_symbolic_graph])
def test_random_graphs_compute_the_same_bits(make: Callable[[int], Graph], seed: int) -> None:
    graph = make(seed)
    arrays = random_arrays(graph, seed, batch=2, seq=3)
    after = simplify(graph)
    assert len(after.nodes) <= len(graph.nodes)
    for a, b in zip(step(graph, *arrays)[0], step(after, *arrays)[0], strict=True):
        np.testing.assert_array_equal(a, b)
    for a, b in zip(
        step(graph, *arrays)[1].values(), step(after, *arrays)[1].values(), strict=True
    ):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("seed", SEEDS)
def test_random_derivatives_compute_the_same_bits(seed: int) -> None:
    graph = random_symbolic_graph(seed, nodes=5)
    back = vjp(graph)
    arrays = random_arrays(back, seed, batch=2, seq=3)
    for a, b in zip(run(back, *arrays), run(simplify(back), *arrays), strict=True):
        np.testing.assert_array_equal(a, b)


ONE = Constant(1.0, dtype=DType.f32)
N = symbol("n")


@pytest.mark.parametrize(
    ("make", "left"),
    [
        (lambda x: x * 1.0, []),
        (lambda x: 1.0 * x, []),
        (lambda x: x / 1.0, []),
        (lambda x: 1.0 / x, ["div"]),
        (lambda x: x * 2.0, ["mul"]),
        (lambda x: x * (ONE * 2.0 + 1.0), ["mul"]),
        (lambda x: ops.reshape(x, shape=(N, 2)), []),
        (lambda x: ops.reshape(ops.reshape(x, shape=(2, N)), shape=(N * 2,)), ["reshape"]),
        (lambda x: ops.broadcast_to(x, shape=(N, 2)), []),
        (lambda x: x * ops.broadcast_to(ONE, shape=(N, 2)), []),
        (lambda x: x * ops.broadcast_to(Constant(np.ones((1, 1), np.float32)), shape=(N, 2)), []),
        (lambda x: x - ops.broadcast_to(ops.reshape(ONE, shape=(1,)), shape=(2,)), ["sub"]),
        (lambda x: ops.broadcast_to(ops.reshape(ONE, shape=(1, 1)), shape=(N, 2)) / x, ["div"]),
        (lambda x: ops.reduce_sum(x, axes=(0,)) * ops.broadcast_to(ONE, shape=(N, 2)), 3),
    ],
)
def test_what_is_left_of(make: Callable[[Value], Value], left: list[str] | int) -> None:
    graph = simplify(Graph.trace(make, Value((N, 2))))
    assert kinds(graph) == left or len(graph.nodes) == left


def test_a_one_that_stretches_the_other_factor_stays() -> None:
    one = Constant(np.ones((3, 1), np.float32))
    assert kinds(simplify(Graph.trace(lambda x: x * one, (2,)))) == ["mul"]


def test_updates_of_weights_are_never_computed_beforehand() -> None:
    t = Weight(np.int32(0), name="t", state=True)
    graph = Graph((), (), updates=((t, ops.increment(t)),))
    assert kinds(simplify(graph)) == ["increment"]
