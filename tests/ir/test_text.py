"""Graphs as text: what they look like, and back."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ir.dtype import DType
from ir.errors import GraphError
from ir.graph import Array, Constant, Graph, Value, Weight
from ir.op import OPS, Op
from ir.symbol import symbol
from ir.text import large_constants, parse_text, to_text
from ir.verify import same_graph, verify
from tests.random_graphs import random_graph, random_symbolic_graph, random_training_graph

SEEDS = st.integers(0, 2**31)


def parsed_back(graph: Graph) -> Graph:
    weights = {str(w.name): w for w in graph.weights}
    text = to_text(graph, sources=True)
    return parse_text(text, weights=weights, constants=large_constants(graph))


@pytest.mark.parametrize("make", [random_graph, random_training_graph, random_symbolic_graph])
@given(seed=SEEDS)
@settings(max_examples=40, deadline=None)
def test_random_graphs_parse_back(make: object, seed: int) -> None:
    graph = make(seed)  # type: ignore[operator]
    again = parsed_back(graph)
    assert same_graph(graph, again)
    verify(again)
    assert to_text(again, sources=True) == to_text(graph, sources=True)
    values, values_again = ([v.name for n in g.nodes for v in n.results] for g in (graph, again))
    assert values == values_again
    assert [n.source for n in again.nodes] == [n.source for n in graph.nodes]


def test_a_training_graph_reads_like_this() -> None:
    batch = symbol("batch")
    x = Value((batch, 3), name="x")
    w = Weight(np.ones(3, np.float32), name="head.w")
    loss = OPS["reduce_mean"](x * w, axes=(0, 1))
    new = OPS["sgd_step"](w, OPS["reduce_sum"](x, axes=(0,)), Constant(np.float32(0.1), name="lr"))
    graph = Graph((x,), (loss,), ("loss",), ((w, new),))
    assert str(graph) == (
        "graph(%x: f32[batch,3]) {\n"
        "  %head.w: f32[3] = weight trainable\n"
        "  %lr: f32[] = constant [0.1]\n"
        "  %0: f32[batch,3] = mul(%x, %head.w)\n"
        "  %1: f32[] = reduce_mean(%0, axes=[0, 1])\n"
        "  %2: f32[3] = reduce_sum(%x, axes=[0])\n"
        "  %3: f32[3] = sgd_step(%head.w, %2, %lr)\n"
        "  return loss=%1\n"
        "  update %head.w = %3\n"
        "}\n"
    )


def test_several_results_left_out_inputs_and_choices() -> None:
    x = Value((1, 4, 4, 2), name="x")
    w, scale = (
        Weight(np.ones(s, np.float32), name=n, trainable=False)
        for n, s in (("w", (3, 1, 1, 2)), ("scale", 3))
    )
    y = OPS["conv2d"](x, w, activation="relu6", strides=(2, 2))
    normal, mean, variance = OPS["batch_norm_train"](y, scale, scale)
    graph = Graph((x,), (normal, variance, mean), ("y", "the variance", "mean"))
    text = str(graph)
    assert 'conv2d(%x, %w, strides=[2, 2], activation="relu6")' in text
    assert "%1: f32[1,2,2,3], %2: f32[3], %3: f32[3] = batch_norm_train(%0, %scale, %scale)" in text
    assert 'return y=%1, "the variance"=%3, mean=%2' in text
    assert same_graph(graph, parsed_back(graph))


@pytest.mark.parametrize(
    "data",
    [
        np.array([0.1, -0.0, np.inf, -np.inf, np.nan, 1e-45, 3.4e38], np.float32),
        np.array([0.1, 65504, 6e-8], np.float16),
        np.array([0.1, 1e300], np.float64),
        np.array([[True, False]]),
        np.array([-128, 127], np.int8),
        np.array(2**63 - 1),
        np.zeros((2, 0, 3), np.uint8),
        np.arange(1000, dtype=np.int32),
        np.array([0x7FC00001], np.uint32).view(np.float32),  # a NaN with a payload
    ],
    ids=lambda a: f"{a.dtype}{list(a.shape)}",
)
def test_constants_come_back_bit_for_bit(data: Array) -> None:
    graph = Graph((), (Constant(data),))
    (again,) = parsed_back(graph).outputs
    assert isinstance(again, Constant)
    assert again.data.tobytes() == data.tobytes()
    assert (again.data.dtype, again.shape) == (data.dtype, data.shape)


def test_values_of_one_name_are_told_apart() -> None:
    x = Value((3,), name="x")
    y, z = OPS["tanh"](x), OPS["exp"](x)
    y.name = z.name = "x"
    again = parsed_back(Graph((x,), (y, z)))
    assert [n.results[0].name for n in again.nodes] == ["x", "x"]
    assert again.outputs[1].node.op.name == "exp"  # type: ignore[union-attr]


def test_sub_graphs_are_indented_and_parse_back(apply_op: Op) -> None:
    w = Weight(np.ones(2, np.float32), name="w")
    inner = Graph.trace(lambda x: OPS["tanh"](x * w), (2,))
    outer = Graph.trace(lambda x: apply_op(x, body=inner, times=2), (2,))
    nest = Graph.trace(lambda x: apply_op(x, body=outer) * w, (2,))
    text = str(nest)
    assert "body=graph(%input0: f32[2]) {\n    %0: f32[2] = apply(%input0, body=graph(" in text
    again = parsed_back(nest)
    assert same_graph(nest, again)
    assert str(again) == text


def test_large_constants_in_sub_graphs_are_found(apply_op: Op) -> None:
    big = Constant(np.arange(100, dtype=np.float32))
    inner = Graph.trace(lambda x: x + big, (100,))
    graph = Graph.trace(lambda x: apply_op(x, body=inner), (100,))
    (data,) = large_constants(graph).values()
    assert data is big.data
    assert same_graph(graph, parsed_back(graph))


HEAD = "graph(%x: f32[2]) {\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "line 1, column 1, at 'the end': want 'graph'"),
        (HEAD + "  %y: f32[2] = tanhh(%x)\n", "line 2, column 16, at 'tanhh': no operator 'tanhh'"),
        (HEAD + "  %y: f32[2] = tanh(%z)\n", "line 2, column 21, at '%z': %z is not defined"),
        (HEAD + "  %y: f32[3] = tanh(%x)\n", "line 2, column 3, at '%y': tanh gives f32[2]"),
        (HEAD + "  %y: f32[2] = tanh(%x, %x)\n", "line 2, column 16, at 'tanh': tanh: 2 inputs"),
        (HEAD + "  %x: f32[2] = tanh(%x)\n", "line 2, column 3, at '%x': %x is defined twice"),
        (HEAD + "  %y: f32[2], %z: f32[2] = tanh(%x)\n", "line 2, column 28, at 'tanh': 2 results"),
        (HEAD + "  %y: f99[2] = tanh(%x)\n", "line 2, column 7, at 'f99': want one of f32"),
        (HEAD + "  %y: f32[2**2] = tanh(%x)\n", "line 2, column 11, at '2': size"),
        (HEAD + "  %y: f32[2] = tanh(%x, axis=1)\n", "at 'axis': tanh has no attribute 'axis'"),
        (HEAD + "  %y: f32[2] = weight trainable\n", "at '%y': no weight 'y' was given"),
        (HEAD + "  %y: f32[2] = constant [1.0]\n", "at '[': 1 elements for [2]"),
        (HEAD + "  %y: f32[2] = constant [1, x]\n", "at '[': want elements of f32"),
        (HEAD + "  %y: i8[1] = constant [200]\n", "at '[': want elements of i8"),
        (HEAD + "  %y: f32[2] = constant sha256:00\n", "no constant sha256:00 was given"),
        (HEAD + "  return y=%x, y=%x\n}", "at 'y': output 'y' stands here twice"),
        (HEAD + "  return y=%x\n  update %x = %x\n}", "line 3, column 10, at '%x': want a weight"),
        (HEAD + "  return y=%x\n} }", "line 3, column 3, at '}': want the end of the text"),
        (HEAD + "  return y=%x\n", "at 'the end': want '}'"),
        (HEAD + '  %"\\q": f32[2] = tanh(%x)', "line 2, column 3, at '%\"\\\\q\"': want a string"),
        (HEAD + "  %y: f32[1//0] = tanh(%x)\n", "line 2, column 11, at '1'"),
        (HEAD + "  ?", "line 2, column 3, at '?': no word of this language"),
    ],
)
def test_mistakes_are_shown_with_line_and_column(text: str, message: str) -> None:
    with pytest.raises(GraphError) as error:
        parse_text(text)
    assert message in str(error.value)


def test_a_weight_of_another_kind_is_refused() -> None:
    w = Weight(np.ones(2, np.float32), name="w")
    text = "graph() { %w: f32[2] = weight state return y=%w }"
    with pytest.raises(GraphError, match="weight 'w' is not state"):
        parse_text(text, weights={"w": w})


@given(
    seed=SEEDS, cut=st.floats(0, 1), junk=st.sampled_from(["", "}", "%", '"', "(", "9", "graph"])
)
@settings(max_examples=100, deadline=None)
def test_damaged_text_gives_a_graph_or_a_graph_error(seed: int, cut: float, junk: str) -> None:
    graph = random_graph(seed % 20, nodes=4)
    text = to_text(graph)
    at = int(cut * len(text))
    weights = {str(w.name): w for w in graph.weights}
    with contextlib.suppress(GraphError):  # anything else fails the test
        parse_text(text[:at] + junk + text[at + 1 :], weights=weights)


def test_element_types_have_the_names_of_the_ir() -> None:
    for dtype in DType:
        graph = Graph((Value((2,), dtype, name="x"),), ())
        assert f"%x: {dtype.name}[2]" in str(graph)
        assert parsed_back(graph).inputs[0].dtype is dtype
