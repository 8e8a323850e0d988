"""Activations: those that are operators of the table, and those that are made of others."""

from __future__ import annotations

from typing import Any

from converter.items import Item, as_value, axis_of, compute, floats, iota, product
from converter.onnx.rules.common import Reader, rule
from ir.graph import Value
from ir.op import OPS
from ir.ops.compare import equal, greater, where
from ir.ops.elementwise import (
    abs,
    elu,
    gelu,
    hard_sigmoid,
    leaky_relu,
    mul,
    sigmoid,
    softplus,
    tanh,
)
from ir.ops.reduce import argmax
from ir.ops.shaping import cast, reshape
from ir.symbol import Dim


@rule("LeakyRelu")
def leaky(_: Reader, attrs: dict[str, Any], x: Item) -> Item:
    return compute(leaky_relu, x, alpha=attrs.get("alpha", 0.01))


@rule("Elu")
def elu_(_: Reader, attrs: dict[str, Any], x: Item) -> Item:
    return compute(elu, x, alpha=attrs.get("alpha", 1.0))


@rule("HardSigmoid")
def hard(_: Reader, attrs: dict[str, Any], x: Item) -> Item:
    return compute(hard_sigmoid, x, alpha=attrs.get("alpha", 0.2), beta=attrs.get("beta", 0.5))


@rule("Gelu")
def gelu_(_: Reader, attrs: dict[str, Any], x: Item) -> Item:
    return compute(gelu, x, approximate=attrs.get("approximate", "none"))


@rule("Selu")
def selu(_: Reader, attrs: dict[str, Any], x: Item) -> Item:
    alpha = attrs.get("alpha", 1.67326319217681884765625)
    return elu(floats(x), alpha=alpha) * attrs.get("gamma", 1.05070102214813232421875)


@rule("Celu")
def celu(_: Reader, attrs: dict[str, Any], x: Item) -> Item:
    alpha = attrs.get("alpha", 1.0)
    return elu(floats(x) * (1 / alpha)) * alpha


@rule("ThresholdedRelu")
def thresholded_relu(_: Reader, attrs: dict[str, Any], x: Item) -> Item:
    v = floats(x)
    return where(greater(v, attrs.get("alpha", 1.0)), v, 0.0)  # type: ignore[no-any-return]


@rule("PRelu")
def parametric_relu(_: Reader, attrs: dict[str, Any], x: Item, slope: Item) -> Item:
    zero = compute(OPS["sub"], x, x)
    return compute(where, compute(greater, x, zero), x, compute(mul, x, slope))


@rule("Shrink")
def shrink(_: Reader, attrs: dict[str, Any], x: Item) -> Item:
    v, bias, limit = floats(x), attrs.get("bias", 0.0), attrs.get("lambd", 0.5)
    y = where(greater(v, limit), v - bias, where(greater(-limit, v), v + bias, 0.0))
    kind = x.dtype if isinstance(x, Value) else v.dtype
    return y if kind is v.dtype else cast(y, to=kind)  # type: ignore[no-any-return]


@rule("Softsign")
def softsign(_: Reader, attrs: dict[str, Any], x: Item) -> Item:
    v = floats(x)
    return v / (abs(v) + 1.0)


@rule("Mish")
def mish(_: Reader, attrs: dict[str, Any], x: Item) -> Item:
    v = floats(x)
    return v * tanh(softplus(v))  # type: ignore[no-any-return]


@rule("Swish")
def swish(_: Reader, attrs: dict[str, Any], x: Item) -> Value:
    v, alpha = floats(x), attrs.get("alpha", 1.0)
    return v * sigmoid(v if alpha == 1.0 else v * alpha)  # type: ignore[no-any-return]


@rule("SwiGLU")
def swiglu(reader: Reader, attrs: dict[str, Any], a: Item, b: Item) -> Item:
    return swish(reader, attrs, a) * floats(b)  # type: ignore[no-any-return]


@rule("Softmax")
def softmax(reader: Reader, attrs: dict[str, Any], x: Item) -> Item:
    return _along(reader, attrs, floats(x), OPS["softmax"])


@rule("LogSoftmax")
def log_softmax(reader: Reader, attrs: dict[str, Any], x: Item) -> Item:
    return _along(reader, attrs, floats(x), OPS["log_softmax"])


@rule("Hardmax")
def hardmax(reader: Reader, attrs: dict[str, Any], x: Item) -> Item:
    return _along(reader, attrs, floats(x), _first_largest)


def _first_largest(x: Value, *, axis: int) -> Value:
    """1 at the first of the largest along the axis, 0 elsewhere."""
    shape: list[Dim] = [1] * x.rank
    shape[axis] = x.shape[axis]
    places = reshape(as_value(iota(x.shape[axis])), shape=tuple(shape))
    best = argmax(x, axis=axis, keep_dims=True)
    return cast(equal(best, places), to=x.dtype)  # type: ignore[no-any-return]


def _along(reader: Reader, attrs: dict[str, Any], x: Value, op: Any) -> Value:
    """Before opset 13 everything from `axis` on is one axis."""
    axis = axis_of(attrs.get("axis", -1 if reader.opset >= 13 else 1), x.rank)
    if reader.opset >= 13 or axis == x.rank - 1:
        return op(x, axis=axis)  # type: ignore[no-any-return]
    flat = reshape(x, shape=(*x.shape[:axis], product(x.shape[axis:])))
    return reshape(op(flat, axis=axis), shape=x.shape)  # type: ignore[no-any-return]
