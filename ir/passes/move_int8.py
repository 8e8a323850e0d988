"""Transposes and reshapes beside a conversion move int8, a quarter of float32's bytes."""

from __future__ import annotations

from collections.abc import Sequence

from ir.graph import Graph, Node, Value
from ir.op import OPS
from ir.passes.rewrite import rewrite, uses

MOVES = ("transpose", "reshape")


def move_int8(graph: Graph) -> Graph:
    """quantize(transpose(x)) -> transpose(quantize(x)), and dequantize comes behind a transpose.

    Both work element by element, so that no bit changes. Only where nothing else reads what the
    first of the two makes.
    """
    count = uses(graph)

    def swap(node: Node, inputs: Sequence[Value | None]) -> Value | None:
        x, first = inputs[0] if inputs else None, node.inputs[0] if inputs else None
        if x is None or x.node is None or first is None or count[first] > 1:
            return None
        if node.op.name == "quantize":
            return _quantized(node, x)
        if node.op.name in MOVES and x.node.op.name == "dequantize":
            return _applied(x.node, _applied(node, x.node.inputs[0]))
        return None

    def _quantized(node: Node, x: Value | None) -> Value | None:
        """`x` on int8, its moves behind the conversion; None where there is none."""
        moves: list[Node] = []
        while x is not None and x.node is not None and x.node.op.name in MOVES:
            if moves and count[x] > 1:
                break
            moves.append(x.node)
            x = x.node.inputs[0]
        y = _applied(node, x)
        for move in reversed(moves):
            y = _applied(move, y)
        return y if moves else None

    return rewrite(graph, swap)


def _applied(node: Node, x: Value | None) -> Value:
    """What the node does, to `x`."""
    return OPS[node.op.name].node((x,), node.attrs, node.source).results[0]
