"""Constants inside of branches and loops become operands, so that they may be values."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from ir.graph import Constant, Graph, Node, Value, order
from ir.walk import walk


def with_values(roots: Sequence[Value], instead: Mapping[Constant, Value]) -> tuple[Value, ...]:
    """The roots, computed from values in the places of constants, in graphs inside too."""
    now: dict[Value, Value] = dict(instead)
    for node in sorted(order(roots), key=lambda n: n.serial):
        inputs = [None if v is None else now.get(v, v) for v in node.inputs]
        inner = [c for c in instead if _is_read_inside(c, node)]
        if not inner and all(a is b for a, b in zip(inputs, node.inputs, strict=True)):
            continue
        attrs = {
            name: _lifted(a, inner, is_body=name == "body") if isinstance(a, Graph) else a
            for name, a in node.attrs.items()
        }
        new = node.op.node([*inputs, *(instead[c] for c in inner)], attrs, node.source)
        now.update(zip(node.results, new.results, strict=False))
    return tuple(now.get(v, v) for v in roots)


def _is_read_inside(c: Constant, node: Node) -> bool:
    return any(
        c in g.leaves for g in walk([g for g in node.attrs.values() if isinstance(g, Graph)])
    )


def _lifted(graph: Graph, constants: Collection[Constant], *, is_body: bool) -> Graph:
    """The graph with an input more for each constant. The body of a loop hands them on."""
    if not constants:
        return graph
    inputs = {c: Value(c.shape, c.dtype) for c in constants}
    outputs = with_values(graph.outputs, inputs)
    return Graph(
        (*graph.inputs, *inputs.values()), (*outputs, *(inputs.values() if is_body else ()))
    )
