"""Cross-layer equalisation: channels of neighbouring layers are scaled so that their weights are of
like size, which costs a stored weight less (Nagel et al. 2019)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ir.graph import Array, Graph, Node, Value, is_fixed
from ir.ops import OUTPUT_AXIS
from ir.ops.activation import Activation
from ir.passes.rewrite import fixed_like, rewrite, uses
from ir.quantization import along

# activation(s x) = s activation(x) for every s > 0
SCALES = (Activation.none, Activation.relu)
# between two layers: what keeps channels apart and scales with them
PASSES_ON = ("relu", "max_pool2d", "avg_pool2d")
TURNS = 10  # each pair moves what the next one sees
SETTLED = 1e-3  # the largest relative change of a scale that ends the turns


def equalized(graph: Graph) -> Graph:
    """The same function, with the scales of channels moved between layers that follow each other.

    For the weights w1 and w2 of a pair and a channel between them, w1 and its bias are divided by
    s = sqrt(r1 / r2), w2 is multiplied by it, where r1 and r2 are the largest weights there. Pairs
    are layers of fixed weights with nothing but max pooling and the like between them, read once.
    """
    pairs = _pairs(graph)
    data = {v: v.data.copy() for n in _layers(graph) for v in n.inputs[1:] if _is_leaf(v)}  # type: ignore[union-attr]
    for _ in range(TURNS):
        if max((_balance(a, b, data) for a, b in pairs), default=0.0) < SETTLED:
            break

    def replace(node: Node, inputs: Sequence[Value | None]) -> Value | None:
        if not any(v in data for v in node.inputs[1:]) or node.op.name not in OUTPUT_AXIS:
            return None
        new = [fixed_like(v, data[v]) if v in data else v for v in node.inputs[1:]]
        return node.op.node((inputs[0], *new), node.attrs, node.source).results[0]

    return rewrite(graph, replace) if pairs else graph


def _is_leaf(v: Value | None) -> bool:
    return v is not None and is_fixed(v)


def _layers(graph: Graph) -> list[Node]:
    """Layers whose weights are fixed and theirs alone."""
    count = uses(graph)
    return [
        n
        for n in graph.nodes
        if n.op.name in OUTPUT_AXIS
        and all(v is None or (is_fixed(v) and count[v] == 1) for v in n.inputs[1:])
    ]


def _pairs(graph: Graph) -> list[tuple[Node, Node]]:
    count = uses(graph)
    layers = set(_layers(graph))
    found = []
    for node in graph.nodes:
        if node not in layers or _in_axis(node) is None:
            continue
        v = node.inputs[0]
        while v is not None and v.node is not None and count[v] == 1:
            before = v.node
            if before in layers:
                if before.attrs["activation"] in SCALES:
                    found.append((before, node))
                break
            if before.op.name not in PASSES_ON:
                break
            v = before.inputs[0]
    return found


def _in_axis(node: Node) -> int | None:
    """The axis of the weight along which its input's channels lie; None where they are mixed."""
    if node.op.name == "conv2d":
        return 3 if node.attrs["groups"] == 1 else None
    return {"depthwise_conv2d": 2, "linear": 1}.get(node.op.name)


def _balance(first: Node, second: Node, data: Mapping[Value, Array]) -> float:
    """Balance one pair in place; the largest relative change."""
    w1, b1, w2 = first.inputs[1], first.inputs[2], second.inputs[1]
    assert w1 is not None
    assert w2 is not None
    out, into = OUTPUT_AXIS[first.op.name], _in_axis(second)
    assert into is not None
    r1, r2 = _largest(data[w1], out), _largest(data[w2], into)
    usable = (r1 > 0) & (r2 > 0)
    s = np.where(usable, np.sqrt(np.where(usable, r1, 1) / np.where(usable, r2, 1)), 1.0)
    s = s.astype(data[w1].dtype)
    data[w1][...] /= along(s, out, w1.rank)
    if b1 is not None:
        data[b1][...] /= s
    data[w2][...] *= along(s, into, w2.rank)
    return float(np.max(np.abs(s - 1), initial=0.0))


def _largest(w: Array, axis: int) -> Array:
    """The largest absolute weight of each channel along `axis`."""
    moved: Array = np.abs(w).max(axis=tuple(i for i in range(w.ndim) if i != axis))
    return moved
