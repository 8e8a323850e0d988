"""Fewer nodes for the same numbers: what differentiation by rules leaves behind."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ir.graph import Constant, Graph, Node, Value
from ir.op import OPS
from ir.passes.rewrite import rewrite

Inputs = Sequence[Value | None]


def simplified(graph: Graph) -> Graph:
    """Ones and twice-arranged values vanish, numbers are computed, stretched numbers stay numbers.

    Every rule is exact: results are the same bits.
    """

    def simplify(node: Node, inputs: Inputs) -> Value | None:
        for rule in _RULES:
            found = rule(node, inputs)
            if found is not None:
                again = found.node and simplify(found.node, found.node.inputs)
                return again or found
        return None

    return rewrite(graph, simplify)


def _number(node: Node, inputs: Inputs) -> Value | None:
    """An operation on numbers alone, computed."""
    if len(node.results) > 1 or node.results[0].shape != ():
        return None
    arrays = [v.data for v in inputs if isinstance(v, Constant)]
    if not arrays or len(arrays) != len(inputs) or any(a.ndim for a in arrays):
        return None
    y = node.op.ref(*arrays, **node.attrs)
    return Constant(np.asarray(y, node.results[0].dtype.numpy))


def _times_one(node: Node, inputs: Inputs) -> Value | None:
    """x * 1, 1 * x, x / 1 -> x"""
    if node.op.name not in ("mul", "div"):
        return None
    a, b = inputs
    if _is_one(b):
        return a
    return b if node.op.name == "mul" and _is_one(a) else None


def _same_shape(node: Node, inputs: Inputs) -> Value | None:
    """reshape and broadcast_to that change nothing; reshape of reshape -> one"""
    if node.op.name not in ("reshape", "broadcast_to"):
        return None
    (x,) = inputs
    assert x is not None
    if x.shape == node.results[0].shape:
        return x
    if x.node is None or node.op.name != "reshape" or x.node.op.name != "reshape":
        return None
    return _call("reshape", x.node.inputs[0], shape=node.attrs["shape"])


def _stretched_number(node: Node, inputs: Inputs) -> Value | None:
    """broadcast_to of a number that was reshaped or stretched before -> of the number itself"""
    if node.op.name not in ("broadcast_to", "reshape"):
        return None
    source = _number_under(inputs[0])
    if source is None or source is inputs[0] or not node.results[0].shape:
        return None
    return _call("broadcast_to", source, shape=node.results[0].shape)


def _times_stretched(node: Node, inputs: Inputs) -> Value | None:
    """x op broadcast_to(number) -> x op number, where x has the shape of the result"""
    if node.op.name not in ("add", "sub", "mul", "div"):
        return None
    a, b = inputs
    assert a is not None
    assert b is not None
    shape = node.results[0].shape
    if (n := _number_under(b)) is not None and n is not b and a.shape == shape:
        return _call(node.op.name, a, n)
    if (n := _number_under(a)) is not None and n is not a and b.shape == shape:
        return _call(node.op.name, n, b)
    return None


_RULES: tuple[Callable[[Node, Inputs], Value | None], ...] = (
    _number,
    _times_one,
    _same_shape,
    _stretched_number,
    _times_stretched,
)


def _number_under(v: Value | None) -> Value | None:
    """The scalar whose copies `v` holds, if that is all it holds."""
    while v is not None and v.shape != ():
        if v.node is None or v.node.op.name not in ("broadcast_to", "reshape"):
            return None
        v = v.node.inputs[0]
    return v


def _is_one(v: Value | None) -> bool:
    return isinstance(v, Constant) and v.shape == () and v.data == 1


def _call(name: str, *inputs: Value | None, **attrs: object) -> Value:
    y: Value = OPS[name](*inputs, **attrs)
    return y
