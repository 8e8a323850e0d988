"""Batch norm after a convolution or linear layer disappears into its weight and bias."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ir.passes.rewrite import rewrite, uses
from ir.graph import Graph, Node, Value, Weight, is_fixed
from ir.ops.activation import Activation

OUTPUT_AXIS = {"conv2d": 0, "depthwise_conv2d": 2, "linear": 0}  # of the weight


def fold_batch_norm(graph: Graph) -> Graph:
    """y = scale (conv(x, w) + b - mean) / deviation + bias is one convolution with other weights.

    Only where the weights are frozen and nothing else reads the convolution.
    """
    count = uses(graph)

    def fold(node: Node, inputs: Sequence[Value | None]) -> Value | None:
        x = inputs[0]
        if node.op.name != "batch_norm" or x is None or x.node is None or count[node.inputs[0]] > 1:
            return None
        layer = x.node
        plain = layer.attrs.get("activation") is Activation.none
        if layer.op.name not in OUTPUT_AXIS or not plain or not is_fixed(*layer.inputs[1:2], *inputs[1:]):
            return None
        scale, bias, mean, variance = (v.data for v in inputs[1:])  # type: ignore[union-attr]
        source, w, b = layer.inputs
        if b is not None and not is_fixed(b):
            return None
        factor = (scale.astype(np.float64) / np.sqrt(variance.astype(np.float64) + node.attrs["epsilon"]))
        along = [1] * w.rank
        along[OUTPUT_AXIS[layer.op.name]] = -1
        offset = 0.0 if b is None else b.data
        new_w = (w.data * factor.reshape(along)).astype(w.data.dtype)
        new_b = ((offset - mean) * factor + bias).astype(w.data.dtype)
        weights = (
            Weight(new_w, name=w.name or "weight", trainable=False),
            Weight(new_b, name=(b and b.name) or inputs[2].name or "bias", trainable=False),
        )
        return layer.op.node((source, *weights), layer.attrs, layer.source).results[0]

    return rewrite(graph, fold)
