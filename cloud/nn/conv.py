"""Convolutions and their transposes, channels last."""

from __future__ import annotations

import numpy as np

from cloud import ops
from cloud.nn import init
from cloud.nn.linear import new_weight, zero_bias
from cloud.nn.module import Module
from cloud.nn.padding import (
    Padding,
    Padding1d,
    PaddingMode,
    Pair,
    checked_mode,
    checked_padding,
    padded,
    pads,
    pair,
)
from ir.errors import ShapeError
from ir.graph import Value, Weight, shape_text


class Conv2d(Module):
    """y[n,p,q,k] = b[k] + sum over r,s,c of x[n, p*stride+r*dilation-pad, …, c] w[k,r,s,c]

    x: [n,h,w,inputs], w: [outputs,r,s,inputs/groups] -> y: [n,p,q,outputs] (LeCun et al. 1989)

    `padding`: a number, (vertical, horizontal), (top, left, bottom, right), "valid" (none), or
    "same": p = ceil(h / stride), with the odd row or column below and to the right.
    `padding_mode`: what stands there: "zeros", "reflect", "replicate" or "circular".
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
        padding_mode: PaddingMode = "zeros",
        init: init.Initializer = init.kaiming_uniform,
    ) -> None:
        _check_groups("Conv2d", inputs, outputs, groups)
        self.weight = new_weight(rng, (outputs, *pair(size), inputs // groups), init)
        self.bias = zero_bias(outputs) if bias else None
        self.stride, self.dilation = pair(stride), pair(dilation)
        self.padding, self.groups = checked_padding(padding), groups
        self.padding_mode = checked_mode(padding_mode)

    def forward(self, x: Value) -> Value:
        around = pads(self.padding, x, self.weight.shape[1:3], self.stride, self.dilation)
        return _convolved(
            x, self.weight, self.bias, self.stride, around, self.dilation, self.groups,
            self.padding_mode,
        )  # fmt: skip


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
        padding_mode: PaddingMode = "zeros",
        init: init.Initializer = init.kaiming_uniform,
    ) -> None:
        _check_groups("Conv1d", inputs, outputs, groups)
        self.weight = new_weight(rng, (outputs, size, inputs // groups), init)
        self.bias = zero_bias(outputs) if bias else None
        self.stride, self.padding, self.dilation, self.groups = stride, padding, dilation, groups
        self.padding_mode = checked_mode(padding_mode)

    def forward(self, x: Value) -> Value:
        window, strides, dilations = (1, self.weight.shape[1]), (1, self.stride), (1, self.dilation)
        image = as_image(x)
        around = pads(_as_2d(self.padding), image, window, strides, dilations)
        y = _convolved(
            image, as_image(self.weight), self.bias, strides, around, dilations, self.groups,
            self.padding_mode,
        )  # fmt: skip
        return as_sequence(y)


class _ConvTranspose(Module):
    """What transposed convolutions over one and two axes share; those over one have an axis of size
    1 before theirs."""

    axes: int

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
        _check_groups(type(self).__name__, inputs, outputs, groups)
        sizes = pair(size)[: self.axes]
        self.weight = new_weight(rng, (inputs, *sizes, outputs // groups), init)
        self.bias = zero_bias(outputs) if bias else None
        self.stride, self.dilation = self._both(stride, 1), self._both(dilation, 1)
        self.padding, self.output_padding = self._both(padding, 0), self._both(output_padding, 0)
        self.groups = groups

    def _both(self, option: Pair, other: int) -> tuple[int, int]:
        """An option of both image axes; `other`: of the one that sequences do not have."""
        return pair(option) if self.axes == 2 else (other, pair(option)[0])

    def _image(self, x: Value, w: Value) -> Value:
        """x: [n,p,q,inputs], w: [inputs,r,s,outputs/groups] -> [n,h,w,outputs]"""
        more = self.output_padding
        if any(m >= s for m, s in zip(more, self.stride, strict=True)):
            raise ShapeError(
                f"output padding {list(more)}: want less than the stride {list(self.stride)}"
            )
        axes = zip(
            x.shape[1:3], w.shape[1:3], self.stride, self.padding, more, self.dilation, strict=True
        )
        y = ops.conv2d_dx(
            x,
            w,
            size=tuple((p - 1) * s - 2 * a + d * (r - 1) + 1 + m for p, r, s, a, m, d in axes),
            strides=self.stride,
            pads=(*self.padding, *self.padding),
            dilations=self.dilation,
            groups=self.groups,
        )
        return y if self.bias is None else y + self.bias


class ConvTranspose2d(_ConvTranspose):
    """y = the gradient of a convolution's image: each x[n,p,q,k] adds w[k] at its window of y

    x: [n,p,q,inputs], w: [inputs,r,s,outputs/groups] -> y: [n,h,w,outputs] with
    h = (p - 1) * stride - 2 * padding + dilation * (r - 1) + 1 + output_padding
    (Zeiler et al. 2010). Options are numbers, or (vertical, horizontal).
    """

    axes = 2

    def forward(self, x: Value) -> Value:
        return self._image(x, self.weight)


class ConvTranspose1d(_ConvTranspose):
    """ConvTranspose2d of sequences, whose options are numbers

    x: [n,p,inputs], w: [inputs,r,outputs/groups] -> y: [n,t,outputs]
    """

    axes = 1

    def forward(self, x: Value) -> Value:
        return as_sequence(self._image(as_image(x), as_image(self.weight)))


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


def _convolved(
    x: Value,
    w: Value,
    bias: Weight | None,
    stride: tuple[int, int],
    around: tuple[int, int, int, int],
    dilation: tuple[int, int],
    groups: int,
    mode: str,
) -> Value:
    if mode != "zeros" and any(around):
        x, around = padded(x, around, mode), (0, 0, 0, 0)
    return ops.conv2d(x, w, bias, strides=stride, pads=around, dilations=dilation, groups=groups)


def _check_groups(name: str, inputs: int, outputs: int, groups: int) -> None:
    if groups < 1 or inputs % groups or outputs % groups:
        raise ShapeError(
            f"{name}: {inputs} inputs and {outputs} outputs, want multiples of {groups} groups"
        )
