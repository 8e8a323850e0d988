"""The functions that an operator may apply to its result before storing it."""

from __future__ import annotations

from enum import Enum
from typing import Any

from ir.graph import Value
from ir.op import OPS


class Activation(Enum):
    """`none`, or the name of an elementwise operator. The order is that of the codes in files."""

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
    return x if kind is Activation.none else OPS[kind.value](x)


def before_activation(g: Value, kind: Activation, recompute: Any) -> Value:
    """The gradient of the result before its activation, from that of the result.

    `recompute()` builds the result without the activation: the converter fuses activations after
    differentiation, so that the second computation is paid only by who differentiates a fused graph.
    """
    if kind is Activation.none:
        return g
    x = recompute()
    grad: Any = OPS[kind.value].grad
    return grad(g, activate(kind, x), x)[0]  # type: ignore[no-any-return]
