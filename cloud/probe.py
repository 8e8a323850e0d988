"""Looking inside: what a node or a part of a graph gives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cloud.execute import run
from cloud.jit import trace
from ir.errors import GraphError
from ir.graph import Array, Constant, Graph, Node, Value, Weight, substitute
from ir.walk import walk


def run_until(target: Any, node: Node | Value | str | int, *args: Any) -> Array | tuple[Array, ...]:
    """What one node inside of a graph, or of a function of `args`, gives: a tuple of arrays where
    the node has several results.

    `target`: a graph, or a function that is traced. `node`: a node or a value of the graph, the
    name of a value, the number of a node in order, an operator's name (its first node; "relu.2" is
    its third), or the place in the source, "file.py:12" or a module's path (the last node from
    there). Only what it needs is run. Raises GraphError where there is no such node, and for one
    that a loop, a branch or a function of the graph runs inside.
    """
    graph, arrays = _graph_of(target, args)
    found = _find(graph, node)
    values = found.results if isinstance(found, Node) else (found,)
    outputs = run(Graph(graph.inputs, values), *arrays)
    return outputs[0] if len(outputs) == 1 else tuple(outputs)


def run_subgraph(
    graph: Graph, inputs: Mapping[Value, Any], outputs: Sequence[Value]
) -> list[Array]:
    """`outputs`, any values of the graph, from arrays for any values of it (`inputs`).

    What lies before those values does not run. Raises GraphError where an output needs an input of
    the graph that is not given.
    """
    fresh = {v: Value(v.shape, v.dtype) for v in inputs}
    cut = Graph(tuple(fresh.values()), substitute(outputs, fresh))
    for v in cut.leaves:
        if not isinstance(v, (Constant, Weight)) and v not in cut.inputs:
            raise GraphError(f"run_subgraph: an output needs {v!r}, which is not given")
    return run(cut, *inputs.values())


def _graph_of(target: Any, args: Sequence[Any]) -> tuple[Graph, Sequence[Any]]:
    """A graph and arrays for its inputs."""
    if isinstance(target, Graph):
        return target, args
    traced = trace(target, args)
    return traced.graph, traced.arrays(args)


def _refuse_inner(graph: Graph, node: Node | str) -> None:
    """Raises GraphError where it is a node of a loop, a branch or a function inside of the graph:
    it may run many times, or never."""
    for outer in graph.nodes:
        for g in walk(outer.subgraphs()):
            for n in g.nodes:
                line = n.source.removesuffix(")").rpartition(" (")[2]
                if node in (n, n.op.name, n.source, line, *(v.name for v in n.results)):
                    name = node if isinstance(node, str) else n.op.name
                    raise GraphError(
                        f"node {name!r} is inside of a {outer.op.name} of the graph, which may run "
                        "it many times or never; want a node outside of it, or eager mode, where "
                        "print and breakpoints see each turn"
                    )


def _find(graph: Graph, node: Node | Value | str | int) -> Node | Value:
    if isinstance(node, (Node, Value)):
        n = node if isinstance(node, Node) else node.node
        if n is not None and n not in graph.nodes:
            _refuse_inner(graph, n)
        return node
    if isinstance(node, int):
        if not -len(graph.nodes) <= node < len(graph.nodes):
            raise GraphError(f"node {node}: the graph has {len(graph.nodes)}")
        return graph.nodes[node]
    values = [v for n in graph.nodes for v in n.results]
    named: dict[str, Node | Value] = {}
    for n in graph.nodes:  # by the module's path, by the line, and by both
        part, _, line = n.source.removesuffix(")").partition(" (")
        named |= {text: n for text in (part, line, n.source) if text}
    counts: dict[str, int] = {}
    for n in graph.nodes:
        i = counts[n.op.name] = counts.get(n.op.name, -1) + 1
        named.setdefault(n.op.name, n)
        named[f"{n.op.name}.{i}"] = n
    named |= dict(zip(graph.output_names, graph.outputs, strict=True))
    named |= {v.name: v for v in values if v.name}
    if node not in named:
        _refuse_inner(graph, node)
        kinds = ", ".join(sorted({n.op.name for n in graph.nodes}))
        raise GraphError(f"no node {node!r} in a graph of {kinds or 'no nodes'}")
    return named[node]
