"""An activation right after a convolution or linear layer becomes part of it."""

from __future__ import annotations

from collections.abc import Sequence

from converter.passes.fold_batch_norm import OUTPUT_AXIS
from ir.passes.rewrite import rewrite, uses
from ir.graph import Graph, Node, Value
from ir.ops.activation import Activation


def fuse_activation(graph: Graph) -> Graph:
    """relu(conv2d(x, w)) -> conv2d(x, w, activation=relu), where nothing else reads the convolution."""
    count = uses(graph)

    def fuse(node: Node, inputs: Sequence[Value | None]) -> Value | None:
        kind = activation_of(node)
        x = inputs[0]
        if kind is None or x is None or x.node is None or count[node.inputs[0]] > 1:
            return None
        layer = x.node
        if layer.op.name not in OUTPUT_AXIS or layer.attrs["activation"] is not Activation.none:
            return None
        return layer.op.node(layer.inputs, {**layer.attrs, "activation": kind}, layer.source).results[0]

    return rewrite(graph, fuse)


def activation_of(node: Node) -> Activation | None:
    """The activation that the node is, exactly; None for any other node."""
    name, attrs = node.op.name, node.attrs
    if name == "clip":
        return {(0.0, 6.0): Activation.relu6, (0.0, float("inf")): Activation.relu}.get(
            (attrs["low"], attrs["high"])
        )
    if name not in Activation.__members__ or attrs.get("approximate", node.op.attrs.get("approximate")) != (
        node.op.attrs.get("approximate")
    ):
        return None
    return Activation(name)
