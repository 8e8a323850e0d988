"""Other leaves for a graph: in the graph itself, its sub-graphs and the functions it calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ir.graph import Function, Graph, Node, Value, Weight
from ir.walk import walk


def inner_leaves(graph: Graph) -> tuple[Value, ...]:
    """The leaves that sub-graphs and functions read, apart from their own inputs."""
    inner = [g for g in walk([graph]) if g is not graph]
    return tuple(dict.fromkeys(v for g in inner for v in g.leaves if v not in set(g.inputs)))


class Replacer:
    """Builds graphs anew over other leaves. What does not read a replaced leaf stays as it is."""

    def __init__(self, replaced: Mapping[Value, Value]) -> None:
        self.replaced = dict(replaced)
        self.graphs: dict[Graph, Graph] = {}
        self.functions: dict[Function, Function] = {}

    def graph(self, graph: Graph) -> Graph:
        """The graph over the new leaves; of its inputs too, where they are replaced."""
        if graph not in self.graphs:
            now: dict[Value, Value] = dict(self.replaced)
            for node in graph.nodes:
                self.node(node, now)
            updates = [(now.get(w, w), now.get(v, v)) for w, v in graph.updates]
            self.graphs[graph] = Graph(
                tuple(now.get(v, v) for v in graph.inputs),
                tuple(now.get(v, v) for v in graph.outputs),
                graph.output_names,
                tuple((w, v) for w, v in updates if isinstance(w, Weight)),
            )
        return self.graphs[graph]

    def node(self, node: Node, now: dict[Value, Value]) -> None:
        """Put the node's results over the new leaves into `now`."""
        inputs: Sequence[Value | None] = [None if v is None else now.get(v, v) for v in node.inputs]
        attrs = {name: self.attr(a) for name, a in node.attrs.items()}
        same = all(a is b for a, b in zip(inputs, node.inputs, strict=True)) and all(
            attrs[name] is a for name, a in node.attrs.items()
        )
        if not same:
            types = [(v.shape, v.dtype) for v in node.results]
            new = Node(node.op, inputs, attrs, types, node.source)
            now.update(zip(node.results, new.results, strict=True))

    def attr(self, a: Any) -> Any:
        if isinstance(a, Graph):
            return self.graph(a) if self.reaches(a) else a
        if not isinstance(a, Function) or not self.reaches(a.graph):
            return a
        if a not in self.functions:
            self.functions[a] = Function(a.name, a.inputs, a.results)  # first: the body may call it
            self.functions[a].graph = self.graph(a.graph)
        return self.functions[a]

    def reaches(self, graph: Graph) -> bool:
        """Whether a replaced leaf is read anywhere below."""
        return any(v in self.replaced for g in walk([graph]) for v in g.leaves)
