"""An addition of one number a channel after a convolution or linear layer becomes its bias."""

from __future__ import annotations

from collections.abc import Sequence

from ir.graph import Constant, Graph, Node, Value, Weight, is_fixed
from ir.ops import OUTPUT_AXIS
from ir.ops.activation import Activation
from ir.passes.rewrite import fixed_like, rewrite, uses


def fuse_bias(graph: Graph) -> Graph:
    """linear(x, w) + b -> linear(x, w, b), where the layer has no bias and no other reader."""
    count = uses(graph)

    def fuse(node: Node, inputs: Sequence[Value | None]) -> Value | None:
        if node.op.name != "add":
            return None
        for i in (0, 1):
            x, b = inputs[i], inputs[1 - i]
            layer = x.node if x is not None else None
            if layer is None or layer.op.name not in OUTPUT_AXIS or count[node.inputs[i]] > 1:
                continue
            plain = layer.attrs["activation"] is Activation.none and layer.inputs[2] is None
            if plain and (bias := _bias(b, x)) is not None:
                attrs, source = layer.attrs, layer.source
                return layer.op.node((*layer.inputs[:2], bias), attrs, source).results[0]
        return None

    return rewrite(graph, fuse)


def _bias(b: Value | None, y: Value | None) -> Value | None:
    """`b` as a vector, if it is one number for each channel of `y` and does not stretch it."""
    if not isinstance(b, (Weight, Constant)) or y is None or b.rank > y.rank:
        return None
    if b.shape[-1:] != y.shape[-1:] or b.data.size != y.shape[-1]:
        return None
    if b.rank == 1:
        return b
    return fixed_like(b, b.data.reshape(-1)) if is_fixed(b) else None
