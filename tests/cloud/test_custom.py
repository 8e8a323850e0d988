"""Gradients that their author gives, and hooks that see and rewrite a gradient on its way."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cloud import grad, modes, ops, value_and_grad
from cloud.custom import GradientMismatch, custom_gradient, hook
from ir.errors import ShapeError
from ir.graph import Weight

MODES = pytest.mark.parametrize("mode", modes.MODES)


@custom_gradient
def cube(x: Any) -> Any:
    """x^3, of which the gradient is clipped."""
    y = x * x * x

    def backward(g: Any) -> Any:
        return g * ops.minimum(3 * x * x, 5.0)

    return y, backward


@custom_gradient
def sine(x: Any) -> Any:
    return ops.sin(x), lambda g: g * ops.cos(x)


@MODES
def test_a_functions_own_gradient_takes_the_place_of_the_automatic_one(mode: str) -> None:
    with modes.using(mode=mode):
        assert grad(lambda x: cube(x) * 2)(np.float64(1.0)) == 6
        assert grad(lambda x: cube(x) * 2)(np.float64(3.0)) == 10


def test_on_plain_numbers_it_is_the_plain_function() -> None:
    assert cube(np.float64(2.0)) == 8


@MODES
@pytest.mark.parametrize("order", [1, 2, 3])
def test_it_is_differentiated_again(mode: str, order: int) -> None:
    f: Any = sine
    for _ in range(order):
        f = grad(f)
    with modes.using(mode=mode):
        want = [np.cos(0.3), -np.sin(0.3), -np.cos(0.3)][order - 1]
        assert f(np.float64(0.3)) == pytest.approx(want, rel=1e-12)


def test_it_works_inside_loops_and_branches() -> None:
    def f(x: Any) -> Any:
        for _ in range(3):
            x = cube(x) if x > 0 else sine(x)
        return x

    x = 0.9
    assert grad(f)(x) == pytest.approx(27 * x**26, rel=1e-12)


@MODES
def test_several_arguments_and_results(mode: str) -> None:
    @custom_gradient
    def f(a: Any, b: Any) -> Any:
        return (a * b, a + b), lambda g, h: (g * 10, h * 100)

    def loss(a: Any, b: Any) -> Any:
        p, s = f(a, b)
        return p * 2 + s * 3

    with modes.using(mode=mode):
        assert grad(loss, (0, 1))(np.float64(2.0), np.float64(5.0)) == (20, 300)


@MODES
def test_it_may_close_over_weights_and_give_their_gradients(mode: str) -> None:
    w = Weight(np.float64(3.0), name="w")

    @custom_gradient
    def f(x: Any) -> Any:
        return x * w, lambda g: (g * w, {w: g * 7})

    with modes.using(mode=mode):
        assert grad(f, wrt=(0, w))(np.float64(2.0)) == (3, 7)


def test_the_check_compares_with_the_automatic_gradient() -> None:
    sine.check(np.linspace(-1, 1, 5))
    cube.check(np.float64(0.5))
    with pytest.raises(
        GradientMismatch, match=r"cube: gradient 0 is .* at \[1\], the automatic one"
    ):
        cube.check(np.array([0.5, 3.0]))


@MODES
def test_the_check_compares_gradients_of_weights_too(mode: str) -> None:
    w = Weight(np.float64(3.0), name="w")

    def scaled(factor: float) -> Any:
        @custom_gradient
        def f(x: Any) -> Any:
            return x * w, lambda g: (g * w, {w: g * x * factor})

        return f

    with modes.using(mode=mode):
        scaled(1.0).check(np.float64(2.0))
        with pytest.raises(GradientMismatch, match=r"f: gradient w is .* the automatic one"):
            scaled(1.5).check(np.float64(2.0))


@MODES
def test_settings_need_no_gradient_and_arguments_may_be_named(mode: str) -> None:
    @custom_gradient
    def power(x: Any, n: int = 2, *, scale: float = 1.0) -> Any:
        return scale * x**n, lambda g: 10 * g * scale * n

    with modes.using(mode=mode):
        assert grad(lambda x: power(x, 3))(np.float64(2.0)) == 30
        assert grad(lambda x: power(n=4, x=x))(np.float64(2.0)) == 40
        assert grad(lambda x: power(x, scale=0.5))(np.float64(2.0)) == 10
        with pytest.raises(ShapeError, match="power: argument 'scale', given by name only"):
            grad(lambda x: power(x, scale=x))(np.float64(2.0))


@MODES
def test_weights_count_also_where_no_argument_is_a_value(mode: str) -> None:
    w = Weight(np.float64(3.0), name="w")

    @custom_gradient
    def f(x: Any) -> Any:
        return x * w, lambda g: (g * w, {w: g * 7})

    with modes.using(mode=mode):
        assert grad(lambda: f(np.float64(2.0)) + f(1.0), w)() == 14


@MODES
def test_arrays_and_weights_meet_under_pythons_operators(mode: str) -> None:
    w = Weight(np.ones((3, 2), np.float32), name="w")

    @custom_gradient
    def f(x: Any) -> Any:
        return x @ w, lambda g: (None, {w: 2.0 * x.T @ g})

    x = np.ones((4, 3), np.float32)
    with modes.using(mode=mode):
        g = grad(lambda: ops.reduce_sum(f(x), axes=(0, 1)), w)()
    np.testing.assert_array_equal(g, np.full((3, 2), 8.0))


@MODES
@pytest.mark.parametrize(
    "second", [2.0, np.float64(2.0), np.full((), 2.0), None], ids=["float", "numpy", "array", "x"]
)
def test_gradients_are_counted_alike_for_known_and_unknown_arguments(
    mode: str, second: Any
) -> None:
    right = custom_gradient(lambda x, a: (x * a, lambda g: (g * 10, g * 20)))
    short = custom_gradient(lambda x, a: (x * a, lambda g: g * 10))

    def with_second(f: Any) -> Any:
        return grad(lambda x: f(x, x if second is None else second))

    with modes.using(mode=mode):
        assert with_second(right)(np.float64(3.0)) == (30 if second is None else 10)
        with pytest.raises(ShapeError, match="backward gives 1 gradients, want 2"):
            with_second(short)(np.float64(3.0))


@MODES
def test_whole_numbers_need_no_gradient_and_may_be_given_one(mode: str) -> None:
    right = custom_gradient(lambda x, a: (x * a, lambda g: (g * 10, g * 20)))
    short = custom_gradient(lambda x, a: (x * a, lambda g: g * 10))
    with modes.using(mode=mode):
        for f in (right, short):
            assert grad(lambda x, f=f: f(x, 2))(np.float64(3.0)) == 10
            assert grad(lambda x, n, f=f: f(x, n))(np.float64(3.0), np.int32(2)) == 10


@MODES
@pytest.mark.parametrize("known", [3.0, 3, np.float64(3.0), np.ones(2)], ids=repr)
def test_a_result_that_is_known_has_a_cotangent_of_zeros(mode: str, known: Any) -> None:
    f = custom_gradient(lambda x: ((x * 2, known), lambda g, h: g * 10 + np.sum(h * 5)))
    with modes.using(mode=mode):
        assert grad(lambda x: f(x)[0])(np.float64(3.0)) == 10


def test_a_backward_of_the_wrong_shape_is_refused() -> None:
    @custom_gradient
    def f(x: Any) -> Any:
        return x * 2, lambda g: ops.reduce_sum(g, axes=(0,))

    with pytest.raises(ShapeError, match=r"f: backward gives f64\[\], want f64\[3\]"):
        grad(lambda x: ops.reduce_sum(f(x), axes=(0,)))(np.ones(3))


def test_a_function_without_a_backward_is_refused() -> None:
    with pytest.raises(ShapeError, match="want it to give"):
        grad(custom_gradient(lambda x: x * 2))(1.0)


@MODES
def test_a_hook_rewrites_the_gradient_and_not_the_value(mode: str) -> None:
    def f(x: Any) -> Any:
        return hook(x * 2, lambda g: g * 10) * 3

    with modes.using(mode=mode):
        assert value_and_grad(f)(np.float64(1.5)) == (9, 60)


def test_a_hook_sees_the_numbers_in_eager_mode() -> None:
    seen = []

    def f(x: Any) -> Any:
        y = hook(x * x, lambda g: seen.append(float(g)))
        return y * 5

    with modes.using(mode="eager"):
        assert grad(f)(np.float64(1.5)) == 15
    assert seen[-1] == 5


def test_a_hook_in_a_loop_acts_at_every_turn() -> None:
    def f(x: Any) -> Any:
        for _ in range(4):
            x = hook(x * 1.5, lambda g: ops.minimum(g, 2.0))
        return x

    assert grad(f)(1.0) == pytest.approx(1.5 * 2)
