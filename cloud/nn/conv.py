"""Convolutions and their transposes, channels last."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from cloud import ops
from cloud.nn import init
from cloud.nn.linear import new_weight, zero_bias
from cloud.nn.module import Module
from ir.errors import ShapeError
from ir.graph import Value, Weight, shape_text
from ir.symbol import Dim

Pair = int | tuple[int, int]
Padding = Pair | tuple[int, int, int, int] | Literal["same", "valid"]
Padding1d = int | tuple[int, int] | Literal["same", "valid"]


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
        _check_groups("Conv2d", inputs, outputs, groups)
        self.weight = new_weight(rng, (outputs, *pair(size), inputs // groups), init)
        self.bias = zero_bias(outputs) if bias else None
        self.stride, self.dilation = pair(stride), pair(dilation)
        self.padding, self.groups = checked_padding(padding), groups

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
        r, s = pair(size)
        data = init(rng, (r, s, channels), (r * s, r * s))
        self.weight = Weight(data, name="weight")
        self.bias = zero_bias(channels) if bias else None
        self.stride, self.dilation = pair(stride), pair(dilation)
        self.padding = checked_padding(padding)

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


class Conv1d(Module):
    """y[n,p,k] = b[k] + sum over r,c of x[n, p*stride+r*dilation-pad, c] w[k,r,c]

    x: [n,t,inputs], w: [outputs,r,inputs/groups] -> y: [n,p,outputs]; `padding`: a number,
    (before, after), "valid" or "same", as for Conv2d
    """

    def __init__(
        self,
        inputs: int,
        outputs: int,
        size: int,
        *,
        rng: np.random.Generator,
        stride: int = 1,
        padding: Padding1d = "valid",
        dilation: int = 1,
        groups: int = 1,
        bias: bool = True,
        init: init.Initializer = init.kaiming_uniform,
    ) -> None:
        _check_groups("Conv1d", inputs, outputs, groups)
        self.weight = new_weight(rng, (outputs, size, inputs // groups), init)
        self.bias = zero_bias(outputs) if bias else None
        self.stride, self.padding, self.dilation, self.groups = stride, padding, dilation, groups

    def forward(self, x: Value) -> Value:
        window, strides, dilations = (1, self.weight.shape[1]), (1, self.stride), (1, self.dilation)
        image = as_image(x)
        around = pads(_as_2d(self.padding), image, window, strides, dilations)
        y = ops.conv2d(
            image, as_image(self.weight), self.bias,
            strides=strides, pads=around, dilations=dilations, groups=self.groups,
        )  # fmt: skip
        return as_sequence(y)


class ConvTranspose2d(Module):
    """y = the gradient of a convolution's image: each x[n,p,q,k] adds w[k] at its window of y

    x: [n,p,q,inputs], w: [inputs,r,s,outputs/groups] -> y: [n,h,w,outputs] with
    h = (p - 1) * stride - 2 * padding + dilation * (r - 1) + 1 + output_padding
    (Zeiler et al. 2010)
    """

    def __init__(
        self,
        inputs: int,
        outputs: int,
        size: Pair,
        *,
        rng: np.random.Generator,
        stride: Pair = 1,
        padding: Pair = 0,
        output_padding: Pair = 0,
        dilation: Pair = 1,
        groups: int = 1,
        bias: bool = True,
        init: init.Initializer = init.kaiming_uniform,
    ) -> None:
        _check_groups("ConvTranspose2d", inputs, outputs, groups)
        self.weight = new_weight(rng, (inputs, *pair(size), outputs // groups), init)
        self.bias = zero_bias(outputs) if bias else None
        self.stride, self.dilation, self.padding = pair(stride), pair(dilation), pair(padding)
        self.output_padding, self.groups = pair(output_padding), groups

    def forward(self, x: Value) -> Value:
        return _transposed(
            x, self.weight, self.bias, self.stride, self.padding, self.output_padding,
            self.dilation, self.groups,
        )  # fmt: skip


class ConvTranspose1d(Module):
    """ConvTranspose2d of sequences

    x: [n,p,inputs], w: [inputs,r,outputs/groups] -> y: [n,t,outputs]
    """

    def __init__(
        self,
        inputs: int,
        outputs: int,
        size: int,
        *,
        rng: np.random.Generator,
        stride: int = 1,
        padding: int = 0,
        output_padding: int = 0,
        dilation: int = 1,
        groups: int = 1,
        bias: bool = True,
        init: init.Initializer = init.kaiming_uniform,
    ) -> None:
        _check_groups("ConvTranspose1d", inputs, outputs, groups)
        self.weight = new_weight(rng, (inputs, size, outputs // groups), init)
        self.bias = zero_bias(outputs) if bias else None
        self.stride, self.dilation, self.padding = (1, stride), (1, dilation), (0, padding)
        self.output_padding, self.groups = (0, output_padding), groups

    def forward(self, x: Value) -> Value:
        y = _transposed(
            as_image(x), as_image(self.weight), self.bias, self.stride, self.padding,
            self.output_padding, self.dilation, self.groups,
        )  # fmt: skip
        return as_sequence(y)


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


def as_image(x: Value) -> Value:
    """[n,t,c] -> [n,1,t,c]"""
    if x.rank != 3:
        raise ShapeError(f"sequence of shape {shape_text(x.shape)}, want [n,t,c]")
    return ops.reshape(x, shape=(x.shape[0], 1, *x.shape[1:]))


def as_sequence(y: Value) -> Value:
    """[n,1,t,c] -> [n,t,c]"""
    return ops.reshape(y, shape=(y.shape[0], *y.shape[2:]))


def _as_2d(padding: Padding1d) -> Padding:
    if isinstance(padding, tuple):
        return (0, padding[0], 0, padding[1])
    return (0, padding) if isinstance(padding, int) else padding


def _transposed(
    x: Value,
    w: Value,
    bias: Weight | None,
    stride: tuple[int, int],
    padding: tuple[int, int],
    more: tuple[int, int],
    dilation: tuple[int, int],
    groups: int,
) -> Value:
    if any(m >= s for m, s in zip(more, stride, strict=True)):
        raise ShapeError(f"output padding {list(more)}: want less than the stride {list(stride)}")
    axes = zip(x.shape[1:3], w.shape[1:3], stride, padding, more, dilation, strict=True)
    size = tuple((p - 1) * s - 2 * a + d * (r - 1) + 1 + m for p, r, s, a, m, d in axes)
    y = ops.conv2d_dx(
        x, w, size=size, strides=stride, pads=(*padding, *padding), dilations=dilation,
        groups=groups,
    )  # fmt: skip
    return y if bias is None else y + bias


def _check_groups(name: str, inputs: int, outputs: int, groups: int) -> None:
    if groups < 1 or inputs % groups or outputs % groups:
        raise ShapeError(
            f"{name}: {inputs} inputs and {outputs} outputs, want multiples of {groups} groups"
        )
