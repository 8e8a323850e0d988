"""Functions compiled once for each form of their arguments."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from cloud import grad, jit, modes, nn, ops, parse, tensor, value_and_grad
from cloud.compile.program import counters
from cloud.eager import Tensor
from ir.errors import GraphError
from ir.graph import Array, Graph, Value, Weight

Point = namedtuple("Point", "x y")


@pytest.fixture(autouse=True)
def graph_mode() -> Iterator[None]:
    with modes.using(mode="graph", kernels="ref"):
        yield


def ones(*shape: int) -> Array:
    return np.ones(shape, np.float32)


def test_a_second_call_traces_and_compiles_nothing() -> None:
    traced = []

    @jit
    def f(x: Value, y: Value) -> Value:
        traced.append(x)
        return ops.tanh(x) * y

    before = counters.compilations, counters.traces
    first = f(ones(2), ones(2))
    again = f(ones(2) * 0.5, ones(2))
    assert (first[0], again[0]) == pytest.approx((np.tanh(1), np.tanh(0.5)))
    assert (f.compilations, len(traced)) == (1, 1)
    assert (counters.compilations, counters.traces) == (before[0] + 1, before[1] + 1)


def test_another_shape_type_or_structure_is_compiled_anew() -> None:
    @jit
    def f(x: Any) -> Any:
        return [v * 2.0 for v in x] if isinstance(x, list) else x * 2.0

    forms = [ones(2), ones(3), ones(2, 1), np.ones(2), [ones(2)], [ones(2), ones(2)], np.float32(1)]
    for i, x in enumerate(forms, start=1):
        f(x)
        f(x)
        assert f.compilations == i


def test_arguments_and_results_nest() -> None:
    @jit
    def f(batch: dict[str, Any], *more: Any, scale: float, **named: Any) -> Any:
        x, (y, z) = batch["x"], batch["yz"]
        p = named["point"]
        return {"sum": x + y + z, "rest": [more[0] * scale, (p.x - p.y, None, "as it is", 7)], 3: p}

    batch = {"x": ones(2), "yz": (ones(2), ones(2))}
    out = f(batch, ones(1), scale=0.25, point=Point(ones(2), 3 * ones(2)))
    np.testing.assert_array_equal(out["sum"], [3, 3])
    product, (difference, *static) = out["rest"]
    np.testing.assert_array_equal(product, [0.25])
    assert product.dtype == np.float32
    np.testing.assert_array_equal(difference, [-2, -2])
    assert static == [None, "as it is", 7]
    assert isinstance(out[3], Point)


def test_integers_and_flags_are_part_of_the_form_and_floats_are_data() -> None:
    @jit
    def power(x: Value, n: int, negative: bool = False, k: float = 1.0) -> Value:
        for _ in range(n - 1):
            x = x * x
        return -x * k if negative else x * k

    x = ones(1) * 2
    assert power(x, 2) == 4
    assert power(x, 3) == 16
    assert power(x, 3, True) == -16
    assert power.compilations == 3
    assert power(x, 3, True, 0.5) == -8
    assert power(x, 3, True, 0.25) == -4
    assert power.compilations == 4  # with k given, it is data
    assert power(x, True) == 2  # True is not 1 …
    assert power(x, 1) == 2
    assert power.compilations == 6  # … to a function that may ask


def test_a_weight_that_changes_between_calls_is_seen() -> None:
    net = nn.Linear(2, 1, bias=False, rng=np.random.default_rng(0))
    f = jit(lambda x: net(x))
    for k in (1.0, 2.0):
        net.weight.data = np.full((1, 2), k, np.float32)
        assert f(ones(1, 2)) == 2 * k
    net.weight.data[:] = 5  # in place, too
    assert f(ones(1, 2)) == 10
    net.freeze()
    net.weight.data = np.full((1, 2), 7, np.float32)
    assert f(ones(1, 2)) == 14
    assert f.compilations == 1


def test_layers_in_training_move_their_running_means() -> None:
    norm = nn.BatchNorm(2, momentum=0.5)
    f = jit(lambda x: norm(x))
    x = np.float32([[0, 2], [4, 6]])
    with nn.tracing(training=True):
        f(x)
        f(x)
    np.testing.assert_allclose(norm.running_mean.data, [1.5, 3])
    y = f(x)
    np.testing.assert_allclose(norm.running_mean.data, [1.5, 3])
    assert f.compilations == 2  # training and inference are two
    assert not np.allclose(y.mean(0), 0)


def test_a_training_step_written_by_hand_follows_the_weights() -> None:
    net = nn.Linear(3, 1, rng=np.random.default_rng(0))
    weights = list(net.weights().values())
    x = np.random.default_rng(1).standard_normal((64, 3)).astype(np.float32)
    t = x @ np.float32([[1], [-2], [3]]) + 0.5

    def loss(x: Value, t: Value) -> Value:
        return ops.mean_squared_error(net(x), t)

    step = jit(value_and_grad(loss, wrt=weights))
    losses = []
    for _ in range(100):
        y, g = step(x, t)
        losses.append(float(y))
        for w, gw in zip(weights, g, strict=True):
            w.data = w.data - np.float32(0.2) * gw
    assert step.compilations == 1
    assert losses[-1] < 1e-6 < losses[0]
    np.testing.assert_allclose(net.weight.data, [[1, -2, 3]], atol=1e-3)


def test_two_modules_of_one_form_share_a_program() -> None:
    nets = [nn.Linear(4, 3, rng=np.random.default_rng(i)) for i in range(2)]
    x = ones(2, 4)
    ys = [net(x) for net in nets]
    before = counters.compilations
    again = [net(x) for net in nets]
    assert counters.compilations == before
    for y, z in zip(ys, again, strict=True):
        np.testing.assert_array_equal(y, z)
    assert not np.array_equal(ys[0], ys[1])


def test_a_compiled_function_within_another_is_traced_with_it() -> None:
    inner = jit(lambda x: ops.exp(x))
    outer = jit(lambda x: inner(x) * 2.0)
    assert outer(np.float32(0)) == 2
    assert (inner.compilations, outer.compilations) == (0, 1)
    assert jit(grad(lambda x: inner(x)))(np.float32(0)) == 1
    assert [n.op.name for n in Graph.trace(inner, ()).nodes] == ["exp"]


def test_methods_compile_and_keep_their_names() -> None:
    class Doubler:
        k = 2.0

        @jit
        def double(self, x: Value) -> Value:
            """x * k"""
            return x * self.k

    a, b = Doubler(), Doubler()
    b.k = 3.0
    assert a.double(np.float32(1)) == 2
    assert b.double(np.float32(1)) == 3
    assert Doubler.double.__doc__ == "x * k"
    assert Doubler.double.compilations == 2


def test_tensors_in_are_tensors_out() -> None:
    y = jit(lambda x: x + 1.0)(tensor([1.0]))
    assert isinstance(y, Tensor)
    assert y.numpy() == [2]


def test_what_only_numpy_computes_is_traced_once_too() -> None:
    f = jit(lambda x: ops.tanh(x))
    before = counters.traces
    for _ in range(3):
        assert f(np.float64(1)) == np.tanh(1)
    assert counters.traces == before + 1


def test_a_placeholder_of_another_trace_is_refused() -> None:
    y = Value((2,))
    with pytest.raises(GraphError, match=r"jit: f reads <value f32\[2\]>"):
        jit(lambda x: x + y)(ones(2))


def test_data_of_no_kind_is_refused() -> None:
    with pytest.raises(TypeError, match="set: want arrays, numbers, or dicts, lists, tuples"):
        jit(lambda x: x)({1, 2})


def test_a_weight_may_be_an_argument_and_is_data() -> None:
    w = Weight(ones(2), name="w")
    f = jit(lambda w: w * 2.0)
    np.testing.assert_array_equal(f(w), [2, 2])
    w.data = ones(2) * 3
    np.testing.assert_array_equal(f(w), [6, 6])
    assert f.compilations == 1


def test_states_move_in_a_compiled_gradient_too() -> None:
    norm = nn.BatchNorm(2, momentum=0.5)
    step = jit(value_and_grad(lambda x: ops.reduce_sum(norm(x), axes=(0, 1)), wrt=norm.scale))
    with nn.tracing(training=True):
        step(np.float32([[0, 2], [4, 6]]))
    np.testing.assert_allclose(norm.running_mean.data, [1, 2])


def test_a_compiled_function_with_loops_that_data_end_is_part_of_another_trace() -> None:
    def root(a: Any) -> Any:
        x = a
        while abs(x * x - a) > 1e-9:
            x = 0.5 * (x + a / x)
        return x

    compiled = jit(root)
    assert grad(compiled)(np.float64(4.0)) == pytest.approx(0.25)
    assert jit(lambda a: compiled(a) * 2)(np.float64(4.0)) == pytest.approx(4)


@dataclass
class State:
    place: Any
    speed: Any
    name: str = "a"


@dataclass(frozen=True)
class Setting:
    scale: float
    kind: str


def test_dataclasses_are_structures_of_data_or_settings() -> None:
    compiled = jit(lambda s, k: State(s.place + s.speed * k.scale, s.speed, s.name + k.kind))
    now = compiled(State(ones(2), ones(2)), Setting(0.5, "b"))
    assert isinstance(now, State)
    assert now.name == "ab"
    np.testing.assert_array_equal(now.place, [1.5, 1.5])
    compiled(State(ones(2), ones(2)), Setting(0.5, "b"))
    assert compiled.compilations == 1
    compiled(State(ones(2), ones(2)), Setting(0.25, "b"))
    assert compiled.compilations == 2
    g = grad(lambda s: np.sum(s.place * s.speed))(State(ones(2), 2 * ones(2)))
    np.testing.assert_array_equal(g.place, [2, 2])
    np.testing.assert_array_equal(g.speed, [1, 1])


def test_an_array_that_a_closure_holds_stays_as_it_was_when_the_function_was_traced() -> None:
    held = np.ones(2)
    f = jit(lambda x: x * held)
    seen = []
    for mode in modes.MODES:
        with modes.using(mode=mode):
            held[:] = 1
            f(np.ones(2))
            held[:] = 3
            seen.append(float(f(np.ones(2))[0]))
    assert seen == [1, 3]  # in eager mode it is read at each call


@pytest.mark.parametrize("mode", modes.MODES)
def test_a_recursion_without_end_is_one_line_in_both_modes(mode: str) -> None:
    def deep(x: Any) -> Any:
        return deep(x * 0.5) + x

    for f in (jit(deep), grad(deep)):
        with modes.using(mode=mode), pytest.raises(parse.UnsupportedSyntax) as caught:
            f(np.float64(1))
        assert caught.value.what == "a recursion too deep to be written out"
        assert caught.value.place.filename == __file__
        assert "deep(x * 0.5) + x" in caught.value.place.text
