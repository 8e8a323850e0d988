"""Layers that multiply by a weight matrix or a filter bank."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from cloud import ops
from cloud.nn import init
from cloud.nn.module import Module
from ir.errors import ShapeError
from ir.graph import Value, Weight
from ir.symbol import Dim

Pair = int | tuple[int, int]
Padding = Pair | tuple[int, int, int, int] | Literal["same", "valid"]


class Linear(Module):
    """y = x w^T + b     x: [..., inputs], w: [outputs,inputs] -> y: [..., outputs]"""

    def __init__(
        self,
        inputs: int,
        outputs: int,
        *,
        rng: np.random.Generator,
        bias: bool = True,
        init: init.Initializer = init.glorot_uniform,
    ) -> None:
        self.weight = _weight(rng, (outputs, inputs), init)
        self.bias = _zeros(outputs) if bias else None

    def forward(self, x: Value) -> Value:
        return ops.linear(x, self.weight, self.bias)


class Conv2d(Module):
    """y[n,p,q,k] = b[k] + sum over r,s,c of x[n, p*stride+r*dilation-pad, …, c] w[k,r,s,c]

    x: [n,h,w,inputs], w: [outputs,r,s,inputs/groups] -> y: [n,p,q,outputs] (LeCun et al. 1989)

    `padding`: a number, (vertical, horizontal), (top, left, bottom, right), "valid" (none), or
    "same": p = ceil(h / stride), with the odd row or column below and to the right.
    """

    def __init__(
        self,
        inputs: int,
        outputs: int,
        size: Pair,
        *,
        rng: np.random.Generator,
        stride: Pair = 1,
        padding: Padding = "valid",
        dilation: Pair = 1,
        groups: int = 1,
        bias: bool = True,
        init: init.Initializer = init.kaiming_uniform,
    ) -> None:
        if inputs % groups or outputs % groups:
            raise ShapeError(
                f"Conv2d: {inputs} inputs and {outputs} outputs, want multiples of {groups} groups"
            )
        check_padding(padding)
        self.weight = _weight(rng, (outputs, *pair(size), inputs // groups), init)
        self.bias = _zeros(outputs) if bias else None
        self.stride, self.dilation = pair(stride), pair(dilation)
        self.padding, self.groups = padding, groups

    def forward(self, x: Value) -> Value:
        size = self.weight.shape[1:3]
        return ops.conv2d(
            x,
            self.weight,
            self.bias,
            strides=self.stride,
            pads=pads(self.padding, x, size, self.stride, self.dilation),
            dilations=self.dilation,
            groups=self.groups,
        )


class DepthwiseConv2d(Module):
    """y[n,p,q,c] = b[c] + sum over r,s of x[n, p*stride+r*dilation-pad, …, c] w[r,s,c]

    x: [n,h,w,channels], w: [r,s,channels] -> y: [n,p,q,channels]; `padding` as for Conv2d
    (Sifre and Mallat 2013; Howard et al. 2017)
    """

    def __init__(
        self,
        channels: int,
        size: Pair,
        *,
        rng: np.random.Generator,
        stride: Pair = 1,
        padding: Padding = "valid",
        dilation: Pair = 1,
        bias: bool = True,
        init: init.Initializer = init.kaiming_uniform,
    ) -> None:
        check_padding(padding)
        r, s = pair(size)
        data = init(rng, (r, s, channels), (r * s, r * s))
        self.weight = Weight(data, name="weight")
        self.bias = _zeros(channels) if bias else None
        self.stride, self.dilation, self.padding = pair(stride), pair(dilation), padding

    def forward(self, x: Value) -> Value:
        size = self.weight.shape[:2]
        return ops.depthwise_conv2d(
            x,
            self.weight,
            self.bias,
            strides=self.stride,
            pads=pads(self.padding, x, size, self.stride, self.dilation),
            dilations=self.dilation,
        )


def pair(size: Pair) -> tuple[int, int]:
    """(vertical, horizontal) of a number or a pair."""
    return (size, size) if isinstance(size, int) else size


def pads(
    padding: Padding,
    x: Value,
    size: Any,
    stride: tuple[int, int],
    dilation: tuple[int, int] = (1, 1),
) -> tuple[int, int, int, int]:
    """(top, left, bottom, right) for windows of `size` over x [n,h,w,c]. Raises ShapeError."""
    check_padding(padding)
    if padding == "valid":
        return (0, 0, 0, 0)
    if padding == "same":
        axes = zip(x.shape[1:3], size, stride, dilation, strict=True)
        (top, bottom), (left, right) = (_same(*axis) for axis in axes)
        return (top, left, bottom, right)
    if isinstance(padding, int):
        return (padding,) * 4
    return (*padding, *padding) if len(padding) == 2 else padding


def check_padding(padding: Padding) -> None:
    """Nothing, if `padding` is one of those that `Conv2d` explains. Raises ShapeError."""
    numbers = isinstance(padding, int) or (isinstance(padding, tuple) and len(padding) in (2, 4))
    if not numbers and padding not in ("same", "valid"):
        raise ShapeError(f'padding {padding!r}: want a number, 2 or 4 numbers, "same" or "valid"')


def _same(n: Dim, size: int, stride: int, dilation: int) -> tuple[int, int]:
    reach = dilation * (size - 1) + 1
    if stride == 1:
        total = reach - 1
    elif isinstance(n, int):
        total = max((-(-n // stride) - 1) * stride + reach - n, 0)
    else:
        raise ShapeError(f'padding "same" with stride {stride}: size {n} is free, want a number')
    return total // 2, total - total // 2


def _weight(rng: np.random.Generator, shape: tuple[int, ...], make: init.Initializer) -> Weight:
    return Weight(make(rng, shape, init.fans(shape)), name="weight")


def _zeros(n: int) -> Weight:
    return Weight(np.zeros(n, np.float32), name="bias")
