"""Images: their layout, and the windows that slide over them."""

from __future__ import annotations

from typing import Any

from converter.errors import ConvertError
from converter.onnx_rules.common import Item, as_value, static
from ir.graph import Value
from ir.op import OPS


def to_channels_last(x: Item) -> Value:
    """[n,c,h,w] -> [n,h,w,c]; [n,c,l] -> [n,l,1,c]"""
    v = as_value(x)
    if v.rank == 3:
        v = OPS["reshape"](v, shape=(*v.shape, 1))
    if v.rank != 4:
        raise ConvertError(f"input of rank {v.rank}; want [n,c,l] or [n,c,h,w]")
    return OPS["transpose"](v, perm=(0, 2, 3, 1))  # type: ignore[no-any-return]


def to_channels_first(y: Value, rank: int) -> Value:
    """The inverse, for an image that was of `rank`."""
    v: Value = OPS["transpose"](y, perm=(0, 3, 1, 2))
    return v if rank == 4 else OPS["reshape"](v, shape=v.shape[:3])


def window(attrs: dict[str, Any], x: Value, size: tuple[int, ...]) -> dict[str, tuple[int, ...]]:
    """strides, pads (top, left, bottom, right) and dilations of a 1-D or 2-D window over x NHWC."""
    n = len(size)
    strides = tuple(attrs.get("strides", (1,) * n)) + (1,) * (2 - n)
    dilations = tuple(attrs.get("dilations", (1,) * n)) + (1,) * (2 - n)
    auto = attrs.get("auto_pad", "NOTSET")
    if auto in ("SAME_UPPER", "SAME_LOWER"):
        spatial = static(x.shape[1:3], f"auto_pad {auto}")
        ends = [
            same_pads(*z, auto) for z in zip(spatial, (*size, 1), strides, dilations, strict=False)
        ]
        pads = tuple(p[i] for i in (0, 1) for p in ends)
    else:
        given = tuple(attrs.get("pads", (0,) * 2 * n)) if auto == "NOTSET" else (0,) * 2 * n
        pads = given if n == 2 else (given[0], 0, given[1], 0)
    return {"strides": strides, "pads": pads, "dilations": dilations}


def same_pads(size: int, k: int, stride: int, dilation: int, auto: str) -> tuple[int, int]:
    total = max((-(-size // stride) - 1) * stride + (k - 1) * dilation + 1 - size, 0)
    small, large = total // 2, total - total // 2
    return (small, large) if auto == "SAME_UPPER" else (large, small)
