"""Derivatives through control flow: loops stay loops, orders, weights, structures, modules."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from cloud import (
    autodiff,
    grad,
    jit,
    jvp,
    modes,
    nn,
    ops,
    parse,
    remat,
    stop_gradient,
    value_and_grad,
    vjp,
)
from cloud.compile.inline import inline
from cloud.compile.program import session_of
from cloud.transform import Traced
from ir.dtype import DType
from ir.errors import DTypeError, ShapeError
from ir.graph import Graph, Value, Weight
from ir.walk import walk

RNG = np.random.default_rng(0)


def gradient_graph(f: Callable[..., Any], *args: Any) -> Graph:
    traced = Traced.of(f, args, {})
    y = traced.result
    found = autodiff.gradients([y], [autodiff.ones_like(y)], traced.values)
    return Graph(tuple(traced.values), tuple(found))


def node_count(f: Callable[..., Any], *args: Any) -> int:
    """How many nodes the gradient has, those of sub-graphs too."""
    return sum(len(g.nodes) for g in walk([gradient_graph(f, *args)]))


def kinds(f: Callable[..., Any], *args: Any) -> list[str]:
    return [n.op.name for g in walk([gradient_graph(f, *args)]) for n in g.nodes]


def counted(n: int) -> Callable[[Any], Any]:
    def f(x: Any) -> Any:
        s = 0.0
        for i in range(n):
            s = s * 0.999 + x * i
            if s > 1e3:
                s = s * 0.5
        return s

    return f


def newton(a: Any) -> Any:
    x = a
    while abs(x * x - a) > 1e-12:
        x = 0.5 * (x + a / x)
    return x


def power(x: Any, n: Any) -> Any:
    if n < 1:
        return 1.0
    return x * power(x, n - 1)


def test_the_gradient_of_a_loop_has_as_many_nodes_for_any_number_of_turns() -> None:
    counts = {node_count(counted(n), 1.5) for n in (10, 10_000, 100_000)}
    assert len(counts) == 1


def counted_by_hand(n: int) -> Callable[[Any], Any]:
    def f(x: Any) -> Any:
        s, i = 0.0, 0
        while i < n:
            i += 1
            if i % 3 == 0:
                continue
            s = s * 0.999 + x * i
            if s > 1e3:
                s = s * 0.5
        return s

    return f


def test_a_loop_that_is_counted_by_hand_is_a_loop_too() -> None:
    f = counted_by_hand(100_000)
    assert node_count(counted_by_hand(1000), 0.2) == node_count(f, 0.2)
    y, g = value_and_grad(counted_by_hand(3000))(0.2)
    assert y == pytest.approx(counted_by_hand(3000)(0.2), rel=1e-9)
    slope = (counted_by_hand(3000)(0.2 + 1e-7) - counted_by_hand(3000)(0.2 - 1e-7)) / 2e-7
    assert g == pytest.approx(slope, rel=1e-4)


def test_the_derivative_of_a_loop_is_a_loop_and_of_a_recursion_a_recursion() -> None:
    assert kinds(newton, 2.0).count("while_loop") == 2
    assert "call" in kinds(power, 1.1, 5.0)


def test_a_straight_line_touches_no_tape() -> None:
    assert not {"push", "pop", "empty_tape"} & set(kinds(lambda x: ops.sin(x) * x, 1.0))


def test_many_turns_overflow_nothing() -> None:
    f = counted(20_000)
    assert grad(f)(1.5) == pytest.approx((f(1.5 + 1e-6) - f(1.5 - 1e-6)) / 2e-6, rel=1e-5)


@pytest.mark.parametrize("order", [1, 2, 3])
def test_derivatives_of_a_data_dependent_loop(order: int) -> None:
    f: Callable[[Any], Any] = newton
    want, e = 1.0, 0.5
    for _ in range(order):
        f, want, e = grad(f), want * e, e - 1
    assert f(2.0) == pytest.approx(want * 2.0**e, rel=1e-9)


@pytest.mark.parametrize("order", [1, 2, 3])
def test_derivatives_of_a_recursion(order: int) -> None:
    f: Callable[..., Any] = power
    want = 1.0
    for k in range(order):
        f, want = grad(f), want * (4 - k)
    assert f(1.1, 4.5) == pytest.approx(want * 1.1 ** (4 - order), rel=1e-12)


def test_a_hessian_vector_product_through_a_loop() -> None:
    def f(v: Any) -> Any:
        s = 0.0
        for _ in range(4):
            s = s + np.sum(np.sin(v * s + v))
        return s

    v, d = RNG.standard_normal(3), RNG.standard_normal(3)
    _, hv = jvp(grad(f), (v,), (d,))
    want = (grad(f)(v + 1e-6 * d) - grad(f)(v - 1e-6 * d)) / 2e-6
    np.testing.assert_allclose(hv, want, rtol=1e-6)


def test_forward_and_reverse_mode_agree_through_control_flow() -> None:
    y, dy = jvp(newton, (3.0,), (1.0,))
    (back,) = vjp(newton, 3.0)[1](1.0)
    assert (y, dy) == pytest.approx((3**0.5, back), rel=1e-12)


def test_a_weight_that_a_loop_reads_gets_its_gradient() -> None:
    w = Weight(np.float64(0.7), name="w")

    def f(x: Any) -> Any:
        while x < 10:
            x = x * x + w
        return x

    a, b = 1.5**2 + 0.7, (1.5**2 + 0.7) ** 2 + 0.7  # three turns
    assert grad(f, wrt=w)(1.5) == pytest.approx(2 * b * (2 * a + 1) + 1)


def test_gradients_by_name_and_of_nested_structures() -> None:
    def f(x: Any, params: Any, scale: Any = 1.0) -> Any:
        for layer in params["layers"]:
            x = x * layer["w"] + layer["b"][0]
        return x * params["out"] * scale

    params = {"layers": [{"w": 2.0, "b": (1.0,)}, {"w": 3.0, "b": (0.5,)}], "out": 2.0}
    g = grad(f, wrt="params")(1.5, params)
    assert g == {"layers": [{"w": 9.0, "b": (6.0,)}, {"w": 8.0, "b": (2.0,)}], "out": 12.5}
    both = grad(f, wrt={"x": 0, "s": "scale"})(1.5, params, scale=3.0)
    assert both == {"x": 36.0, "s": 25.0}
    assert grad(f, wrt=["x", 1])(1.5, params)[0] == 12.0


def test_integers_are_known_unless_a_derivative_by_them_is_asked() -> None:
    def f(x: Any, n: Any) -> Any:
        return np.sum(np.zeros(n) + x) * n

    assert grad(f)(2.0, 3) == 9
    assert grad(lambda x: x * x)(3) == 6


def test_a_structure_may_hold_integers_and_text() -> None:
    g = grad(lambda p: p["x"] * p["n"] if p["how"] == "times" else p["x"])(
        {"x": 2.0, "n": 3, "how": "times"}
    )
    assert g == {"x": 3.0, "n": None, "how": None}


def test_the_number_of_an_argument_that_is_given_by_name() -> None:
    def f(x: Any, y: Any) -> Any:
        return x * y * y

    assert grad(f, (0, 1))(2.0, y=3.0) == (9, 12)
    assert grad(f, 1)(y=3.0, x=2.0) == 12
    with pytest.raises(ShapeError, match=r"wrt 5: no such argument; there are x, y$"):
        grad(f, 5)(2.0, y=3.0)


@pytest.mark.parametrize("wrt", [5, "other", 1.5])
def test_what_cannot_be_differentiated_by_is_named(wrt: Any) -> None:
    with pytest.raises(ShapeError, match=f"wrt {wrt!r}"):
        grad(lambda x: x, wrt=wrt)(2.0)


def test_integer_arrays_cannot_be_differentiated_by() -> None:
    with pytest.raises(DTypeError, match="want floats"):
        grad(lambda x, i: x, wrt="i")(2.0, np.arange(3))


class Gated(nn.Module):
    """A module whose way depends on data."""

    def __init__(self) -> None:
        rng = np.random.default_rng(0)
        self.a, self.b = nn.Linear(3, 3, rng=rng), nn.Linear(3, 3, rng=rng)
        self.to(DType.f64)

    def forward(self, x: Value) -> Value:
        n = 0
        while np.sum(x * x) > 0.5 and n < 5:
            x = ops.tanh(self.a(x)) * 0.8
            n += 1
        return self.b(x) if np.sum(x) > 0 else x * 2


def test_the_weights_of_a_module_with_control_flow() -> None:
    module = Gated()
    x = RNG.standard_normal((2, 3))

    def loss(x: Any) -> Any:
        return np.sum(module(x) ** 2)

    y, g = value_and_grad(loss, wrt=module)(x)
    assert g.keys() == module.trainable_weights().keys()
    for name, w in module.trainable_weights().items():
        d = RNG.standard_normal(w.shape)
        ends = []
        for step in (1e-6, -1e-6):
            w.data = w.data + step * d
            ends.append(float(value_and_grad(loss)(x)[0]))
            w.data = w.data - step * d
        assert np.vdot(g[name], d) == pytest.approx((ends[0] - ends[1]) / 2e-6, rel=1e-5, abs=1e-7)
    np.testing.assert_allclose(np.sum(module(x) ** 2), y, rtol=1e-12)


def test_jit_compiles_control_flow() -> None:
    f = jit(newton)
    assert f(2.0) == pytest.approx(2**0.5)
    assert f(9.0) == pytest.approx(3.0)
    assert f.compilations == (modes.mode() == "graph")


def test_stop_gradient_prunes_a_loop() -> None:
    def f(x: Any) -> Any:
        return stop_gradient(newton(x)) * x

    assert grad(f)(4.0) == pytest.approx(2.0)
    assert kinds(f, 4.0).count("while_loop") == 1
    assert "push" not in kinds(f, 4.0)


def test_a_derivative_inside_a_loop_inside_of_a_function() -> None:
    def f(x: Any) -> Any:
        for _ in range(3):
            x = x - 0.1 * grad(lambda v: v * v * v if v > 0 else v * v)(x)
        return x

    def by_hand(x: Any) -> Any:
        for _ in range(3):
            x = x - 0.1 * (3 * x * x if x > 0 else 2 * x)
        return x

    assert value_and_grad(f)(0.7) == pytest.approx(
        (by_hand(0.7), (by_hand(0.7 + 1e-6) - by_hand(0.7 - 1e-6)) / 2e-6), rel=1e-8
    )


def test_a_function_that_data_lead_into_is_called_not_copied() -> None:
    graph = gradient_graph(power, 1.1, 5.0)
    assert sum(len(g.nodes) for g in walk([graph])) < 60


def test_opaque_functions_are_left_to_python() -> None:
    @parse.opaque
    def f(x: Any) -> Any:
        assert isinstance(x, Value)
        return x * 2

    assert grad(lambda x: f(x) if x > 0 else x)(1.0) == 2


@pytest.mark.parametrize("every", [1, 3, 8, 100])
def test_remat_of_a_loop_gives_the_same_gradient(every: int) -> None:
    def f(x: Any) -> Any:
        for i in remat(range(20), every=every):
            x = np.sin(x * 1.1 + i)
        return x

    def plain(x: Any) -> Any:
        for i in range(20):
            x = np.sin(x * 1.1 + i)
        return x

    assert value_and_grad(f)(0.3) == pytest.approx(value_and_grad(plain)(0.3), rel=1e-12)
    assert f(0.3) == plain(0.3)


@pytest.mark.parametrize("every", [1, 3, 100])
def test_remat_of_a_while_gives_the_same_gradient(every: int) -> None:
    def f(x: Any) -> Any:
        while remat(x < 100, every=every):
            x = x * 1.1 + np.exp(-x)
        return x

    def plain(x: Any) -> Any:
        while x < 100:
            x = x * 1.1 + np.exp(-x)
        return x

    for mode in modes.MODES:
        with modes.using(mode=mode):
            assert value_and_grad(f)(0.3) == pytest.approx(value_and_grad(plain)(0.3), rel=1e-12)
            assert grad(grad(f))(0.3) == pytest.approx(grad(grad(plain))(0.3), rel=1e-9)
    assert f(0.3) == plain(0.3)


@pytest.mark.parametrize("order", [1, 2])
def test_remat_bounds_the_memory_that_the_runtime_takes(order: int) -> None:
    def loop(every: int) -> Any:
        def f(x: Any) -> Any:
            for _ in remat(range(400), every=every):
                x = np.sin(x) * x + 0.1
            return np.sum(x)

        return f if order == 1 else lambda x: np.sum(grad(f)(x))

    x = np.linspace(0, 1, 1000, dtype=np.float32)
    taken = []
    for every in (1, 20):
        graph = gradient_graph(loop(every), x)
        session = session_of(inline(graph), "auto", 1)
        session.run({str(graph.inputs[0].name): x}, entry="run")
        taken.append(session.peak_bytes("run"))
    assert taken[0] > 400 * x.nbytes
    assert taken[1] < taken[0] / 6


def test_remat_of_a_function_keeps_its_arguments_alone() -> None:
    def layer(x: Any, k: int) -> Any:
        return np.sin(np.exp(x * 0.1) * k) if x > 0 else x * k

    kept = remat(layer)
    assert grad(lambda x: kept(kept(x, 2), 3))(0.4) == pytest.approx(
        grad(lambda x: layer(layer(x, 2), 3))(0.4), rel=1e-12
    )
    assert "call" in kinds(lambda x: kept(x, 2), 0.4)


def test_remat_of_less_than_one_state_is_refused() -> None:
    with pytest.raises(ValueError, match="want at least 1"):
        remat(range(3), every=0)
    with pytest.raises(ValueError, match="every 3 of a function; want it at the loop inside"):
        remat(np.sin, every=3)
