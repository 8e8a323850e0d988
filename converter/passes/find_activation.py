"""Activations that exporters write out in small operators become one operator again."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from ir.graph import Graph, Node, Value, is_fixed
from ir.op import OPS
from ir.passes.rewrite import rewrite

ROUNDING = 1e-5  # relative; constants were rounded to float32, some of them more than once


def find_activation(graph: Graph) -> Graph:
    """x sigmoid(x) -> silu, x clip(x + 3, 0, 6) / 6 -> hard_swish, gelu by erf or by tanh.

    The results are those of the source up to the rounding of its constants.
    """

    def find(node: Node, inputs: Sequence[Value | None]) -> Value | None:
        if node.op.name not in ("mul", "div"):
            return None
        number, factors = _product(node.op.name, inputs)
        for pattern in (_hard_sigmoid, _silu, _hard_swish, _gelu):
            y = pattern(number, factors)
            if y is not None and y.shape == node.results[0].shape:  # [1] as a number adds an axis
                return y
        return None

    return rewrite(graph, find)


def _hard_sigmoid(number: float, factors: Sequence[Value]) -> Value | None:
    if len(factors) != 1 or not _near(number, 1 / 6):
        return None
    x = _shifted_clip(factors[0])
    return None if x is None else OPS["hard_sigmoid"](x, alpha=1 / 6, beta=0.5)


def _silu(number: float, factors: Sequence[Value]) -> Value | None:
    return _times(number, 1, factors, lambda v: _argument(v, "sigmoid"), "silu")


def _hard_swish(number: float, factors: Sequence[Value]) -> Value | None:
    def gate(v: Value) -> Value | None:
        x, attrs = _argument(v, "hard_sigmoid"), v.node.attrs if v.node else {}
        return x if x and _near(attrs["alpha"], 1 / 6) and _near(attrs["beta"], 0.5) else None

    return _times(number, 1, factors, gate, "hard_swish") or _times(
        number, 1 / 6, factors, _shifted_clip, "hard_swish"
    )


def _gelu(number: float, factors: Sequence[Value]) -> Value | None:
    return _times(number, 0.5, factors, _erf_gate, "gelu") or _times(
        number, 0.5, factors, _tanh_gate, "gelu", approximate="tanh"
    )


def _times(
    number: float,
    wanted: float,
    factors: Sequence[Value],
    gate: Callable[[Value], Value | None],
    name: str,
    **attrs: str,
) -> Value | None:
    """The operator `name` of x, where the factors are `wanted`, x and a gate of x."""
    if len(factors) != 2 or not _near(number, wanted):
        return None
    for x, other in (factors, factors[::-1]):
        if gate(other) is x:
            return OPS[name](x, **attrs)  # type: ignore[no-any-return]
    return None


def _shifted_clip(v: Value) -> Value | None:
    """x, where v = clip(x + 3, 0, 6)."""
    inner = _argument(v, "clip")
    if inner is None or v.node is None or (v.node.attrs["low"], v.node.attrs["high"]) != (0, 6):
        return None
    return _plus(inner, 3)


def _erf_gate(v: Value) -> Value | None:
    """x, where v = 1 + erf(x / sqrt 2)."""
    inner = _argument(_plus(v, 1), "erf")
    number, factors = number_and_factors(inner)
    return factors[0] if len(factors) == 1 and _near(number, math.sqrt(0.5)) else None


def _tanh_gate(v: Value) -> Value | None:
    """x, where v = 1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))."""
    number, factors = number_and_factors(_argument(_plus(v, 1), "tanh"))
    total = factors[0].node if len(factors) == 1 else None
    if total is None or total.op.name != "add" or not _near(number, math.sqrt(2 / math.pi)):
        return None
    for x, cube in (total.inputs, total.inputs[::-1]):
        scale, parts = number_and_factors(cube)
        if x is not None and _near(scale, 0.044715) and (parts == [x] * 3 or _cube_of(parts) is x):
            return x
    return None


def _cube_of(parts: Sequence[Value]) -> Value | None:
    made = parts[0].node if len(parts) == 1 else None
    if made is None or made.op.name != "pow" or constant_number(made.inputs[1]) != 3:
        return None
    return made.inputs[0]


def _argument(v: Value | None, name: str) -> Value | None:
    """x, where v = name(x)."""
    made = v.node if v is not None else None
    return made.inputs[0] if made is not None and made.op.name == name else None


def _plus(v: Value | None, number: float) -> Value | None:
    """x, where v = x + number."""
    made = v.node if v is not None else None
    if made is None or made.op.name != "add":
        return None
    for x, n in (made.inputs, made.inputs[::-1]):
        if (found := constant_number(n)) is not None and _near(found, number):
            return x
    return None


def number_and_factors(v: Value | None) -> tuple[float, list[Value]]:
    """v as a number times values."""
    if v is None:
        return 1.0, []
    if (number := constant_number(v)) is not None:
        return number, []
    if v.node is not None and v.node.op.name in ("mul", "div"):
        return _product(v.node.op.name, v.node.inputs)
    return 1.0, [v]


def _product(name: str, inputs: Sequence[Value | None]) -> tuple[float, list[Value]]:
    """mul or div of the inputs as a number times values."""
    (a, left), (b, right) = map(number_and_factors, inputs)
    if name == "mul":
        return a * b, left + right
    if right or b == 0:  # something is divided by what is no number: leave it whole
        return math.nan, []
    return a / b, left


def constant_number(v: Value | None) -> float | None:
    """The number that a constant of one element holds."""
    if v is None or not is_fixed(v) or not v.dtype.is_float:
        return None
    data = v.data  # type: ignore[attr-defined]
    return float(data.reshape(-1)[0]) if data.size == 1 and data.ndim <= 1 else None


def _near(a: float, b: float) -> bool:
    return bool(np.isclose(a, b, rtol=ROUNDING, atol=0))
