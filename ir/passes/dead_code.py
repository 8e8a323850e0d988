"""What nothing needs is left out."""

from __future__ import annotations

from ir.graph import Graph
from ir.passes.rewrite import everywhere


@everywhere
def dead_code(graph: Graph) -> Graph:
    """The graph, and its sub-graphs, without nodes that no output and no update needs.

    An update that gives a weight its own value is left out as well. Inputs stay, read or not: they
    are how the graph is called.
    """
    updates = tuple((w, new) for w, new in graph.updates if new is not w)
    return Graph(graph.inputs, graph.outputs, graph.output_names, updates)
