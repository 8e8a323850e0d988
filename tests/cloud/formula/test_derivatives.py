"""Formulas and their derivatives to second order beside PyTorch's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import lite_runtime as lite
from cloud.autodiff import vjp
from cloud.emit import python_source
from cloud.interpreter import run
from ir.graph import Array, Graph, Model, Value, substitute
from ir.model_file import write
from ir.verify import verify
from tests.cloud.formula.operators import CASES, Case
from tests.helpers import check_vjp

TOLERANCE = 1e-6  # numbers in programs are float32
TOLERANCE_F32 = 2e-5  # relative to the largest element


def graph_of(case: Case) -> Graph:
    values = tuple(Value(s, name=f"x{i}") for i, s in enumerate(case.shapes))
    return Graph(values, (case.ours(*values, **case.attrs),), ("y",))


def arrays_of(case: Case) -> list[Array]:
    rng = np.random.default_rng(0)
    return [rng.standard_normal(s) for s in case.shapes]


@pytest.mark.parametrize("name", CASES)
def test_values_and_gradients_are_those_of_pytorch(name: str) -> None:
    case = CASES[name]
    graph, arrays = graph_of(case), arrays_of(case)
    tensors = [torch.tensor(a, requires_grad=True) for a in arrays]
    want = case.theirs(*tensors)
    (got,) = run(graph, *arrays)
    assert got.shape == tuple(want.shape)
    np.testing.assert_allclose(got, want.detach().numpy(), rtol=0, atol=TOLERANCE)

    g = np.random.default_rng(1).standard_normal(got.shape)
    slopes = torch.autograd.grad(want, tensors, torch.tensor(g), create_graph=True)
    back = vjp(graph)
    verify(back)
    for a, b in zip(run(back, *arrays, g), slopes, strict=True):
        np.testing.assert_allclose(a, b.detach().numpy(), rtol=0, atol=TOLERANCE)


@pytest.mark.parametrize("name", CASES)
def test_second_derivatives_agree_with_finite_differences(name: str) -> None:
    case, rng = CASES[name], np.random.default_rng(2)
    first, arrays = check_vjp(graph_of(case), arrays_of(case), rng)
    second, _ = check_vjp(first, arrays, rng)
    verify(second)


@pytest.mark.parametrize("name", CASES)
def test_the_runtime_computes_what_numpy_does(name: str) -> None:
    """The formula, its gradient and the gradient of that, from a file, on one thread and on two."""
    case, rng = CASES[name], np.random.default_rng(3)
    first = vjp(graph_of(case))
    second = vjp(first)
    for graph in (graph_of(case), first, second):
        inputs = tuple(Value(v.shape, v.dtype, name=f"in{i}") for i, v in enumerate(graph.inputs))
        outputs = Graph(inputs, tuple(_on(graph, inputs)))
        feed = {str(v.name): rng.standard_normal(v.shape).astype(np.float32) for v in inputs}
        want = run(outputs, *(a.astype(np.float64) for a in feed.values()))
        data = write(Model({"infer": outputs}))
        found = [lite.load(data, threads=n).run(feed) for n in (1, 2)]
        for key, b in zip(outputs.output_names, want, strict=True):
            one, two = (np.asarray(f[key] if isinstance(f, dict) else f) for f in found)
            assert one.tobytes() == two.tobytes()
            atol = TOLERANCE_F32 * max(1.0, float(np.abs(b).max(initial=0)))
            np.testing.assert_allclose(one, b, rtol=0, atol=atol)


@pytest.mark.parametrize("name", CASES)
def test_the_gradient_as_source_is_loops_of_python(name: str) -> None:
    case, rng = CASES[name], np.random.default_rng(4)
    back = vjp(graph_of(case))
    source = python_source(back, "pulled")
    scope: dict[str, Any] = {}
    exec(source, scope)
    arrays = [rng.standard_normal(v.shape) for v in back.inputs]
    found = scope["pulled"](*arrays)
    found = (found,) if len(back.outputs) == 1 else found
    for a, b in zip(found, run(back, *arrays), strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=TOLERANCE)


def _on(graph: Graph, inputs: tuple[Value, ...]) -> tuple[Value, ...]:
    return substitute(graph.outputs, dict(zip(graph.inputs, inputs, strict=True)))
