"""Eager mode: real numbers while the program runs."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from cloud import execute, grad, jit, modes, nn, ops, tensor, value_and_grad
from cloud.eager import NeedsTrace, Tensor, at_once, leaf
from ir.graph import Graph, Value, Weight


@pytest.fixture(autouse=True)
def eager() -> Iterator[None]:
    with modes.using(mode="eager"):
        yield


def test_operators_on_tensors_run_at_once_and_print_numbers() -> None:
    x = tensor([1.0, -2.0])
    y = ops.relu(x) * 3 + 0.5
    assert isinstance(y, Tensor)
    assert str(y) == "tensor([3.5, 0.5], f32)"
    assert y.numpy().dtype == np.float32


def test_a_tensor_answers_what_python_asks_of_numbers_and_arrays() -> None:
    x = tensor([[1.0, 2.0], [3.0, 4.0]])
    assert [float(row[1]) for row in x] == [2, 4]
    assert len(x) == 2
    assert list(range(int(x[0, 0]), tensor(3, None))) == [1, 2]
    assert x[1, 0].item() == 3
    assert bool(x[0, 0] < x[0, 1])
    assert (x >= 2).numpy().tolist() == [[False, True], [True, True]]
    assert (x == 2).numpy().tolist() == [[False, True], [False, False]]
    assert (x != x).numpy().any() == np.False_
    assert not bool(x[0, 0] > 1)
    assert float(abs(tensor(-2.0))) == 2
    assert (x == "x") is False
    assert np.asarray(x).sum() == 10
    assert {x: 1}[x] == 1


@pytest.mark.parametrize(
    "key",
    [0, -1, slice(1, None), slice(None, None, -1), (slice(None), 2), (..., 0), (None, 1),
     (slice(2, 0, -1), ..., slice(0, 3, 2)), (slice(0, 0), 1)],
    ids=str,
)  # fmt: skip
def test_an_index_takes_what_numpys_takes(key: object) -> None:
    a = np.arange(24, dtype=np.float32).reshape(3, 4, 2)
    found = tensor(a)[key]
    assert isinstance(found, Tensor)
    np.testing.assert_array_equal(found.numpy(), a[key])  # type: ignore[index]


def test_an_index_of_too_many_axes_is_refused() -> None:
    with pytest.raises((IndexError, TypeError)):
        tensor([1.0])[0, 0]


def test_python_decides_by_the_numbers_and_gradients_follow_its_path() -> None:
    def f(x: Value) -> Value:
        while ops.abs(x) > 1:  # type: ignore[operator]
            x = x * 0.5
        return x * x if x > 0 else -x  # type: ignore[operator]

    assert grad(f)(np.float32(6.0)) == pytest.approx(2 * 6 / 64)
    assert grad(f)(np.float32(-6.0)) == pytest.approx(-1 / 8)
    assert grad(grad(f))(np.float32(6.0)) == pytest.approx(2 / 64)


def test_inside_of_a_function_every_value_is_a_number() -> None:
    seen: list[str] = []
    w = Weight(np.float32([2, 3]), name="w")

    def f(x: Value) -> Value:
        seen.append(repr(w * 2))
        seen.append(repr(x))
        return ops.reduce_sum(x * (w * 2), axes=(0,))

    g = grad(f, wrt=w)(np.float32([1, 10]))
    assert seen == ["tensor([4., 6.], f32)", "tensor([ 1., 10.], f32)"]
    np.testing.assert_array_equal(g, [2, 20])


def test_a_breakpoint_in_a_layer_sees_numbers() -> None:
    seen: list[np.ndarray] = []

    class Probe(nn.Module):
        def forward(self, x: Value) -> Value:
            assert isinstance(x, Tensor)
            seen.append(x.numpy())
            return x

    net = nn.Sequential(nn.Linear(2, 3, rng=np.random.default_rng(0)), Probe())
    y = net(np.ones((1, 2), np.float32))
    np.testing.assert_array_equal(seen[0], y)


def test_what_would_lose_the_gradient_is_traced_instead() -> None:
    def f(x: Any) -> Any:
        y = math.sin(x[0]) * np.zeros(2)
        y[1] = x[0] * x[1]
        return np.sum(y) + math.exp(x[1])

    g = grad(f)(np.array([2.0, 3.0]))
    np.testing.assert_allclose(g, [3, 2 + math.exp(3)])
    with at_once(watch=True), pytest.raises(NeedsTrace, match="a gradient flows through"):
        float(leaf(np.float32(1)))


def test_numpy_works_on_tensors_as_on_arrays() -> None:
    def f(x: Any) -> Any:
        y = np.sin(x) ** 2 + np.ones(3) * x.sum()
        return (y / 2)[1:].mean() + np.max(x) + 2 // x[0] * np.where(x[0] > 0, x, 0).T[2]

    x = np.array([1.5, -0.5, 0.25])
    eager_gradient = grad(f)(x)
    with modes.using(mode="graph"):
        np.testing.assert_allclose(eager_gradient, grad(f)(x), rtol=1e-12)
    assert jit(f)(x) == pytest.approx(f(x))


def test_nothing_is_remembered_where_nobody_asks_for_gradients() -> None:
    x = tensor([1.0, 2.0])
    for _ in range(3):
        x = x * 2 + 1
    assert x.node is None
    with at_once(watch=True):
        w = Weight(np.ones(2, np.float32), name="w")
        assert (x * 2).node is None
        assert (w * 2).node is not None


def test_a_derivative_of_tensors_is_tensors() -> None:
    g = grad(lambda x: ops.reduce_sum(x * x, axes=(0,)))(tensor([1.0, 2.0]))
    assert isinstance(g, Tensor)
    assert g.node is None
    np.testing.assert_array_equal(g.numpy(), [2, 4])


def test_beside_a_placeholder_a_tensor_is_a_constant() -> None:
    t = tensor([1.0, 2.0])
    graph = Graph.trace(lambda x: x * t + ops.tanh(t), (2,))
    (y,) = execute.run(graph, np.ones(2, np.float32))
    np.testing.assert_allclose(y, [1 + np.tanh(1), 2 + np.tanh(2)], rtol=1e-6)


def test_jit_runs_the_function_as_it_stands() -> None:
    calls = []

    @jit
    def f(x: Value) -> Value:
        calls.append(x)
        return x + 1 if float(x) > 0 else x - 1  # type: ignore[arg-type]

    assert f(np.float32(1)) == 2
    assert f(np.float32(-1)) == -2
    assert len(calls) == 2
    assert f.compilations == 0


def test_the_same_operator_with_other_attributes_is_another() -> None:
    x = tensor([-3.0, 3.0])
    assert ops.clip(x, low=-1.0, high=1.0).numpy().tolist() == [-1, 1]
    assert ops.clip(x, low=-2.0, high=2.0).numpy().tolist() == [-2, 2]
    assert np.signbit(ops.clip(x, low=-0.0, high=0.0).numpy()).tolist() == [True, False]


def test_results_of_updates_are_new_tensors() -> None:
    w = Weight(np.ones(2, np.float32), name="w")
    m = Weight(np.zeros(2, np.float32), name="m", state=True)
    with at_once():
        new_w, new_m = ops.momentum_step(w, m, tensor([1.0, 2.0]), tensor(0.5))
    np.testing.assert_array_equal(new_w.numpy(), [0.5, 0])
    np.testing.assert_array_equal(new_m.numpy(), [1, 2])
    np.testing.assert_array_equal(w.data, [1, 1])


@pytest.mark.parametrize(
    "f",
    [
        lambda x: (x > 0) * 0.1,
        lambda x: np.argmax(x) * 0.1,
        lambda x: np.argmax(x) / 3,
        lambda x: np.mean(x > 0),
        lambda x: np.where(x > 0, 1, 2) * 0.1,
        lambda x: np.sqrt(np.argmax(x)) + 0.5,
    ],
    ids=["truth", "integer", "quotient", "mean", "where", "root"],
)
@pytest.mark.parametrize("kind", [np.float64, np.float32])
def test_what_integers_become_has_the_type_of_the_data_as_in_graph_mode(f: Any, kind: Any) -> None:
    x = np.array([0.3, 0.7, -0.2], kind)
    found, (value, _) = jit(f)(x), value_and_grad(lambda v: np.sum(f(v)) + v[0])(x)
    with modes.using(mode="graph"):
        np.testing.assert_array_equal(found, jit(f)(x), strict=True)
    assert found.dtype == value.dtype == kind
    np.testing.assert_allclose(found, f(x), rtol=1e-6 if kind is np.float32 else 1e-15)


@pytest.mark.parametrize(
    ("f", "words"),
    [
        (lambda t: t.sum(foo=1), "'foo'"),
        (lambda t: np.clip(t, 0, 1, foo=1), "'foo'"),
        (lambda t: t.reshape(3, 1, foo=1), "'foo'"),
        (lambda t: t.reshape(3, 1, order="F"), "order='F'"),
    ],
    ids=["sum", "clip", "reshape", "order"],
)
def test_what_a_tensor_does_not_take_is_named_as_the_user_wrote_it(f: Any, words: str) -> None:
    with pytest.raises(TypeError, match=words) as caught:
        f(tensor([1.0, 2.0, 3.0]))
    assert "Values" not in str(caught.value)
    assert "_clip" not in str(caught.value)


def test_an_index_outside_of_a_tensor_is_an_index_error() -> None:
    with pytest.raises(IndexError, match="index 3 of an axis of 3"):
        tensor([1.0, 2.0, 3.0])[3]
