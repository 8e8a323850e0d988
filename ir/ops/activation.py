"""The functions that an operator may apply to its result before storing it."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any

from ir.graph import Node, Value
from ir.op import OPS, Op


class Activation(Enum):
    """`none`, or an elementwise operator. The order is that of the codes in files."""

    none = "none"
    relu = "relu"
    relu6 = "relu6"
    hard_swish = "hard_swish"
    sigmoid = "sigmoid"
    tanh = "tanh"
    silu = "silu"
    gelu = "gelu"


def activate(kind: Activation, x: Any) -> Any:
    """The activation of an array, or of a value of a graph."""
    return x if kind is Activation.none else _operator(kind)(x)


def activation_of(node: Node) -> Activation | None:
    """The activation that the node is, exactly; None for any other node."""
    name, attrs = node.op.name, node.attrs
    if name == "clip":
        bounds = {(0.0, 6.0): Activation.relu6, (0.0, float("inf")): Activation.relu}
        return bounds.get((attrs["low"], attrs["high"]))
    plain = attrs == node.op.attrs  # of gelu: the exact one
    return Activation(name) if name in Activation.__members__ and plain else None


def before_activation(g: Value, kind: Activation, recompute: Callable[[], Any]) -> Value:
    """The gradient of the result before its activation, from that of the result.

    `recompute()` builds the result without the activation. The converter fuses activations after
    differentiation: only who differentiates a fused graph pays for the second computation.
    """
    if kind is Activation.none:
        return g
    x, operator = recompute(), _operator(kind)
    grad: Any = operator.grad
    return grad(g, operator(x), x, **operator.attrs)[0]


def _operator(kind: Activation) -> Op:
    return OPS["clip" if kind is Activation.relu6 else kind.value]  # clip: to [0, 6] by default
