"""What the compiler says of its work."""

from __future__ import annotations

import re

import numpy as np

from cloud import explain, models, nn, ops
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
        "after", "nodes", "planned bytes", "least bytes", "without reuse"
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


def test_what_the_runtime_lacks_has_nodes_but_no_bytes() -> None:
    found = explain(f, X.astype(np.float64))
    assert found.node_count == 3
    assert found.planned_bytes == 0
    assert str(found).splitlines()[1].split() == ["trace", "5", "-", "-", "-"]


def test_graphs_are_explained_without_arrays_where_sizes_are_known() -> None:
    assert explain(Graph.trace(f, (4, 3))).planned_bytes == explain(f, X).planned_bytes
