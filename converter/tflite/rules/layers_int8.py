"""Layers with weights on int8 and int16, as TFLite's reference kernels compute them."""

from __future__ import annotations

from typing import Any

import numpy as np

from converter.errors import ConvertError
from converter.items import Item, static
from converter.tflite.rules.common import (
    STORED,
    UNSIGNED,
    Call,
    Reader,
    as_value,
    clamp_of,
    is_stored,
    is_wide,
    meaning,
    rule,
    scale_of,
    scales_of,
    sizes,
    zero_of,
)
from converter.tflite.rules.layers import (
    groups_of,
    image_of,
    pads_of,
    result_shape,
    rows,
    window,
)
from converter.tflite.rules.parts import along, reshaped
from ir.graph import Array, Constant, Value
from ir.op import OPS
from ir.quantization import (
    HIGHEST,
    LOWEST,
    MOST_BIAS_16,
    MOST_SHIFT_16,
    channel_multipliers,
    rounded_once,
)

BIAS = 2  # its place among the inputs of layers


def _fits(call: Call, x: int, w: int, item: Item, b: Item) -> bool:
    """Whether input x and the result are int8, and the weight is and is known. On int16 sums have
    64 bits, as the bias has, weights no zero point, and no number is beyond what those sums hold.
    """
    if not is_stored(call.ins[w]) or not isinstance(item, np.ndarray):
        return False
    if not is_wide(call.ins[x]):
        return is_stored(call.ins[x]) and is_stored(call.y)
    bias = call.ins[BIAS] if len(call.ins) > BIAS else None
    return (
        is_wide(call.y)
        and (bias is None or bias.element == np.int64)
        and not _exceeds_int8(_moved(item, call, w))
        and _holds(call, x, w, b)
    )


def _holds(call: Call, x: int, w: int, b: Item) -> bool:
    """Whether multipliers and biases are among those that layers on int16 take."""
    largest = float(scales_of(call.input(w)).scale.max())
    real = scale_of(call.input(x)) * largest / scale_of(call.y)
    if real > 2.0**MOST_SHIFT_16 * (1 - 1e-6):  # where products of scales are float32, too
        return False
    given = b if isinstance(b, np.ndarray) else np.zeros(0, np.int64)
    return not ((given > MOST_BIAS_16) | (given < -MOST_BIAS_16)).any()


def _finish(
    call: Call, x: int, w: int, channels: int, bias: Item
) -> tuple[list[Value], dict[str, int]]:
    """bias, multiplier and shift of each channel, and the numbers that go with them."""
    scale, zero = meaning(call.input(x))
    weights = scales_of(call.input(w)).scale
    if weights.size not in (1, channels):
        raise ConvertError(f"{weights.size} scales for {channels} channels")
    whole = weights.size == 1 and call.name == "FULLY_CONNECTED"
    if whole or call.input(x).element == UNSIGNED:  # there the product of scales is float32
        scale, weights = 1.0, np.float32(scale) * weights
    weights = np.broadcast_to(weights, (channels,))
    multiplier, shift = channel_multipliers(scale, weights, scale_of(call.y))
    wide = is_wide(call.y)
    if call.name == "FULLY_CONNECTED" and not wide:
        multiplier, shift = rounded_once(scale * weights.astype(np.float64) / scale_of(call.y))
    low, high = clamp_of(call)
    numbers = {"x_zero": zero, "y_zero": zero_of(call.y), "low": low, "high": high}
    given = np.zeros(channels, np.int32) if bias is None else bias
    if not isinstance(given, np.ndarray) or given.shape != (channels,) or given.dtype.kind != "i":
        raise ConvertError(f"a bias that is no {channels} known integers")
    ends = given.astype(np.int64 if wide else np.int32), multiplier, shift
    return [Constant(a) for a in ends], numbers


def _moved(w: Array, call: Call, i: int) -> Array:
    """The weight without its zero point, in int16."""
    t = call.input(i)
    s = scales_of(t)
    zero = s.zero + LOWEST if t.element == UNSIGNED else s.zero
    if zero.size > 1 and zero.any():
        raise ConvertError("a zero point for each channel, want 0 for all")
    return w.astype(np.int16) - np.int16(zero[0])


def _weight(reader: Reader, call: Call, i: int, w: Array, how: str) -> Value:
    t = call.input(i)
    return reader.weight(w.astype(np.int8), t.name, (t.buffer, t.name, how, w.shape))


def _halves(w: Array, axis: int) -> Array:
    """Numbers of [-255, 255] as sums of two that int8 holds, behind each other on `axis`."""
    first = np.clip(w, LOWEST, HIGHEST)
    return np.concatenate([first, w - first], axis)


def _exceeds_int8(w: Array) -> bool:
    return bool((w < LOWEST).any() or (w > HIGHEST).any())


@rule(STORED, "CONV_2D")
def conv(reader: Reader, call: Call, x: Item, w: Item, b: Item = None) -> Item:
    if not _fits(call, 0, 1, w, b):
        return None
    image, data = image_of(x), _moved(w, call, 1)  # type: ignore[arg-type]
    groups = groups_of(image.shape, data.shape)
    options = window(call, image.shape, data.shape[1:3])
    return _conv(reader, call, (0, 1), image, data, b, {"groups": groups, **options})


def _conv(
    reader: Reader, call: Call, at: tuple[int, int], x: Value, w: Array, b: Item, attrs: Any
) -> Item:
    """w: int16 [k,r,s,c]. One that int8 does not hold, of an old file with a zero point, is two
    weights on twice the channels."""
    if _exceeds_int8(w):
        if attrs["groups"] > 1:
            raise ConvertError("groups with weights beyond int8")
        w, x = _halves(w, 3), OPS["concat"](x, x, axis=3)
    ends, numbers = _finish(call, *at, w.shape[0], b)
    weight = _weight(reader, call, at[1], w, "conv")
    return OPS["quantized_conv2d"](x, weight, *ends, **attrs, **numbers)  # type: ignore[no-any-return]


@rule(STORED, "DEPTHWISE_CONV_2D")
def depthwise(reader: Reader, call: Call, x: Item, w: Item, b: Item = None) -> Item:
    if not _fits(call, 0, 1, w, b):
        return None
    image, data = image_of(x), _moved(w, call, 1)[0]  # type: ignore[arg-type]
    r, s, k = data.shape
    options, (c,) = window(call, image.shape, (r, s)), static(image.shape[3:], "channels")
    ends, numbers = _finish(call, 0, 1, k, b)
    if k == c and not _exceeds_int8(data):
        weight = _weight(reader, call, 1, data, "depthwise")
        return OPS["quantized_depthwise_conv2d"](image, weight, *ends, **options, **numbers)  # type: ignore[no-any-return]
    groups = groups_of(image.shape, (k, r, s, 1))
    filters = data.transpose(2, 0, 1)[..., None]
    if _exceeds_int8(data):
        filters = _halves(filters, 3)
        image = OPS["gather"](image, Constant(np.arange(c, dtype=np.int32).repeat(2)), axis=3)
    weight = _weight(reader, call, 1, filters, "filters")
    return OPS["quantized_conv2d"](image, weight, *ends, groups=groups, **options, **numbers)  # type: ignore[no-any-return]


@rule(STORED, "FULLY_CONNECTED")
def fully_connected(reader: Reader, call: Call, x: Item, w: Item, b: Item = None) -> Item:
    if not _fits(call, 0, 1, w, b):
        return None
    data, flat = _moved(w, call, 1), as_value(rows(call, x, w))  # type: ignore[arg-type]
    shape = result_shape(call, x, data)
    ends, numbers = _finish(call, 0, 1, data.shape[0], b)
    if _exceeds_int8(data):
        data, flat = _halves(data, 1), OPS["concat"](flat, flat, axis=flat.rank - 1)
    weight = _weight(reader, call, 1, data, "linear")
    return reshaped(OPS["quantized_linear"](flat, weight, *ends, **numbers), shape)


@rule(STORED, "TRANSPOSE_CONV")
def transpose_conv(
    reader: Reader, call: Call, size: Item, w: Item, x: Item, b: Item = None
) -> Item:
    """A convolution with the filter turned around, of the image with zeros between its places."""
    if is_wide(call.y) or not _fits(call, 2, 1, w, b):
        return None
    image, data = image_of(x), _moved(w, call, 1)  # type: ignore[arg-type]
    strides = (call.attrs["stride_h"], call.attrs["stride_w"])
    space = static(tuple(sizes(size, "output_shape")[1:3]), "output_shape")
    kernel = data.shape[1:3]
    if min(*strides, *kernel, *space) < 1:
        raise ConvertError(f"windows of {list(kernel)}, strides {list(strides)} to {list(space)}")
    before = pads_of(call.attrs["padding"], space, kernel, strides, (1, 1))[:2]
    zero = zero_of(call.input(2))
    grown, pads = _spread(image, strides, zero), [0, 0, 0, 0]
    for i, (k, s) in enumerate(zip(kernel, strides, strict=True)):
        (n,) = static(image.shape[i + 1 : i + 2], "image")
        pads[i] = k - 1 - before[i]
        after = space[i] + k - 1 - n * s - pads[i]
        pads[i + 2] = max(after, 0)
        grown = as_value(along(grown, i + 1, 0, n * s + min(after, 0)))
    if min(pads) < 0:
        raise ConvertError(f"windows of {list(kernel)} do not reach {list(space)}")
    turned = data[:, ::-1, ::-1]
    options = {"strides": (1, 1), "dilations": (1, 1), "pads": tuple(pads), "groups": 1}
    return _conv(reader, call, (2, 1), grown, turned, b, options)


def _spread(x: Value, strides: tuple[int, int], zero: int) -> Value:
    """[n,h,w,c] -> [n, h strides[0], w strides[1], c], the zero point between what was there."""
    n, h, w, c = x.shape
    apart = OPS["reshape"](x, shape=(n, h, 1, w, 1, c))
    after = (0, 0, strides[0] - 1, 0, strides[1] - 1, 0)
    wide = OPS["pad"](apart, before=(0,) * 6, after=after, value=float(zero))
    y: Value = OPS["reshape"](wide, shape=(n, h * strides[0], w * strides[1], c))
    return y
