"""The sum at the end of a residual block becomes part of the layer before it, or comes apart."""

from __future__ import annotations

from collections.abc import Sequence

from ir.graph import Graph, Node, Value
from ir.op import OPS
from ir.ops.activation import Activation, activate
from ir.passes.rewrite import rewrite, uses

FUSED = {"conv2d": "conv2d_add", "linear": "linear_add"}
APART = {fused: layer for layer, fused in FUSED.items()}


def fuse_residual(graph: Graph) -> Graph:
    """conv2d(x, w, b) + r -> conv2d_add(x, r, w, b), where nothing else reads the layer and r has
    the sum's shape. Linear layers likewise.

    Of two layers the later one takes the other's result. For entries that nobody will change or
    differentiate any more: other passes look for the layer.
    """
    count = uses(graph)
    place = {node: i for i, node in enumerate(graph.nodes)}

    def takes(v: Value | None) -> int:
        """Where the layer stands that v is the result of, if it may take a sum; else -1."""
        node = v.node if v is not None else None
        if node is None or node.op.name not in FUSED or count[v] > 1:
            return -1
        return place[node] if node.attrs["activation"] is Activation.none else -1

    def fuse(node: Node, inputs: Sequence[Value | None]) -> Value | None:
        if node.op.name != "add" or max(map(takes, node.inputs)) < 0:
            return None
        at = max(range(2), key=lambda i: takes(node.inputs[i]))
        y, r = inputs[at], inputs[1 - at]
        if y is None or y.node is None or r is None or r.shape != y.shape or r.dtype != y.dtype:
            return None
        layer = y.node
        x, w, b = layer.inputs
        return OPS[FUSED[layer.op.name]].node((x, r, w, b), layer.attrs, layer.source).results[0]

    return rewrite(graph, fuse)


def split_residual(graph: Graph) -> Graph:
    """conv2d_add(x, r, w, b) -> conv2d(x, w, b) + r, for passes that look for layers."""

    def split(node: Node, inputs: Sequence[Value | None]) -> Value | None:
        if node.op.name not in APART:
            return None
        x, r, w, b = inputs
        attrs = {**node.attrs, "activation": Activation.none}
        layer = OPS[APART[node.op.name]].node((x, w, b), attrs, node.source)
        total = OPS["add"](layer.results[0], r)
        return activate(node.attrs["activation"], total)  # type: ignore[no-any-return]

    return rewrite(graph, split)
