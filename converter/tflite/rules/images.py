"""Pooling and resizing of images."""

from __future__ import annotations

from typing import Any

import numpy as np

from converter.errors import ConvertError
from converter.items import Item, check_count, product, shape_of, static
from converter.tflite.rules.common import (
    MOVES,
    PLAIN,
    Call,
    Reader,
    activated,
    clamp_of,
    compute,
    is_scaled,
    rescaled,
    rule,
    sizes,
)
from converter.tflite.rules.layers import image_of, window
from ir.graph import Array, Value
from ir.op import OPS
from ir.quantization import round_half_away


def pooling(call: Call, image: Value) -> dict[str, Any]:
    """The attributes of a pooling operator, without dilations."""
    size = (call.attrs["filter_h"], call.attrs["filter_w"])
    options = window(call, image.shape, size)
    del options["dilations"]
    return {"size": size, **options}


@rule(MOVES, "MAX_POOL_2D")
def max_pool(_: Reader, call: Call, x: Item) -> Item:
    image = image_of(x)
    y = OPS["max_pool2d"](image, **pooling(call, image))
    if is_scaled(call.y):
        return rescaled(y, call.input(0), call.y, clamp_of(call))
    return activated(call, y)


@rule(PLAIN, "AVERAGE_POOL_2D")
def average_pool(_: Reader, call: Call, x: Item) -> Item:
    image = image_of(x)
    return activated(call, OPS["avg_pool2d"](image, **pooling(call, image)))


@rule(PLAIN, "L2_POOL_2D")
def l2_pool(_: Reader, call: Call, x: Item) -> Item:
    image = image_of(x)
    mean = OPS["avg_pool2d"](OPS["mul"](image, image), **pooling(call, image))
    return activated(call, OPS["sqrt"](mean))


@rule(PLAIN, "RESIZE_BILINEAR")
def resize_bilinear(_: Reader, call: Call, x: Item, size: Item) -> Item:
    y: Item = image_of(x)
    for axis, wanted in _wanted(y, size):
        (n,) = static(shape_of(y)[axis : axis + 1], "resize")
        y = stretched(y, axis, *neighbours(call, n, wanted))
    return y


def _wanted(x: Item, size: Item) -> list[tuple[int, int]]:
    """The new sizes of axes 1 and 2."""
    wanted = static(tuple(sizes(size, "size")), "size")
    if len(wanted) != 2 or min(wanted) < 1:
        raise ConvertError(f"a new size of {list(wanted)}, want two numbers of at least 1")
    check_count(product(wanted))
    return list(enumerate(wanted, start=1))


def neighbours(call: Call, n: int, wanted: int) -> tuple[Array, Array, Array]:
    """For each place of the result: the places before and behind it, and how near it is to the
    latter, in float32 as TFLite has it."""
    at = np.arange(wanted, dtype=np.float32) * ratio(call, n, wanted)
    if call.attrs["half_pixel_centers"]:
        step = ratio(call, n, wanted)
        at = (np.arange(wanted, dtype=np.float32) + np.float32(0.5)) * step - np.float32(0.5)
    low = np.floor(at)
    first = np.maximum(low, 0).astype(np.int32)
    second = np.minimum(np.ceil(at).clip(0), n - 1).astype(np.int32)
    return np.minimum(first, n - 1), second, (at - low).astype(np.float32)


def ratio(call: Call, n: int, wanted: int) -> np.float32:
    if call.attrs["align_corners"] and wanted > 1:
        return np.float32(n - 1) / np.float32(wanted - 1)
    return np.float32(n) / np.float32(wanted)


def stretched(x: Item, axis: int, first: Array, second: Array, near: Array) -> Item:
    """(1 - near) x[first] + near x[second] along an axis."""
    along = near.reshape([-1 if i == axis else 1 for i in range(4)]).astype(np.float32)
    if not along.any():
        return (
            x
            if np.array_equal(first, np.arange(shape_of(x)[axis]))
            else compute(OPS["gather"], x, first, axis=axis)
        )
    a = compute(OPS["mul"], compute(OPS["gather"], x, first, axis=axis), 1 - along)
    b = compute(OPS["mul"], compute(OPS["gather"], x, second, axis=axis), along)
    return compute(OPS["add"], a, b)


@rule(MOVES, "RESIZE_NEAREST_NEIGHBOR")
def resize_nearest(_: Reader, call: Call, x: Item, size: Item) -> Item:
    y: Item = image_of(x)
    for axis, wanted in _wanted(y, size):
        (n,) = static(shape_of(y)[axis : axis + 1], "resize")
        half = np.float32(0.5 if call.attrs["half_pixel_centers"] else 0)
        at = (np.arange(wanted, dtype=np.float32) + half) * ratio(call, n, wanted)
        near = round_half_away(at) if call.attrs["align_corners"] else np.floor(at)
        places = np.clip(near, 0, n - 1).astype(np.int32)
        y = compute(OPS["gather"], y, places, axis=axis)
    return y
