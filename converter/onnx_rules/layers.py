"""Layers with weights, and softmax."""

from __future__ import annotations

from typing import Any

import numpy as np

from converter.errors import ConvertError
from converter.onnx_rules.common import (
    Item,
    Reader,
    as_value,
    axis_of,
    compute,
    product,
    rule,
    shape_of,
    static,
)
from converter.onnx_rules.windows import to_channels_first, to_channels_last, window
from ir.graph import Value, Weight
from ir.op import OPS


@rule("Conv")
def conv(reader: Reader, attrs: dict[str, Any], x: Item, w: Item, b: Item = None) -> Item:
    shape = shape_of(w)
    rank, groups = len(shape), attrs.get("group", 1)
    xt = to_channels_last(x)
    size = static(shape[2:], "kernel")
    options = window(attrs, xt, size)
    four = (lambda a: a[..., None]) if rank == 3 else (lambda a: a)
    bias = None if b is None else as_value(b)
    if groups > 1 and groups == xt.shape[3] == shape[0]:
        w = reader.arrange(w, "depthwise", lambda a: four(a)[:, 0].transpose(1, 2, 0))
        y = OPS["depthwise_conv2d"](xt, as_value(w), bias, **options)
    else:
        w = reader.arrange(w, "conv", lambda a: four(a).transpose(0, 2, 3, 1))
        y = OPS["conv2d"](xt, as_value(w), bias, groups=groups, **options)
    return to_channels_first(y, rank)


@rule("BatchNormalization")
def batch_norm(
    _: Reader, attrs: dict[str, Any], x: Item, scale: Item, bias: Item, mean: Item, variance: Item
) -> Item:
    v = as_value(x)
    parts = [as_value(p) for p in (scale, bias, mean, variance)]
    epsilon = attrs.get("epsilon", 1e-5)
    if v.rank == 2:
        return OPS["batch_norm"](v, *parts, epsilon=epsilon)
    return to_channels_first(
        OPS["batch_norm"](to_channels_last(v), *parts, epsilon=epsilon), v.rank
    )


@rule("LayerNormalization")
def layer_norm(_: Reader, attrs: dict[str, Any], x: Item, scale: Item, bias: Item = None) -> Item:
    v = as_value(x)
    if axis_of(attrs.get("axis", -1), v.rank) != v.rank - 1:
        raise ConvertError(f"axis {attrs['axis']} of rank {v.rank}; want the last axis")
    if bias is None:
        bias = np.zeros(static(shape_of(scale), "scale"), np.float32)
    return OPS["layer_norm"](v, as_value(scale), as_value(bias), epsilon=attrs.get("epsilon", 1e-5))


@rule("Gemm")
def gemm(reader: Reader, attrs: dict[str, Any], a: Item, b: Item, c: Item = None) -> Item:
    alpha, beta = attrs.get("alpha", 1.0), attrs.get("beta", 1.0)
    x = OPS["transpose"](as_value(a), perm=(1, 0)) if attrs.get("transA") else as_value(a)
    transposed = bool(attrs.get("transB"))
    if c is not None and beta != 1.0:
        c = compute(OPS["mul"], c, np.float32(beta))
    if isinstance(b, (Weight, np.ndarray)):
        how = f"linear {transposed} {alpha}"
        w = reader.arrange(b, how, lambda m: (m if transposed else m.T) * np.float32(alpha))
        if c is None or shape_of(c) == (shape_of(w)[0],):
            return OPS["linear"](x, as_value(w), None if c is None else as_value(c))
        return compute(OPS["add"], OPS["linear"](x, as_value(w)), c)
    y = OPS["matmul"](x, as_value(b), transpose_b=transposed)
    y = y if alpha == 1.0 else y * alpha
    return y if c is None else compute(OPS["add"], y, c)


@rule("MatMul")
def matmul(reader: Reader, attrs: dict[str, Any], a: Item, b: Item) -> Item:
    if isinstance(a, Value) and isinstance(b, (Weight, np.ndarray)) and len(shape_of(b)) == 2:
        return OPS["linear"](a, as_value(reader.arrange(b, "linear False 1.0", lambda m: m.T)))
    return compute(OPS["matmul"], a, b)


@rule("Softmax")
def softmax(reader: Reader, attrs: dict[str, Any], x: Item) -> Item:
    return _softmax("softmax", reader, attrs, as_value(x))


@rule("LogSoftmax")
def log_softmax(reader: Reader, attrs: dict[str, Any], x: Item) -> Item:
    return _softmax("log_softmax", reader, attrs, as_value(x))


def _softmax(name: str, reader: Reader, attrs: dict[str, Any], x: Value) -> Value:
    """Before opset 13 everything from `axis` on is one axis."""
    axis = axis_of(attrs.get("axis", -1 if reader.opset >= 13 else 1), x.rank)
    if reader.opset >= 13 or axis == x.rank - 1:
        return OPS[name](x, axis=axis)
    flat = OPS["reshape"](x, shape=(*x.shape[:axis], product(x.shape[axis:])))
    return OPS["reshape"](OPS[name](flat, axis=axis), shape=x.shape)
