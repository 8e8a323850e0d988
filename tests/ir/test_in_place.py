"""The order in which nodes run when updates overwrite weights."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ir import model_file
from ir.errors import GraphError
from ir.graph import Constant, Graph, Model, Value, Weight
from ir.in_place import in_place_order
from ir.op import OPS, Op
from ir.verify import same_graph
from tests.random_graphs import random_training_graph

LR = Constant(np.float32(0.5))
X = Value((3,), name="x")


def weight(name: str) -> Weight:
    return Weight(np.ones(3, np.float32), name=name)


def sgd(w: Weight, g: Value) -> Value:
    return OPS["sgd_step"](w, g, LR)


def op_order(graph: Graph) -> list[str]:
    return [n.op.name for n in in_place_order(graph)]


@given(seed=st.integers(0, 2**31))
@settings(max_examples=40, deadline=None)
def test_every_reader_of_an_old_weight_comes_before_its_update(seed: int) -> None:
    graph = random_training_graph(seed)
    nodes = in_place_order(graph)
    assert sorted(map(id, nodes)) == sorted(map(id, graph.nodes))
    place = {n: i for i, n in enumerate(nodes)}
    for n in nodes:
        assert all(place[v.node] < place[n] for v in n.present_inputs if v.node)
        for w, new in graph.updates:
            assert n is new.node or w not in n.inputs or place[n] < place[new.node]


def test_an_update_waits_for_a_reader_that_the_graph_lists_later() -> None:
    w, v = weight("w"), weight("v")
    new_w = sgd(w, X)
    new_v = sgd(v, OPS["tanh"](w))
    graph = Graph((X,), (), (), ((w, new_w), (v, new_v)))
    assert [n.op.name for n in graph.nodes] == ["sgd_step", "tanh", "sgd_step"]
    order = in_place_order(graph)
    assert order.index(new_w.node) > order.index(new_v.node.inputs[1].node)


def test_an_update_waits_for_readers_of_a_view() -> None:
    w = weight("w")
    seen = OPS["reshape"](w, shape=(3, 1))
    graph = Graph((X,), (OPS["tanh"](seen),), ("y",), ((w, sgd(w, X)),))
    assert op_order(graph) == ["reshape", "tanh", "sgd_step"]
    first = sgd(w, X)
    graph = Graph((X,), (first, OPS["tanh"](seen)), (), ((w, first),))
    assert op_order(graph) == ["reshape", "tanh", "sgd_step"]


def test_an_update_waits_for_a_sub_graph_that_reads_the_weight(apply_op: Op) -> None:
    w = weight("w")
    inner = Graph.trace(lambda x: x * OPS["reshape"](w, shape=(3,)), (3,))
    new = sgd(w, X)
    graph = Graph((X,), (new, apply_op(X, body=inner)), (), ((w, new),))
    assert op_order(graph) == ["apply", "sgd_step"]


def test_readers_of_the_new_value_come_behind_the_update() -> None:
    w = weight("w")
    new = sgd(w, X)
    graph = Graph((X,), (OPS["tanh"](new), new), ("y", "w"), ((w, new),))
    assert op_order(graph) == ["sgd_step", "tanh"]
    again = model_file.read(model_file.write(Model({"f": graph}))).entries["f"]
    assert same_graph(graph, again)


@pytest.mark.parametrize("see", [lambda w: w, lambda w: OPS["reshape"](w, shape=(3, 1))])
def test_the_old_value_of_an_updated_weight_is_no_output(see: object) -> None:
    w = weight("w")
    graph = Graph((X,), (see(w),), ("old",), ((w, sgd(w, X)),))  # type: ignore[operator]
    with pytest.raises(GraphError, match="output 'old' is the old value of weight 'w'"):
        in_place_order(graph)


def test_two_updates_that_read_each_others_old_weight_are_refused() -> None:
    w, v = weight("w"), weight("v")
    graph = Graph((), (), (), ((w, sgd(w, v)), (v, sgd(v, w))))
    with pytest.raises(GraphError, match="no order of the nodes reads every old weight"):
        in_place_order(graph)


def test_two_updates_of_which_one_reads_a_new_value_are_fine() -> None:
    w, v = weight("w"), weight("v")
    new = sgd(w, v)
    graph = Graph((), (), (), ((w, new), (v, sgd(v, new))))
    assert len(in_place_order(graph)) == 2


@pytest.mark.parametrize(
    "make",
    [
        lambda w, v: OPS["tanh"](w),
        lambda w, v: v,
        lambda w, v: sgd(v, w),
        lambda w, v: OPS["momentum_step"](v, w, X, LR)[0],
    ],
)
def test_a_new_value_must_come_from_an_update_operator_on_that_weight(make: object) -> None:
    w, v = weight("w"), weight("v")
    with pytest.raises(GraphError, match="weight 'w': its new value is"):
        in_place_order(Graph((X,), (), (), ((w, make(w, v)),)))  # type: ignore[operator]


def test_every_result_that_overwrites_a_weight_must_be_listed() -> None:
    w, m = weight("w"), weight("m")
    new, _ = OPS["momentum_step"](w, m, X, LR)
    with pytest.raises(GraphError, match="result 1 overwrites a weight, but is no update"):
        in_place_order(Graph((X,), (), (), ((w, new),)))


def test_a_weight_is_updated_once() -> None:
    w = weight("w")
    with pytest.raises(GraphError, match="weight 'w' is updated twice"):
        in_place_order(Graph((X,), (), (), ((w, sgd(w, X)), (w, sgd(w, X)))))


def test_a_sub_graph_that_updates_a_weight_is_refused(apply_op: Op) -> None:
    w = weight("w")
    inner = Graph((X,), (X,), ("y",), ((w, sgd(w, X)),))
    v = weight("v")
    graph = Graph((X,), (apply_op(X, body=inner),), ("y",), ((v, sgd(v, X)),))
    with pytest.raises(GraphError, match="a sub-graph updates weights"):
        in_place_order(graph)
