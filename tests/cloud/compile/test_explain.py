"""What the compiler says of its work."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pytest

from cloud import explain, grad, models, nn, ops
from cloud.compile.pipeline import PASSES
from cloud.train import Momentum, train_graph
from ir.dtype import DType
from ir.graph import Graph, Value
from ir.symbol import symbol

X = np.ones((4, 3), np.float32)


def f(x: Value) -> Value:
    return ops.tanh(x * 1.0) + ops.tanh(x) / 4.0


def test_nodes_and_bytes_are_counted_before_and_after_each_pass() -> None:
    found = explain(f, X)
    assert [s.name for s in found.stages] == ["trace", *(p.__name__ for p in PASSES)]
    counts = {s.name: s.node_count for s in found.stages}
    assert counts["trace"] == 5
    assert counts["simplify"] == 4
    assert found.node_count <= counts["common_subexpression"] == 3
    assert 0 < found.planned_bytes <= found.stages[0].planned_bytes
    assert found.planned_bytes == found.stages[-1].planned_bytes


def test_its_text_is_a_table() -> None:
    lines = str(explain(f, X)).splitlines()
    assert re.split("  +", lines[0]) == [
        "after", "nodes", "planned bytes", "taken", "least bytes", "without reuse"
    ]  # fmt: skip
    assert lines[1].split()[:2] == ["trace", "5"]
    assert len({len(line) for line in lines}) == 1


def test_memory_is_shared_by_results_whose_lives_do_not_meet() -> None:
    def chain(x: Value) -> Value:
        for _ in range(10):
            x = ops.softmax(x, axis=1)
        return x

    (*_, last) = explain(Graph.trace(chain, (64, 32))).stages
    assert last.unshared_bytes == 10 * 64 * 32 * 4
    assert last.planned_bytes is not None
    assert last.planned_bytes <= 3 * 64 * 32 * 4


def test_a_training_graph_tells_what_it_updates_in_place() -> None:
    net = models.mlp([6, 5, 3], rng=np.random.default_rng(0))
    net.name_weights()
    graph = train_graph(
        net,
        nn.loss.softmax_cross_entropy,
        Momentum(0.1),
        {"x": ("batch", 6)},
        {"label": Value((symbol("batch"),), DType.i32)},
    )
    found = explain(graph, np.ones((8, 6), np.float32), np.zeros(8, np.int32), np.float32(0.1))
    assert len(found.updated_in_place) == 8
    assert "8 updated in place: 1.weight, optimizer.momentum.1.weight, 1.bias, …" in str(found)
    bigger = explain(graph, np.ones((80, 6), np.float32), np.zeros(80, np.int32), np.float32(0.1))
    assert bigger.planned_bytes > found.planned_bytes


def looped(x: Value) -> Value:
    while ops.reduce_sum(x, axes=(0, 1)) < 100:
        x = ops.tanh(x) + x * 1.1
    return ops.reduce_mean(x, axes=(0, 1))


def branching(x: Value) -> Value:
    y = ops.softmax(x, axis=1)
    for _ in range(5):
        y = ops.exp(y) if y[0, 0] > 0.5 else y @ ops.transpose(y, perm=(1, 0)) @ x
    return ops.reduce_sum(y, axes=(0, 1))


@pytest.mark.parametrize("f", [f, looped, branching])
def test_a_run_takes_what_is_planned_also_of_graphs_inside(f: Callable[[Value], Value]) -> None:
    for stage in explain(f, np.full((4, 4), 0.3, np.float32)).stages:
        assert stage.taken_bytes == stage.planned_bytes
        assert stage.least_bytes is not None
        assert stage.planned_bytes is not None
        assert stage.least_bytes <= stage.planned_bytes


def test_a_run_with_tapes_takes_what_lies_on_them_too() -> None:
    x = np.full((4, 4), 0.3, np.float32)
    found = explain(grad(looped), x)
    turns, y = 0, x
    while y.sum() < 100:
        turns, y = turns + 1, np.tanh(y) + y * np.float32(1.1)
    assert found.taken_bytes is not None
    on_tapes = found.taken_bytes - found.planned_bytes
    assert turns * x.nbytes <= on_tapes <= turns * (2 * x.nbytes + 64)


def test_what_the_runtime_lacks_has_nodes_but_no_bytes() -> None:
    found = explain(f, X.astype(np.float64))
    assert found.node_count == 3
    assert found.planned_bytes == 0
    assert str(found).splitlines()[1].split() == ["trace", "5", "-", "-", "-", "-"]


def test_graphs_are_explained_without_arrays_where_sizes_are_known() -> None:
    assert explain(Graph.trace(f, (4, 3))).planned_bytes == explain(f, X).planned_bytes
