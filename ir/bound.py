"""Sizes that a graph learns while it runs: which nodes bind them, which ones speak of them.

`bind_sizes` (ir/ops/sizes.py) gives free dimensions the values of integers. A node that speaks of
such a size, in a shape or an attribute, runs behind the node that binds it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from ir.symbol import Dim, Expr, symbols
from ir.walk import walk

if TYPE_CHECKING:
    from ir.graph import Graph, Node

BINDER = "bind_sizes"  # the operator


def bound_by(node: Node) -> tuple[str, ...]:
    """The free dimensions that a node binds; those of its sub-graphs are theirs."""
    return tuple(map(str, node.attrs["sizes"])) if node.op.name == BINDER else ()


def bound_in(graph: Graph) -> tuple[str, ...]:
    """The free dimensions that a graph binds itself."""
    return tuple(name for node in graph.nodes for name in bound_by(node))


def bound_below(graphs: Iterable[Graph]) -> frozenset[str]:
    """The free dimensions that the graphs, or any that they reach, bind."""
    return frozenset(name for graph in walk(graphs) for name in bound_in(graph))


def spoken_of(node: Node) -> set[str]:
    """The free dimensions in a node's shapes and attributes, and in its sub-graphs."""
    return set().union(*map(symbols, _sizes(node)))


def binders(nodes: Iterable[Node]) -> Mapping[str, Node]:
    """From each free dimension that the nodes bind to the node that does."""
    return {name: node for node in nodes for name in bound_by(node)}


def _sizes(node: Node) -> list[Dim]:
    found = own_sizes(node)
    for graph in walk(node.subgraphs()):
        found += [d for v in graph.inputs for d in v.shape]
        found += [d for inner in graph.nodes for d in own_sizes(inner)]
    return found


def own_sizes(node: Node) -> list[Dim]:
    """The sizes in a node's results and attributes, numbers among them."""
    found: list[Dim] = [d for v in node.results for d in v.shape]
    for attr in node.attrs.values():
        found += [d for d in _listed(attr) if isinstance(d, Expr)]
    return found


def _listed(attr: Any) -> tuple[Any, ...]:
    return attr if isinstance(attr, tuple) else (attr,)
