"""Passes: random graphs compute the same before and after, and each pass does its work."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cloud.interpreter import step
from ir.graph import Constant, Graph, Value, Weight
from ir.op import OPS, Op
from ir.passes import common_subexpression, constant_folding, dead_code
from ir.symbol import symbol
from ir.verify import same_graph, verify
from tests.random_graphs import random_arrays, random_symbolic_graph, random_training_graph

PASSES = [dead_code, common_subexpression, constant_folding]
Pass = Callable[[Graph], Graph]


def op_names(graph: Graph) -> list[str]:
    return [n.op.name for n in graph.nodes]


@pytest.mark.parametrize("change", PASSES)
@given(seed=st.integers(0, 2**31))
@settings(max_examples=60, deadline=None)
def test_random_graphs_compute_the_same(change: Pass, seed: int) -> None:
    for make, sizes in (
        (random_training_graph, {}),
        (random_symbolic_graph, {"batch": 2, "seq": 3}),
    ):
        graph = make(seed)
        arrays = random_arrays(graph, seed, **sizes)
        after = change(graph)
        verify(after)
        with np.errstate(all="ignore"):
            (y, new), (y_after, new_after) = step(graph, *arrays), step(after, *arrays)
        for a, b in zip((*y, *new.values()), (*y_after, *new_after.values()), strict=True):
            np.testing.assert_array_equal(a, b, strict=True)
        assert new.keys() == new_after.keys()
        assert after.output_names == graph.output_names


@pytest.mark.parametrize("change", PASSES)
@given(seed=st.integers(0, 2**31))
@settings(max_examples=20, deadline=None)
def test_a_pass_has_nothing_left_to_do_after_itself(change: Pass, seed: int) -> None:
    once = change(random_training_graph(seed))
    assert same_graph(change(once), once)


@pytest.mark.parametrize("change", PASSES)
def test_a_pass_leaves_the_graph_that_it_was_given_as_it_was(change: Pass) -> None:
    for seed in range(20):
        graph = random_training_graph(seed)
        text, names = str(graph), [v.name for n in graph.nodes for v in n.results]
        change(graph)
        assert str(graph) == text
        assert [v.name for n in graph.nodes for v in n.results] == names


@pytest.mark.parametrize("change", [common_subexpression, constant_folding])
def test_a_pass_works_inside_of_sub_graphs(change: Pass, apply_op: Op) -> None:
    two = Constant(np.float32(2))
    inner = Graph.trace(lambda x: OPS["tanh"](x) * OPS["tanh"](x) + OPS["exp"](two), (2,))
    graph = Graph.trace(lambda x: apply_op(x, body=inner), (2,))
    (body,) = change(graph).nodes[0].subgraphs()
    assert len(body.nodes) < len(inner.nodes)
    x = np.ones(2, np.float32)
    np.testing.assert_array_equal(step(graph, x)[0], step(change(graph), x)[0])


def test_dead_code_keeps_inputs_and_leaves_out_updates_that_change_nothing(apply_op: Op) -> None:
    x, unread = Value((2,), name="x"), Value((3,), name="unread")
    w, v = (Weight(np.ones(2, np.float32), name=n) for n in "wv")
    new = OPS["sgd_step"](v, x, Constant(np.float32(1)))
    graph = dead_code(Graph((x, unread), (OPS["tanh"](x),), ("y",), ((w, w), (v, new))))
    assert graph.inputs == (x, unread)
    assert graph.updates == ((v, new),)
    inner = Graph((x,), (OPS["tanh"](x),), ("y",), ((w, w),))
    outer = dead_code(Graph.trace(lambda x: apply_op(x, body=inner), (2,)))
    assert [g.updates for g in outer.nodes[0].subgraphs()] == [()]


def test_equal_nodes_on_equal_constants_are_merged() -> None:
    def net(x: Value) -> Value:
        a = OPS["clip"](x * Constant(np.float32(2)), high=1.0)
        b = OPS["clip"](x * Constant(np.float32(2)), high=1.0)
        return a + b

    assert op_names(common_subexpression(Graph.trace(net, (3,)))) == ["mul", "clip", "add"]


@pytest.mark.parametrize(
    "other",
    [
        lambda x, k: OPS["clip"](x, high=2.0),
        lambda x, k: OPS["clip"](x, low=-0.0, high=1.0),
        lambda x, k: OPS["relu"](x),
        lambda x, k: OPS["clip"](k, high=1.0),
    ],
)
def test_nodes_that_differ_are_not_merged(other: Callable[[Value, Value], Value]) -> None:
    graph = Graph.trace(lambda x, k: (OPS["clip"](x, high=1.0), other(x, k)), (3,), (3,))
    assert len(common_subexpression(graph).nodes) == 2


def test_constants_of_other_types_or_bytes_are_not_merged() -> None:
    ones = [np.ones(2, np.float32), np.ones((1, 2), np.float32), np.full(2, -0.0, np.float32)]
    zeros = [np.zeros(2, np.float32)]
    graph = Graph.trace(lambda x: tuple(x * Constant(a) for a in ones + zeros), (1, 2))
    assert len(common_subexpression(graph).nodes) == 4


def test_random_numbers_are_merged_only_where_they_have_one_key() -> None:
    def net(a: Value, b: Value) -> tuple[Value, ...]:
        return tuple(OPS["random_uniform"](k, shape=(3,)) for k in (a, b, a))

    case = OPS["random_uniform"].samples[0].inputs[0]
    keys = (Value(case.shape, case.dtype, name=n) for n in "ab")
    assert len(common_subexpression(Graph.trace(net, *keys)).nodes) == 2


def test_what_depends_on_constants_and_frozen_weights_alone_is_folded() -> None:
    frozen = Weight(np.full(3, 4, np.float32), name="frozen", trainable=False)
    trained = Weight(np.ones(3, np.float32), name="trained")
    state = Weight(np.ones(3, np.float32), name="state", state=True)

    def net(x: Value) -> tuple[Value, ...]:
        fixed = OPS["sqrt"](frozen) + Constant(np.float32(1))
        return x * fixed, OPS["sqrt"](trained), OPS["sqrt"](state)

    graph = constant_folding(Graph.trace(net, (3,)))
    assert op_names(graph) == ["mul", "sqrt", "sqrt"]
    folded = graph.nodes[0].inputs[1]
    assert isinstance(folded, Constant)
    np.testing.assert_array_equal(folded.data, np.full(3, 3, np.float32))


def test_a_fold_that_would_make_the_file_larger_is_left() -> None:
    one = Constant(np.float32(1))
    graph = Graph.trace(
        lambda x: (OPS["broadcast_to"](one, shape=(100,)), OPS["broadcast_to"](one, shape=(9,))), ()
    )
    assert op_names(constant_folding(graph)) == ["broadcast_to"]


def test_a_fold_that_keeps_the_size_is_done() -> None:
    big = Constant(np.arange(1000, dtype=np.float32).reshape(10, 100))
    graph = constant_folding(Graph.trace(lambda: OPS["transpose"](big, perm=(1, 0))))
    assert op_names(graph) == []
    np.testing.assert_array_equal(graph.outputs[0].data, big.data.T)  # type: ignore[attr-defined]


def test_count_is_folded_along_sizes_that_are_not_free() -> None:
    x = Value((symbol("batch"), 3, 4), name="x")
    graph = Graph((x,), (OPS["count"](x, axes=(1, 2)), OPS["count"](x, axes=(0, 1))))
    after = constant_folding(graph)
    assert isinstance(after.outputs[0], Constant)
    assert after.outputs[0].data == 12
    assert op_names(after) == ["count"]


def test_what_has_a_free_size_is_not_folded() -> None:
    x = Value((symbol("batch"),), name="x")
    one = Constant(np.float32(1))
    graph = Graph((x,), (x + OPS["broadcast_to"](one, shape=x.shape),))
    assert op_names(constant_folding(graph)) == ["broadcast_to", "add"]


def test_infinities_are_folded_without_a_warning() -> None:
    graph = constant_folding(Graph.trace(lambda: OPS["log"](Constant(np.float32(0)))))
    assert graph.outputs[0].data == -np.inf  # type: ignore[attr-defined]


def test_names_and_sources_stay_with_what_takes_the_place_of_a_node() -> None:
    x = Value((3,), name="x")
    y = OPS["tanh"].node((x * (Constant(np.float32(2)) * Constant(np.float32(3))),), {}, "net.py:7")
    y.results[0].name = "activation"
    (_, node) = constant_folding(Graph((x,), y.results)).nodes
    assert node is not y
    assert (node.source, node.results[0].name) == ("net.py:7", "activation")


def test_a_node_that_takes_the_place_of_another_keeps_its_own_name() -> None:
    x = Value((3,), name="x")
    first, second = OPS["tanh"](x), OPS["tanh"](x)
    second.name = "second"
    graph = Graph((x,), (first, second))
    assert [n.results[0].name for n in common_subexpression(graph).nodes] == [None]
    assert first.name is None
