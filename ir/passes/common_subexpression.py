"""The same computation twice becomes one."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from ir.graph import Constant, Graph, Node, Value, rebuild
from ir.passes.rewrite import in_subgraphs, rewrite


def common_subexpression(graph: Graph) -> Graph:
    """Nodes of one operator on the same inputs with the same attributes become one node.

    Constants are the same where their types and bytes are. Operators are functions of their inputs
    (random ones draw from a key, which is an input), so every one may be merged; nodes with
    sub-graphs are left alone, but merged within.
    """
    first_constant: dict[Hashable, Value] = {}
    first_node: dict[Hashable, Sequence[Value]] = {}
    merge_within = in_subgraphs(common_subexpression)

    def representative(v: Value | None) -> Value | None:
        if not isinstance(v, Constant):
            return v
        return first_constant.setdefault((v.dtype, v.shape, v.data.tobytes()), v)

    def merge(node: Node, inputs: Sequence[Value | None]) -> Sequence[Value] | None:
        own = tuple(map(representative, inputs))
        if any(True for _ in node.subgraphs()):
            return merge_within(node, own)
        key = (node.op.name, own, tuple(map(repr, node.attrs.values())))
        if key not in first_node:
            first_node[key] = node.results if own == node.inputs else rebuild(node, own).results
        return first_node[key]

    return rewrite(graph, merge)
