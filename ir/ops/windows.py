"""Sliding windows over images [n,h,w,c]: sizes, checks and views that conv and pool share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ir.errors import AttrError, ShapeError
from ir.graph import Array, Shape, shape_text
from ir.symbol import Dim

Ints = tuple[int, ...]


def check_image(name: str, input_name: str, shape: Shape) -> None:
    if len(shape) != 4:
        raise ShapeError(f"{name}: {input_name} is {shape_text(shape)}, want [n,h,w,c]")


def check_equal(name: str, what: str, got: Shape, want: Shape) -> None:
    """Raise ShapeError unless both shapes are the same."""
    if got != want:
        raise ShapeError(f"{name}: {what} is {shape_text(got)}, want {shape_text(want)}")


def check_attrs(name: str, *, strides: Ints, pads: Ints, dilations: Ints = (1, 1)) -> None:
    """Raise AttrError unless strides and dilations are two sizes, and pads are four numbers."""
    for attr, values in (("strides", strides), ("dilations", dilations)):
        if len(values) != 2 or min(values) < 1:
            raise AttrError(f"{name}: {attr} is {list(values)}, want two numbers of at least 1")
    if len(pads) != 4 or min((p for p in pads if isinstance(p, int)), default=0) < 0:
        raise AttrError(f"{name}: pads is {list(pads)}, want top, left, bottom, right")


def window_count(
    name: str,
    image: Sequence[Dim],
    window: Sequence[int],
    strides: Ints,
    pads: Ints,
    dilations: Ints,
) -> tuple[Dim, Dim]:
    """How many windows fit, down and across. Raises ShapeError where none does."""
    counts = []
    for axis in (0, 1):
        reach = dilations[axis] * (window[axis] - 1) + 1
        count = (image[axis] + (pads[axis] + pads[axis + 2] - reach)) // strides[axis] + 1
        if isinstance(count, int) and count < 1:
            raise ShapeError(
                f"{name}: a window that reaches over {reach} does not fit size {image[axis]} "
                f"with pads {pads[axis]} and {pads[axis + 2]} (axis {axis + 1})"
            )
        counts.append(count)
    return counts[0], counts[1]


def pad_image(x: Array, pads: Ints, fill: Any = 0) -> Array:
    top, left, bottom, right = pads
    return np.pad(x, ((0, 0), (top, bottom), (left, right), (0, 0)), constant_values=fill)


def crop_image(x: Array, pads: Ints) -> Array:
    """The inverse of `pad_image`."""
    top, left, bottom, right = pads
    return np.ascontiguousarray(x[:, top : x.shape[1] - bottom, left : x.shape[2] - right])


def taps(
    window: Sequence[int], counts: Sequence[int], strides: Ints, dilations: Ints
) -> Iterator[tuple[int, int, tuple[slice, slice, slice]]]:
    """Each place i, j of a window, and the part of the padded image that all windows see there."""
    for i in range(window[0]):
        for j in range(window[1]):
            starts = (i * dilations[0], j * dilations[1])
            rows, cols = (
                slice(at, at + (count - 1) * stride + 1, stride)
                for at, count, stride in zip(starts, counts, strides, strict=True)
            )
            yield i, j, (slice(None), rows, cols)
