"""A new head: the last layer of a classifier is replaced by one of another number of classes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from converter.errors import ConvertError
from ir.errors import IrError
from ir.graph import Graph, Node, Value, Weight
from ir.ops import OUTPUT_AXIS
from ir.passes.rewrite import rewrite
from ir.symbol import Dim

SEED = 0  # the same model and flags give the same bytes
# what may stand between the last layer and the result
BEHIND = (
    "add", "reshape", "transpose", "softmax", "log_softmax", "reduce_mean", "avg_pool2d", "relu",
    "sigmoid", "max_pool2d", "slice", "squeeze",
)  # fmt: skip


def with_head(graph: Graph, classes: int) -> Graph:
    """The graph whose last linear layer or convolution gives `classes` channels.

    Its weights are drawn anew, always the same ones, uniform within sqrt(6 / (inputs + classes))
    (Glorot and Bengio 2010); its bias is 0. They keep their names and train. Raises ConvertError
    where there is no such layer right before the one result.
    """
    if len(graph.outputs) != 1:
        have = list(graph.output_names)
        raise ConvertError(f"a new head needs one output, the model has {have}; name it (--output)")
    layer = _last_layer(graph)
    old = layer.results[0].shape[-1]
    behind = _behind(graph, layer)

    def replace(node: Node, inputs: Sequence[Value | None]) -> Value | None:
        if node is layer:
            new = (inputs[0], _weight(layer, classes), _bias(layer, classes))
            return node.op.node(new, node.attrs, node.source).results[0]
        if node not in behind:
            return None
        attrs = {k: _resized(v, old, classes) if k == "shape" else v for k, v in node.attrs.items()}
        inputs = [_added(v, old, classes) for v in inputs]
        try:
            return node.op.node(inputs, attrs, node.source).results[0]
        except IrError as e:
            raise ConvertError(f"a head of {classes} classes does not fit: {e}") from None

    return rewrite(graph, replace)


def _last_layer(graph: Graph) -> Node:
    node = graph.outputs[0].node
    while node is not None and node.op.name in BEHIND:
        node = next((v.node for v in node.present_inputs if v.node is not None), None)
    if node is None or node.op.name not in ("linear", "conv2d") or node.attrs.get("groups", 1) != 1:
        made = (
            f"it ends with {graph.outputs[0]!r}" if node is None else f"{node!r} is no such layer"
        )
        raise ConvertError(f"a new head replaces a last linear layer or convolution; {made}")
    if not isinstance(node.inputs[1], Weight):
        raise ConvertError(f"a new head replaces a layer with a weight; that of {node!r} is none")
    return node


def _behind(graph: Graph, layer: Node) -> set[Node]:
    found = {layer}
    for node in graph.nodes:
        if any(v.node in found for v in node.present_inputs if v.node is not None):
            found.add(node)
    return found - {layer}


def _weight(layer: Node, classes: int) -> Weight:
    old = layer.inputs[1]
    assert isinstance(old, Weight)
    axis = OUTPUT_AXIS[layer.op.name]
    shape = tuple(classes if i == axis else int(d) for i, d in enumerate(old.data.shape))
    bound = np.sqrt(6 / (int(np.prod(shape)) // classes + classes))
    data = np.random.default_rng(SEED).uniform(-bound, bound, shape).astype(np.float32)
    return Weight(data, name=old.name or "head.weight", trainable=True)


def _bias(layer: Node, classes: int) -> Weight:
    name = layer.inputs[2].name if layer.inputs[2] is not None else None
    return Weight(np.zeros(classes, np.float32), name=name or "head.bias", trainable=True)


def _added(v: Value | None, old: Dim, classes: int) -> Value | None:
    """A bias that stands behind the layer starts at 0 as well."""
    if isinstance(v, Weight) and v.rank and v.shape[-1] == old:
        data = np.zeros((*v.data.shape[:-1], classes), np.float32)
        return Weight(data, name=v.name or "head.bias", trainable=True)
    return v


def _resized(shape: Sequence[Dim], old: Dim, classes: int) -> tuple[Dim, ...]:
    """A shape's last size that is the old number of classes."""
    at = max((i for i, d in enumerate(shape) if d == old), default=-1)
    return tuple(classes if i == at else d for i, d in enumerate(shape))
