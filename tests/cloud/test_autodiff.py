"""Reverse mode on graphs: what comes out, and what is never built."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from cloud import ops
from cloud.autodiff import gradients, ones_like, vjp
from cloud.interpreter import run
from ir.dtype import DType
from ir.graph import Array, Graph, Value, Weight, order
from ir.op import OPS, Op, op
from ir.symbol import symbol
from tests.helpers import check_vjp


def test_a_value_used_twice_gets_the_sum_of_its_gradients() -> None:
    graph = Graph.trace(lambda x: ops.sin(x) * x + x, (3,))
    x = np.array([0.3, -1.0, 2.0])
    (g,) = run(vjp(graph), x, np.ones(3))
    np.testing.assert_allclose(g, np.cos(x) * x + np.sin(x) + 1, rtol=1e-12)


def test_a_net_of_many_operators_agrees_with_differences_to_second_order() -> None:
    def f(x: Value, w: Value, b: Value) -> Value:
        y = ops.conv2d(x, w, b, pads=(1, 1, 1, 1))
        return ops.log_softmax(ops.reshape(ops.max_pool2d(ops.tanh(y)), shape=(2, 12)), axis=1)

    rng = np.random.default_rng(0)
    graph = Graph.trace(f, (2, 4, 4, 2), (3, 3, 3, 2), (3,))
    arrays = [rng.standard_normal([int(d) for d in v.shape]) for v in graph.inputs]
    back, given = check_vjp(graph, arrays, rng)
    check_vjp(back, given, rng)


def test_an_input_that_the_outputs_do_not_depend_on_has_zero_gradient() -> None:
    graph = Graph.trace(lambda x, y: x * x, (2,), (3,))
    gx, gy = run(vjp(graph), np.array([1.0, 2.0]), np.ones(3), np.ones(2))
    np.testing.assert_array_equal(gx, [2, 4])
    np.testing.assert_array_equal(gy, np.zeros(3))


def test_an_input_that_is_an_output_gets_the_seed() -> None:
    (g,) = run(vjp(Graph.trace(lambda x: x, (2,))), np.zeros(2), np.array([3.0, 4.0]))
    np.testing.assert_array_equal(g, [3, 4])


def test_one_value_given_out_twice_gets_both_seeds() -> None:
    def f(x: Value) -> tuple[Value, Value]:
        y = x * 2
        return y, y

    (g,) = run(vjp(Graph.trace(f, (1,))), np.zeros(1), np.array([3.0]), np.array([5.0]))
    np.testing.assert_array_equal(g, [16])


def test_integer_inputs_get_no_gradient() -> None:
    labels = Value((2,), DType.i32, name="labels")
    graph = Graph.trace(lambda x, t: ops.softmax_cross_entropy(x, t), (2, 3), labels)
    assert [v.shape for v in vjp(graph).outputs] == [(2, 3)]


def test_results_of_a_node_that_are_not_used_do_not_count() -> None:
    def mean_only(x: Value) -> Value:
        return ops.batch_norm_train(x, np.ones(2, np.float32), np.zeros(2, np.float32))[1]

    (g,) = run(vjp(Graph.trace(mean_only, (4, 2))), np.ones((4, 2)), np.ones(2))
    np.testing.assert_allclose(g, np.full((4, 2), 0.25))


def _three_layers() -> tuple[Value, list[Weight]]:
    weights = [Weight(np.ones((4, 4), np.float32), name=f"w{i}") for i in range(3)]
    y = Value((2, 4), name="x")
    for w in weights:
        y = ops.tanh(ops.linear(y, w))
    return ops.reduce_sum(y, axes=(0, 1)), weights


def _backward_nodes(y: Value, wrt: list[Weight]) -> list[str]:
    found = gradients([y], [ones_like(y)], wrt)
    forward = set(order([y]))
    return [node.op.name for node in order(found) if node not in forward]


def test_a_frozen_weight_leaves_no_node_in_the_backward_graph() -> None:
    y, weights = _three_layers()
    head = _backward_nodes(y, weights[2:])
    both = _backward_nodes(y, weights[1:])
    every = _backward_nodes(y, weights)
    assert [n.count("matmul") for n in (head, both, every)] == [1, 3, 5]
    assert len(head) < len(both) < len(every)


def test_the_gradient_of_an_input_alone_skips_those_of_weights() -> None:
    y, _ = _three_layers()
    (x,) = [v for v in Graph((), (y,)).leaves if v.name == "x"]
    assert _backward_nodes(y, [x]).count("matmul") == 3  # type: ignore[list-item]


def test_stop_gradient_prunes_everything_behind_it() -> None:
    w = Weight(np.float32(2.0), name="w")
    behind = ops.exp(ops.sin(w))
    y = ops.stop_gradient(behind) * w
    names = _backward_nodes(y, [w])
    assert "cos" not in names
    assert run(Graph((), tuple(gradients([y], [ones_like(y)], [w]))))[0] == pytest.approx(
        np.exp(np.sin(2.0)), rel=1e-6
    )


@pytest.fixture
def forbidden() -> Iterator[Op]:
    """An operator whose derivative must not be asked for; in the table only while the test runs."""

    def rule(*_: Any) -> Any:
        raise AssertionError("the gradient rule of a node that leads nowhere was called")

    def forbidden(x: Array) -> Array:
        """y = x"""
        return x

    yield op(code=60_000, shape=lambda x: x, samples=(), grad=rule)(forbidden)
    del OPS["forbidden"]


def test_rules_of_nodes_that_do_not_lead_to_what_is_wanted_are_never_called(forbidden: Op) -> None:
    x, w = Value((2,)), Weight(np.ones(2, np.float32), name="w")
    y = ops.reduce_sum(forbidden(x) * w, axes=(0,))
    gradients([y], [ones_like(y)], [w])
    with pytest.raises(AssertionError, match="leads nowhere"):
        gradients([y], [ones_like(y)], [x])


def test_free_dimensions_stay_free_in_the_derivative() -> None:
    n = symbol("n")
    graph = Graph.trace(lambda x: ops.reduce_mean(x * x, axes=(0,)), Value((n, 2)))
    back = vjp(graph)
    assert back.outputs[0].shape == (n, 2)
    for rows in (1, 5):
        (g,) = run(back, np.ones((rows, 2)), np.ones(2))
        np.testing.assert_allclose(g, np.full((rows, 2), 2 / rows))
