"""Eager and compiled: the same programs, the same bits on the reference kernels."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from cloud import (
    execute,
    grad,
    jit,
    jvp,
    models,
    modes,
    nn,
    ops,
    parse,
    run_subgraph,
    run_until,
    value_and_grad,
)
from cloud.compile.program import runs_on_runtime
from ir.graph import Array, Graph, Value, Weight
from tests.random_graphs import random_arrays, random_graph, random_training_graph


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def floats(*shape: int) -> Array:
    return rng(1).standard_normal(shape).astype(np.float32)


@pytest.fixture(params=modes.MODES)
def mode(request: pytest.FixtureRequest) -> Iterator[str]:
    """Each mode in turn, on the reference kernels."""
    with modes.using(mode=request.param, kernels="ref"):
        yield request.param


def in_both(f: Callable[[], Any]) -> tuple[list[Array], list[Array]]:
    """The arrays that f gives in graph mode and in eager mode."""
    found = []
    for mode in modes.MODES:
        with modes.using(mode=mode, kernels="ref"):
            out = f()
        found.append([np.asarray(a) for a in (out if isinstance(out, (tuple, list)) else (out,))])
    return found[0], found[1]


def assert_same_bits(f: Callable[[], Any]) -> None:
    for compiled, eager in zip(*in_both(f), strict=True):
        assert compiled.dtype == eager.dtype
        assert compiled.shape == eager.shape
        assert compiled.tobytes() == eager.tobytes()


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("make", [random_graph, random_training_graph])
def test_random_graphs_and_their_updates_are_the_same_bits(
    make: Callable[[int], Graph], seed: int
) -> None:
    graph = make(seed)
    arrays = random_arrays(graph, seed)

    def results() -> list[Array]:
        outputs, new = execute.step(graph, *arrays)
        return [*outputs, *new.values()]

    assert_same_bits(results)


NETS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "mlp": (lambda: models.mlp([12, 16, 3], rng=rng()), (2, 3, 4)),
    "lenet": (lambda: models.lenet(rng=rng()), (2, 28, 28, 1)),
    "dscnn": (lambda: models.dscnn(rng=rng()), (1, 49, 10, 1)),
    "resnet8": (lambda: models.resnet8(rng=rng()), (1, 32, 32, 3)),
}


@pytest.mark.parametrize("name", NETS)
def test_a_nets_inference_is_the_same_bits(name: str) -> None:
    make, shape = NETS[name]
    net, x = make(), floats(*shape)
    assert_same_bits(lambda: net(x))


@pytest.mark.parametrize("name", ["mlp", "lenet", "resnet8"])
def test_a_nets_gradients_in_training_are_the_same_bits(name: str) -> None:
    make, shape = NETS[name]
    net, x = make(), floats(*shape)
    weights = list(net.trainable_weights().values())

    def loss(x: Value) -> Value:
        with nn.tracing(training=True):
            y = net(x)
        return ops.reduce_mean(y * y, axes=(0, 1))

    def results() -> list[Array]:
        y, g = value_and_grad(loss, wrt=weights)(x)
        return [y, *g]

    assert_same_bits(results)


def wave(x: Value, y: Value) -> Value:
    return ops.reduce_sum(ops.tanh(x * y) * ops.exp(-(x * x)) / 4.0, axes=(0,))


@pytest.mark.parametrize(
    "derive",
    [
        lambda f: grad(f),
        lambda f: grad(f, wrt=(0, 1)),
        lambda f: (
            lambda x, y: grad(lambda x, y: ops.reduce_sum(grad(f)(x, y) * y, axes=(0,)))(x, y)
        ),
        lambda f: lambda x, y: jvp(f, (x, y), (y, x)),
        lambda f: jit(grad(f)),
    ],
    ids=["grad", "of two", "second", "jvp", "jit"],
)
def test_derivatives_are_the_same_bits(derive: Callable[[Any], Any]) -> None:
    x, y = floats(2, 5)
    assert_same_bits(lambda: derive(wave)(x, y))


def test_a_derivative_inside_of_a_derivative_sees_the_outer_argument(mode: str) -> None:
    def f(x: Value) -> Value:
        return x * grad(lambda y: x * y * y)(x)  # 2 x^3

    assert grad(f)(np.float64(2.0)) == pytest.approx(24)
    assert grad(lambda x: x * grad(lambda y: x * y)(3.0))(np.float64(2.0)) == pytest.approx(4)


def test_float64_is_the_oracles_in_both_modes(mode: str) -> None:
    x = np.linspace(-1, 1, 7)
    g = grad(lambda x: ops.reduce_sum(ops.sin(x), axes=(0,)))(x)
    assert g.dtype == np.float64
    np.testing.assert_allclose(g, np.cos(x), rtol=1e-15)


def test_an_index_outside_is_the_same_error(mode: str) -> None:
    table = nn.Embedding(5, 3, rng=rng())
    with pytest.raises(IndexError, match=r"want 0\.\.4"):
        table(np.array([5]))


def test_arrays_that_do_not_fit_are_the_same_error(mode: str) -> None:
    graph = Graph.trace(lambda x: ops.relu(x), (2, 3))
    with pytest.raises(ValueError, match=r"input 0 is \[4, 3\], want \[2,3\]"):
        execute.run(graph, np.zeros((4, 3), np.float32))


def test_running_means_and_keys_move_alike() -> None:
    def results() -> list[Array]:
        net = nn.Sequential(nn.BatchNorm(3), nn.Dropout(0.5, rng=rng()))
        f = jit(lambda x: net(x))
        with nn.tracing(training=True):
            outs = [f(floats(4, 3) * k) for k in (1, 2, 3)]
        return [*outs, *(w.data for w in net.weights().values())]

    assert_same_bits(results)
    compiled, _ = in_both(results)
    assert not np.array_equal(compiled[-1], nn.Dropout(0.5, rng=rng()).key.data)


def test_run_until_gives_what_a_node_inside_gives(mode: str) -> None:
    net = models.lenet(rng=rng())
    x = floats(2, 28, 28, 1)
    graph = Graph.trace(net, Value(x.shape))
    conv = next(n for n in graph.nodes if n.op.name == "conv2d")
    for target, args in ((graph, (x,)), (net, (x,))):
        relus = [run_until(target, f"relu.{i}", *args) for i in (0, 1)]
        assert [r.shape for r in relus] == [(2, 28, 28, 6), (2, 10, 10, 16)]
        np.testing.assert_array_equal(run_until(target, "relu", *args), relus[0])
        np.testing.assert_array_equal(run_until(target, "output0", *args), net(x))
    first = run_until(graph, conv, x)
    np.testing.assert_array_equal(np.maximum(first, 0), run_until(graph, "relu", x))
    np.testing.assert_array_equal(first, run_until(graph, conv.results[0], x))
    np.testing.assert_array_equal(first, run_until(graph, graph.nodes.index(conv), x))


def test_run_until_a_line_of_the_source(mode: str) -> None:
    def f(x: Value) -> Value:
        y = x * 3.0
        return ops.tanh(y)

    line = f.__code__.co_firstlineno + 1
    y = run_until(f, f"test_both_modes.py:{line}", floats(4))
    np.testing.assert_array_equal(y, floats(4) * np.float32(3))


def test_run_until_refuses_what_a_loop_runs_inside(mode: str) -> None:
    def f(x: Value) -> Value:
        while x < 10:
            x = x + np.sin(x) + 2
        return ops.exp(x)

    line = f.__code__.co_firstlineno + 2
    graph = Graph.trace(lambda x: parse.call(f, x), Value(()))
    loop = next(n for n in graph.nodes if n.op.name == "while_loop")
    inner = loop.attrs["body"].nodes[0]
    for target in ("sin", f"test_both_modes.py:{line}", inner, inner.results[0]):
        with pytest.raises(ValueError, match="inside of a while_loop of the graph, which may run"):
            run_until(graph, target, np.float32(1))
    y = run_until(graph, "exp", np.float32(1))
    assert y == pytest.approx(float(f(np.float32(1))), rel=1e-5)


@pytest.mark.parametrize(
    ("node", "why"),
    [("conv3d", "no node 'conv3d' in a graph of tanh"), (1, "node 1: the graph has 1")],
)
def test_a_node_that_is_not_there_is_refused(node: Any, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        run_until(ops.tanh, node, floats(3))


def test_run_subgraph_starts_and_ends_anywhere(mode: str) -> None:
    w = Weight(floats(3, 3), name="w")
    x = Value((2, 3))
    h = ops.tanh(x @ w)
    y = h * 2.0
    graph = Graph((x,), (y + 1.0,))
    given = floats(2, 3)
    (got,) = run_subgraph(graph, {h: given}, [y])
    np.testing.assert_array_equal(got, given * 2)
    got = run_subgraph(graph, {x: given}, [h, y])
    np.testing.assert_array_equal(got[0] * 2, got[1])
    with pytest.raises(ValueError, match=r"an output needs <value f32\[2,3\]>, which is not given"):
        run_subgraph(graph, {y: given}, [h])


def test_a_mode_that_is_none_is_refused() -> None:
    before = modes.settings()
    with pytest.raises(ValueError, match="mode 'fast': want one of graph, eager"):
        modes.set_mode("fast")
    assert modes.settings() is before


def test_one_line_switches() -> None:
    with modes.using():
        modes.set_mode("eager")
        assert modes.mode() == "eager"
        modes.set_mode("graph", kernels="ref")
        assert modes.settings() == modes.Settings("graph", "ref")


def test_graphs_that_compile_are_those_that_the_runtime_has_kernels_for() -> None:
    graph = Graph.trace(ops.tanh, Value((3,)))
    assert runs_on_runtime(graph)
    from ir.dtype import DType

    assert not runs_on_runtime(Graph.trace(ops.tanh, Value((3,), DType.f64)))


W = Weight(floats(3, 2), name="w")


@pytest.mark.parametrize(
    "f",
    [
        lambda: (W.T @ floats(4, 3).T).sum(),
        lambda: W[0].sum() + W[1, 0],
        lambda: np.where(W > 0.1, W, 0.0).sum(),
        lambda: (abs(W) + np.sin(W) + W % 2.0).mean(),
        lambda: sum(row.max() for row in W),
        lambda: np.dot(floats(4, 3), W).sum() if W[0, 0] > 3 else np.concatenate([W, W]).sum(),
    ],
    ids=["method", "index", "comparison", "operators", "rows", "branch"],
)
def test_a_weight_answers_what_an_array_answers(f: Callable[[], Any]) -> None:
    assert_same_bits(lambda: grad(f, wrt=W)())
