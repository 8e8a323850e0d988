"""Fixed random examples, and an operator with a sub-graph for tests of graphs inside of graphs."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import settings

from cloud.interpreter import run
from ir.graph import Array, Graph
from ir.op import NO_GRAD, OPS, Op, op

EMPTY = Graph((), ())

settings.register_profile("fixed", derandomize=True)
settings.load_profile("fixed")


@pytest.fixture
def apply_op() -> Iterator[Op]:
    """`apply(x, body=graph, times=n)`: in the table only while the test runs."""

    def apply(x: Array, *, body: Graph = EMPTY, times: int = 1) -> Array:
        """y = body(body(… x))"""
        for _ in range(times):
            (x,) = run(body, x)
        return np.asarray(x)

    yield op(code=60_000, shape=lambda x, **_: x, samples=(), grad=NO_GRAD)(apply)
    del OPS["apply"]
