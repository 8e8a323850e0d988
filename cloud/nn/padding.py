"""What stands around an image or a sequence before windows slide over it."""

from __future__ import annotations

from typing import Any, Literal

from cloud import ops
from ir.errors import ShapeError
from ir.graph import Value, shape_text
from ir.symbol import Dim

Pair = int | tuple[int, int]
Padding = Pair | tuple[int, int, int, int] | Literal["same", "valid"]
Padding1d = int | tuple[int, int] | Literal["same", "valid"]
PaddingMode = Literal["zeros", "reflect", "replicate", "circular"]
MODES = ("zeros", "reflect", "replicate", "circular")
_OPERATORS = {"reflect": "reflect", "replicate": "edge"}


def pair(size: Pair) -> tuple[int, int]:
    """(vertical, horizontal) of a number or a pair."""
    return (size, size) if isinstance(size, int) else size


def checked_padding(padding: Padding) -> Padding:
    """`padding`, if it is one of those that `Conv2d` explains. Raises ShapeError."""
    numbers = isinstance(padding, int) or (isinstance(padding, tuple) and len(padding) in (2, 4))
    if not numbers and padding not in ("same", "valid"):
        raise ShapeError(f'padding {padding!r}: want a number, 2 or 4 numbers, "same" or "valid"')
    return padding


def pads(
    padding: Padding,
    x: Value,
    size: Any,
    stride: tuple[int, int],
    dilation: tuple[int, int] = (1, 1),
) -> tuple[int, int, int, int]:
    """(top, left, bottom, right) for windows of `size` over x [n,h,w,c]. Raises ShapeError."""
    if padding == "valid":
        return (0, 0, 0, 0)
    if padding == "same":
        axes = zip(x.shape[1:3], size, stride, dilation, strict=True)
        (top, bottom), (left, right) = (_same(*axis) for axis in axes)
        return (top, left, bottom, right)
    if isinstance(padding, int):
        return (padding,) * 4
    assert isinstance(padding, tuple), "checked when the layer was made"
    return (*padding, *padding) if len(padding) == 2 else padding


def _same(n: Dim, size: int, stride: int, dilation: int) -> tuple[int, int]:
    reach = dilation * (size - 1) + 1
    if stride == 1:
        total = reach - 1
    elif isinstance(n, int):
        total = max((-(-n // stride) - 1) * stride + reach - n, 0)
    else:
        raise ShapeError(f'padding "same" with stride {stride}: size {n} is free, want a number')
    return total // 2, total - total // 2


def checked_mode(mode: str) -> str:
    """`mode`, if `padded` knows it. Raises ShapeError."""
    if mode not in MODES:
        raise ShapeError(f"padding mode {mode!r}: want one of {', '.join(MODES)}")
    return mode


def padded(x: Value, around: tuple[int, int, int, int], mode: str) -> Value:
    """x [n,h,w,c] with (top, left, bottom, right) more of it: mirrored without its edge, its edge
    repeated, or its other side. Raises ShapeError where x is too small."""
    top, left, bottom, right = around
    if mode in _OPERATORS:
        before, after = (0, top, left, 0), (0, bottom, right, 0)
        return ops.pad(x, before=before, after=after, mode=_OPERATORS[mode])
    for axis, before, after in ((1, top, bottom), (2, left, right)):
        x = _wrapped(x, axis, before, after)
    return x


def _wrapped(x: Value, axis: int, before: int, after: int) -> Value:
    size = x.shape[axis]
    if not isinstance(size, int) or max(before, after) > size:
        raise ShapeError(
            f"circular padding by {max(before, after)} of {shape_text(x.shape)}: "
            "want a size that is a number and at least that"
        )
    parts = []
    if before:
        parts.append(ops.slice_axis(x, size - before, size, axis=axis))
    parts.append(x)
    if after:
        parts.append(ops.slice_axis(x, 0, after, axis=axis))
    return ops.concat(*parts, axis=axis) if len(parts) > 1 else x
