"""Values, nodes and graphs."""

from __future__ import annotations

import numpy as np
import pytest

from ir.dtype import DType
from ir.errors import AttrError, DTypeError, GraphError, ShapeError
from ir.graph import Constant, Graph, Model, Node, Value, Weight, order
from ir.op import OPS
from ir.symbol import symbol


def test_nodes_stand_behind_those_that_they_read() -> None:
    def net(x: Value) -> Value:
        y = OPS["tanh"](x)
        return OPS["sigmoid"](y) * y + x

    graph = Graph.trace(net, (3,))
    assert [n.op.name for n in graph.nodes] == ["tanh", "sigmoid", "mul", "add"]


def test_nodes_that_no_output_needs_are_not_in_the_graph() -> None:
    x = Value((3,))
    OPS["tanh"](x)
    assert Graph((x,), (OPS["exp"](x),)).nodes[0].op.name == "exp"
    assert len(Graph((x,), (OPS["exp"](x),)).nodes) == 1


def test_a_deep_graph_is_put_in_order_without_recursion() -> None:
    x = y = Value((1,))
    for _ in range(20_000):
        y = OPS["tanh"](y)
    assert len(Graph((x,), (y,)).nodes) == 20_000


def test_a_cycle_is_refused() -> None:
    x = Value((3,))
    first = OPS["tanh"](x)
    second = OPS["exp"](first)
    first.node.inputs = (second,)
    with pytest.raises(GraphError, match="needs its own result"):
        order((second,))


def test_leaves_are_listed_once_inputs_first() -> None:
    x, unread = Value((3,), name="x"), Value((2,), name="unread")
    w = Weight(np.ones(3, np.float32), name="w")
    two = Constant(np.float32(2))
    m = Weight(np.zeros((), np.int32), name="m", state=True)
    graph = Graph((x, unread), (two * w * x + w, m), ("y", "m"), ((m, OPS["increment"](m)),))
    assert graph.leaves == (x, unread, two, w, m)
    assert graph.weights == (w, m)


def test_free_dimensions_are_those_of_the_inputs() -> None:
    b, s = symbol("b"), symbol("s")
    assert Graph((Value((b * 2, s)), Value((b, 3))), ()).symbols == ("b", "s")


def test_output_names_must_be_different() -> None:
    x = Value((3,))
    with pytest.raises(GraphError, match="want 2 different ones"):
        Graph((x,), (x, x), ("y", "y"))


def test_numbers_beside_a_value_take_its_type() -> None:
    x = Value((3,), DType.i32)
    y = 2 * x
    assert y.dtype is DType.i32
    assert y.node.inputs[0].dtype is DType.i32


def test_an_operator_says_what_does_not_fit() -> None:
    x = Value((3, 4))
    with pytest.raises(ShapeError, match=r"broadcast"):
        _ = x + Value((3, 5))
    with pytest.raises(DTypeError, match="want one type for all"):
        _ = x + Value((3, 4), DType.i32)
    with pytest.raises(AttrError, match="no attribute"):
        OPS["tanh"](x, axis=3)
    with pytest.raises(AttrError, match="inputs, want"):
        OPS["tanh"](x, x)
    with pytest.raises(AttrError, match="axes is 'a', want ints"):
        OPS["reduce_sum"](x, axes="a")


def test_a_weight_keeps_its_type_and_shape() -> None:
    w = Weight(np.ones(3, np.float32), name="w")
    w.data = np.zeros(3, np.float32)
    with pytest.raises(GraphError, match=r"weight w: new data is float64\[3\], want float32\[3\]"):
        w.data = np.zeros(3)


def test_state_is_never_trainable() -> None:
    assert not Weight(np.ones(3, np.float32), name="m", trainable=True, state=True).trainable


def test_a_model_lists_shared_weights_once() -> None:
    w = Weight(np.ones(3, np.float32), name="w")
    graphs = {name: Graph.trace(lambda x: x * w, (3,)) for name in ("infer", "loss")}
    assert Model(graphs).weights == (w,)


def test_trace_takes_a_tuple_or_a_dict_of_outputs() -> None:
    two = Graph.trace(lambda x: (x, OPS["tanh"](x)), (3,))
    assert two.output_names == ("output0", "output1")
    assert Graph.trace(lambda x: {"y": x}, (3,)).output_names == ("y",)


def test_a_node_prints_its_operator() -> None:
    node: Node = OPS["tanh"](Value((3,))).node
    assert repr(node).startswith("<node tanh")
    assert repr(node.results[0]) == "<tanh f32[3]>"
