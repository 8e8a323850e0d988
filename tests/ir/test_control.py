"""Loops, branches and functions in the IR: rules, evaluation, text, files, passes."""

from __future__ import annotations

import numpy as np
import pytest

from cloud import ops
from ir import model_file
from ir.dtype import DType
from ir.errors import DTypeError, EvaluationError, FormatError, GraphError, ShapeError
from ir.evaluate import MAX_DEPTH
from ir.graph import Constant, Function, Graph, Model, Value, Weight
from ir.ops.control import new_tape
from ir.passes import common_subexpression, constant_folding, dead_code
from ir.symbol import symbol
from ir.text import parse_text, to_text
from ir.verify import same_graph, verify
from ir.walk import functions, walk
from tests.control_graphs import doubled_until, even_and_odd, fibonacci, i32, power
from tests.random_control import random_control_graph

PASSES = (common_subexpression, constant_folding, dead_code)


def test_a_loop_runs_for_as_long_as_its_condition_holds() -> None:
    (y,) = doubled_until(100.0)(np.float32(3))
    assert y == 192


def test_recursion_and_mutual_recursion_run() -> None:
    (y,) = Graph.trace(lambda n, x: ops.call(n, x, body=power()), i32(), ())(np.int32(5), 2.0)
    assert y == 32
    (even, odd) = even_and_odd()
    n = i32()
    graph = Graph((n,), (*ops.call(n, body=even), *ops.call(n, body=odd)))
    assert [tuple(map(bool, graph(np.int32(k)))) for k in (0, 1, 8)] == [
        (True, False),
        (False, True),
        (True, False),
    ]
    n = i32()
    assert Graph((n,), ops.call(n, body=fibonacci()))(np.int32(10))[0] == 55


def test_a_hundred_thousand_turns_and_thousands_of_calls_fill_no_stack() -> None:
    i, n = i32(), i32()
    one = Constant(1, dtype=DType.i32)
    loop = {"condition": Graph((i, n), (ops.less(i, n),)), "body": Graph((i, n), (i + one, n))}
    assert ops.while_loop(np.int32(0), np.int32(100_000), **loop)[0] == 100_000
    n, x = i32(), Value(())
    (y,) = Graph((n, x), ops.call(n, x, body=power()))(np.int32(5000), np.float32(1))
    assert y == 1


def test_a_recursion_without_end_is_named() -> None:
    f = Function("forever", [((), DType.f32)], [((), DType.f32)])
    x = Value(())
    f.graph = Graph((x,), ops.call(x, body=f))
    with pytest.raises(EvaluationError, match=f"{MAX_DEPTH} deep"):
        ops.call(np.float32(1), body=f)


def test_a_tape_gives_back_what_was_pushed_last_then_zeros_for_ever() -> None:
    tape = ops.push(ops.push(ops.empty_tape(), np.ones(2)), np.int32(7))
    tape, i = ops.pop(tape, shape=(), dtype="i32")
    tape, x = ops.pop(tape, shape=(2,))
    tape, zero = ops.pop(tape, shape=(3,))
    assert i == 7
    np.testing.assert_array_equal(x, np.ones(2))
    np.testing.assert_array_equal(zero, np.zeros(3))
    assert ops.pop(tape, shape=(), dtype="i32")[1] == 0


def test_a_tape_is_persistent() -> None:
    below = ops.push(ops.empty_tape(), np.float32(1))
    ops.push(below, np.float32(2))
    assert ops.pop(below)[1] == 1


X, T = Value((2,), name="x"), Value((), DType.bool, name="t")
SINE = Graph((X,), (ops.sin(X),))
SUM = Graph((X,), (ops.reduce_sum(X, axes=(0,)),))


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: ops.cond(T, X, then=SINE, otherwise=SUM), ShapeError, "results of otherwise"),
        (lambda: ops.cond(X, X, then=SINE, otherwise=SINE), ShapeError, "the predicate"),
        (lambda: ops.cond(T, X, X, then=SINE, otherwise=SINE), ShapeError, "inputs of then"),
        (lambda: ops.while_loop(X, condition=SUM, body=SINE), DTypeError, "results of condition"),
        (lambda: ops.while_loop(X, condition=SUM, body=SUM), ShapeError, "results of body"),
        (lambda: ops.call(X, body=power()), ShapeError, "inputs of 'power'"),
        (lambda: ops.push(new_tape(), new_tape()), DTypeError, "anything but a tape"),
        (lambda: ops.pop(X), ShapeError, "a tape of shape"),
        (lambda: new_tape() + new_tape(), DTypeError, "is a tape"),
    ],
)
def test_what_does_not_fit_is_refused(make, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        make()


def test_a_body_that_breaks_its_functions_signature_is_refused() -> None:
    f = Function("f", [((2,), DType.f32)], [((2,), DType.f32)])
    with pytest.raises(GraphError, match=r"'f': the body is \(f32\[2\]\) -> \(f32\[\]\), want"):
        f.graph = SUM
    f.graph = SINE
    with pytest.raises(GraphError, match="has a body already"):
        f.graph = SINE


def recursive_graph() -> Graph:
    even, _ = even_and_odd()
    n, x = i32("n"), Value((), name="x")
    (y,) = ops.call(n, x, body=power())
    return Graph((n, x), (y, *ops.call(n, body=even), *ops.call(n, body=fibonacci())))


def test_every_graph_that_a_recursive_one_reaches_is_visited_once() -> None:
    graph = recursive_graph()
    assert [f.name for f in functions(graph)] == ["power", "even", "fibonacci", "odd"]
    assert len(walk([graph])) == 1 + 4 + 8
    verify(graph)


def test_recursive_graphs_come_back_from_their_text() -> None:
    graph = recursive_graph()
    text = to_text(graph)
    assert "function power(" in text
    assert "body=power" in text
    again = parse_text(text)
    verify(again)
    assert same_graph(again, graph)
    assert to_text(again) == text
    assert again(np.int32(6), np.float32(2))[0] == 64


def test_a_text_that_calls_what_it_does_not_have_is_refused() -> None:
    with pytest.raises(GraphError, match="no function 'odd'"):
        parse_text("graph(%n: i32[]) {\n  %y: bool[] = call(%n, body=odd)\n  return y=%y\n}\n")


def test_recursive_models_come_back_from_their_file() -> None:
    w = Weight(np.float32(0.5), name="w")
    even, odd = even_and_odd()
    n, m, x = i32("n"), i32("n"), Value((), name="x")
    entries = {
        "f": Graph((n, x), (*ops.call(n, x, body=power(w)), *ops.call(n, body=even))),
        "g": Graph((m,), ops.call(m, body=odd)),
    }
    data = model_file.write(Model(entries))
    again = model_file.read(data)
    assert again.weights[0].name == "w"
    assert all(same_graph(again.entries[k], g) for k, g in entries.items())
    assert again.entries["f"](np.int32(2), np.float32(4))[0] == 4
    assert model_file.write(again) == data


@pytest.mark.parametrize("seed", range(15))
def test_random_control_flow_comes_back_from_file_and_text(seed: int) -> None:
    graph = random_control_graph(seed)
    arrays = [np.full(3, 0.5, np.float32), np.full(3, -0.25, np.float32)]
    read = model_file.read(model_file.write(Model({"f": graph}))).entries["f"]
    parsed = parse_text(to_text(graph), weights={w.name or "": w for w in graph.weights})
    for again in (read, parsed, *(p(graph) for p in PASSES)):
        verify(again)
        for got, want in zip(again(*arrays), graph(*arrays), strict=True):
            np.testing.assert_array_equal(got, want)
    assert same_graph(read, graph)
    assert same_graph(parsed, graph)


def test_a_named_entry_that_is_a_functions_body_stands_in_the_file_twice() -> None:
    f = power()
    data = model_file.write(Model({"power": f.graph}))
    assert model_file.read(data).entries["power"](np.int32(3), np.float32(2))[0] == 8


def test_a_tape_that_is_a_constant_is_not_written() -> None:
    tape = Constant(ops.empty_tape())
    graph = Graph((), (ops.pop(tape)[1],))
    with pytest.raises((GraphError, FormatError), match="is a tape"):
        model_file.write(Model({"f": graph}))


@pytest.mark.parametrize("change", PASSES)
def test_passes_reach_into_recursive_functions(change) -> None:
    after = change(recursive_graph())
    verify(after)
    assert [float(y) for y in after(np.int32(7), np.float32(2))] == [128, 0, 13]
    assert {f.name for f in functions(after)} == {"power", "even", "odd", "fibonacci"}


def test_constants_inside_of_loops_are_folded_once() -> None:
    two = Constant(np.float32(2))
    x = Value(())
    body = Graph((x,), (x * (two * two),))
    below = Graph((x,), (ops.less(x, Constant(np.float32(100))),))
    graph = constant_folding(Graph((x,), ops.while_loop(x, condition=below, body=body)))
    (node,) = graph.nodes
    assert [n.op.name for n in node.attrs["body"].nodes] == ["mul"]
    assert graph(np.float32(1))[0] == 256


def test_weights_that_only_sub_graphs_read_are_weights_of_the_graph() -> None:
    w = Weight(np.float32(2), name="w")
    n, x = i32(), Value(())
    graph = Graph((n, x), ops.call(n, x, body=power(w)))
    assert graph.weights == (w,)
    assert w not in graph.leaves


def test_free_dimensions_inside_of_sub_graphs_are_those_outside() -> None:
    n = symbol("n")
    x = Value((n, 2), name="x")
    stretched = Graph((x,), (ops.broadcast_to(Constant(np.float32(3)), shape=(n, 2)) * x,))
    graph = Graph((x,), ops.call(x, body=Function.of("stretch", stretched)))
    verify(graph)
    np.testing.assert_array_equal(graph(np.ones((4, 2)))[0], np.full((4, 2), 3.0))
    again = model_file.read(model_file.write(Model({"f": graph})))
    assert same_graph(again.entries["f"], graph)


def test_an_undefined_function_is_found_by_the_verifier() -> None:
    f = Function("later", [((2,), DType.f32)], [((2,), DType.f32)])
    graph = Graph((X,), ops.call(X, body=f))
    with pytest.raises(GraphError, match="'later' has no body"):
        verify(graph)
