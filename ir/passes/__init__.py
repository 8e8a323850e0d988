"""Passes: one file, one function, graph in, graph out, the same function computed."""

from collections.abc import Callable, Sequence

from ir.graph import Graph
from ir.passes.common_subexpression import common_subexpression
from ir.passes.constant_folding import constant_folding
from ir.passes.dead_code import dead_code

Pass = Callable[[Graph], Graph]

__all__ = ["Pass", "applied", "common_subexpression", "constant_folding", "dead_code"]


def applied(passes: Sequence[Pass], graph: Graph) -> Graph:
    """The graph after the passes, in order."""
    for change in passes:
        graph = change(graph)
    return graph
