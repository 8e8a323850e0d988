"""Random formulas: values as loops in Python give them, derivatives as differences do, and on the
runtime what numpy computes."""

from __future__ import annotations

import numpy as np
import pytest

import lite_runtime as lite
from cloud.autodiff import vjp
from cloud.formula import formula
from cloud.interpreter import run
from ir.graph import Array, Graph, Model, Value
from ir.model_file import write
from tests.cloud.formula.random_formulas import Sample, random_formula
from tests.helpers import GRAPH_TOLERANCE, check_vjp

SEEDS = (*range(150), 1582)  # the last: a sum that an equality of a place fixes


def graph_of(sample: Sample) -> Graph:
    f = formula(sample.text)
    named = {f"x{i}": Value(s, name=f"x{i}") for i, s in enumerate(sample.shapes)}
    y = f(*(named[n] for n in f.inputs))
    return Graph(tuple(named.values()), (y,), ("y",))


def arrays_of(sample: Sample) -> list[Array]:
    rng = np.random.default_rng(0)
    return [rng.standard_normal(s) for s in sample.shapes]


@pytest.mark.parametrize("seed", SEEDS)
def test_the_value_is_that_of_loops_in_python(seed: int) -> None:
    sample = random_formula(seed)
    (got,) = run(graph_of(sample), *arrays_of(sample))
    np.testing.assert_allclose(got, sample.brute(arrays_of(sample)), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("seed", SEEDS)
def test_derivatives_to_second_order_agree_with_differences(seed: int) -> None:
    sample, rng = random_formula(seed), np.random.default_rng(seed)
    first, arrays = check_vjp(graph_of(sample), arrays_of(sample), rng)
    check_vjp(first, arrays, rng)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_runtime_computes_what_numpy_does(seed: int) -> None:
    sample, rng = random_formula(seed), np.random.default_rng(seed)
    for graph in (graph_of(sample), vjp(graph_of(sample))):
        if not graph.outputs:
            continue
        arrays = [rng.standard_normal(v.shape).astype(np.float32) for v in graph.inputs]
        for i, v in enumerate(graph.inputs):
            v.name = f"in{i}"
        want = run(graph, *arrays)
        data = write(Model({"infer": graph}))
        feed = {f"in{i}": a for i, a in enumerate(arrays)}
        found = lite.load(data, threads=2).run(feed)
        for name, b in zip(graph.output_names, want, strict=True):
            a = found[name]
            largest = np.abs(b[np.isfinite(b)]).max(initial=1)
            np.testing.assert_allclose(a, b, rtol=0, atol=GRAPH_TOLERANCE * largest)
