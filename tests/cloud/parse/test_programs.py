"""Every small program gives as a graph what Python gives, and its gradient is its slope."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from cloud import interpreter, parse
from cloud.differentiate import grad
from cloud.transform import Traced
from cloud.trees import is_float, leaves
from ir.graph import Graph
from tests.cloud.parse.programs import PROGRAMS

CASES = [
    pytest.param(f, args, id=f"{f.__name__}-{i}")
    for f, cases in PROGRAMS
    for i, args in enumerate(cases)
]
STEP = 1e-6


def as_graph(f: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    """f's result, computed by the graph that it becomes."""
    traced = Traced.of(f, args, {})
    outputs = [v for v in leaves(traced.result) if not isinstance(v, (bool, int, str))]
    return interpreter.run(Graph(tuple(traced.values), tuple(outputs)), *traced.data)[0]


@pytest.mark.parametrize(("f", "args"), CASES)
def test_a_program_gives_what_python_gives(f: Callable[..., Any], args: tuple[Any, ...]) -> None:
    np.testing.assert_allclose(as_graph(f, args), f(*args), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("f", "args"), CASES)
def test_the_gradient_of_a_program_is_its_slope(
    f: Callable[..., Any], args: tuple[Any, ...]
) -> None:
    wrt = tuple(i for i, a in enumerate(args) if is_float(a))
    found = grad(f, wrt)(*args)
    rng = np.random.default_rng(0)
    tangents = {i: rng.standard_normal(np.shape(args[i])) for i in wrt}

    def along(t: float) -> Any:
        return f(*(a + t * tangents[i] if i in wrt else a for i, a in enumerate(args)))

    want = (along(STEP) - along(-STEP)) / (2 * STEP)
    have = sum(np.vdot(g, tangents[i]) for g, i in zip(found, wrt, strict=True))
    scale = max(abs(float(np.vdot(g, tangents[i]))) for g, i in zip(found, wrt, strict=True)) + 1
    np.testing.assert_allclose(have, want, rtol=1e-6, atol=2e-7 * scale)


def test_parse_call_runs_plain_functions_on_numbers_too() -> None:
    assert parse.call(lambda x, y=2: x * y, 3.0) == 6
