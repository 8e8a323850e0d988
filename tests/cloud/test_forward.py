"""Forward mode: tangents agree with cotangents and differences, alone and over reverse mode."""

from __future__ import annotations

import numpy as np
import pytest

from cloud import ops
from cloud.autodiff import gradients, ones_like, vjp
from cloud.forward import jvp, value_and_tangents
from cloud.interpreter import run
from ir.cases import samples
from ir.dtype import DType
from ir.graph import Array, Graph, Value, Weight
from ir.op import Case, NoGrad, Op
from ir.verify import verify
from ir.walk import walk
from tests.control_graphs import i32, power, repeated, square_root, tree
from tests.helpers import float_inputs, sample_arrays64, sample_graph
from tests.random_control import random_control_graph

DIFFERENTIABLE = [
    pytest.param(op, case, id=f"{op.name}[{case}]")
    for op, case in samples()
    if not isinstance(op.grad, NoGrad)
]


def check_jvp(graph: Graph, arrays: list[Array], rng: np.random.Generator) -> Graph:
    """Assert that <cotangent, J tangent> = <J' cotangent, tangent>: the graph of J tangent."""
    forward = jvp(graph)
    verify(forward)
    along = [rng.standard_normal(arrays[i].shape) for i in float_inputs(graph)]
    n = len(graph.outputs)
    outputs, dots = (lambda ys: (ys[:n], ys[n:]))(run(forward, *arrays, *along))
    for got, want, y in zip(outputs, run(graph, *arrays), graph.outputs, strict=True):
        if y.dtype is not DType.tape:
            np.testing.assert_array_equal(got, want)
    given = [
        rng.standard_normal(y.shape) if y.dtype.is_float else np.zeros(y.shape, y.dtype.numpy)
        for y in graph.outputs
    ]
    moved = [c for c, y in zip(given, graph.outputs, strict=True) if y.dtype.is_float]
    pulled = run(vjp(graph), *arrays, *given)
    terms = [np.ravel(g * t) for g, t in zip(pulled, along, strict=True)] or [np.zeros(1)]
    got = sum(float(np.vdot(c, d)) for c, d in zip(moved, dots, strict=True))
    scale = sum(float(np.abs(t).sum()) for t in terms) + 1e-3
    assert got == pytest.approx(sum(float(t.sum()) for t in terms), abs=1e-6 * scale)
    return forward


@pytest.mark.parametrize(("op", "case"), DIFFERENTIABLE)
def test_tangents_of_every_operator_are_the_transpose_of_its_gradient(op: Op, case: Case) -> None:
    graph = sample_graph(op, case)
    check_jvp(graph, sample_arrays64(op, case), np.random.default_rng(0))


@pytest.mark.parametrize("seed", range(20))
def test_random_control_flow_forward_over_reverse_is_reverse_over_reverse(seed: int) -> None:
    graph = random_control_graph(seed)
    rng = np.random.default_rng(seed)
    xs, ts = ([rng.standard_normal(3) for _ in graph.inputs] for _ in range(2))
    seeds = [rng.standard_normal(3) for _ in graph.outputs]
    check_jvp(graph, xs, rng)
    back = vjp(graph)
    hessian = check_jvp(back, [*xs, *seeds], rng)
    zeros = [np.zeros(3) for _ in seeds]
    forward = run(hessian, *xs, *seeds, *ts, *zeros)[len(xs) :]
    reverse = run(vjp(back), *xs, *seeds, *ts)[: len(xs)]
    for a, b in zip(forward, reverse, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9)
    mixed = run(vjp(jvp(graph)), *xs, *ts, *zeros, *seeds)[: len(xs)]
    for a, b in zip(mixed, reverse, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9)


def test_forward_mode_keeps_nothing() -> None:
    n, x = i32(), Value(())
    calls = [Graph((n, x), ops.call(n, x, body=make())) for make in (tree, power)]
    for graph in (square_root(), repeated(5, ops.sin), *calls):
        forward = jvp(graph)
        used = {n.op.name for g in walk([forward]) for n in g.nodes}
        assert not {"push", "pop", "empty_tape"} & used
        assert len(walk([forward])) == len(walk([graph]))


def test_tangents_of_weights_reach_into_bodies() -> None:
    w = Weight(np.float32(0.7), name="w")
    graph = repeated(4, lambda x: ops.sin(x) * w)
    along = Value((), name="along")
    _, (dot,) = value_and_tangents(graph.outputs, [w], [along])
    (g,) = gradients(graph.outputs, [ones_like(graph.outputs[0])], [w])
    x = np.float64(0.4)
    got = run(Graph((*graph.inputs, along), (dot,)), x, np.float64(2))[0]
    assert got == pytest.approx(2 * run(Graph(graph.inputs, (g,)), x)[0], rel=1e-6)


def test_integers_have_no_tangent() -> None:
    graph = Graph.trace(lambda x: (x * x, ops.argmax(x, axis=0)), (3,))
    assert jvp(graph).output_names == ("output0", "output1", "d_output0")


def nodes_run(graph: Graph, *arrays: Array) -> int:
    count = 0

    def seen(*_: object) -> None:
        nonlocal count
        count += 1

    run(graph, *arrays, seen=seen)
    return count


def hessian_vector(graph: Graph) -> tuple[Graph, Graph]:
    """The gradient of the first output, and that together with its tangent."""
    y = graph.outputs[0]
    g = Graph(graph.inputs, tuple(gradients([y], [ones_like(y)], graph.inputs)))
    along = [Value(v.shape) for v in graph.inputs]
    _, found = value_and_tangents(g.outputs, graph.inputs, along)
    return g, Graph((*graph.inputs, *along), tuple(v for v in found if v is not None))


def perceptron(x: Value, w: Value, v: Value) -> Value:
    y = ops.matmul(ops.tanh(ops.matmul(x, w)), v)
    return ops.reduce_mean(ops.log_softmax(y, axis=1) * y, axes=(0, 1))


HESSIANS = {
    "perceptron": Graph.trace(perceptron, (4, 3), (3, 5), (5, 2)),
    "loop": repeated(50, lambda x: ops.sin(x) * x),
    "newton": square_root(),
}


@pytest.mark.parametrize("name", HESSIANS)
def test_a_hessian_vector_product_runs_at_most_four_times_the_gradients_nodes(name: str) -> None:
    first, second = hessian_vector(HESSIANS[name])
    rng = np.random.default_rng(0)
    given = [rng.uniform(0.5, 1, [int(d) for d in v.shape]) for v in second.inputs]
    n = len(first.inputs)
    ratio = nodes_run(second, *given) / nodes_run(first, *given[:n])
    assert ratio <= 4
    h = 1e-6
    up, down = (
        run(first, *(x + s * h * t for x, t in zip(given[:n], given[n:], strict=True)))
        for s in (1, -1)
    )
    for got, a, b in zip(run(second, *given), up, down, strict=True):
        np.testing.assert_allclose(got, (a - b) / (2 * h), rtol=1e-4, atol=1e-6)
