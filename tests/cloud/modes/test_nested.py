"""Derivatives of derivatives and of compiled functions, in both modes, against differences."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from cloud import custom_gradient, grad, hook, jit, jvp, modes, nn, ops, value_and_grad, vjp
from cloud.parse import UnsupportedSyntax
from ir.graph import Weight

Scalar = Callable[[Any], Any]


@pytest.fixture(autouse=True, params=modes.MODES)
def mode(request: pytest.FixtureRequest) -> Iterator[None]:
    with modes.using(mode=request.param):
        yield


def runs_eagerly(x: Any) -> Any:
    return ops.tanh(x) * x * x


def must_be_traced(x: Any) -> Any:
    return math.sin(x) * x


def value_plus_grad(f: Scalar) -> Scalar:
    def both(x: Any) -> Any:
        y, g = value_and_grad(f)(x)
        return y + g

    return both


def pulled(f: Scalar) -> Scalar:
    def g(x: Any) -> Any:
        y, pull = vjp(f, x)
        return pull(y)[0]

    return g


def pushed(f: Scalar) -> Scalar:
    def g(x: Any) -> Any:
        y, moved = jvp(f, (x,), (x,))
        return y * moved

    return g


def slope(f: Scalar) -> Scalar:
    return lambda x: (f(x + 1e-3) - f(x - 1e-3)) / 2e-3


# what is made of a function, and the same by differences
KINDS: dict[str, tuple[Callable[[Scalar], Scalar], Callable[[Scalar], Scalar]]] = {
    "jit": (jit, lambda f: f),
    "grad": (grad, slope),
    "value_and_grad": (value_plus_grad, lambda f: lambda x: f(x) + slope(f)(x)),
    "vjp": (pulled, lambda f: lambda x: f(x) * slope(f)(x)),
    "jvp": (pushed, lambda f: lambda x: f(x) * slope(f)(x) * x),
}


@pytest.mark.parametrize("f", [runs_eagerly, must_be_traced])
@pytest.mark.parametrize(("outer", "inner"), list(itertools.product(KINDS, KINDS)))
def test_each_pair_is_right(f: Scalar, outer: str, inner: str) -> None:
    (made, rough), (made_inside, rough_inside) = KINDS[outer], KINDS[inner]
    found = made(made_inside(f))(np.float64(0.5))
    on_numbers = np.tanh if f is runs_eagerly else np.sin
    g = (lambda x: on_numbers(x) * x * x) if f is runs_eagerly else (lambda x: on_numbers(x) * x)
    np.testing.assert_allclose(found, rough(rough_inside(g))(0.5), rtol=1e-4)


WEIGHT = Weight(np.array([1.0, 2.0, 3.0], np.float32), name="w")
X = np.array([0.5, 0.2, 0.1], np.float32)


def loss(x: Any) -> Any:
    return (WEIGHT * WEIGHT * x).sum()


def traced_loss(x: Any) -> Any:
    return (WEIGHT * WEIGHT * x).sum() * math.sin(WEIGHT[0])


def loss_of_a_loop(x: Any) -> Any:
    for _ in range(2):
        x = x * WEIGHT
    return x.sum()


SIN, COS = math.sin(1.0), math.cos(1.0)


@pytest.mark.parametrize(
    ("f", "wanted"),
    [
        (lambda: jit(loss)(X), [1.0, 0.8, 0.6]),
        (lambda: jit(traced_loss)(X), [SIN + 2.2 * COS, 0.8 * SIN, 0.6 * SIN]),
        (lambda: vjp(loss, X)[0], [1.0, 0.8, 0.6]),
        (lambda: vjp(loss, X)[1](1.0)[0].sum(), [2.0, 4.0, 6.0]),
        (lambda: jvp(loss, (X,), (X,))[1], [1.0, 0.8, 0.6]),
        (lambda: grad(traced_loss)(X).sum(), [2 * SIN + 14 * COS, 4 * SIN, 6 * SIN]),
        (lambda: value_and_grad(loss)(X)[0], [1.0, 0.8, 0.6]),
        (lambda: grad(loss_of_a_loop)(X).sum(), [2.0, 4.0, 6.0]),
        (lambda: vjp(loss_of_a_loop, X)[1](1.0)[0].sum(), [2.0, 4.0, 6.0]),
    ],
    ids=[
        *("jit", "jit traced", "vjp", "pull", "jvp", "grad traced", "value_and_grad"),
        *("grad of a loop", "pull of a loop"),
    ],
)
def test_a_gradient_by_a_weight_flows_through_what_runs_on_known_arrays(
    f: Callable[[], Any], wanted: list[float]
) -> None:
    np.testing.assert_allclose(grad(f, wrt=WEIGHT)(), wanted, rtol=1e-5)


def test_layers_hand_on_their_states_once_through_a_compiled_function_in_a_derivative() -> None:
    net = nn.BatchNorm(3)
    x = np.arange(6, dtype=np.float32).reshape(2, 3)

    def norm_loss(x: Any) -> Any:
        return (jit(net)(x) ** 2).sum()

    with nn.tracing(training=True) as t:
        grad(norm_loss)(x)
    assert set(t.updates) == {net.running_mean, net.running_variance}
    assert not net.running_mean.data.any(), "whoever traces hands the state on"


def sets_items(x: Any) -> Any:
    y = x * 1.0
    y[0] = y[1] * y[1] * y[0]
    return y.sum()


def builds_an_array(x: Any) -> Any:
    y = np.array([x[1], x[0] * x[1], x[2]])
    return (y * y * y).sum()


@pytest.mark.parametrize("f", [sets_items, builds_an_array])
def test_second_derivatives_of_what_must_be_traced(f: Scalar) -> None:
    x, along = np.array([0.5, 0.7, 0.2]), np.array([1.0, -2.0, 0.5])
    step = 1e-4 * along
    wanted = (grad(f)(x + step) - grad(f)(x - step)) / 2e-4
    first, moved = jvp(grad(f), (x,), (along,))
    np.testing.assert_allclose(first, grad(f)(x), rtol=1e-6)
    np.testing.assert_allclose(moved, wanted, rtol=1e-6)
    np.testing.assert_allclose(vjp(grad(f), x)[1](along)[0], wanted, rtol=1e-6)
    np.testing.assert_allclose(grad(lambda x: (grad(f)(x) * along).sum())(x), wanted, rtol=1e-6)


@custom_gradient
def twice_as_steep(x: Any) -> Any:
    y = math.exp(x)
    return y, lambda g: 2 * g * math.exp(x)


def test_a_custom_gradient_of_what_must_be_traced() -> None:
    e = math.exp(0.5)
    assert twice_as_steep(0.5) == e
    np.testing.assert_allclose(grad(twice_as_steep)(0.5), 2 * e)
    np.testing.assert_allclose(grad(grad(twice_as_steep))(0.5), 2 * e)
    np.testing.assert_allclose(jit(grad(twice_as_steep))(0.5), 2 * e)
    np.testing.assert_allclose(jvp(twice_as_steep, (0.5,), (1.0,)), (e, 2 * e))


def test_a_backward_pass_that_must_be_traced() -> None:
    def f(x: Any) -> Any:
        return ops.tanh(hook(x, lambda g: g * math.exp(g)))

    slope = 1 - np.tanh(0.5) ** 2
    np.testing.assert_allclose(grad(f)(0.5), slope * math.exp(slope))
    np.testing.assert_allclose(vjp(f, 0.5)[1](1.0), [slope * math.exp(slope)])
    np.testing.assert_allclose(jit(grad(f))(0.5), slope * math.exp(slope))


def test_a_refusal_without_a_place_shows_none() -> None:
    with pytest.raises(UnsupportedSyntax) as caught:
        grad(math.ulp)(0.5)
    what, *more = str(caught.value).split("\n")
    assert caught.value.place is None
    assert "<call>" not in what
    assert [line.strip()[:5] for line in more] == ["hint:"]
