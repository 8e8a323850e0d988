"""Derivatives of graphs that push and pop themselves, whoever reads the tapes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cloud import ops
from cloud.autodiff import gradients, ones_like
from cloud.interpreter import run
from ir.dtype import DType
from ir.errors import GraphError
from ir.graph import Constant, Function, Graph, Value
from ir.ops.control import new_tape
from tests.control_graphs import number
from tests.helpers import check_vjp


def popped_twice(x: Value) -> Value:
    """2 sin(x) x^2, of a tape that two chains of pops read"""
    tape = ops.push(ops.push(new_tape(), ops.sin(x)), x * x)
    below, square = ops.pop(tape)
    again, other = ops.pop(tape)
    return square * ops.pop(again)[1] + other * ops.pop(below)[1]


def popped_and_handed_on(x: Value) -> Value:
    """x^3, of a tape that a pop reads, and a branch behind it"""
    tape = ops.push(ops.push(new_tape(), x), x * x)
    _, square = ops.pop(tape)

    def product(t: Value, factor: Value) -> Value:
        below, y = ops.pop(t)
        return y * ops.pop(below)[1] * factor

    inner = Graph.trace(product, Value((), DType.tape), Value(()))
    (y,) = ops.cond(ops.greater(x, 0.0), tape, square / square, then=inner, otherwise=inner)
    return y


def read_by_two_loops(x: Value) -> Value:
    """(x + x^2)^2, of a tape that two loops pop from"""
    tape = ops.push(ops.push(new_tape(), x), x * x)

    def turn(i: Value, t: Value, total: Value) -> tuple[Value, Value, Value]:
        below, y = ops.pop(t)
        return i + 1, below, total + y

    state = (Value((), DType.i32), Value((), DType.tape), Value(()))
    body = Graph.trace(turn, *state)
    condition = Graph.trace(lambda i, t, total: ops.less(i, number(2)), *state)
    start = (number(0), tape, Constant(0.0, dtype=DType.f32))
    one, other = (ops.while_loop(*start, condition=condition, body=body)[2] for _ in range(2))
    return one * other


@pytest.mark.parametrize(
    ("f", "first", "second"),
    [
        (
            popped_twice,
            lambda x: 2 * (np.cos(x) * x**2 + 2 * x * np.sin(x)),
            lambda x: 2 * (-np.sin(x) * x**2 + 4 * x * np.cos(x) + 2 * np.sin(x)),
        ),
        (popped_and_handed_on, lambda x: 3 * x**2, lambda x: 6 * x),
        (
            read_by_two_loops,
            lambda x: 2 * (x + x**2) * (1 + 2 * x),
            lambda x: 2 * ((1 + 2 * x) ** 2 + 2 * (x + x**2)),
        ),
    ],
)
def test_a_tape_may_be_read_twice(f: Any, first: Any, second: Any) -> None:
    x = Value((), name="x")
    (g,) = gradients([y := f(x)], [ones_like(y)], [x])
    (gg,) = gradients([g], [ones_like(g)], [x])
    found = run(Graph((x,), (g, gg)), np.float32(0.7))
    np.testing.assert_allclose(found, [first(0.7), second(0.7)], rtol=1e-6)


def test_a_tape_from_outside_that_is_read_twice_has_no_derivative() -> None:
    tape = Value((), DType.tape, name="t")
    inner = Graph.trace(lambda t: ops.pop(t)[1], Value((), DType.tape))
    a, b = (ops.call(tape, body=Function.of("f", inner), remat=True)[0] for _ in range(2))
    with pytest.raises(GraphError, match=r"<node call .*> and <node call .*> read one tape"):
        gradients([a * b], [ones_like(a)], [tape])


def test_a_loop_that_carries_a_tape_of_its_own_has_no_remat() -> None:
    state = (Value((), DType.tape), Value(()))
    body = Graph.trace(lambda t, x: (ops.push(t, x), ops.sin(x)), *state)
    condition = Graph.trace(lambda t, x: ops.greater(x, 0.5), *state)
    x = Value(())
    y = ops.while_loop(new_tape(), x, condition=condition, body=body, every=8)[1]
    with pytest.raises(GraphError, match=r"while_loop .*a tape is not kept on a tape; want"):
        gradients([y], [ones_like(y)], [x])


def test_a_tape_carries_gradients_of_what_was_pushed() -> None:
    x = Value((2,), name="x")
    tape = ops.push(ops.push(ops.push(new_tape(), ops.sin(x)), number(3)), x * x)
    below, square = ops.pop(tape, shape=(2,))
    below, _ = ops.pop(below, dtype="i32")
    graph = Graph((x,), (square * ops.pop(below, shape=(2,))[1],))
    rng = np.random.default_rng(0)
    back, given = check_vjp(graph, [rng.standard_normal(2)], rng)
    check_vjp(back, given, rng)
