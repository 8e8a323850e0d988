"""Attention that exporters write out becomes one operator, whose scores need no memory."""

from __future__ import annotations

from collections.abc import Sequence

from converter.passes.find_activation import number_and_factors
from ir.errors import ShapeError
from ir.graph import Graph, Node, Shape, Value
from ir.op import OPS
from ir.ops.rules import broadcast
from ir.passes.rewrite import rewrite, uses


def find_attention(graph: Graph) -> Graph:
    """softmax(q k^T * number + mask) v -> attention(q, k, v, mask, scale=number)

    The number may stand at q, at k or behind their product; nothing else reads the scores.
    """
    count = uses(graph)

    def find(node: Node, inputs: Sequence[Value | None]) -> Value | None:
        if node.op.name != "matmul" or any(node.attrs.values()) or count[node.inputs[0]] > 1:
            return None
        weights, v = inputs
        made = weights.node if weights is not None else None
        if made is None or made.op.name != "softmax" or made.attrs["axis"] != weights.rank - 1:  # type: ignore[union-attr]
            return None
        old = node.inputs[0].node if node.inputs[0] is not None else None
        if old is None or v is None or any(count[x] > 1 for x in old.present_inputs):
            return None
        return _attention(made.inputs[0], v)

    return rewrite(graph, find)


def _attention(scores: Value | None, v: Value) -> Value | None:
    """attention of the scores' factors and v, if that is what they are."""
    for product, mask in _split_mask(scores):
        number, factors = number_and_factors(product)
        made = factors[0].node if len(factors) == 1 else None
        if made is None or made.op.name != "matmul" or made.attrs["transpose_a"]:
            continue
        (a, q), (b, k) = map(number_and_factors, made.inputs)
        if len(q) != 1 or len(k) != 1:
            continue
        key = k[0] if made.attrs["transpose_b"] else _swapped(k[0])
        batch = q[0].shape[:-2]
        if key.shape[:-2] != batch or v.shape[:-2] != batch or len(v.shape) != len(q[0].shape):
            continue
        shape = (*q[0].shape[:-1], key.shape[-2])
        if mask is not None and not _stretches(mask.shape, shape):
            continue
        return OPS["attention"](q[0], key, v, mask, scale=number * a * b)  # type: ignore[no-any-return]
    return None


def _split_mask(scores: Value | None) -> list[tuple[Value | None, Value | None]]:
    """What may be (product, mask) of scores."""
    made = scores.node if scores is not None else None
    if made is None or made.op.name != "add":
        return [(scores, None)]
    a, b = made.inputs
    return [(a, b), (b, a)]


def _stretches(own: Shape, to: Shape) -> bool:
    try:
        return broadcast(own, to) == to
    except ShapeError:
        return False


def _swapped(k: Value) -> Value:
    """k with its last two axes swapped: without the transpose that swapped them, where one did."""
    made = k.node
    perm = (*range(k.rank - 2), k.rank - 1, k.rank - 2)
    if made is not None and made.op.name == "transpose" and made.inputs[0] is not None:
        perm = tuple(made.attrs["perm"][i] for i in perm)
        k = made.inputs[0]
    return k if perm == tuple(range(k.rank)) else OPS["transpose"](k, perm=perm)
