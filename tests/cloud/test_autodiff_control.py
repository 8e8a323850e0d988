"""Reverse mode through loops, branches and recursion: right, to any order, and lean."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from cloud import grad, modes, ops
from cloud.autodiff import (
    differentiated_again,
    gradients,
    ones_like,
    remat,
    value_and_gradients,
    vjp,
)
from cloud.interpreter import run
from ir import model_file
from ir.dtype import DType
from ir.graph import Array, Constant, Function, Graph, Model, Node, Value, Weight, substitute
from ir.symbol import symbol
from ir.text import parse_text, to_text
from ir.verify import same_graph, verify
from ir.walk import walk
from tests.control_graphs import (
    even_and_odd_steps,
    i32,
    number,
    power,
    power_by_loop,
    repeated,
    square_root,
    tree,
)
from tests.helpers import check_vjp
from tests.random_control import random_control_graph


def names(graph: Graph) -> Counter[str]:
    """How often each operator stands in a graph and all that it reaches."""
    return Counter(n.op.name for g in walk([graph]) for n in g.nodes)


def gradient(graph: Graph) -> Graph:
    """Of the first output with respect to the first float input; other inputs stay."""
    x = next(v for v in graph.inputs if v.dtype.is_float)
    y = graph.outputs[0]
    return Graph(graph.inputs, tuple(gradients([y], [ones_like(y)], [x])))


@pytest.mark.parametrize("seed", range(40))
def test_random_control_flow_agrees_with_differences_to_second_order(seed: int) -> None:
    graph = random_control_graph(seed)
    rng = np.random.default_rng(seed)
    back, given = check_vjp(graph, [rng.standard_normal(3) for _ in graph.inputs], rng)
    verify(back)
    again, _ = check_vjp(back, given, rng)
    verify(again)


@pytest.mark.parametrize("seed", range(0, 40, 2))
def test_what_is_differentiated_again_agrees_with_differences_to_third_order(seed: int) -> None:
    graph = random_control_graph(seed)
    rng = np.random.default_rng(seed)
    given = [rng.standard_normal(3) for _ in graph.inputs]
    with differentiated_again():
        for _ in range(2):
            graph, given = check_vjp(graph, given, rng)
            verify(graph)
    check_vjp(graph, given, rng)


@pytest.mark.parametrize("seed", range(40, 50))
def test_gradients_of_weights_in_bodies_agree_with_differences(seed: int) -> None:
    graph = random_control_graph(seed, statements=5)
    if not graph.weights:
        pytest.skip("no statement reads a weight")
    rng = np.random.default_rng(seed)
    xs = [rng.standard_normal(3) for _ in graph.inputs]
    found = gradients(graph.outputs, [ones_like(y) for y in graph.outputs], graph.weights)
    data = {w: w.data.astype(np.float64) for w in graph.weights}
    along = {w: rng.standard_normal(w.data.shape) for w in data}
    up, down = (
        sum(
            float(y.sum())
            for y in run(graph, *xs, weights={w: a + h * along[w] for w, a in data.items()})
        )
        for h in (1e-6, -1e-6)
    )
    got = run(Graph(graph.inputs, tuple(found)), *xs, weights=data)
    terms = [float(np.vdot(g, along[w])) for g, w in zip(got, data, strict=True)]
    assert sum(terms) == pytest.approx((up - down) / 2e-6, abs=1e-5 * (1 + sum(map(abs, terms))))


@pytest.mark.parametrize("make", [power_by_loop, power])
def test_the_third_derivative_of_a_loop_and_of_a_recursion(make) -> None:
    n, x = i32("n"), Value((), name="x")
    graph = Graph((n, x), ops.call(n, x, body=make()))
    for order in range(1, 4):
        graph = gradient(graph)
        verify(graph)
        want = np.prod([7 - k for k in range(order)]) * 1.5 ** (7 - order)
        assert run(graph, np.int32(7), np.float64(1.5))[0] == pytest.approx(want, rel=1e-12)


def test_a_data_dependent_loop_has_the_derivative_of_what_it_converges_to() -> None:
    graph = gradient(square_root())
    for x in (0.3, 2.0, 50.0):
        assert run(graph, np.float64(x))[0] == pytest.approx(0.5 / np.sqrt(x), rel=1e-6)


def test_recursion_that_branches_like_a_tree_agrees_with_differences() -> None:
    n, x = i32("n"), Value((), name="x")
    graph = Graph((n, x), ops.call(n, x, body=tree()))
    rng = np.random.default_rng(0)
    back, given = check_vjp(graph, [np.int32(6), np.float64(0.7)], rng)
    again, given = check_vjp(back, given, rng)
    check_vjp(again, given, rng)


@pytest.mark.parametrize("n", [0, 1, 5])
def test_mutual_recursion_agrees_with_differences(n: int) -> None:
    even, _ = even_and_odd_steps()
    count, x = i32("n"), Value((), name="x")
    graph = Graph((count, x), ops.call(count, x, body=even))
    rng = np.random.default_rng(n)
    back, given = check_vjp(graph, [np.int32(n), np.float64(0.7)], rng)
    check_vjp(back, given, rng)


def test_the_size_of_a_derivative_does_not_depend_on_the_number_of_turns() -> None:
    sizes = []
    for turns in (10, 10_000):
        graph = repeated(turns, lambda x: ops.sin(x) * x)
        first = gradient(graph)
        sizes.append([sum(names(g).values()) for g in (graph, first, gradient(first))])
    assert sizes[0] == sizes[1]
    assert sizes[0][1] < 40


def test_a_hundred_thousand_turns_overflow_nothing() -> None:
    graph = gradient(repeated(100_000, lambda x: x + ops.sin(x) * Constant(np.float32(1e-5))))
    y = np.float64(1)
    slope = 1.0
    for _ in range(100_000):
        slope *= 1 + np.float64(np.float32(1e-5)) * np.cos(y)
        y += np.float64(np.float32(1e-5)) * np.sin(y)
    assert run(graph, np.float64(1))[0] == pytest.approx(slope, rel=1e-9)


def test_a_recursion_of_thousands_of_calls_overflows_nothing() -> None:
    n, x = i32("n"), Value((), name="x")
    graph = gradient(Graph((n, x), ops.call(n, x, body=power())))
    assert run(graph, np.int32(3000), np.float64(1))[0] == 3000


def pushed(graph: Graph) -> list[str]:
    """What is pushed anywhere: the operators that give it, or `state` for inputs of sub-graphs."""
    found = [n.inputs[1] for g in walk([graph]) for n in g.nodes if n.op.name == "push"]
    return sorted(v.node.op.name if v is not None and v.node else "state" for v in found)


def test_cheap_values_are_computed_again_from_a_state_that_is_kept() -> None:
    graph = repeated(5, lambda x: ops.sin(x) * ops.cos(x) + ops.tanh(x))
    assert pushed(gradient(graph)) == ["state"]


def test_what_is_dear_to_compute_is_kept() -> None:
    w = Weight(np.eye(3, dtype=np.float32), name="w")
    graph = repeated(5, lambda x: ops.tanh(ops.matmul(x, w)), (4, 3))
    y = graph.outputs[0]
    back = Graph(graph.inputs, tuple(gradients([y], [ones_like(y)], [w])))
    assert len(pushed(back)) == 2  # x, for the cotangent of w, and what the slope of tanh needs
    assert names(back)["matmul"] == 3  # once forward, once for each cotangent


def test_what_a_linear_loop_needs_is_nothing() -> None:
    graph = gradient(repeated(5, lambda x: x + x))
    assert not {"push", "pop", "empty_tape"} & names(graph).keys()


def fixed_loop() -> tuple[Graph, Value, Value]:
    """x turned by `sin(x) * scale` for four turns, where the scale is a state that stays."""
    x, scale = Value((3,), name="x"), Value((3,), name="scale")
    i, a, b = i32(), Value((3,)), Value((3,))
    body = Graph((i, a, b), (i + number(1), ops.sin(a) * ops.exp(b), b))
    below = Graph((i, a, b), (ops.less(i, number(4)),))
    y = ops.while_loop(number(0), x, scale, condition=below, body=body)[1]
    return Graph((x, scale), (y,)), x, scale


def test_state_that_stays_the_same_is_not_pushed_at_each_turn() -> None:
    graph, x, scale = fixed_loop()
    y = graph.outputs[0]
    for wrt in ([x], [scale], [x, scale]):
        back = Graph(graph.inputs, tuple(gradients([y], [ones_like(y)], wrt)))
        assert len(pushed(back)) == 1  # of x
        assert backward_loop(back).inputs[-1] is scale
    rng = np.random.default_rng(0)
    check_vjp(graph, [rng.standard_normal(3) for _ in range(2)], rng)


def backward_loop(graph: Graph) -> Node:
    """The loop that pops."""
    return next(
        n
        for n in graph.nodes
        if n.op.name == "while_loop" and any(m.op.name == "pop" for m in n.attrs["body"].nodes)
    )


def test_only_state_that_matters_gets_cotangents() -> None:
    graph, x, scale = fixed_loop()
    y = graph.outputs[0]
    sizes = []
    for wrt in ([x], [scale], [x, scale]):
        (*_, g) = gradients([y], [ones_like(y)], wrt)
        sizes.append(len(backward_loop(Graph(graph.inputs, (g,))).results))
    # tape, turns and scale, then one cotangent of x, and one of scale where it is wanted
    assert sizes == [4, 5, 5]


def test_a_float_that_counts_gets_no_cotangent() -> None:
    x, t, a = Value((), name="x"), Value(()), Value(())
    one = Constant(1.0, dtype=DType.f32)
    body = Graph((t, a), (t + one, ops.sin(a) * t))
    below = Graph((t, a), (ops.less(t, Constant(5.0, dtype=DType.f32)),))
    y = ops.while_loop(one, x, condition=below, body=body)[1]
    (g,) = gradients([y], [ones_like(y)], [x])
    assert len(backward_loop(Graph((x,), (g,))).results) == 3  # tape, turns, cotangent of a


def test_stop_gradient_prunes_inside_of_a_loop() -> None:
    graph = repeated(3, lambda x: x * ops.stop_gradient(ops.erf(ops.sin(x))))
    back = gradient(graph)
    assert names(back)["cos"] == 0
    x = np.float64(0.4)
    want = y = 1.0
    y = x
    for _ in range(3):
        factor = run(Graph.trace(lambda v: ops.erf(ops.sin(v)), ()), y)[0]
        want, y = want * factor, y * factor
    assert run(back, x)[0] == pytest.approx(want, rel=1e-12)


def test_straight_code_and_functions_that_do_not_recur_touch_no_tape() -> None:
    f = Function.of("f", Graph.trace(lambda x: ops.sin(x) * x, ()))
    graph = gradient(Graph.trace(lambda x: ops.call(ops.exp(x), body=f)[0], ()))
    assert not {"push", "pop", "empty_tape", "call"} & names(graph).keys()


def executed(graph: Graph, *arrays: Array) -> Counter[str]:
    counts: Counter[str] = Counter()
    run(graph, *arrays, seen=lambda node, _: counts.update([node.op.name]))
    return counts


def test_value_and_gradient_run_a_loop_once() -> None:
    graph = repeated(10, ops.sin)
    y = graph.outputs[0]
    (value,), (g,) = value_and_gradients([y], [ones_like(y)], graph.inputs)
    both = Graph(graph.inputs, (value, g))
    assert executed(both, np.float64(0.5))["sin"] == 10
    assert run(both, np.float64(0.5))[0] == run(graph, np.float64(0.5))[0]


def most_on_a_tape(graph: Graph, *arrays: Array) -> int:
    """The height of the highest tape while the graph runs."""
    heights: dict[int, int] = {}
    keep = []

    def seen(node: Node, results) -> None:
        if node.op.name == "push":
            item = results[0][()]
            keep.append(item)  # so that no two have one address
            heights[id(item)] = 1 + (heights[id(item[1])] if item[1] else 0)

    run(graph, *arrays, seen=seen)
    return max(heights.values())


@pytest.mark.parametrize(("every", "height"), [(1, 100), (10, 20), (7, 30), (200, 101)])
def test_remat_keeps_each_kth_state_and_gives_the_same_bits(every: int, height: int) -> None:
    """A state is a counter and x; of what lies between two of them x alone is kept for a while."""
    plain = repeated(100, lambda x: ops.sin(x) + x)
    (x0,) = plain.inputs
    f = remat(lambda x: substitute(plain.outputs, {x0: x})[0], every=every)
    sparse = Graph.trace(f, Value((), name="x"))
    x = np.float64(0.3)
    want, got = (run(gradient(g), x)[0] for g in (plain, sparse))
    assert got == want
    assert most_on_a_tape(gradient(sparse), x) == height
    second, twice = (run(gradient(gradient(g)), x)[0] for g in (plain, sparse))
    assert twice == pytest.approx(second, rel=1e-12)


def test_remat_bounds_what_a_second_derivative_keeps_too() -> None:
    plain = repeated(200, lambda x: ops.sin(x) + x)
    (x0,) = plain.inputs
    f = remat(lambda x: substitute(plain.outputs, {x0: x})[0], every=15)
    sparse = Graph.trace(f, Value((), name="x"))
    x = np.float64(0.3)
    assert most_on_a_tape(gradient(gradient(plain)), x) >= 400
    assert most_on_a_tape(gradient(gradient(sparse)), x) < 150


@pytest.mark.parametrize("mode", modes.MODES)
def test_remat_of_a_condition_is_refused_not_true_for_ever(mode: str) -> None:
    def f(x: Value) -> Value:
        while remat(x > 1):  # type: ignore[arg-type,operator]
            x = x * 0.5
        return x

    with modes.using(mode=mode), pytest.raises(Exception, match=r"autodiff.remat: .*cloud.remat"):
        grad(f)(8.0)


def test_remat_of_a_function_keeps_its_inputs_alone() -> None:
    w = Weight(np.float32(1.5), name="w")

    def block(x: Value) -> Value:
        return ops.reduce_sum(ops.exp(ops.sin(x) * w), axes=())

    plain = Graph.trace(lambda x: ops.cos(block(block(x))), ())
    light = Graph.trace(lambda x: ops.cos(remat(block)(remat(block)(x))), ())
    x = np.float64(0.3)
    for wrt in (lambda g: g.inputs, lambda g: g.weights):
        made = [
            Graph(g.inputs, tuple(gradients(g.outputs, [ones_like(g.outputs[0])], wrt(g))))
            for g in (plain, light)
        ]
        a, b = (run(g, x)[0] for g in made)
        assert a == b
        assert executed(made[1], x)["exp"] > executed(made[0], x)["exp"]
    check_vjp(vjp(light), [x, np.float64(1)], np.random.default_rng(0))


def test_remat_takes_outer_values_as_operands() -> None:
    def f(x: Value) -> Value:
        outer = ops.exp(x)
        return remat(lambda y: ops.sin(y * outer))(x * x)

    rng = np.random.default_rng(0)
    graph = Graph.trace(f, (2,))
    verify(graph)
    check_vjp(graph, [rng.standard_normal(2)], rng)


@pytest.mark.parametrize("make", [power, power_by_loop, tree])
def test_derivatives_of_recursive_models_come_back_from_file_and_text(make) -> None:
    n, x = i32("n"), Value((), name="x")
    graph = gradient(Graph((n, x), ops.call(n, x, body=make())))
    read = model_file.read(model_file.write(Model({"f": graph}))).entries["f"]
    parsed = parse_text(to_text(graph))
    given = np.int32(4), np.float32(1.5)
    for again in (read, parsed):
        assert same_graph(again, graph)
        assert run(again, *given)[0] == run(graph, *given)[0]


def test_free_dimensions_stay_free_inside_of_loops() -> None:
    n = symbol("n")
    x, i, a = Value((n, 2), name="x"), i32(), Value((n, 2))
    below = Graph((i, a), (ops.less(i, number(3)),))
    body = Graph((i, a), (i + number(1), ops.sin(a) * ops.reduce_mean(a, axes=(0,))))
    graph = Graph((x,), ops.while_loop(number(0), x, condition=below, body=body)[1:])
    back = vjp(graph)
    verify(back)
    rng = np.random.default_rng(0)
    for rows in (1, 4):
        arrays = [rng.standard_normal((rows, 2))]
        g = rng.standard_normal((rows, 2))
        t = rng.standard_normal((rows, 2))
        up, down = (run(graph, arrays[0] + h * t)[0] for h in (1e-6, -1e-6))
        got = np.vdot(run(back, *arrays, g)[0], t)
        assert got == pytest.approx(np.vdot(g, (up - down) / 2e-6), rel=1e-5)
    assert same_graph(model_file.read(model_file.write(Model({"f": back}))).entries["f"], back)


def test_a_gradient_of_ones_own_is_used_inside_of_a_loop() -> None:
    def step(x: Value) -> Value:
        y, g = ops.exp(ops.sin(x)), Value(())
        triple = Graph((g,), (g * Constant(np.float32(3)),))
        return ops.with_gradient(y, x, results=1, backward=triple)[0]

    back = gradient(repeated(4, step))
    assert run(back, np.float64(0.3))[0] == 81
    assert not {"push", "pop"} & names(back).keys()
