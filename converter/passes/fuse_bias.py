"""An addition of one number a channel after a convolution or linear layer becomes its bias."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from converter.passes.fold_batch_norm import OUTPUT_AXIS
from ir.passes.rewrite import rewrite, uses
from ir.graph import Constant, Graph, Node, Value, Weight, is_fixed
from ir.ops.activation import Activation


def fuse_bias(graph: Graph) -> Graph:
    """linear(x, w) + b -> linear(x, w, b), where the layer has no bias and no other reader."""
    count = uses(graph)

    def fuse(node: Node, inputs: Sequence[Value | None]) -> Value | None:
        if node.op.name != "add":
            return None
        for x, b, old in ((*inputs, node.inputs[0]), (*reversed(inputs), node.inputs[1])):
            layer = x.node if x is not None else None
            if layer is None or layer.op.name not in OUTPUT_AXIS or count[old] > 1:
                continue
            plain = layer.attrs["activation"] is Activation.none and layer.inputs[2] is None
            if plain and (bias := _bias(b, x.shape[-1])) is not None:
                return layer.op.node((*layer.inputs[:2], bias), layer.attrs, layer.source).results[0]
        return None

    return rewrite(graph, fuse)


def _bias(b: Value | None, channels: object) -> Value | None:
    """`b` as a vector of `channels`, if it is one number a channel."""
    if not isinstance(b, (Weight, Constant)) or b.data.size != channels or b.shape[-1:] != (channels,):
        return None
    if b.rank == 1:
        return b
    if not is_fixed(b):
        return None
    data = np.ascontiguousarray(b.data.reshape(-1))
    return Weight(data, name=b.name, trainable=False) if b.name else Constant(data)
