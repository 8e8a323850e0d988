"""Convolutions, channels last, and their gradients.

`conv2d`, `conv2d_dx` and `conv2d_dw` are each linear in each input, and each is a gradient of the
other two: derivatives of any order need nothing more. `conv2d_dx` is also transposed convolution.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ir.errors import AttrError, ShapeError
from ir.graph import Array, Shape, shape_text
from ir.op import case, op
from ir.ops.activation import Activation, activate, before_activation
from ir.ops.reduce import reduce_sum
from ir.ops.windows import (
    check_attrs,
    check_equal,
    check_image,
    crop_image,
    pad_image,
    taps,
    window_count,
)


def _conv_shape(x, w, b, *, strides, pads, dilations, groups, activation):
    check_image("conv2d", "x", x)
    check_image("conv2d", "w", w)
    check_attrs("conv2d", strides=strides, pads=pads, dilations=dilations)
    k, r, s, c = w
    _check_groups("conv2d", x[3], k, c, groups)
    if b is not None:
        check_equal("conv2d", "b", b, (k,))
    return (x[0], *window_count("conv2d", x[1:3], (r, s), strides, pads, dilations), k)


def _check_groups(name: str, channels: int, k: int, c: int, groups: int) -> None:
    if groups < 1:
        raise AttrError(f"{name}: groups is {groups}, want at least 1")
    if k % groups or channels != c * groups:
        raise ShapeError(
            f"{name}: {channels} channels, w of {k} by {c} and {groups} groups; "
            f"want channels = {c} * groups and {k} a multiple of groups"
        )


def _conv_grad(g, y, x, w, b, *, activation, **attrs):
    g = before_activation(g, activation, lambda: conv2d(x, w, b, **attrs))
    dx = conv2d_dx(g, w, size=x.shape[1:3], **attrs)
    dw = conv2d_dw(x, g, size=w.shape[1:3], **attrs)
    return dx, dw, None if b is None else reduce_sum(g, axes=(0, 1, 2))


@op(
    code=150,
    shape=_conv_shape,
    samples=[
        case((1, 5, 6, 3), (4, 3, 3, 3), (4,)),
        case((2, 5, 6, 3), (4, 3, 2, 3), pads=(1, 0, 2, 1), strides=(2, 1)),
        case((1, 7, 8, 2), (3, 3, 3, 2), (3,), dilations=(2, 3), pads=(2, 3, 2, 3)),
        case((2, 4, 4, 6), (4, 3, 3, 3), (4,), groups=2, pads=(1, 1, 1, 1)),
        case((1, 5, 5, 4), (8, 2, 2, 1), groups=4, strides=(2, 2)),
        case((2, 3, 4, 5), (6, 1, 1, 5), (6,), activation=Activation.relu),
        case((1, 5, 4, 5), (6, 1, 1, 5), strides=(2, 3)),
        case((1, 4, 4, 3), (17, 3, 3, 3), (17,), pads=(1, 1, 1, 1), activation=Activation.relu6),
        case((1, 9, 7, 19), (33, 3, 3, 19), (33,), pads=(1, 1, 1, 1), activation=Activation.silu),
        case((1, 3, 9, 40), (5, 3, 3, 40), (5,), pads=(1, 1, 1, 1)),  # more than one block of k
        case((1, 1, 16, 6), (9, 1, 5, 6), (9,), pads=(0, 2, 0, 2), activation=Activation.relu),
        # squares of windows enough for Winograd's way: small ones, and large ones
        case((1, 9, 19, 33), (34, 3, 3, 33), (34,), pads=(1, 1, 1, 1), activation=Activation.relu),
        case((2, 13, 18, 35), (49, 3, 3, 35), (49,), pads=(1, 0, 2, 1)),
    ],
    grad=_conv_grad,
)
def conv2d(
    x,
    w,
    b=None,
    *,
    strides=(1, 1),
    pads=(0, 0, 0, 0),
    dilations=(1, 1),
    groups=1,
    activation=Activation.none,
):
    """y = activation(the cross-correlation of x with w, + b)

    x: [n,h,w,c], w: [k,r,s,c/groups], b: [k] -> y: [n,p,q,k] with
    p = (h + top + bottom - dilation (r - 1) - 1) // stride + 1. `pads`: top, left, bottom, right.
    """
    k, r, s, _ = w.shape
    counts = window_count("conv2d", x.shape[1:3], (r, s), strides, pads, dilations)
    padded = pad_image(x, pads)
    y = np.zeros((groups, x.shape[0] * counts[0] * counts[1], k // groups), x.dtype)
    for i, j, at in taps((r, s), counts, strides, dilations):
        y += np.matmul(_split(padded[at], groups), _tap(w, i, j, groups).swapaxes(1, 2))
    y = _join(y, (x.shape[0], *counts, k))
    return activate(activation, y if b is None else y + b)


def _add_shape(x, r, w, b, **attrs):
    y = _conv_shape(x, w, b, **attrs)
    check_equal("conv2d_add", "r", r, y)
    return y


def _add_grad(g, y, x, r, w, b, *, activation, **attrs):
    g = before_activation(g, activation, lambda: conv2d_add(x, r, w, b, **attrs))
    dx, dw, db = _conv_grad(g, y, x, w, b, activation=Activation.none, **attrs)
    return dx, g, dw, db


@op(
    code=156,
    shape=_add_shape,
    samples=[
        case((1, 5, 6, 3), (1, 3, 4, 4), (4, 3, 3, 3), (4,)),
        case((2, 5, 6, 3), (2, 3, 6, 4), (4, 3, 2, 3), pads=(1, 0, 2, 1), strides=(2, 1)),
        case((2, 4, 4, 6), (2, 4, 4, 4), (4, 3, 3, 3), (4,), groups=2, pads=(1, 1, 1, 1)),
        case((2, 3, 4, 5), (2, 3, 4, 6), (6, 1, 1, 5), (6,), activation=Activation.relu),
        case((1, 9, 7, 19), (1, 7, 5, 33), (33, 3, 3, 19), activation=Activation.silu),
        case((1, 3, 9, 40), (1, 3, 9, 5), (5, 3, 3, 40), (5,), pads=(1, 1, 1, 1)),
        case((1, 1, 1, 40), (1, 1, 1, 9), (9, 1, 1, 40), (9,), activation=Activation.relu6),
        # squares of windows enough for Winograd's way: small ones, and large ones
        case((1, 11, 21, 33), (1, 9, 19, 34), (34, 3, 3, 33), activation=Activation.silu),
        case(
            (1, 15, 15, 33),
            (1, 15, 15, 34),
            (34, 3, 3, 33),
            (34,),
            pads=(1, 1, 1, 1),
            activation=Activation.relu,
        ),
    ],
    grad=_add_grad,
)
def conv2d_add(
    x,
    r,
    w,
    b=None,
    *,
    strides=(1, 1),
    pads=(0, 0, 0, 0),
    dilations=(1, 1),
    groups=1,
    activation=Activation.none,
):
    """y = activation(conv2d(x, w, b) + r), the end of a residual block (He et al. 2016)

    x, w and b as in conv2d, r: [n,p,q,k] -> y: [n,p,q,k]. r stands before the weights.
    """
    y = conv2d.ref(x, w, b, strides=strides, pads=pads, dilations=dilations, groups=groups)
    return activate(activation, y + r)


def _split(x: Array, groups: int) -> Array:
    """[n,h,w,c] -> [groups, n h w, c/groups]"""
    return x.reshape(-1, groups, x.shape[3] // groups).swapaxes(0, 1)


def _join(y: Array, shape: Any) -> Array:
    """The inverse of `_split`."""
    return np.ascontiguousarray(y.swapaxes(0, 1)).reshape(shape)


def _tap(w: Array, i: int, j: int, groups: int) -> Array:
    """The weights of place i, j of the window: [k,r,s,c] -> [groups,k/groups,c]"""
    return w[:, i, j].reshape(groups, w.shape[0] // groups, w.shape[3])


def _dx_shape(g, w, *, size, strides, pads, dilations, groups):
    check_image("conv2d_dx", "g", g)
    check_image("conv2d_dx", "w", w)
    check_attrs("conv2d_dx", strides=strides, pads=pads, dilations=dilations)
    _check_groups("conv2d_dx", w[3] * groups, w[0], w[3], groups)
    counts = window_count("conv2d_dx", size, w[1:3], strides, pads, dilations)
    check_equal("conv2d_dx", f"g for size {shape_text(size)}", g, (g[0], *counts, w[0]))
    return (g[0], *size, w[3] * groups)


def _dx_grad(gg, y, g, w, *, size, **attrs):
    return conv2d(gg, w, **attrs), conv2d_dw(gg, g, size=w.shape[1:3], **attrs)


@op(
    code=151,
    shape=_dx_shape,
    samples=[
        case((1, 3, 4, 4), (4, 3, 3, 3), size=(5, 6)),
        case((2, 3, 6, 4), (4, 3, 2, 3), size=(5, 6), pads=(1, 0, 2, 1), strides=(2, 1)),
        case((1, 7, 8, 3), (3, 3, 3, 2), size=(7, 8), dilations=(2, 3), pads=(2, 3, 2, 3)),
        case((2, 4, 4, 4), (4, 3, 3, 3), size=(4, 4), groups=2, pads=(1, 1, 1, 1)),
        case((1, 2, 2, 8), (8, 2, 2, 1), size=(5, 5), groups=4, strides=(2, 2)),
        case((2, 3, 4, 6), (6, 1, 1, 5), size=(3, 4)),
        case((1, 3, 2, 6), (6, 1, 1, 5), size=(5, 4), strides=(2, 3)),
        case((1, 9, 7, 33), (33, 3, 3, 19), size=(9, 7), pads=(1, 1, 1, 1)),
        case((1, 3, 9, 40), (40, 3, 3, 5), size=(3, 9), pads=(1, 1, 1, 1)),
        case((1, 2, 3, 5), (5, 4, 3, 2), size=(7, 6), strides=(3, 2), pads=(1, 0, 0, 1)),
        case((1, 15, 16, 34), (34, 3, 3, 33), size=(15, 16), pads=(1, 1, 1, 1)),
        # pixels apart, each as of a plain window
        case(
            (1, 13, 13, 32),
            (32, 3, 3, 32),
            size=(28, 28),
            pads=(1, 1, 1, 1),
            strides=(2, 2),
            dilations=(2, 2),
        ),
    ],
    grad=_dx_grad,
)
def conv2d_dx(g, w, *, size=(1, 1), strides=(1, 1), pads=(0, 0, 0, 0), dilations=(1, 1), groups=1):
    """y = the gradient of conv2d's image; also transposed convolution

    g: [n,p,q,k], w: [k,r,s,c/groups] -> y: [n,*size,c]. Zeiler et al. 2010.
    """
    _, r, s, c = w.shape
    n, *counts, _ = g.shape
    top, left, bottom, right = pads
    padded = np.zeros((n, size[0] + top + bottom, size[1] + left + right, c * groups), g.dtype)
    rows = _split(g, groups)
    for i, j, at in taps((r, s), counts, strides, dilations):
        product = np.matmul(rows, _tap(w, i, j, groups))
        padded[at] += _join(product, (n, *counts, c * groups))
    return crop_image(padded, pads)


def _dw_shape(x, g, *, size, strides, pads, dilations, groups):
    check_image("conv2d_dw", "x", x)
    check_image("conv2d_dw", "g", g)
    check_attrs("conv2d_dw", strides=strides, pads=pads, dilations=dilations)
    if groups < 1 or x[3] % groups or g[3] % groups:
        raise ShapeError(
            f"conv2d_dw: {x[3]} and {g[3]} channels, want multiples of groups {groups}"
        )
    counts = window_count("conv2d_dw", x[1:3], size, strides, pads, dilations)
    check_equal("conv2d_dw", f"g for size {shape_text(size)}", g, (x[0], *counts, g[3]))
    return (g[3], *size, x[3] // groups)


def _dw_grad(gg, y, x, g, *, size, **attrs):
    return conv2d_dx(g, gg, size=x.shape[1:3], **attrs), conv2d(x, gg, **attrs)


@op(
    code=152,
    shape=_dw_shape,
    samples=[
        case((1, 5, 6, 3), (1, 3, 4, 4), size=(3, 3)),
        case((2, 5, 6, 3), (2, 3, 6, 4), size=(3, 2), pads=(1, 0, 2, 1), strides=(2, 1)),
        case((1, 7, 8, 2), (1, 7, 8, 3), size=(3, 3), dilations=(2, 3), pads=(2, 3, 2, 3)),
        case((2, 4, 4, 6), (2, 4, 4, 4), size=(3, 3), groups=2, pads=(1, 1, 1, 1)),
        case((1, 5, 5, 4), (1, 2, 2, 8), size=(2, 2), groups=4, strides=(2, 2)),
        case((2, 3, 4, 5), (2, 3, 4, 6), size=(1, 1)),
        case((1, 9, 7, 19), (1, 9, 7, 33), size=(3, 3), pads=(1, 1, 1, 1)),
        case((1, 17, 18, 2), (1, 17, 18, 3), size=(3, 3), pads=(1, 1, 1, 1)),
        case((2, 32, 36, 2), (2, 32, 36, 2), size=(1, 1), groups=2),  # too many windows for one
        # rows of windows that are long
        case((2, 17, 20, 3), (2, 17, 20, 18), size=(3, 3), pads=(1, 1, 1, 1)),
        case((2, 9, 24, 4), (2, 5, 11, 6), size=(2, 3), strides=(2, 2), pads=(1, 0, 0, 0)),
        case((1, 6, 20, 6), (1, 2, 12, 4), size=(3, 3), dilations=(2, 4), groups=2),
    ],
    grad=_dw_grad,
)
def conv2d_dw(x, g, *, size=(1, 1), strides=(1, 1), pads=(0, 0, 0, 0), dilations=(1, 1), groups=1):
    """y = the gradient of conv2d's weight

    x: [n,h,w,c], g: [n,p,q,k] -> y: [k,*size,c/groups]
    """
    k, c = g.shape[3], x.shape[3] // groups
    padded = pad_image(x, pads)
    rows = _split(g, groups).swapaxes(1, 2)
    y = np.zeros((groups, k // groups, *size, c), x.dtype)
    for i, j, at in taps(size, g.shape[1:3], strides, dilations):
        y[:, :, i, j] = np.matmul(rows, _split(padded[at], groups))
    return y.reshape(k, *size, c)


def _depthwise_shape(x, w, b, *, strides, pads, dilations, activation):
    check_image("depthwise_conv2d", "x", x)
    check_attrs("depthwise_conv2d", strides=strides, pads=pads, dilations=dilations)
    _check_depthwise("depthwise_conv2d", w, x[3])
    if b is not None:
        check_equal("depthwise_conv2d", "b", b, (x[3],))
    counts = window_count("depthwise_conv2d", x[1:3], w[:2], strides, pads, dilations)
    return (x[0], *counts, x[3])


def _check_depthwise(name: str, w: Shape, channels: int) -> None:
    if len(w) != 3 or w[2] != channels:
        raise ShapeError(f"{name}: w is {shape_text(w)}, want [r,s,{channels}]")


def _depthwise_grad(g, y, x, w, b, *, activation, **attrs):
    g = before_activation(g, activation, lambda: depthwise_conv2d(x, w, b, **attrs))
    dx = depthwise_conv2d_dx(g, w, size=x.shape[1:3], **attrs)
    dw = depthwise_conv2d_dw(x, g, size=w.shape[:2], **attrs)
    return dx, dw, None if b is None else reduce_sum(g, axes=(0, 1, 2))


@op(
    code=153,
    shape=_depthwise_shape,
    samples=[
        case((1, 5, 6, 3), (3, 3, 3), (3,)),
        case((2, 5, 6, 9), (3, 2, 9), pads=(1, 0, 2, 1), strides=(2, 1)),
        case((1, 7, 8, 4), (3, 3, 4), (4,), dilations=(2, 3), pads=(2, 3, 2, 3)),
        case((1, 5, 5, 17), (3, 3, 17), (17,), pads=(1, 1, 1, 1), activation=Activation.relu6),
        case((1, 7, 6, 40), (5, 5, 40), strides=(2, 2), pads=(2, 2, 2, 2)),
        case((1, 6, 13, 19), (6, 6, 19), pads=(0, 2, 1, 3)),  # too many places for one sum
        case((1, 2, 18, 9), (3, 3, 9), (9,), pads=(1, 1, 1, 1)),  # with and without a border
        case((1, 3, 7, 8), (5, 5, 8), pads=(2, 2, 2, 2)),  # the last results are none
    ],
    grad=_depthwise_grad,
)
def depthwise_conv2d(
    x,
    w,
    b=None,
    *,
    strides=(1, 1),
    pads=(0, 0, 0, 0),
    dilations=(1, 1),
    activation=Activation.none,
):
    """y = activation(each channel of x cross-correlated with its own window of w, + b)

    x: [n,h,w,c], w: [r,s,c], b: [c] -> y: [n,p,q,c]. Sizes as in conv2d. Sifre 2014.
    """
    window = w.shape[:2]
    counts = window_count("depthwise_conv2d", x.shape[1:3], window, strides, pads, dilations)
    padded = pad_image(x, pads)
    y = np.zeros((x.shape[0], *counts, x.shape[3]), x.dtype)
    for i, j, at in taps(window, counts, strides, dilations):
        y += padded[at] * w[i, j]
    return activate(activation, y if b is None else y + b)


def _depthwise_dx_shape(g, w, *, size, strides, pads, dilations):
    check_image("depthwise_conv2d_dx", "g", g)
    check_attrs("depthwise_conv2d_dx", strides=strides, pads=pads, dilations=dilations)
    _check_depthwise("depthwise_conv2d_dx", w, g[3])
    counts = window_count("depthwise_conv2d_dx", size, w[:2], strides, pads, dilations)
    what = f"g for size {shape_text(size)}"
    check_equal("depthwise_conv2d_dx", what, g, (g[0], *counts, g[3]))
    return (g[0], *size, g[3])


def _depthwise_dx_grad(gg, y, g, w, *, size, **attrs):
    dw = depthwise_conv2d_dw(gg, g, size=w.shape[:2], **attrs)
    return depthwise_conv2d(gg, w, **attrs), dw


@op(
    code=154,
    shape=_depthwise_dx_shape,
    samples=[
        case((1, 3, 4, 3), (3, 3, 3), size=(5, 6)),
        case((2, 3, 6, 9), (3, 2, 9), size=(5, 6), pads=(1, 0, 2, 1), strides=(2, 1)),
        case((1, 7, 8, 4), (3, 3, 4), size=(7, 8), dilations=(2, 3), pads=(2, 3, 2, 3)),
        case((1, 4, 3, 40), (5, 5, 40), size=(7, 6), strides=(2, 2), pads=(2, 2, 2, 2)),
        case((1, 2, 13, 19), (6, 6, 19), size=(6, 13), pads=(0, 2, 1, 3)),
    ],
    grad=_depthwise_dx_grad,
)
def depthwise_conv2d_dx(g, w, *, size=(1, 1), strides=(1, 1), pads=(0, 0, 0, 0), dilations=(1, 1)):
    """y = the gradient of depthwise_conv2d's image

    g: [n,p,q,c], w: [r,s,c] -> y: [n,*size,c]
    """
    n, *counts, c = g.shape
    top, left, bottom, right = pads
    padded = np.zeros((n, size[0] + top + bottom, size[1] + left + right, c), g.dtype)
    for i, j, at in taps(w.shape[:2], counts, strides, dilations):
        padded[at] += g * w[i, j]
    return crop_image(padded, pads)


def _depthwise_dw_shape(x, g, *, size, strides, pads, dilations):
    check_image("depthwise_conv2d_dw", "x", x)
    check_attrs("depthwise_conv2d_dw", strides=strides, pads=pads, dilations=dilations)
    counts = window_count("depthwise_conv2d_dw", x[1:3], size, strides, pads, dilations)
    what = f"g for size {shape_text(size)}"
    check_equal("depthwise_conv2d_dw", what, g, (x[0], *counts, x[3]))
    return (*size, x[3])


def _depthwise_dw_grad(gg, y, x, g, *, size, **attrs):
    dx = depthwise_conv2d_dx(g, gg, size=x.shape[1:3], **attrs)
    return dx, depthwise_conv2d(x, gg, **attrs)


@op(
    code=155,
    shape=_depthwise_dw_shape,
    samples=[
        case((1, 5, 6, 3), (1, 3, 4, 3), size=(3, 3)),
        case((2, 5, 6, 9), (2, 3, 6, 9), size=(3, 2), pads=(1, 0, 2, 1), strides=(2, 1)),
        case((1, 7, 8, 4), (1, 7, 8, 4), size=(3, 3), dilations=(2, 3), pads=(2, 3, 2, 3)),
        case((1, 7, 6, 40), (1, 4, 3, 40), size=(5, 5), strides=(2, 2), pads=(2, 2, 2, 2)),
    ],
    grad=_depthwise_dw_grad,
)
def depthwise_conv2d_dw(x, g, *, size=(1, 1), strides=(1, 1), pads=(0, 0, 0, 0), dilations=(1, 1)):
    """y = the gradient of depthwise_conv2d's weight

    x: [n,h,w,c], g: [n,p,q,c] -> y: [*size,c]
    """
    padded = pad_image(x, pads)
    y = np.zeros((*size, x.shape[3]), x.dtype)
    for i, j, at in taps(size, g.shape[1:3], strides, dilations):
        y[i, j] = np.sum(padded[at] * g, axis=(0, 1, 2))
    return y
