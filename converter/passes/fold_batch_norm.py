"""Batch norm after a convolution or linear layer disappears into its weight and bias."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ir.graph import Graph, Node, Value, Weight, is_fixed
from ir.ops import OUTPUT_AXIS
from ir.ops.activation import Activation
from ir.passes.rewrite import fixed_like, rewrite, uses


def fold_batch_norm(graph: Graph) -> Graph:
    """y = scale (conv(x, w) + b - mean) / deviation + bias is one convolution with other weights.

    Only where all weights are fixed and nothing else reads the convolution.
    """
    count = uses(graph)

    def fold(node: Node, inputs: Sequence[Value | None]) -> Value | None:
        x = inputs[0] if inputs else None
        if node.op.name != "batch_norm" or x is None or x.node is None or count[node.inputs[0]] > 1:
            return None
        layer = x.node
        plain = layer.attrs.get("activation") is Activation.none
        if layer.op.name not in OUTPUT_AXIS or not plain:
            return None
        if not is_fixed(*layer.present_inputs[1:], *inputs[1:]):
            return None
        weights = _folded(layer, node, inputs)
        return layer.op.node((layer.inputs[0], *weights), layer.attrs, layer.source).results[0]

    return rewrite(graph, fold)


def _folded(layer: Node, norm: Node, inputs: Sequence[Value | None]) -> tuple[Value, Value]:
    """The weight and bias of both together."""
    scale, bias, mean, variance = (
        v.data.astype(np.float64)  # type: ignore[union-attr]
        for v in inputs[1:]
    )
    _, w, b = layer.inputs
    assert w is not None
    factor = scale / np.sqrt(variance + norm.attrs["epsilon"])
    along = [1] * w.rank
    along[OUTPUT_AXIS[layer.op.name]] = -1
    offset = 0.0 if b is None else b.data  # type: ignore[attr-defined]
    new_w = (w.data * factor.reshape(along)).astype(w.dtype.numpy)  # type: ignore[attr-defined]
    new_b = ((offset - mean) * factor + bias).astype(w.dtype.numpy)
    name = next((v.name for v in (b, inputs[2]) if v is not None and v.name), "bias")
    return fixed_like(w, new_w), Weight(new_b, name=name, trainable=False)
