"""Transposes sink through the graph until they meet their inverse and vanish.

The readers of channels-first formats wrap each layer in a pair of transposes. An operator that
does not care for the order of axes takes its inputs before the transpose, and the transpose goes
behind it; two that meet become one, and one that only moves axes of size 1 becomes a reshape. A
reshape sinks through elementwise operators in the same way, so that what it separated can fuse.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ir.graph import Graph, Node, Shape, Value, is_fixed
from ir.op import OPS
from ir.passes.rewrite import fixed_like, rewrite

REDUCTIONS = ("reduce_sum", "reduce_mean", "reduce_max", "reduce_min", "reduce_prod")
INDEX_REDUCTIONS = ("argmax", "argmin")
ALONG_AXES = ("concat", "pad", "slice", "softmax", "log_softmax", "cumsum", "same_shape")
Perm = tuple[int, ...]
Inputs = Sequence[Value | None]


def layout(graph: Graph) -> Graph:
    """The same graph with as few transposes as sinking them can leave."""
    while True:
        changed = rewrite(graph, _sink)
        if _cost(changed) >= _cost(graph):
            break
        graph = changed
    best = changed if _cost(changed) == _cost(graph) else graph
    return rewrite(best, _tidy)


def _cost(graph: Graph) -> tuple[int, int]:
    return sum(n.op.name == "transpose" for n in graph.nodes), len(graph.nodes)


def _sink(node: Node, inputs: Inputs) -> Value | None:
    """What computes the node's result with its inputs' transposes and reshapes behind it."""
    x, name = inputs[0] if inputs else None, node.op.name
    if x is None or len(node.results) != 1:
        return None
    if name == "transpose":
        return _transposed(x, node.attrs["perm"])
    if name == "reshape":
        return _reshaped(x, node.attrs["shape"])
    if name == "linear":
        return _linear(node, inputs)
    plain = node.op.family in ("elementwise", "compare") or name == "cast"
    if plain and (y := _behind_reshape(node, inputs)) is not None:
        return y
    perm = next((p for v in inputs if (p := _perm(v)) is not None), None)
    if perm is None:
        return None
    if name in REDUCTIONS or name in INDEX_REDUCTIONS:
        return _reduction(node, x, perm)
    if name in ALONG_AXES:
        return _along_axes(node, inputs, perm)
    return _elementwise(node, inputs, perm) if plain else None


def _tidy(node: Node, inputs: Inputs) -> Value | None:
    """A transpose that only moves axes of size 1 is a reshape, and two reshapes are one."""
    x = inputs[0] if inputs else None
    if x is None or node.op.name not in ("transpose", "reshape"):
        return None
    if node.op.name == "transpose" and not _moves_units(x.shape, node.attrs["perm"]):
        return None
    return _reshaped(x, node.results[0].shape)


def _made(node: Node, inputs: Inputs, attrs: dict[str, Any] | None = None) -> Value:
    """The node on other inputs, which may have something to sink in turn."""
    new = node.op.node(inputs, node.attrs if attrs is None else attrs, node.source)
    return _sink(new, new.inputs) or new.results[0]


def _perm(v: Value | None) -> Perm | None:
    """The permutation of the transpose that makes `v`."""
    made = v.node if v is not None else None
    return made.attrs["perm"] if made is not None and made.op.name == "transpose" else None


def _source(v: Value) -> Value:
    """What the node that makes `v` reads."""
    assert v.node is not None
    assert v.node.inputs[0] is not None
    return v.node.inputs[0]


def _transposed(x: Value, perm: Perm) -> Value:
    """x with permuted axes, merged with a transpose that makes it."""
    if (inner := _perm(x)) is not None:
        return _transposed(_source(x), tuple(inner[p] for p in perm))
    if perm == tuple(range(x.rank)):
        return x
    return OPS["transpose"](x, perm=perm)  # type: ignore[no-any-return]


def _reshaped(x: Value, shape: Shape) -> Value:
    """x in another shape, merged with a reshape that makes it, and transposes of no effect."""
    while x.node is not None and (
        x.node.op.name == "reshape"
        or (x.node.op.name == "transpose" and _moves_units(_source(x).shape, x.node.attrs["perm"]))
    ):
        x = _source(x)
    return x if x.shape == shape else OPS["reshape"](x, shape=shape)


def _moves_units(shape: Shape, perm: Perm) -> bool:
    """Whether the permutation leaves the order of all axes that are longer than 1."""
    moved = [p for p in perm if shape[p] != 1]
    return moved == sorted(moved)


def _behind_reshape(node: Node, inputs: Inputs) -> Value | None:
    """An elementwise operator whose inputs are reshapes of one shape, or numbers."""
    made = [v for v in inputs if v is not None and v.node and v.node.op.name == "reshape"]
    if not made or any(
        _source(v).shape != _source(made[0]).shape or v.shape != made[0].shape for v in made
    ):
        return None
    if any(v is not None and v not in made and v.rank for v in inputs) or not _source(made[0]).node:
        return None
    y = _made(node, [_source(v) if v in made else v for v in inputs])
    return _reshaped(y, made[0].shape)


def _linear(node: Node, inputs: Inputs) -> Value | None:
    """linear(flatten(transpose(x)), w): the columns of a fixed w are put in x's order instead."""
    x, w = inputs[0], inputs[1]
    if x is None or w is None or not is_fixed(w) or x.rank != 2:
        return None
    if x.node is None or x.node.op.name != "reshape" or (perm := _perm(_source(x))) is None:
        return None
    before, source = _source(x), _source(_source(x))
    sizes = before.shape[1:]
    if perm[0] != 0 or x.shape[0] != before.shape[0] or any(not isinstance(d, int) for d in sizes):
        return None
    out, inverse = w.shape[0], _inverse(perm)
    columns = w.data.reshape(out, *sizes).transpose(inverse)  # type: ignore[attr-defined]
    flat = OPS["reshape"](source, shape=x.shape)
    return _made(node, (flat, fixed_like(w, columns.reshape(out, -1)), *inputs[2:]))


def _reduction(node: Node, x: Value, perm: Perm) -> Value:
    axes = tuple(node.attrs.get("axes", (node.attrs.get("axis"),)))
    before = tuple(sorted(perm[a] for a in axes))
    where = {"axes": before} if "axes" in node.attrs else {"axis": before[0]}
    y = _made(node, (_source(x),), {**node.attrs, **where})
    if node.attrs["keep_dims"]:
        return _transposed(y, perm)
    kept = [p for p in perm if p not in before]
    return _transposed(y, tuple(sorted(kept).index(p) for p in kept))


def _along_axes(node: Node, inputs: Inputs, perm: Perm) -> Value | None:
    """Operators with attributes by axis: the attributes are permuted as well."""
    sources = [_before(v, perm) for v in inputs]
    if any(s is None for s in sources):
        return None
    attrs: dict[str, Any] = dict(node.attrs)
    for name, value in attrs.items():
        if name == "axis":
            attrs[name] = perm[value]
        elif isinstance(value, tuple):
            attrs[name] = tuple(value[i] for i in _inverse(perm))
    return _transposed(_made(node, sources, attrs), perm)


def _elementwise(node: Node, inputs: Inputs, perm: Perm) -> Value | None:
    sources = [None if v is None else _before(v, perm) for v in inputs]
    if any(s is None and v is not None for s, v in zip(sources, inputs, strict=True)):
        return None
    return _transposed(_made(node, sources), perm)


def _before(v: Value | None, perm: Perm) -> Value | None:
    """A value whose transpose by `perm` is `v` (stretched to its rank), if that costs nothing."""
    if v is None or v.rank > len(perm):
        return None
    if _perm(v) == perm:
        return _source(v)
    if v.rank == 0:
        return v
    shape, inverse = (1,) * (len(perm) - v.rank) + v.shape, _inverse(perm)
    if is_fixed(v):
        return fixed_like(v, v.data.reshape(shape).transpose(inverse))  # type: ignore[attr-defined]
    if sum(d != 1 for d in shape) <= 1:  # no more than a vector: a reshape does it
        return _reshaped(v, tuple(shape[i] for i in inverse))
    return None


def _inverse(perm: Perm) -> Perm:
    return tuple(int(i) for i in np.argsort(perm))
