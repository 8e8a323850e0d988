"""Graphs printed as Python: the text runs by itself and gives the graph's numbers."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from cloud import ops
from cloud.emit import MOST_INLINE, python_source
from cloud.interpreter import run
from ir.cases import samples
from ir.dtype import DType
from ir.graph import Constant, Graph, Value, Weight
from ir.op import Case, Op
from ir.symbol import symbol
from tests.helpers import sample_arrays64, sample_graph

FLOAT_SAMPLES = [
    pytest.param(op, case, id=f"{op.name}[{case}]")
    for op, case in samples()
    if len(op.results) == 1
]


def compiled(source: str, name: str = "f") -> Callable[..., Any]:
    """The function that a text defines when it sees `np` and `ops` alone."""
    scope: dict[str, Any] = {"np": np, "ops": ops}
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
    (function,) = ast.parse(python_source(graph, "f")).body
    assert isinstance(function, ast.FunctionDef)
    names = [a.arg for a in function.args.args]
    assert names == ["image", "conv_weight", "_lambda", "np_1", "image_1", "_2nd"]


def test_weights_and_large_constants_become_parameters() -> None:
    w = Weight(np.ones(2, np.float32), name="w")
    large = Constant(np.zeros(MOST_INLINE + 1, np.float32), name="table")
    graph = Graph.trace(lambda x: (x * w, large + 1.0), (2,))
    source = python_source(graph, "f")
    assert source.startswith("def f(input0, w, table):")
    y, z = compiled(source)(np.ones(2), w.data, large.data)
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


def test_a_power_is_written_as_one_and_a_negative_base_in_parentheses() -> None:
    x = Value((), name="x")
    graph = Graph((x,), (x**2.0, ops.pow(Constant(np.float32(-2.0)), x)))
    text = python_source(graph, "f")
    assert "x ** 2.0" in text
    assert "(-2.0) ** x" in text
