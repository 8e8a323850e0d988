"""Graphs printed as Python: the text runs by itself and gives the graph's numbers."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from cloud import ops
from cloud.autodiff import vjp
from cloud.emit import MOST_INLINE, python_source
from cloud.interpreter import run
from ir.cases import samples
from ir.dtype import DType
from ir.graph import Constant, Graph, Value, Weight
from ir.op import Case, Op
from ir.symbol import symbol
from tests.control_graphs import called, even_and_odd_steps, power, repeated, square_root, tree
from tests.helpers import sample_arrays64, sample_graph
from tests.lite_runtime.found_models import collecting_loop, rows_graph
from tests.random_control import random_control_graph

FLOAT_SAMPLES = [
    pytest.param(op, case, id=f"{op.name}[{case}]")
    for op, case in samples()
    if not op.gives_tuple and op.name not in ("empty_tape", "push")
]  # tapes stay inside


def compiled(source: str, name: str = "f") -> Callable[..., Any]:
    """The function that a text defines by itself."""
    scope: dict[str, Any] = {"__name__": "emitted"}
    exec(source, scope)
    return scope[name]  # type: ignore[no-any-return]


@pytest.mark.parametrize(("op", "case"), FLOAT_SAMPLES)
def test_the_text_of_every_sample_gives_the_graphs_numbers(op: Op, case: Case) -> None:
    graph = sample_graph(op, case)
    arrays = sample_arrays64(op, case)
    y = compiled(python_source(graph, "f"))(*arrays)
    np.testing.assert_array_equal(y, run(graph, *arrays)[0])


def test_names_of_inputs_are_kept_and_made_fit_for_python() -> None:
    values = [Value((), name=n) for n in ("image", "conv.weight", "lambda", "np", "image", "2nd")]
    graph = Graph(tuple(values), (values[0] + values[5],))
    _, function = ast.parse(python_source(graph, "f")).body
    assert isinstance(function, ast.FunctionDef)
    names = [a.arg for a in function.args.args]
    assert names == ["image", "conv_weight", "_lambda", "np_1", "image_1", "_2nd"]


def test_weights_become_parameters_and_large_constants_stand_above() -> None:
    w = Weight(np.ones(2, np.float32), name="w")
    large = Constant(np.zeros(MOST_INLINE + 1, np.float32), name="table")
    graph = Graph.trace(lambda x: (x * w, large + 1.0), (2,))
    source = python_source(graph, "f")
    assert "\ndef f(input0, w):\n" in source
    assert "\ntable = np.array([0.0, 0.0" in source
    y, z = compiled(source)(np.ones(2), w.data)
    np.testing.assert_array_equal(y, [1, 1])
    np.testing.assert_array_equal(z, np.ones(MOST_INLINE + 1))


def test_small_constants_are_written_with_their_type() -> None:
    c = Constant([1.5, np.inf, np.nan], dtype=DType.f32)
    graph = Graph((), (c * c, Constant(2.0, dtype=DType.f32) * Constant(3.0, dtype=DType.f32)))
    y, z = compiled(python_source(graph, "f"))()
    np.testing.assert_array_equal(y, np.array([2.25, np.inf, np.nan], np.float32))
    assert y.dtype == np.float32
    assert (z, z.dtype) == (6, np.float32)


def test_an_operator_on_a_constant_alone_runs() -> None:
    graph = Graph((), (ops.broadcast_to(Constant(1.0, dtype=DType.f32), shape=(3,)),))
    np.testing.assert_array_equal(compiled(python_source(graph, "f"))(), np.ones(3))


def test_free_dimensions_are_read_from_the_inputs() -> None:
    n = symbol("n")
    graph = Graph.trace(lambda x: ops.reshape(x, shape=(n * 3,)), Value((n, 3), name="x"))
    y = compiled(python_source(graph, "f"))(np.zeros((4, 3)))
    assert y.shape == (12,)


def test_every_result_of_a_node_and_every_update_is_returned() -> None:
    w, m = (Weight(np.ones(2, np.float32), name=n, state=n == "m") for n in ("w", "m"))
    g, lr = Value((2,), name="g"), Value((), name="lr")
    new_w, new_m = ops.momentum_step(w, m, g, lr)
    graph = Graph((g, lr), (ops.reduce_sum(g, axes=(0,)),), ("loss",), ((w, new_w), (m, new_m)))
    loss, w1, m1 = compiled(python_source(graph, "f"))(np.ones(2), 0.5, np.ones(2), np.ones(2))
    assert loss == 2
    np.testing.assert_allclose(m1, [1.9, 1.9])
    np.testing.assert_allclose(w1, [0.05, 0.05])


CONTROL = {
    "newton": (square_root(), [np.float64(2)]),
    "loop": (repeated(3, lambda x: ops.sin(x) * x, (2,)), [np.array([0.5, 1.5])]),
    "power": (called(power), [np.int32(5), np.float64(1.5)]),
    "tree": (called(tree), [np.int32(5), np.float64(0.5)]),
    "even": (called(lambda: even_and_odd_steps()[0]), [np.int32(4), np.float64(0.5)]),
}


@pytest.mark.parametrize("name", CONTROL)
def test_control_flow_and_its_derivatives_are_python(name: str) -> None:
    graph, arrays = CONTROL[name]
    for _ in range(3):
        found = compiled(python_source(graph, "f"))(*arrays)
        wanted = run(graph, *arrays)
        for got, want in zip(found if len(wanted) > 1 else (found,), wanted, strict=True):
            np.testing.assert_array_equal(got, want)
        graph = vjp(graph)
        arrays = [*arrays, *map(np.ones_like, wanted)]


@pytest.mark.parametrize("seed", range(20))
def test_random_control_flow_and_its_derivative_run_as_python(seed: int) -> None:
    graph = random_control_graph(seed)
    rng = np.random.default_rng(seed)
    for each in (graph, vjp(graph)):
        weights = {w.name: w.data for w in each.weights}
        arrays = [rng.standard_normal(3) for _ in each.inputs]
        found = compiled(python_source(each, "f"))(*arrays, **weights)
        for got, want in zip(found, run(each, *arrays), strict=True):
            np.testing.assert_array_equal(got, want)


def test_a_loop_reads_like_one() -> None:
    source = python_source(repeated(5, ops.sin), "f")
    assert "while t0 < 5:" in source
    assert python_source(called(power), "f").count("def ") == 2
    assert "if n_1 > 0:" in python_source(called(power), "f")


def test_a_condition_that_reads_a_value_twice_is_computed_before_it_breaks() -> None:
    x, a = Value((), name="x"), Value(())
    sine = ops.sin(a)
    more = Graph((a,), (ops.less(sine * sine, Constant(0.5, dtype=DType.f32)),))
    graph = Graph((x,), ops.while_loop(x, condition=more, body=Graph((a,), (a + a,))))
    source = python_source(graph, "f")
    assert "while True:" in source
    assert compiled(source)(np.float64(0.1)) == run(graph, np.float64(0.1))[0]


@pytest.mark.parametrize("graph", [rows_graph(), collecting_loop(3)], ids=["entry", "loop"])
def test_sizes_that_a_run_finds_are_numbers_of_the_text(graph: Graph) -> None:
    x = np.random.default_rng(0).standard_normal((5, 3)).astype(np.float32)
    found = compiled(python_source(graph, "f"))(x)
    found = found if isinstance(found, tuple) else (found,)
    for y, want in zip(found, run(graph, x), strict=True):
        np.testing.assert_array_equal(y, want)
