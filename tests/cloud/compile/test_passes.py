"""Every pass on random graphs, of training too: the same bits on the reference kernels."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from cloud import modes, ops
from cloud.autodiff import vjp
from cloud.compile.cache import fingerprint
from cloud.compile.fuse_elementwise import fuse_elementwise
from cloud.compile.inline import inline
from cloud.compile.leaves import Replacer, inner_leaves
from cloud.compile.pipeline import PASSES, Pass, optimized
from cloud.compile.program import Program, runs_on_runtime
from cloud.compile.simplify import simplify
from cloud.interpreter import run, step
from ir.dtype import DType
from ir.function import Function
from ir.graph import Array, Constant, Graph, Value, Weight
from ir.op import OPS
from ir.verify import verify
from tests.random_graphs import (
    random_arrays,
    random_graph,
    random_symbolic_graph,
    random_training_graph,
)

SEEDS = range(12)
Make = Callable[[int], Graph]


def derivative(seed: int) -> Graph:
    return vjp(random_symbolic_graph(seed, nodes=5))


MAKERS: tuple[Make, ...] = (random_graph, random_training_graph, random_symbolic_graph, derivative)


def bits(graph: Graph, arrays: list[Array]) -> list[bytes]:
    """Results and new weights on the reference kernels, node by node as the graph has them."""
    program = Program(graph, kernels="ref", passes=())
    outputs, new = program(arrays, [w.data for w in graph.weights])
    return [a.tobytes() for a in (*outputs, *new)]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("change", [*PASSES, optimized], ids=lambda p: p.__name__)
def test_a_pass_leaves_the_same_bits(change: Pass, make: Make, seed: int) -> None:
    graph = make(seed)
    if not runs_on_runtime(graph):
        pytest.skip("float64 or int8 that only numpy computes")
    arrays = random_arrays(graph, seed, batch=2, seq=3)
    with modes.using(kernels="ref"):
        after = change(graph)
        verify(after)
        assert bits(after, arrays) == bits(graph, arrays)
    if not any(n.op.name in ("call", "cond") for n in graph.nodes):  # whose body may be more
        assert len(after.nodes) <= len(graph.nodes)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("make", MAKERS)
def test_rules_that_round_otherwise_stay_close(make: Make, seed: int) -> None:
    graph = make(seed)
    arrays = random_arrays(graph, seed, batch=2, seq=3)
    after = simplify(graph, exact=False)
    for want, found in zip(run(graph, *arrays), run(after, *arrays), strict=True):
        limit = 1e-4 * np.abs(want[np.isfinite(want)]).max(initial=1)
        np.testing.assert_allclose(found, want, rtol=1e-4, atol=limit)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_program_computes_the_graph_and_its_updates(seed: int) -> None:
    graph = random_training_graph(seed)
    arrays = random_arrays(graph, seed)
    weights = [w.data.copy() for w in graph.weights]
    outputs, new = Program(graph, kernels="ref", passes=PASSES)(arrays, weights)
    want, want_new = step(graph, *arrays)
    for a, b in zip((*outputs, *new), (*want, *want_new.values()), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4 * np.abs(b).max(initial=1))
    for w, before in zip(graph.weights, weights, strict=True):
        np.testing.assert_array_equal(w.data, before)


@pytest.mark.parametrize("seed", SEEDS)
def test_graphs_made_twice_have_one_fingerprint_and_others_another(seed: int) -> None:
    assert fingerprint(random_training_graph(seed)) == fingerprint(random_training_graph(seed))
    assert fingerprint(random_training_graph(seed)) != fingerprint(random_training_graph(seed + 99))


def scaled(k: float) -> Graph:
    x = Value((3,))
    return Graph((x,), (x * Constant(np.float32(k)),))


def test_a_fingerprint_tells_zero_from_minus_zero() -> None:
    assert fingerprint(scaled(0.0)) != fingerprint(scaled(-0.0))
    assert fingerprint(scaled(2.0)) == fingerprint(scaled(2.0))


X = Value((3,), name="x")


def calls(function: Function, *xs: Value) -> tuple[Value, ...]:
    found: tuple[Value, ...] = OPS["call"](*xs, body=function)
    return found


def half_and_square() -> Function:
    x = Value((3,))
    return Function.of("half_and_square", Graph((x,), (x * 0.5, x * x)))


def countdown() -> Function:
    """f(x, n) = x if n <= 0 else f(x * 0.5, n - 1)"""
    types = [((3,), DType.f32), ((), DType.i32)]
    f = Function("countdown", types, types[:1])
    x, n = Value((3,)), Value((), DType.i32)
    again = Graph.trace(lambda x, n: calls(f, x * 0.5, n - 1), x, n)
    stop = Graph.trace(lambda x, n: x, Value((3,)), Value((), DType.i32))
    y, m = Value((3,)), Value((), DType.i32)
    f.graph = Graph((y, m), tuple(OPS["cond"](ops.greater(m, 0), y, m, then=again, otherwise=stop)))
    return f


def test_a_call_becomes_the_body_of_what_it_calls() -> None:
    inner = half_and_square()
    y = Value((3,))
    outer = Function.of("outer", Graph((y,), (calls(inner, y)[1] + calls(inner, y)[0],)))
    graph = Graph((X,), calls(outer, X))
    after = inline(graph)
    assert sorted(n.op.name for n in after.nodes) == ["add", "mul", "mul"]
    x = np.array([1, 2, 3], np.float32)
    np.testing.assert_array_equal(run(after, x)[0], run(graph, x)[0])


def test_a_function_that_calls_itself_stays_a_function_with_calls_of_others_inlined() -> None:
    f = countdown()
    n = Value((), DType.i32)
    y = Value((3,))
    start = Function.of("start", Graph((y, n), calls(f, y + 1.0, n)))
    z, m = Value((3,)), Value((), DType.i32)
    graph = Graph((z, m), calls(start, z, m))
    after = inline(graph)
    assert [node.op.name for node in after.nodes] == ["add", "call"]
    x, three = np.ones(3, np.float32), np.int32(3)
    np.testing.assert_array_equal(run(after, x, three)[0], np.full(3, 0.25, np.float32))
    verify(after)


def test_a_branch_that_is_known_is_the_only_one_left() -> None:
    def branch(k: float) -> Graph:
        return Graph.trace(lambda x: x * k, Value((3,)))

    for truth, want in ((True, 2.0), (False, 3.0)):
        y = OPS["cond"](Constant(np.array(truth)), X, then=branch(2.0), otherwise=branch(3.0))
        after = inline(Graph((X,), y))
        assert [n.op.name for n in after.nodes] == ["mul"]
        np.testing.assert_array_equal(run(after, np.ones(3, np.float32))[0], np.full(3, want))


def test_what_only_derivatives_read_is_gone() -> None:
    graph = Graph.trace(lambda x: ops.tanh(ops.stop_gradient(x)), (3,))
    assert [n.op.name for n in inline(graph).nodes] == ["tanh"]


def loop_over(w: Weight) -> Graph:
    """x = tanh(x * w), three times"""
    i, x = Value((), DType.i32), Value((3,))
    condition = Graph((i, x), (ops.less(i, 3),))
    j, y = Value((), DType.i32), Value((3,))
    body = Graph((j, y), (j + 1, ops.tanh(y * w)))
    start = Constant(np.int32(0))
    return Graph((X,), (OPS["while_loop"](start, X, condition=condition, body=body)[1],))


def test_leaves_are_replaced_in_loops_and_in_functions_that_call_themselves() -> None:
    old = Weight(np.ones(3, np.float32), name="old")
    new = Weight(np.full(3, 2, np.float32), name="new")
    graph = loop_over(old)
    assert set(inner_leaves(graph)) >= {old}
    after = Replacer({old: new}).graph(graph)
    assert after.weights == (new,)
    assert graph.weights == (old,)
    f = countdown()
    same = Replacer({old: new}).graph(Graph((X,), calls(f, X, Constant(np.int32(2)))))
    assert same.nodes[0].attrs["body"] is f


def test_a_weight_of_a_loop_that_changes_between_runs_is_seen() -> None:
    w = Weight(np.full(3, 0.5, np.float32), name="w")
    graph = loop_over(w)
    x = np.ones(3, np.float32)
    program = Program(graph, kernels="ref", passes=PASSES)
    for scale in (0.5, 1.5):
        w.data = np.full(3, scale, np.float32)
        (y,), _ = program([x], [w.data])
        np.testing.assert_allclose(y, run(graph, x)[0], rtol=1e-6)


def test_folding_gives_the_bits_that_the_kernels_would_have_given() -> None:
    numbers = Constant(np.linspace(-3, 3, 50, dtype=np.float32))
    x = Value((50,))
    graph = Graph((x,), (x + ops.tanh(ops.exp(numbers)),))
    with modes.using(kernels="ref"):
        after = optimized(graph)
        assert [n.op.name for n in after.nodes] == ["add"]
        zeros = [np.zeros(50, np.float32)]
        assert bits(after, zeros) == bits(graph, zeros)


def test_folding_a_fused_program_gives_the_bits_of_its_kernel() -> None:
    def fused(x: Value) -> Value:
        return ops.exp(-x) * 0.5 + 1.0

    shape = (64,)
    (y,) = fuse_elementwise(Graph.trace(fused, shape)).outputs
    program = y.node.attrs["program"]
    numbers = Constant(np.linspace(-3, 3, 64, dtype=np.float32))
    x = Value(shape)
    graph = Graph((x,), (x + ops.fused_elementwise(numbers, program=program)[0],))
    with modes.using(kernels="ref"):
        zeros = [np.zeros(shape, np.float32)]
        assert bits(optimized(graph), zeros) == bits(graph, zeros)
