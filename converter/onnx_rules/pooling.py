"""Pooling, by windows and over whole images."""

from __future__ import annotations

from typing import Any

from converter.errors import ConvertError
from converter.onnx_rules.common import Item, Reader, rule, shape_of, static
from converter.onnx_rules.windows import to_channels_first, to_channels_last, window
from ir.graph import Value
from ir.op import OPS


def _pool(attrs: dict[str, Any], x: Item) -> tuple[Value, dict[str, Any], bool]:
    """(x NHWC, attributes of our pooling, whether ceil mode padded it further)"""
    xt = to_channels_last(x)
    size = tuple(attrs["kernel_shape"])
    options: dict[str, Any] = window(attrs, xt, size)
    options["size"] = size + (1,) * (2 - len(size))
    grown = False
    if attrs.get("ceil_mode"):
        spatial = static(xt.shape[1:3], "ceil_mode")
        pads = list(options["pads"])
        for i in (0, 1):
            reach = (options["size"][i] - 1) * options["dilations"][i] + 1
            extent, stride = spatial[i] + pads[i] + pads[i + 2], options["strides"][i]
            steps = -(-(extent - reach) // stride)
            if steps * stride >= spatial[i] + pads[i]:  # the last window must start inside
                steps -= 1
            more = max(steps * stride + reach - extent, 0)
            pads[i + 2] += more
            grown |= more > 0
        options["pads"] = tuple(pads)
    return xt, options, grown


@rule("MaxPool")
def max_pool(_: Reader, attrs: dict[str, Any], x: Item) -> Item:
    xt, options, _grown = _pool(attrs, x)
    return to_channels_first(OPS["max_pool2d"](xt, **options), len(shape_of(x)))


@rule("AveragePool")
def average_pool(_: Reader, attrs: dict[str, Any], x: Item) -> Item:
    xt, options, grown = _pool(attrs, x)
    include = bool(attrs.get("count_include_pad", 0))
    if options["dilations"] != (1, 1) or (grown and include):
        raise ConvertError("AveragePool with dilations, or with ceil_mode and count_include_pad")
    del options["dilations"]
    return to_channels_first(
        OPS["avg_pool2d"](xt, count_include_pad=include, **options), len(shape_of(x))
    )


@rule("GlobalAveragePool")
def global_average_pool(_: Reader, attrs: dict[str, Any], x: Item) -> Item:
    return _global("reduce_mean", x)


@rule("GlobalMaxPool")
def global_max_pool(_: Reader, attrs: dict[str, Any], x: Item) -> Item:
    return _global("reduce_max", x)


def _global(op: str, x: Item) -> Item:
    y = OPS[op](to_channels_last(x), axes=(1, 2), keep_dims=True)
    return to_channels_first(y, len(shape_of(x)))
