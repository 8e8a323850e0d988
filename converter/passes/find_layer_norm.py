"""Layer norm that older exporters write out in small operators becomes one operator again."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from converter.passes.find_activation import constant_number
from ir.graph import Constant, Graph, Node, Value, is_fixed
from ir.op import OPS
from ir.passes.rewrite import rewrite, uses


def find_layer_norm(graph: Graph) -> Graph:
    """(x - mean(x)) / sqrt(mean((x - mean(x))^2) + epsilon) over the last axis, and a scale and a
    bias behind it -> layer_norm(x, scale, bias)."""
    count = uses(graph)

    def find(node: Node, inputs: Sequence[Value | None]) -> Value | None:
        if node.op.name in ("div", "mul") and (y := _normalised(node.op.name, inputs)) is not None:
            return y
        if node.op.name in ("mul", "add"):
            for i in (0, 1):
                if count[node.inputs[i]] == 1:
                    y = _with(node.op.name, inputs[i], inputs[1 - i])
                    if y is not None:
                        return y
        return None

    return rewrite(graph, find)


def _normalised(name: str, inputs: Sequence[Value | None]) -> Value | None:
    """layer_norm of x, where the inputs are x - mean and what it is divided or multiplied by."""
    for centred, spread in (inputs, inputs[::-1]) if name == "mul" else (inputs,):
        deviation = spread if name == "div" else _input(spread, "reciprocal")
        if centred is None or (found := _variance(_input(deviation, "sqrt"))) is None:
            continue
        squared, epsilon = found
        x = _centred(centred)
        if x is None or epsilon is None or not _is_square(squared, centred):
            continue
        if x.rank and isinstance(size := x.shape[-1], int):
            ones = Constant(np.ones(size, x.dtype.numpy))
            zeros = Constant(np.zeros(size, x.dtype.numpy))
            return OPS["layer_norm"](x, ones, zeros, epsilon=epsilon)  # type: ignore[no-any-return]
    return None


def _with(name: str, y: Value | None, v: Value | None) -> Value | None:
    """The layer norm `y` with `v` as its scale or bias, where it has none yet."""
    norm = y.node if y is not None and y.node and y.node.op.name == "layer_norm" else None
    if norm is None or v is None or v.node is not None or y is None or v.shape != y.shape[-1:]:
        return None
    x, scale, bias = norm.inputs
    if not _all(bias, 0.0) or (name == "mul" and not _all(scale, 1.0)):
        return None
    new = (x, v, bias) if name == "mul" else (x, scale, v)
    return norm.op.node(new, norm.attrs, norm.source).results[0]


def _input(v: Value | None, name: str) -> Value | None:
    """x, where v = name(x)."""
    made = v.node if v is not None else None
    return made.inputs[0] if made is not None and made.op.name == name else None


def _centred(v: Value) -> Value | None:
    """x, where v = x - mean(x)."""
    if v.node is None or v.node.op.name != "sub":
        return None
    x, mean = v.node.inputs
    return x if x is not None and _mean_of(mean) is x else None


def _mean_of(v: Value | None) -> Value | None:
    """x, where v is its mean over the last axis, which stays as 1."""
    made = v.node if v is not None else None
    if made is None or made.op.name != "reduce_mean" or not made.attrs["keep_dims"]:
        return None
    x = made.inputs[0]
    return x if x is not None and made.attrs["axes"] == (x.rank - 1,) else None


def _variance(v: Value | None) -> tuple[Value, float] | None:
    """(squares, epsilon), where v = mean(squares) + epsilon."""
    made = v.node if v is not None else None
    if made is None or made.op.name != "add":
        return None
    for mean, number in (made.inputs, made.inputs[::-1]):
        squares, epsilon = _mean_of(mean), constant_number(number)
        if squares is not None and epsilon is not None:
            return squares, epsilon
    return None


def _is_square(v: Value, x: Value) -> bool:
    made = v.node
    if made is None:
        return False
    if made.op.name == "pow":
        return made.inputs[0] is x and constant_number(made.inputs[1]) == 2
    return made.op.name == "mul" and made.inputs == (x, x)


def _all(v: Value | None, number: float) -> bool:
    return isinstance(v, Constant) and is_fixed(v) and bool(np.all(v.data == number))
