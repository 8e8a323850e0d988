"""The graphs inside of graphs: sub-graphs of nodes and bodies of functions, each visited once."""

from __future__ import annotations

from collections.abc import Iterable

from ir.graph import Function, Graph


def walk(graphs: Iterable[Graph]) -> tuple[Graph, ...]:
    """The graphs and all that they reach, sub-graphs and bodies of functions, each once."""
    found: dict[Graph, None] = {}
    stack = list(reversed(tuple(graphs)))
    while stack:
        graph = stack.pop()
        if graph not in found:
            found[graph] = None
            stack += reversed([s for n in graph.nodes for s in n.subgraphs()])
    return tuple(found)


def inner_first(graph: Graph) -> list[Graph]:
    """The graph behind those that are its attributes, and theirs; bodies of functions left out."""
    found: dict[Graph, None] = {}
    stack = [(graph, False)]
    while stack:
        inner, ready = stack.pop()
        if inner in found:
            continue
        if ready:
            found[inner] = None
            continue
        stack.append((inner, True))
        direct = (a for n in inner.nodes for a in n.attrs.values() if isinstance(a, Graph))
        stack += [(a, False) for a in reversed(list(direct))]
    return list(found)


def functions(graph: Graph) -> tuple[Function, ...]:
    """Every function that the graph reaches, each once, in order of use."""
    nodes = (n for g in walk([graph]) for n in g.nodes)
    return tuple(dict.fromkeys(f for n in nodes for f in n.functions()))
