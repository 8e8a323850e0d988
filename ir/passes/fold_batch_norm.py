"""Batch norm after a convolution or linear layer disappears into its weight and bias."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ir.graph import Graph, Node, Value, Weight, is_fixed
from ir.ops import OUTPUT_AXIS
from ir.ops.activation import Activation
from ir.passes.rewrite import fixed_like, rewrite, uses

Inputs = Sequence[Value | None]
# (layer, batch norm, the batch norm's inputs) -> the weight and bias of both together
Merge = Callable[[Node, Node, Inputs], tuple[Value, Value]]


def fold_batch_norm(graph: Graph) -> Graph:
    """y = scale (conv(x, w) + b - mean) / deviation + bias is one convolution with other weights.

    Only where all weights are fixed and nothing else reads the convolution.
    """
    return fold_where(graph, is_fixed, merged)


def fold_where(graph: Graph, never_change: Callable[..., bool], merge: Merge) -> Graph:
    """The same, by the caller's word on which leaves never change, with what `merge` makes."""
    count = uses(graph)

    def fold(node: Node, inputs: Inputs) -> Value | None:
        x, before = (inputs[0], node.inputs[0]) if inputs else (None, None)
        if node.op.name != "batch_norm" or x is None or before is None or count[before] > 1:
            return None
        layer = x.node
        if layer is None:
            return None
        plain = layer.attrs.get("activation") is Activation.none
        if layer.op.name not in OUTPUT_AXIS or not plain:
            return None
        if not never_change(*layer.present_inputs[1:], *inputs[1:]):
            return None
        weights = merge(layer, node, inputs)
        return layer.op.node((layer.inputs[0], *weights), layer.attrs, layer.source).results[0]

    return rewrite(graph, fold)


def merged(layer: Node, norm: Node, inputs: Inputs) -> tuple[Value, Value]:
    """The weight and bias of both together, computed in float64."""
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
