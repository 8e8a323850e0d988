"""The verifier: what it lets pass, what it refuses and how it shows the place."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ir.dtype import DType
from ir.errors import GraphError
from ir.graph import Constant, Graph, Model, Node, Value, Weight
from ir.op import OPS, Op
from ir.symbol import symbol
from ir.verify import same_graph, verify
from tests.random_graphs import random_graph, random_model, random_symbolic_graph

X = Value((2, 3), name="x")
W = Weight(np.ones(3, np.float32), name="w")
LR = Constant(np.float32(0.1))


def refused(graph: Graph | Model) -> str:
    with pytest.raises(GraphError) as error:
        verify(graph)
    return str(error.value)


@given(seed=st.integers(0, 2**31))
@settings(max_examples=40, deadline=None)
def test_random_graphs_and_models_pass(seed: int) -> None:
    verify(random_graph(seed))
    verify(random_symbolic_graph(seed))
    verify(random_model(seed))


def test_the_offending_line_is_shown_with_the_operand_underlined() -> None:
    foreign = Value((3,))
    y = OPS["tanh"](X)
    assert refused(Graph((X,), (OPS["mul"](y, foreign),))) == (
        "graph, node 1 (mul): input 1: <value f32[3]> is no input, constant or weight "
        "of the graph\n"
        "  %2: f32[2,3] = mul(%1, %0)\n"
        "                         ^^"
    )


def test_a_wrong_shape_of_a_result_is_shown_under_the_result() -> None:
    node = OPS["tanh"].node((X,), {})
    wrong = Node(node.op, node.inputs, node.attrs, [((2, 4), DType.f32)])
    assert refused(Graph((X,), wrong.results)) == (
        "graph, node 0 (tanh): result 0: want f32[2,3]\n  %0: f32[2,4] = tanh(%x)\n  ^^"
    )


@pytest.mark.parametrize(
    ("op", "attrs", "results", "message"),
    [
        ("tanh", {}, [((2, 3), DType.f16)], "want f32[2,3]"),
        ("tanh", {}, [((2, 3), DType.f32)] * 2, "want 1 results"),
        ("tanh", {"a": 1}, [((2, 3), DType.f32)], "no attribute ['a']"),
        ("clip", {"low": 0, "high": 6.0}, [((2, 3), DType.f32)], "attributes {'low': 0,"),
        ("clip", {"low": 0.0}, [((2, 3), DType.f32)], "want {'low': 0.0, 'high': 6.0}"),
        (
            "reduce_sum",
            {"axes": (9,), "keep_dims": False},
            [((2,), DType.f32)],
            "node 0 (reduce_sum)",
        ),
    ],
)
def test_a_node_that_its_operator_would_not_make_is_refused(
    op: str, attrs: dict[str, object], results: list[tuple[tuple[int, ...], DType]], message: str
) -> None:
    node = Node(OPS[op], (X,), attrs, results)
    assert message in refused(Graph((X,), node.results))


def test_a_wrong_number_of_inputs_is_refused() -> None:
    node = Node(OPS["add"], (X,), {}, [((2, 3), DType.f32)])
    assert "1 inputs, want 2" in refused(Graph((X,), node.results))


def test_an_operator_outside_the_table_is_refused(apply_op: Op) -> None:
    graph = Graph.trace(lambda x: apply_op(x, body=Graph.trace(OPS["tanh"], (2,))), (2,))
    verify(graph)
    del OPS["apply"]
    try:
        assert "the operator is not in the table" in refused(graph)
    finally:
        OPS["apply"] = apply_op


def test_a_foreign_leaf_is_refused_as_an_output_and_in_a_sub_graph(apply_op: Op) -> None:
    foreign = Value((2,), name="lost")
    assert "output 'output0'" in refused(Graph((), (foreign,)))
    inner = Graph((), (OPS["tanh"](foreign),))
    assert "node 0 (apply), sub-graph, node 0 (tanh)" in refused(
        Graph.trace(lambda x: apply_op(x, body=inner), (2,))
    )


def test_inputs_must_be_leaves_and_different() -> None:
    assert "want a leaf without elements" in refused(Graph((OPS["tanh"](X),), ()))
    assert "want a leaf without elements" in refused(Graph((W,), ()))
    assert "a value is an input twice" in refused(Graph((X, X), ()))
    assert "input 'x' stands there twice" in refused(Graph((X, Value((1,), name="x")), ()))


def test_free_dimensions_must_come_from_the_inputs_or_have_a_range() -> None:
    n = symbol("n")
    graph = Graph((X,), (OPS["broadcast_to"](OPS["reduce_sum"](X, axes=(0, 1)), shape=(n,)),))
    assert "free dimension n is not one of the inputs, nor bound\n" in refused(graph)
    assert "^" in refused(graph)
    verify(Model({"f": graph}, symbol_ranges={"n": (1, 8)}))


def test_ranges_of_free_dimensions_must_be_in_order() -> None:
    graph = Graph((X,), (X,))
    for low, high in ((-1, 3), (4, 3)):
        message = refused(Model({"f": graph}, symbol_ranges={"n": (low, high)}))
        assert f"n from {low} to {high}, want 0 or more, in order" in message


def test_data_of_another_shape_is_refused() -> None:
    c = Constant(np.ones(3, np.float32))
    c.data = np.ones(4, np.float32)
    assert "holds float32[4]" in refused(Graph((X,), (OPS["mul"](X, c),)))


def test_updates_must_fit_their_weight() -> None:
    new = OPS["sgd_step"](W, W, LR)
    verify(Graph((), (), (), ((W, new),)))
    assert "update of weight 'w' is f32[2,3], want f32[3]" in refused(
        Graph((X,), (), (), ((W, OPS["mul"](X, W)),))
    )
    assert "update of weight 'w' stands there twice" in refused(
        Graph((), (), (), ((W, new), (W, OPS["tanh"](W))))
    )
    frozen = Weight(np.ones(3, np.float32), name="f", trainable=False)
    assert "the weight is frozen" in refused(
        Graph((), (), (), ((frozen, OPS["sgd_step"](frozen, frozen, LR)),))
    )


def test_two_weights_of_a_model_must_not_share_a_name() -> None:
    twin = Weight(np.ones(3, np.float32), name="w")
    graphs = {"f": Graph((X,), (OPS["mul"](X, W),)), "g": Graph((X,), (OPS["mul"](X, twin),))}
    assert refused(Model(graphs)) == "model: weight 'w' stands there twice"


def test_same_graph_sees_each_difference() -> None:
    def graph(
        op: str = "mul", name: str = "x", high: float = 6.0, data: float = 1.0, swap: bool = False
    ) -> Graph:
        x, w = Value((2, 3), name=name), Weight(np.full(3, data, np.float32), name="w")
        y = OPS["clip"](OPS[op](w, x) if swap else OPS[op](x, w), high=high)
        return Graph((x,), (y,), ("y",), ((w, OPS["sgd_step"](w, w, LR)),))

    assert same_graph(graph(), graph())
    for other in (
        graph("add"),
        graph(name="z"),
        graph(high=5.0),
        graph(data=2.0),
        graph(swap=True),
    ):
        assert not same_graph(graph(), other)
    base = graph()
    assert not same_graph(base, Graph(base.inputs, base.outputs, ("z",), base.updates))
    assert not same_graph(base, Graph(base.inputs, base.outputs, base.output_names))


def test_same_graph_tells_one_value_from_two_equal_ones() -> None:
    x = Value((2,), name="x")
    y = OPS["tanh"](x)
    once = Graph((x,), (y + y,))
    twice = Graph((x,), (OPS["tanh"](x) + OPS["tanh"](x),))
    assert not same_graph(once, twice)
    assert not same_graph(twice, once)
