"""One number out of each window of an image, for every channel, channels last."""

from __future__ import annotations

from typing import Any

import numpy as np

from ir.dtype import DType
from ir.op import Spec, case, op
from ir.ops.windows import (
    check_attrs,
    check_equal,
    check_image,
    crop_image,
    pad_image,
    taps,
    window_count,
)

DEFAULTS = {"size": (2, 2), "strides": (2, 2), "pads": (0, 0, 0, 0)}
MAX_CASES: list[tuple[tuple[int, ...], dict[str, Any]]] = [
    ((1, 4, 6, 3), {}),
    ((2, 5, 6, 9), {"size": (3, 2), "strides": (2, 1), "pads": (1, 0, 1, 1)}),
    ((1, 7, 8, 17), {"size": (3, 3), "dilations": (2, 3), "strides": (1, 1), "pads": (1, 2, 2, 3)}),
    ((1, 5, 5, 8), {"size": (3, 3), "strides": (1, 1), "pads": (1, 1, 1, 1)}),
]


def _pooled(name, x, size, strides, pads, dilations=(1, 1)):
    """The shape of an image of one element a window."""
    check_image(name, "x", x)
    check_attrs(name, strides=strides, pads=pads, dilations=dilations)
    return (x[0], *window_count(name, x[1:3], size, strides, pads, dilations), x[3])


def _max_shape(x, *, size, strides, pads, dilations):
    return _pooled("max_pool2d", x, size, strides, pads, dilations)


def _max_grad(g, y, x, **attrs):
    return (max_pool2d_dx(g, x, **attrs),)


def _max_samples():
    cases = [case(shape, **attrs) for shape, attrs in MAX_CASES]
    wide = [case(Spec(s, DType.i16, -(2**15), 2**15), **attrs) for s, attrs in MAX_CASES[:1]]
    return cases + [case(Spec(s, DType.i8, -128, 128), **attrs) for s, attrs in MAX_CASES] + wide


def _windows(x, *, size, strides, pads, dilations):
    """[places in the window,n,p,q,c]: what each window sees, the lowest number beyond the image."""
    lowest = -np.inf if np.issubdtype(x.dtype, np.floating) else np.iinfo(x.dtype).min
    counts = _pooled("max_pool2d", x.shape, size, strides, pads, dilations)[1:3]
    padded = pad_image(x, pads, lowest)
    return np.stack([padded[at] for _, _, at in taps(size, counts, strides, dilations)])


def _is_argmax(x, **attrs):
    """[places in the window,n,p,q,c]: whether it is the first place of the window's maximum."""
    seen = _windows(x, **attrs)
    places = np.arange(len(seen)).reshape(-1, 1, 1, 1, 1)
    first = np.argmax(seen, axis=0)
    return (places == first) & (seen != -np.inf)  # a window may lie beyond the image


@op(
    code=180,
    shape=_max_shape,
    samples=_max_samples(),
    kernels=("f32", "i8", "i16"),
    grad=_max_grad,
)
def max_pool2d(x, *, size=(2, 2), strides=(2, 2), pads=(0, 0, 0, 0), dilations=(1, 1)):
    """y = the maximum of each window     x: [n,h,w,c] -> y: [n,p,q,c]

    p = (h + top + bottom - dilation (size - 1) - 1) // stride + 1. `pads`: top, left, bottom,
    right; there lies the lowest number. To round p up, pad more at the end.
    """
    return np.max(_windows(x, size=size, strides=strides, pads=pads, dilations=dilations), axis=0)


def _max_dx_shape(g, x, *, size, strides, pads, dilations):
    pooled = _pooled("max_pool2d_dx", x, size, strides, pads, dilations)
    check_equal("max_pool2d_dx", "g", g, pooled)
    return x


def _max_dx_grad(gg, y, g, x, **attrs):
    return max_pool2d_at(gg, x, **attrs), None


def _max_dx_samples():
    return [
        case(_pooled("max_pool2d_dx", shape, **{**DEFAULTS, **attrs}), shape, **attrs)
        for shape, attrs in MAX_CASES
    ]


@op(
    code=181,
    shape=_max_dx_shape,
    samples=_max_dx_samples(),
    grad=_max_dx_grad,
)
def max_pool2d_dx(g, x, *, size=(2, 2), strides=(2, 2), pads=(0, 0, 0, 0), dilations=(1, 1)):
    """y = the gradient of max_pool2d: g added where its window has its first maximum

    g: [n,p,q,c], x: [n,h,w,c] -> y: [n,h,w,c]
    """
    chosen = _is_argmax(x, size=size, strides=strides, pads=pads, dilations=dilations)
    padded = np.zeros_like(pad_image(x, pads), g.dtype)
    for place, (_, _, at) in enumerate(taps(size, g.shape[1:3], strides, dilations)):
        padded[at] += np.where(chosen[place], g, 0)
    return crop_image(padded, pads)


def _max_at_shape(v, x, *, size, strides, pads, dilations):
    check_equal("max_pool2d_at", "v", v, x)
    return _pooled("max_pool2d_at", x, size, strides, pads, dilations)


@op(
    code=182,
    shape=_max_at_shape,
    samples=[case(shape, shape, **attrs) for shape, attrs in MAX_CASES],
    grad=lambda g, y, v, x, **attrs: (max_pool2d_dx(g, x, **attrs), None),
)
def max_pool2d_at(v, x, *, size=(2, 2), strides=(2, 2), pads=(0, 0, 0, 0), dilations=(1, 1)):
    """y = the element of v where the window of x has its first maximum

    v, x: [n,h,w,c] -> y: [n,p,q,c]. The gradient of max_pool2d_dx.
    """
    chosen = _is_argmax(x, size=size, strides=strides, pads=pads, dilations=dilations)
    padded = pad_image(v, pads)
    y = np.zeros(chosen.shape[1:], v.dtype)
    for place, (_, _, at) in enumerate(taps(size, y.shape[1:3], strides, dilations)):
        y += np.where(chosen[place], padded[at], 0)
    return y


AVERAGE_CASES: list[tuple[tuple[int, ...], dict[str, Any]]] = [
    ((1, 4, 6, 3), {}),
    ((2, 5, 6, 9), {"size": (3, 2), "strides": (2, 1), "pads": (1, 0, 1, 1)}),
    ((1, 5, 5, 17), {"size": (3, 3), "strides": (1, 1), "pads": (1, 1, 1, 1)}),
    ((1, 5, 5, 8), {"size": (3, 3), "pads": (1, 1, 1, 1), "count_include_pad": True}),
]


def _average_shape(x, *, size, strides, pads, count_include_pad):
    return _pooled("avg_pool2d", x, size, strides, pads)


def _average_grad(g, y, x, **attrs):
    return (avg_pool2d_dx(g, image=x.shape[1:3], **attrs),)


def _divisor(image, counts, dtype, *, size, strides, pads, count_include_pad):
    """[1,p,q,1]: how many places each window averages over, at least 1."""
    padded = pad_image(np.ones((1, *image, 1), dtype), pads, int(count_include_pad))
    seen = (padded[at] for _, _, at in taps(size, counts, strides, (1, 1)))
    return np.maximum(sum(seen), 1).astype(dtype)


@op(
    code=183,
    shape=_average_shape,
    samples=[case(shape, **attrs) for shape, attrs in AVERAGE_CASES],
    grad=_average_grad,
)
def avg_pool2d(x, *, size=(2, 2), strides=(2, 2), pads=(0, 0, 0, 0), count_include_pad=False):
    """y = the mean of each window     x: [n,h,w,c] -> y: [n,p,q,c]

    Sizes as in max_pool2d. Places beyond the image hold 0 and count only if `count_include_pad`.
    """
    counts = _pooled("avg_pool2d", x.shape, size, strides, pads)[1:3]
    padded = pad_image(x, pads)
    total = np.zeros((x.shape[0], *counts, x.shape[3]), x.dtype)
    for _, _, at in taps(size, counts, strides, (1, 1)):
        total += padded[at]
    attrs = {"size": size, "strides": strides, "pads": pads}
    return total / _divisor(
        x.shape[1:3], counts, x.dtype, **attrs, count_include_pad=count_include_pad
    )


def _average_dx_shape(g, *, image, size, strides, pads, count_include_pad):
    check_image("avg_pool2d_dx", "g", g)
    x = (g[0], *image, g[3])
    check_equal("avg_pool2d_dx", "g", g, _pooled("avg_pool2d_dx", x, size, strides, pads))
    return x


def _average_dx_samples():
    for shape, attrs in AVERAGE_CASES:
        windows = {k: v for k, v in attrs.items() if k in DEFAULTS}
        g = _pooled("avg_pool2d_dx", shape, **{**DEFAULTS, **windows})
        yield case(g, image=shape[1:3], **attrs)


@op(
    code=184,
    shape=_average_dx_shape,
    samples=tuple(_average_dx_samples()),
    grad=lambda gg, y, g, *, image, **attrs: (avg_pool2d(gg, **attrs),),
)
def avg_pool2d_dx(
    g, *, image=(1, 1), size=(2, 2), strides=(2, 2), pads=(0, 0, 0, 0), count_include_pad=False
):
    """y = the gradient of avg_pool2d for an input of size `image`

    g: [n,p,q,c] -> y: [n,*image,c]
    """
    n, p, q, c = g.shape
    attrs = {"size": size, "strides": strides, "pads": pads}
    share = g / _divisor(image, (p, q), g.dtype, **attrs, count_include_pad=count_include_pad)
    top, left, bottom, right = pads
    padded = np.zeros((n, image[0] + top + bottom, image[1] + left + right, c), g.dtype)
    for _, _, at in taps(size, (p, q), strides, (1, 1)):
        padded[at] += share
    return crop_image(padded, pads)
