"""Transposes sink through the graph until they meet their inverse and vanish.

The readers of channels-first formats wrap each layer in a pair of transposes. An operator that
does not care for the order of axes takes its inputs before the transpose, and the transpose goes
behind it; two that meet become one, and one that only moves axes of size 1 becomes a reshape.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ir.passes.rewrite import rewrite, uses
from ir.graph import Constant, Graph, Node, Shape, Value, Weight, is_fixed
from ir.op import OPS

REDUCTIONS = ("reduce_sum", "reduce_mean", "reduce_max", "reduce_min", "reduce_prod")
Perm = tuple[int, ...]


def layout(graph: Graph) -> Graph:
    """The same graph with as few transposes as sinking them can leave."""
    while True:
        changed = _Sink(graph).run()
        if _cost(changed) >= _cost(graph) and len(changed.nodes) >= len(graph.nodes):
            return graph
        graph = changed


def _cost(graph: Graph) -> int:
    return sum(n.op.name == "transpose" for n in graph.nodes)


class _Sink:
    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.count = uses(graph)

    def run(self) -> Graph:
        return rewrite(self.graph, self.rule)

    def rule(self, node: Node, inputs: Sequence[Value | None]) -> Value | None:
        x, name = inputs[0], node.op.name
        if x is None:
            return None
        if name == "transpose":
            return _transposed(x, node.attrs["perm"])
        if name == "reshape":
            return _merged_reshape(x, node.attrs["shape"])
        if name == "linear":
            return _linear(node, inputs)
        perm = next((p for v in inputs if (p := _perm(v)) is not None), None)
        if perm is None or len(node.results) != 1:
            return None
        if name in REDUCTIONS:
            return _reduction(node, x, perm)
        if name in ("concat", "pad", "slice", "softmax", "log_softmax"):
            return _along_axes(node, inputs, perm)
        if node.op.family in ("elementwise", "compare"):
            return _elementwise(node, inputs, perm)
        return None


def _perm(v: Value | None) -> Perm | None:
    """The permutation of the transpose that makes `v`."""
    return v.node.attrs["perm"] if v is not None and v.node and v.node.op.name == "transpose" else None


def _transposed(x: Value, perm: Perm) -> Value:
    """x with permuted axes: merged with a transpose before it, a reshape, or nothing at all."""
    inner = _perm(x)
    if inner is not None:
        return _transposed(x.node.inputs[0], tuple(inner[p] for p in perm))  # type: ignore[union-attr, arg-type]
    if perm == tuple(range(x.rank)):
        return x
    moved = [p for p in perm if x.shape[p] != 1]
    if moved == sorted(moved):
        return _reshaped(x, tuple(x.shape[p] for p in perm))
    return OPS["transpose"](x, perm=perm)  # type: ignore[no-any-return]


def _reshaped(x: Value, shape: Shape) -> Value:
    while x.node is not None and x.node.op.name == "reshape":
        x = x.node.inputs[0]  # type: ignore[assignment]
    return x if x.shape == shape else OPS["reshape"](x, shape=shape)


def _merged_reshape(x: Value, shape: Shape) -> Value | None:
    """A reshape of a reshape, or of a transpose that moves only axes of size 1 or none."""
    inner = x.node.inputs[0] if x.node is not None and x.node.op.name in ("reshape", "transpose") else None
    if x.shape == shape:
        return x
    if inner is not None and x.node is not None and x.node.op.name == "reshape":
        return _reshaped(inner, shape)
    return None


def _linear(node: Node, inputs: Sequence[Value | None]) -> Value | None:
    """linear(flatten(transpose(x)), w): the columns of a fixed w are put in x's order instead."""
    x, w = inputs[0], inputs[1]
    if x is None or w is None or x.node is None or x.node.op.name != "reshape" or not is_fixed(w):
        return None
    before = x.node.inputs[0]
    perm = _perm(before)
    if perm is None or before is None or perm[0] != 0 or x.shape[0] != before.shape[0] or x.rank != 2:
        return None
    source = before.node.inputs[0]  # type: ignore[union-attr]
    sizes = before.shape[1:]
    if source is None or any(not isinstance(d, int) for d in sizes):
        return None
    out = int(w.shape[0])  # type: ignore[arg-type]
    inverse = tuple(int(i) for i in np.argsort(perm))
    columns = w.data.reshape(out, *sizes).transpose(inverse)  # type: ignore[attr-defined]
    data = np.ascontiguousarray(columns.reshape(out, -1))
    moved = Weight(data, name=w.name or "weight", trainable=False)
    flat = OPS["reshape"](source, shape=x.shape)
    return node.op.node((flat, moved, *inputs[2:]), node.attrs, node.source).results[0]


def _reduction(node: Node, x: Value, perm: Perm) -> Value:
    axes = tuple(sorted(perm[a] for a in node.attrs["axes"]))
    source = x.node.inputs[0]  # type: ignore[union-attr]
    y = node.op(source, axes=axes, keep_dims=node.attrs["keep_dims"])
    if node.attrs["keep_dims"]:
        return _transposed(y, perm)
    kept = [p for p in perm if p not in axes]
    return _transposed(y, tuple(sorted(kept).index(p) for p in kept))


def _along_axes(node: Node, inputs: Sequence[Value | None], perm: Perm) -> Value | None:
    """Operators with attributes by axis: the attributes are permuted as well."""
    sources = [_before(v, perm) for v in inputs]
    if any(s is None for s in sources):
        return None
    attrs: dict[str, Any] = dict(node.attrs)
    for name, value in attrs.items():
        if name == "axis":
            attrs[name] = perm[value]
        elif isinstance(value, tuple):
            attrs[name] = tuple(value[perm.index(i)] for i in range(len(perm)))
    return _transposed(node.op(*sources, **attrs), perm)


def _elementwise(node: Node, inputs: Sequence[Value | None], perm: Perm) -> Value | None:
    sources = [None if v is None else _before(v, perm) for v in inputs]
    if any(s is None and v is not None for s, v in zip(sources, inputs, strict=True)):
        return None
    return _transposed(node.op.node(sources, node.attrs, node.source).results[0], perm)


def _before(v: Value | None, perm: Perm) -> Value | None:
    """A value whose transpose by `perm` is `v` (stretched to its rank), if that costs nothing."""
    if v is None:
        return None
    if _perm(v) == perm:
        return v.node.inputs[0]  # type: ignore[union-attr]
    if v.rank == 0:
        return v
    shape = (1,) * (len(perm) - v.rank) + v.shape
    inverse = tuple(int(i) for i in np.argsort(perm))
    if is_fixed(v):
        data = np.ascontiguousarray(v.data.reshape(shape).transpose(inverse))  # type: ignore[attr-defined]
        if isinstance(v, Weight):
            return Weight(data, name=v.name or "weight", trainable=False)
        return Constant(data)
    if sum(d != 1 for d in shape) <= 1:
        return _transposed(_reshaped(v, shape), inverse)
    return None
