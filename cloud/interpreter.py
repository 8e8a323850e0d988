"""Run a graph on numpy arrays with each operator's own reference: the slow truth.

It computes in the type of what it is given: float64 inputs and weights make a float64 oracle, one
that is exact to the last bits where the graph's constants are float64 too.
"""

from __future__ import annotations

from collections.abc import Mapping

from ir.evaluate import Seen, bind, evaluate
from ir.graph import Array, Graph, Weight

__all__ = ["bind", "run", "step"]


def run(
    graph: Graph,
    *arrays: Array,
    weights: Mapping[Weight, Array] | None = None,
    seen: Seen | None = None,
) -> list[Array]:
    """The graph's outputs. Raises ShapeError where an array does not fit its input.

    `seen(node, results)` is told of every node that ran, those inside of loops each time.
    """
    return evaluate(graph, arrays, weights=weights, seen=seen)[: len(graph.outputs)]


def step(
    graph: Graph, *arrays: Array, weights: Mapping[Weight, Array] | None = None
) -> tuple[list[Array], dict[Weight, Array]]:
    """The graph's outputs and the new arrays of the weights that it updates (which stay unchanged).

    `weights`: arrays to use instead of the weights' own data.
    """
    roots = evaluate(graph, arrays, weights=weights)
    n = len(graph.outputs)
    return roots[:n], {w: new for (w, _), new in zip(graph.updates, roots[n:], strict=True)}
