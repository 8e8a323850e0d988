"""Operators that users write as formulas, each with the same function in PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.nn import functional

from cloud.formula import Formula, formula

CONV2D = formula(
    """
    i = range((x.shape[1] + 2 * pad - dilation * (w.shape[1] - 1) - 1) // stride + 1)
    j = range((x.shape[2] + 2 * pad - dilation * (w.shape[2] - 1) - 1) // stride + 1)
    row = 0 - pad
    y[n, i, j, o] = reduce_sum(
        (p, q, c),
        padded(x[n, i * stride + p * dilation + row, j * stride + q * dilation + row, c], 0)
        * w[o, p, q, c],
    )
    """,
    stride=1,
    pad=0,
    dilation=1,
)
MAX_POOL = formula(
    """
    p = range(size)
    q = range(size)
    i = range((x.shape[1] - size) // stride + 1)
    j = range((x.shape[2] - size) // stride + 1)
    y[n, i, j, c] = reduce_max((p, q), x[n, i * stride + p, j * stride + q, c])
    """,
    size=2,
    stride=2,
)
AVERAGE_POOL = formula(
    """
    p = range(size)
    i = range((x.shape[0] + 2 * pad - size) // stride + 1)
    y[i] = reduce_sum(p, padded(x[i * stride + p - pad], 0) / size)
    """,
    size=2,
    stride=2,
    pad=0,
)
CONV_TRANSPOSED = formula(
    """
    y = zeros(stride * (x.shape[0] - 1) + w.shape[0], w.shape[2])
    y[stride * i + k, o] += x[i, c] * w[k, c, o]
    """,
    stride=2,
)
SOFTMAX = formula(
    """
    m[i] = reduce_max(k, x[i, k])
    e[i, k] = exp(x[i, k] - m[i])
    y[i, k] = e[i, k] / reduce_sum(j, e[i, j])
    """
)
PAD = formula(
    """
    i = range(x.shape[0] + before + after)
    y[i, j] = padded(x[i - before, j], fill)
    """,
    before=2,
    after=3,
    fill=0,
)
SLICE = formula(
    """
    i = range((x.shape[0] - start - 1) // step + 1)
    y[i, j] = x[i * step + start, j]
    """,
    start=1,
    step=1,
)


@dataclass(frozen=True)
class Case:
    """A formula, what it is in PyTorch, the shapes of its inputs and its attributes."""

    ours: Formula
    theirs: Callable[..., torch.Tensor]
    shapes: tuple[tuple[int, ...], ...]
    attrs: dict[str, Any] = field(default_factory=dict)


def conv2d(stride: int = 1, pad: int = 0, dilation: int = 1) -> Case:
    def theirs(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        images, kernels = x.permute(0, 3, 1, 2), w.permute(0, 3, 1, 2)
        y = functional.conv2d(images, kernels, None, stride, pad, dilation)
        return y.permute(0, 2, 3, 1)

    attrs = {"stride": stride, "pad": pad, "dilation": dilation}
    return Case(CONV2D, theirs, ((2, 8, 7, 2), (3, 3, 2, 2)), attrs)


def max_pool(size: int, stride: int) -> Case:
    def theirs(x: torch.Tensor) -> torch.Tensor:
        return functional.max_pool2d(x.permute(0, 3, 1, 2), size, stride).permute(0, 2, 3, 1)

    return Case(MAX_POOL, theirs, ((2, 7, 8, 2),), {"size": size, "stride": stride})


def average_pool(size: int, stride: int, pad: int) -> Case:
    return Case(
        AVERAGE_POOL,
        lambda x: functional.avg_pool1d(x[None], size, stride, pad)[0],
        ((11,),),
        {"size": size, "stride": stride, "pad": pad},
    )


def transposed(stride: int) -> Case:
    def theirs(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return functional.conv_transpose1d(x.T[None], w.permute(1, 2, 0), stride=stride)[0].T

    return Case(CONV_TRANSPOSED, theirs, ((4, 2), (3, 2, 2)), {"stride": stride})


def padded(before: int, after: int, fill: float = 0) -> Case:
    return Case(
        PAD,
        lambda x: functional.pad(x, (0, 0, before, after), value=fill),
        ((5, 3),),
        {"before": before, "after": after, "fill": fill},
    )


def sliced(start: int, step: int) -> Case:
    return Case(SLICE, lambda x: x[start::step], ((9, 3),), {"start": start, "step": step})


def plain(text: str, theirs: Callable[..., torch.Tensor], *shapes: tuple[int, ...]) -> Case:
    return Case(formula(text), theirs, shapes)


CASES = {
    "matmul": plain(
        "y[i, j] = reduce_sum(k, a[i, k] * b[k, j])", torch.matmul, (3, 4), (4, 5)
    ),
    "matmul of a batch": plain(
        "y[n, i, j] = reduce_sum(k, a[n, i, k] * b[n, k, j])", torch.matmul, (2, 3, 4), (2, 4, 3)
    ),
    "linear": plain(
        "y[n, o] = reduce_sum(i, x[n, i] * w[o, i]) + b[o]",
        functional.linear, (3, 4), (2, 4), (2,),
    ),
    "conv": conv2d(),
    "conv, padded": conv2d(pad=1),
    "conv, stride 2": conv2d(stride=2, pad=1),
    "conv, stride 3": conv2d(stride=3),
    "conv, dilated": conv2d(dilation=2, pad=1),
    "conv, stride 3, dilated": conv2d(stride=3, dilation=2, pad=2),
    "conv1d": plain(
        "y[n, i, o] = reduce_sum((k, c), x[n, i + k, c] * w[k, c, o])",
        lambda x, w: functional.conv1d(x.mT, w.permute(2, 1, 0)).mT, (2, 6, 3), (3, 3, 2),
    ),
    "conv transposed": transposed(2),
    "conv transposed, gaps": transposed(4),
    "max pool": max_pool(2, 2),
    "max pool, overlapping": max_pool(3, 2),
    "max pool, gaps": max_pool(2, 3),
    "average pool": average_pool(2, 2, 0),
    "average pool, overlapping": average_pool(3, 2, 1),
    "average pool, gaps": average_pool(2, 5, 0),
    "pad": padded(2, 3),
    "pad with a number": padded(1, 0, 2.5),
    "slice": sliced(2, 1),
    "strided slice": sliced(1, 3),
    "flip": plain("y[i, j] = x[x.shape[0] - 1 - i, j]", lambda x: x.flip(0), (4, 3)),
    "transpose": plain("y[j, i] = x[i, j]", lambda x: x.T, (4, 3)),
    "diagonal": plain("y[i] = x[i, i]", torch.diagonal, (4, 4)),
    "trace": plain(
        "y[n] = reduce_sum(i, x[n, i, i])", lambda x: x.diagonal(0, 1, 2).sum(1), (2, 3, 3)
    ),
    "softmax": Case(SOFTMAX, lambda x: x.softmax(1), ((3, 5),)),
    "log-sum-exp": plain(
        "m[i] = reduce_max(k, x[i, k])\ny[i] = m[i] + log(reduce_sum(k, exp(x[i, k] - m[i])))",
        lambda x: x.logsumexp(1), (3, 5),
    ),
    "squared distances": plain(
        "y[i, j] = reduce_sum(k, (a[i, k] - b[j, k]) ** 2)",
        lambda a, b: torch.cdist(a, b) ** 2, (3, 4), (5, 4),
    ),
    "distances of one": plain(
        "y[i, j] = reduce_sum(k, (a[i, k] - a[j, k]) ** 2)",
        lambda a: ((a[:, None] - a) ** 2).sum(2), (4, 3),
    ),
    "outer": plain("y[i, j] = a[i] * b[j]", torch.outer, (3,), (4,)),
    "running sum": plain(
        "i = range(x.shape[0])\ny[i] = reduce_sum(k, where(k <= i, x[k], 0))",
        lambda x: x.cumsum(0), (6,),
    ),
    "running maximum": plain(
        "i = range(x.shape[0])\ny[i] = reduce_max(k, where(k <= i, x[k], 0 - 100))",
        lambda x: x.cummax(0).values, (6,),
    ),
    "window of a running sum": plain(
        "i = range(x.shape[0])\ny[i] = reduce_sum(k, where(i - 2 <= k <= i, x[k], 0))",
        lambda x: torch.stack([x[max(0, i - 2) : i + 1].sum() for i in range(len(x))]), (6,),
    ),
    "stencil": plain(
        """
        y[i, j] = (x[i, j + 1] + x[i + 2, j + 1] + x[i + 1, j] + x[i + 1, j + 2]
                   - 4 * x[i + 1, j + 1])
        """,
        lambda x: x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:] - 4 * x[1:-1, 1:-1],
        (5, 6),
    ),
    "product": plain("y[i] = reduce_prod(k, x[i, k])", lambda x: x.prod(1), (3, 4)),
    "smallest": plain("y[i] = reduce_min((j, k), x[i, j, k])", lambda x: x.amin((1, 2)), (2, 3, 4)),
    "gelu": plain("y[i] = gelu(x[i])", functional.gelu, (7,)),
    "bilinear": plain(
        "y[n, o] = reduce_sum((i, j), a[n, i] * w[o, i, j] * b[n, j])",
        lambda a, w, b: functional.bilinear(a, b, w), (3, 2), (4, 2, 3), (3, 3),
    ),
    "toeplitz": plain(
        "i = range(3)\nj = range(4)\ny[i, j] = x[i - j + 3]",
        lambda x: torch.stack([x[i : i + 4].flip(0) for i in range(3)]), (6,),
    ),
    "numbers of indices": plain(
        "y[i, j] = (i - 2 * j) * x[i, j]",
        lambda x: (torch.arange(3)[:, None] - 2 * torch.arange(4)) * x, (3, 4),
    ),
    "chosen by value": plain(
        "y[i] = where(x[i] > 0 and z[i] < 1, x[i] * z[i], sin(x[i]))",
        lambda x, z: torch.where((x > 0) & (z < 1), x * z, x.sin()), (9,), (9,),
    ),
}  # fmt: skip
