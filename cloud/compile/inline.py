"""Calls become what they call, and what only differentiation reads is gone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ir.graph import Constant, Function, Graph, Node, Value, substitute
from ir.ops.custom import forget_gradient
from ir.passes.rewrite import rewrite
from ir.walk import walk

Inputs = Sequence[Value | None]


def inline(graph: Graph) -> Graph:
    """The graph with the bodies of functions in place of calls, unless they call themselves or are
    to be computed again (`remat`: what they keep is gone when they end), and one branch where the
    condition is known.

    It is to be run, not to be differentiated: `stop_gradient` and `with_gradient` are gone.
    """
    return _Inliner().graph(graph)


class _Inliner:
    def __init__(self) -> None:
        self.graphs: dict[Graph, Graph] = {}
        self.functions: dict[Function, Function] = {}

    def graph(self, graph: Graph) -> Graph:
        if graph not in self.graphs:
            self.graphs[graph] = rewrite(graph, self.rule)
        return self.graphs[graph]

    def rule(self, node: Node, inputs: Inputs) -> Sequence[Value] | None:
        present = [v for v in inputs if v is not None]
        if node.op.name == "stop_gradient":
            return present
        if (bare := forget_gradient(node, inputs)) is not None:
            return bare
        if node.op.name == "call" and not node.attrs["remat"]:
            body = node.attrs["body"].graph
            if not _is_recursive(body):
                return _applied(self.graph(body), present)
        if node.op.name == "cond" and isinstance(present[0], Constant):
            chosen = node.attrs["then" if present[0].data else "otherwise"]
            return _applied(self.graph(chosen), present[1:])
        attrs = {name: self.attr(a) for name, a in node.attrs.items()}
        if all(attrs[name] is a for name, a in node.attrs.items()):
            return None
        return node.op.node(inputs, attrs, node.source).results

    def attr(self, a: Any) -> Any:
        if isinstance(a, Graph):
            return self.graph(a)
        if isinstance(a, Function):
            if a not in self.functions:
                self.functions[a] = Function(a.name, a.inputs, a.results)  # the body may call it
                self.functions[a].graph = self.graph(a.graph)
            return self.functions[a]
        return a


def _applied(body: Graph, inputs: Sequence[Value]) -> tuple[Value, ...]:
    return substitute(body.outputs, dict(zip(body.inputs, inputs, strict=True)))


def _is_recursive(body: Graph) -> bool:
    """Whether the body can be reached from itself."""
    return any(body in (s for n in g.nodes for s in n.subgraphs()) for g in walk([body]))
