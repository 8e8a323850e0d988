"""Normalisation: over a batch, a layer, groups of channels, neighbours."""

from __future__ import annotations

from typing import Any

import numpy as np

from converter.errors import ConvertError
from converter.items import Item, as_value, axis_of, floats, product, shape_of, static
from converter.onnx.rules.common import Reader, rule
from converter.onnx.rules.windows import to_channels_first, to_channels_last
from ir.graph import Constant, Value
from ir.ops.compare import equal, where
from ir.ops.conv import depthwise_conv2d
from ir.ops.elementwise import abs, pow, reciprocal, sqrt
from ir.ops.norm import batch_norm, layer_norm
from ir.ops.reduce import reduce_mean, reduce_sum
from ir.ops.shaping import broadcast_to, reshape

Axes = tuple[int, ...]


@rule("BatchNormalization")
def batch_normalization(
    _: Reader, attrs: dict[str, Any], x: Item, scale: Item, bias: Item, mean: Item, variance: Item
) -> Any:
    v = floats(x)
    parts = [floats(p) for p in (scale, bias, mean, variance)]
    epsilon = attrs.get("epsilon", 1e-5)
    if attrs.get("training_mode"):
        return _of_this_batch(v, *parts, epsilon, attrs.get("momentum", 0.9))
    if v.rank == 2:
        return batch_norm(v, *parts, epsilon=epsilon)
    return to_channels_first(batch_norm(to_channels_last(v), *parts, epsilon=epsilon), v.rank)


def _of_this_batch(
    x: Value, scale: Value, bias: Value, mean: Value, variance: Value, epsilon: float, keep: float
) -> tuple[Value, Value, Value]:
    """With the batch's own moments, and the running ones moved towards them."""
    axes = (0, *range(2, x.rank))
    own = reduce_mean(x, axes=axes, keep_dims=True)
    spread = reduce_mean((x - own) * (x - own), axes=axes, keep_dims=True)
    shape = (1, -1, *(1,) * (x.rank - 2))
    channel = (reshape(p, shape=tuple(p.shape[0] if d == -1 else d for d in shape))
               for p in (scale, bias))  # fmt: skip
    gain, shift = channel
    y = (x - own) / sqrt(spread + epsilon) * gain + shift
    moved = (
        old * keep + reshape(new, shape=old.shape) * (1 - keep)
        for old, new in ((mean, own), (variance, spread))
    )
    return (y, *moved)


def _normalised(x: Value, axes: Axes, epsilon: float) -> tuple[Value, Value, Value]:
    """(x without its mean over the axes and in units of its deviation, mean, 1 / deviation)"""
    mean = reduce_mean(x, axes=axes, keep_dims=True)
    centred = x - mean
    unit = reciprocal(sqrt(reduce_mean(centred * centred, axes=axes, keep_dims=True) + epsilon))
    return centred * unit, mean, unit


@rule("LayerNormalization")
def layer_normalization(
    _: Reader, attrs: dict[str, Any], x: Item, scale: Item, bias: Item = None
) -> Any:
    v, epsilon = floats(x), attrs.get("epsilon", 1e-5)
    axis = axis_of(attrs.get("axis", -1), v.rank)
    y, mean, unit = _normalised(v, tuple(range(axis, v.rank)), epsilon)
    if axis == v.rank - 1 and shape_of(scale) == v.shape[-1:]:
        if bias is None:
            bias = np.zeros(static(shape_of(scale), "scale"), np.float32)
        y = layer_norm(v, floats(scale), floats(bias), epsilon=epsilon)
        return y, mean, unit
    y = y * floats(scale)
    return y if bias is None else y + floats(bias), mean, unit


@rule("RMSNormalization")
def rms_normalization(_: Reader, attrs: dict[str, Any], x: Item, scale: Item) -> Item:
    v = floats(x)
    axes = tuple(range(axis_of(attrs.get("axis", -1), v.rank), v.rank))
    square = reduce_mean(v * v, axes=axes, keep_dims=True)
    return v / sqrt(square + attrs.get("epsilon", 1e-5)) * floats(scale)  # type: ignore[no-any-return]


@rule("InstanceNormalization")
def instance_normalization(
    _: Reader, attrs: dict[str, Any], x: Item, scale: Item, bias: Item
) -> Item:
    v = floats(x)
    y, _mean, _unit = _normalised(v, tuple(range(2, v.rank)), attrs.get("epsilon", 1e-5))
    gain, shift = (_by_channel(p, v.rank) for p in (scale, bias))
    return y * gain + shift  # type: ignore[no-any-return]


def _by_channel(p: Item, rank: int) -> Value:
    v = floats(p)
    return reshape(v, shape=(1, v.shape[0], *(1,) * (rank - 2)))  # type: ignore[no-any-return]


@rule("GroupNormalization")
def group_normalization(
    reader: Reader, attrs: dict[str, Any], x: Item, scale: Item, bias: Item
) -> Item:
    v, groups = floats(x), attrs["num_groups"]
    n, c, *spatial = v.shape
    apart = reshape(v, shape=(n, groups, c // groups, *spatial))
    y, _mean, _unit = _normalised(apart, tuple(range(2, apart.rank)), attrs.get("epsilon", 1e-5))
    if reader.opset < 21:  # one scale and bias a group
        gain, shift = (_by_channel(p, apart.rank) for p in (scale, bias))
        return reshape(y * gain + shift, shape=v.shape)  # type: ignore[no-any-return]
    gain, shift = (_by_channel(p, v.rank) for p in (scale, bias))
    return reshape(y, shape=v.shape) * gain + shift  # type: ignore[no-any-return]


@rule("MeanVarianceNormalization")
def mean_variance_normalization(_: Reader, attrs: dict[str, Any], x: Item) -> Item:
    v = floats(x)
    axes = tuple(axis_of(a, v.rank) for a in attrs.get("axes", (0, 2, 3)))
    return _normalised(v, axes, 1e-9)[0]


@rule("LpNormalization")
def lp_normalization(_: Reader, attrs: dict[str, Any], x: Item) -> Item:
    v, p = floats(x), attrs.get("p", 2)
    if p not in (1, 2):
        raise ConvertError(f"p is {p}, want 1 or 2")
    axes = (axis_of(attrs.get("axis", -1), v.rank),)
    norm = reduce_sum(abs(v) if p == 1 else v * v, axes=axes, keep_dims=True)
    norm = norm if p == 1 else sqrt(norm)
    return v / where(equal(norm, 0.0), 1.0, norm)  # type: ignore[no-any-return]


@rule("LRN")
def local_response_normalization(_: Reader, attrs: dict[str, Any], x: Item) -> Item:
    """The squares of neighbouring channels, summed as a convolution along them."""
    v, size = floats(x), attrs["size"]
    n, c, *spatial = v.shape
    image = reshape(v * v, shape=(n, c, product(spatial), 1))
    before = (size - 1) // 2
    pads = (before, 0, size - 1 - before, 0)
    total = depthwise_conv2d(image, Constant(np.ones((size, 1, 1), np.float32)), pads=pads)
    scale = reshape(total, shape=v.shape) * (attrs.get("alpha", 1e-4) / size)
    return v / pow(scale + attrs.get("bias", 1.0), attrs.get("beta", 0.75))  # type: ignore[no-any-return]


@rule("Dropout")
def dropout(
    _: Reader, attrs: dict[str, Any], x: Item, ratio: Item = None, training: Item = None
) -> Any:
    """What it is when it does not train: all that comes in."""
    if training is not None and not (isinstance(training, np.ndarray) and not training.any()):
        raise ConvertError("training_mode that is not false; want a model for inference")
    v = as_value(x)
    return x, broadcast_to(Constant(np.ones((), np.bool_)), shape=v.shape)
