"""Layers with weights, on real numbers."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

from converter.errors import ConvertError
from converter.items import Item, product, same_pads, shape_of, static
from converter.tflite.rules.common import (
    PLAIN,
    Call,
    Reader,
    activated,
    as_value,
    compute,
    rank_of,
    real,
    rule,
    sizes,
)
from converter.tflite.rules.parts import reshaped
from ir.graph import Value, Weight
from ir.op import OPS
from ir.symbol import Dim

SAME, VALID = 0, 1
MOST_WINDOW = 4096  # places of a window to one side


def window(call: Call, image: tuple[Dim, ...], size: tuple[int, ...]) -> dict[str, Any]:
    """strides, pads and dilations of a window of `size` over an image [n,h,w,c]."""
    attrs = call.attrs
    strides = (attrs["stride_h"], attrs["stride_w"])
    dilations = (attrs.get("dilation_h", 1), attrs.get("dilation_w", 1))
    if min(*strides, *dilations, *size) < 1 or max(*size, *strides, *dilations) > MOST_WINDOW:
        raise ConvertError(
            f"windows of {list(size)}, strides {list(strides)}, dilations {list(dilations)}; want "
            f"sizes from 1 to {MOST_WINDOW}"
        )
    return {
        "strides": strides,
        "pads": pads_of(attrs["padding"], image[1:3], size, strides, dilations),
        "dilations": dilations,
    }


def pads_of(
    kind: int, space: tuple[Dim, ...], size: Any, strides: Any, dilations: Any
) -> tuple[int, ...]:
    """Top, left, bottom, right."""
    if kind == VALID:
        return (0, 0, 0, 0)
    if kind != SAME:
        raise ConvertError(f"padding of kind {kind}")
    ends = []
    for i, (k, s, d) in enumerate(zip(size, strides, dilations, strict=True)):
        if (k - 1) * d + 1 <= s and k == 1:  # never padded, whatever the size
            ends.append((0, 0))
            continue
        if s == 1:  # as many results as places
            total = (k - 1) * d
            ends.append((total // 2, total - total // 2))
            continue
        (n,) = static(space[i : i + 1], "SAME padding")
        ends.append(same_pads(n, k, s, d, "SAME_UPPER"))
    return tuple(p[i] for i in (0, 1) for p in ends)


def image_of(item: Item) -> Value:
    x = as_value(item)
    if x.rank != 4:
        raise ConvertError(f"an image of rank {x.rank}, want [n,h,w,c]")
    return x


def filter_of(call: Call, item: Item, i: int = 1) -> Item:
    """The real numbers of a weight, which may be stored as int8 with a scale each channel."""
    return real(item, call.ins[i])


@rule(PLAIN, "CONV_2D")
def conv(_: Reader, call: Call, x: Item, w: Item, b: Item = None) -> Item:
    image, weight = image_of(x), as_value(w)
    options = window(call, image.shape, static(shape_of(w)[1:3], "filter"))
    groups = groups_of(image.shape, shape_of(w))
    y = OPS["conv2d"](image, weight, _bias(b), groups=groups, **options)
    return activated(call, y)


def groups_of(image: tuple[Dim, ...], w: tuple[Dim, ...]) -> int:
    channels, each = static((image[3], w[3] if len(w) == 4 else 0), "channels")
    if len(w) != 4 or each < 1 or channels % each:
        raise ConvertError(f"filters of shape {list(map(str, w))} on {channels} channels")
    return channels // each


@rule(PLAIN, "DEPTHWISE_CONV_2D")
def depthwise(reader: Reader, call: Call, x: Item, w: Item, b: Item = None) -> Item:
    image = image_of(x)
    _, r, s, k = static(shape_of(w), "filter")
    options = window(call, image.shape, (r, s))
    if k == image.shape[3]:
        w = reader.arrange(w, "depthwise", lambda a: a[0])
        return activated(call, OPS["depthwise_conv2d"](image, as_value(w), _bias(b), **options))
    w = reader.arrange(w, "filters", lambda a: a.transpose(3, 1, 2, 0))
    groups = groups_of(image.shape, (k, r, s, 1))
    return activated(call, OPS["conv2d"](image, as_value(w), _bias(b), groups=groups, **options))


def _bias(b: Item) -> Value | None:
    return None if b is None else as_value(b)


@rule(PLAIN, "FULLY_CONNECTED")
def fully_connected(_: Reader, call: Call, x: Item, w: Item, b: Item = None) -> Item:
    y = OPS["linear"](as_value(rows(call, x, w)), as_value(w), _bias(b))
    return activated(call, reshaped(y, result_shape(call, x, w)))


def rows(call: Call, x: Item, w: Item) -> Item:
    """x as [rows, in], as the weight [out, in] wants it."""
    if call.attrs["weights_format"]:
        raise ConvertError(f"weights in format {call.attrs['weights_format']}, want 0")
    shape, inner = shape_of(x), shape_of(w)[-1]
    if rank_of(w) != 2:
        raise ConvertError(f"a weight of rank {rank_of(w)}, want [out, in]")
    if shape and shape[-1] == inner:
        return x
    return reshaped(x, (product(shape) // inner, inner))


def result_shape(call: Call, x: Item, w: Item) -> tuple[Dim, ...]:
    shape, (out, inner) = shape_of(x), shape_of(w)
    if call.attrs["keep_num_dims"]:
        return (*shape[:-1], out)
    return (product(shape) // inner, out)


@rule(PLAIN, "BATCH_MATMUL")
def batch_matmul(reader: Reader, call: Call, a: Item, b: Item) -> Item:
    turned = {"transpose_a": call.attrs["adj_x"], "transpose_b": call.attrs["adj_y"]}
    if isinstance(b, (Weight, np.ndarray)) and rank_of(b) == 2 and not turned["transpose_a"]:
        how = "linear" if turned["transpose_b"] else "linear transposed"
        w = reader.arrange(b, how, lambda m: m if turned["transpose_b"] else m.T)
        return OPS["linear"](as_value(a), as_value(w))  # type: ignore[no-any-return]
    return compute(OPS["matmul"], a, b, **turned)


@rule(PLAIN, "TRANSPOSE_CONV")
def transpose_conv(
    reader: Reader, call: Call, size: Item, w: Item, x: Item, b: Item = None
) -> Item:
    space = static(tuple(sizes(size, "output_shape")[1:3]), "output_shape")
    attrs = call.attrs
    strides = (attrs["stride_h"], attrs["stride_w"])
    return activated(call, transposed(reader, x, w, b, space, strides, attrs["padding"]))


def transposed(
    reader: Reader, x: Item, w: Item, b: Item, space: Any, strides: Any, padding: int
) -> Item:
    """The transposed convolution of w [out,r,s,in] to an image of `space`."""
    size = static(shape_of(w)[1:3], "filter")
    if min(*strides, *size, *space) < 1 or max(*size, *strides) > MOST_WINDOW:
        raise ConvertError(f"windows of {list(size)}, strides {list(strides)} to {list(space)}")
    pads = pads_of(padding, space, size, strides, (1, 1))
    flipped = reader.arrange(w, "transposed", lambda a: a.transpose(3, 1, 2, 0))
    y = OPS["conv2d_dx"](
        image_of(x), as_value(flipped), size=tuple(space), strides=strides, pads=pads
    )
    return y if b is None else compute(OPS["add"], y, b)


@rule(PLAIN, "custom.Convolution2DTransposeBias")
def transpose_conv_bias(reader: Reader, call: Call, x: Item, w: Item, b: Item) -> Item:
    """MediaPipe's transposed convolution; its options are three integers: padding (1: same,
    2: valid), and the strides across and down."""
    if len(call.op.custom) < 12:
        raise ConvertError(f"options of {len(call.op.custom)} bytes, want 12")
    kind, across, down = struct.unpack_from("<iii", call.op.custom)
    if kind not in (1, 2):
        raise ConvertError(f"padding of kind {kind}, want 1 or 2")
    strides = (down, across)
    image, size = shape_of(x)[1:3], static(shape_of(w)[1:3], "filter")
    space = [
        n * s if kind == 1 else (n - 1) * s + k
        for n, s, k in zip(static(image, "image"), strides, size, strict=True)
    ]
    return transposed(reader, x, w, b, space, strides, SAME if kind == 1 else VALID)
