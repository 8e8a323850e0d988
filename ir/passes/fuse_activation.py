"""An activation right after a convolution or linear layer becomes part of it."""

from __future__ import annotations

from collections.abc import Sequence

from ir.graph import Graph, Node, Value, is_fixed
from ir.ops import OUTPUT_AXIS
from ir.ops.activation import Activation, activation_of
from ir.passes.fuse_residual import APART
from ir.passes.rewrite import rewrite, uses

LAYERS = {*OUTPUT_AXIS, *APART}  # that have an activation


def fuse_activation(graph: Graph) -> Graph:
    """relu(conv2d(x, w)) -> conv2d(x, w, activation=relu), where nothing else reads the layer.

    Only where it is fixed: the gradient of a fused layer computes it a second time.
    """
    return _fused(graph, also_trained=False)


def fuse_trained_activation(graph: Graph) -> Graph:
    """The same for layers that train, in entries that nobody will differentiate any more."""
    return _fused(graph, also_trained=True)


def _fused(graph: Graph, *, also_trained: bool) -> Graph:
    count = uses(graph)

    def is_read_once(v: Value | None) -> bool:
        return v is not None and count[v] <= 1

    def fuse(node: Node, inputs: Sequence[Value | None]) -> Value | None:
        kind, x = activation_of(node), inputs[0] if inputs else None
        if kind is None or x is None or x.node is None or not is_read_once(node.inputs[0]):
            return None
        layer = x.node
        if layer.op.name not in LAYERS or layer.attrs["activation"] is not Activation.none:
            return None
        if not also_trained and not is_fixed(*layer.present_inputs[1:]):
            return None
        attrs = {**layer.attrs, "activation": kind}
        return layer.op.node(layer.inputs, attrs, layer.source).results[0]

    return rewrite(graph, fuse)
