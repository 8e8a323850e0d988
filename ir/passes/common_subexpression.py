"""The same computation twice becomes one."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

from ir.graph import Constant, Function, Graph, Node, Value, rebuild
from ir.passes.rewrite import everywhere, rewrite


@everywhere
def common_subexpression(graph: Graph) -> Graph:
    """Nodes of one operator on the same inputs with the same attributes become one node.

    Constants are the same where their types and bytes are. Operators are functions of their inputs
    (random ones draw from a key, which is an input), so every one may be merged; nodes with
    sub-graphs where these are the very same ones.
    """
    first_constant: dict[Hashable, Value] = {}
    first_node: dict[Hashable, Sequence[Value]] = {}

    def representative(v: Value | None) -> Value | None:
        if not isinstance(v, Constant):
            return v
        return first_constant.setdefault((v.dtype, v.shape, v.data.tobytes()), v)

    def merge(node: Node, inputs: Sequence[Value | None]) -> Sequence[Value] | None:
        own = tuple(map(representative, inputs))
        key = (node.op.name, own, tuple(map(_attr_key, node.attrs.values())))
        if key not in first_node:
            first_node[key] = node.results if own == node.inputs else rebuild(node, own).results
        return first_node[key]

    return rewrite(graph, merge)


def _attr_key(attr: Any) -> Hashable:
    return attr if isinstance(attr, (Graph, Function)) else repr(attr)
