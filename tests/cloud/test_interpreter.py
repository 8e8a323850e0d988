"""The interpreter: types, free dimensions, updates, and what it says to inputs that do not fit."""

from __future__ import annotations

import numpy as np
import pytest

from cloud import ops
from cloud.interpreter import bind, run, step
from ir.errors import ShapeError
from ir.graph import Graph, Value, Weight
from ir.symbol import symbol

N = symbol("n")


def test_it_computes_in_the_type_of_what_it_is_given() -> None:
    graph = Graph.trace(lambda x: ops.sigmoid(x) * 2, (3,))
    for dtype in (np.float32, np.float64):
        assert run(graph, np.zeros(3, dtype))[0].dtype == dtype


def test_weights_can_be_replaced_for_one_run() -> None:
    w = Weight(np.ones(2, np.float32), name="w")
    graph = Graph.trace(lambda x: x * w, (2,))
    (y,) = run(graph, np.ones(2), weights={w: np.array([3.0, 4.0])})
    np.testing.assert_array_equal(y, [3, 4])
    np.testing.assert_array_equal(w.data, [1, 1])


def test_a_step_returns_new_weights_and_leaves_the_old_ones() -> None:
    w = Weight(np.array([1.0, 2.0], np.float32), name="w")
    g, lr = Value((2,)), Value(())
    graph = Graph((g, lr), (w + 0.0,), ("old",), ((w, ops.sgd_step(w, g, lr)),))
    (old,), new = step(graph, np.ones(2, np.float32), np.float32(0.5))
    np.testing.assert_array_equal(old, [1, 2])
    np.testing.assert_array_equal(new[w], [0.5, 1.5])
    np.testing.assert_array_equal(w.data, [1, 2])


def test_a_node_with_several_results_gives_each() -> None:
    graph = Graph.trace(lambda x, s: ops.batch_norm_train(x, s, s), (4, 2), (2,))
    x = np.arange(8.0).reshape(4, 2)
    y, mean, variance = run(graph, x, np.ones(2))
    np.testing.assert_allclose(mean, x.mean(0))
    np.testing.assert_allclose(variance, x.var(0))
    np.testing.assert_allclose(y, 1 + (x - x.mean(0)) / np.sqrt(x.var(0) + 1e-5))


def test_free_dimensions_take_their_size_from_the_inputs() -> None:
    graph = Graph.trace(lambda x: ops.reshape(x, shape=(N * 2, 2)), Value((N, 4)))
    assert run(graph, np.zeros((3, 4)))[0].shape == (6, 2)


def test_a_size_computed_from_a_free_dimension_must_fit_it() -> None:
    assert bind([(N, 2), (N * 2,)], [(3, 2), (6,)]) == {"n": 3}
    with pytest.raises(ShapeError, match=r"input 1 is \[5\], want \[2\*n\] with \{'n': 3\}"):
        bind([(N, 2), (N * 2,)], [(3, 2), (5,)])


@pytest.mark.parametrize("shape", [(3, 4), (2,), (2, 3, 1)])
def test_an_array_of_another_shape_is_named(shape: tuple[int, ...]) -> None:
    graph = Graph.trace(lambda x: x + 1, (2, 3))
    with pytest.raises(ShapeError, match=r"input 0 is \[.*\], want \[2,3\]"):
        run(graph, np.zeros(shape))


def test_one_free_dimension_cannot_have_two_sizes() -> None:
    graph = Graph.trace(lambda a, b: a + b, Value((N,)), Value((N,)))
    with pytest.raises(ShapeError, match=r"input 1 is \[4\], want \[n\]"):
        run(graph, np.zeros(3), np.zeros(4))


def test_the_number_of_arrays_must_be_that_of_the_inputs() -> None:
    with pytest.raises(ShapeError, match="1 inputs given, want 2"):
        run(Graph.trace(lambda a, b: a + b, (2,), (2,)), np.zeros(2))
