"""Run a graph on numpy arrays with each operator's own reference: the slow truth.

It computes in the type of what it is given: float64 inputs and weights make a float64 oracle, one
that is exact to the last bits where the graph's constants are float64 too.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ir.errors import ShapeError
from ir.graph import Array, Constant, Graph, Shape, Value, Weight, shape_text
from ir.symbol import Expr, evaluate, symbols


def run(graph: Graph, *arrays: Array, weights: Mapping[Weight, Array] | None = None) -> list[Array]:
    """The graph's outputs. Raises ShapeError where an array does not fit its input."""
    return step(graph, *arrays, weights=weights)[0]


def step(
    graph: Graph, *arrays: Array, weights: Mapping[Weight, Array] | None = None
) -> tuple[list[Array], dict[Weight, Array]]:
    """The graph's outputs and the new arrays of the weights that it updates (which stay unchanged).

    `weights`: arrays to use instead of the weights' own data.
    """
    sizes = bind([v.shape for v in graph.inputs], [np.shape(a) for a in arrays])
    env: dict[Value, Array] = {}
    for v in graph.leaves:
        if isinstance(v, Weight):
            env[v] = (weights or {}).get(v, v.data)
        elif isinstance(v, Constant):
            env[v] = v.data
    env.update(zip(graph.inputs, map(np.asarray, arrays), strict=True))
    for node in graph.nodes:
        attrs = {k: _concrete(a, sizes) for k, a in node.attrs.items()}
        out = node.op.ref(*(None if v is None else env[v] for v in node.inputs), **attrs)
        env.update(zip(node.results, out if len(node.results) > 1 else (out,), strict=True))
    return [env[v] for v in graph.outputs], {w: env[new] for w, new in graph.updates}


def bind(declared: list[Shape], given: list[tuple[int, ...]]) -> dict[str, int]:
    """Sizes of the free dimensions, from shapes of the inputs. Raises ShapeError."""
    sizes: dict[str, int] = {}
    if len(declared) != len(given):
        raise ShapeError(f"{len(given)} inputs given, want {len(declared)}")
    for i, (want, have) in enumerate(zip(declared, given, strict=True)):
        if len(want) == len(have):
            for d, n in zip(want, have, strict=True):
                if isinstance(d, Expr) and str(d).isidentifier():
                    sizes.setdefault(str(d), n)
        fits = len(want) == len(have) and all(
            symbols(d) <= sizes.keys() and evaluate(d, sizes) == n
            for d, n in zip(want, have, strict=True)
        )
        if not fits:
            raise ShapeError(f"input {i} is {list(have)}, want {shape_text(want)} with {sizes}")
    return sizes


def _concrete(attr: Any, sizes: Mapping[str, int]) -> Any:
    if isinstance(attr, Expr):
        return evaluate(attr, sizes)
    if isinstance(attr, tuple):
        return tuple(evaluate(a, sizes) for a in attr)
    return attr
