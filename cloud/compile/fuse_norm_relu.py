"""A ReLU right behind batch norm in training becomes part of it, before anything is derived."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ir.graph import Graph, Node, Value
from ir.op import OPS
from ir.ops.activation import Activation, activation_of
from ir.passes.rewrite import rewrite, uses

_HIGH = {Activation.relu: math.inf, Activation.relu6: 6.0}


def fuse_norm_relu(graph: Graph) -> Graph:
    """relu(batch_norm_train(x)) -> batch_norm_relu(x), also for ReLU6, where nothing else reads it.

    The gradient of batch_norm_relu finds out again where the ReLU let through, so that neither it
    nor what lies before the ReLU is kept.
    """
    count = uses(graph)
    limits: dict[Node, float] = {}
    behind: set[Node] = set()
    for node in graph.nodes:
        high = _HIGH.get(activation_of(node) or Activation.none)
        norm = node.inputs[0].node if high is not None and node.inputs[0] is not None else None
        if norm is None or norm.op.name != "batch_norm_train" or count[norm.results[0]] > 1:
            continue
        if node.inputs[0] is norm.results[0] and high is not None:
            limits[norm] = high
            behind.add(node)

    def fuse(node: Node, inputs: Sequence[Value | None]) -> Sequence[Value] | Value | None:
        if node in limits:
            attrs = {**node.attrs, "limit": limits[node]}
            return OPS["batch_norm_relu"].node(inputs, attrs, node.source).results
        return inputs[0] if node in behind else None

    return rewrite(graph, fuse)
