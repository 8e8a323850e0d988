"""Losses."""

from __future__ import annotations

import numpy as np

from ir.dtype import DType
from ir.errors import DTypeError, ShapeError
from ir.graph import Constant, Shape, shape_text
from ir.op import case, ints, op
from ir.ops.norm import log_softmax, softmax
from ir.ops.reduce import reduce_mean, reduce_sum
from ir.ops.shaping import broadcast_to, reshape


def _check_classes(name: str, logits: Shape, labels: Shape) -> None:
    if len(logits) != 2 or labels != logits[:1]:
        raise ShapeError(
            f"{name}: logits are {shape_text(logits)}, labels {shape_text(labels)}; "
            "want [n,classes] and [n]"
        )


def _check_labels(name: str, labels: DType) -> None:
    if labels is not DType.i32:
        raise DTypeError(f"{name}: labels are {labels!r}, want i32")


def _entropy_shape(logits, labels):
    _check_classes("softmax_cross_entropy", logits, labels)
    return labels


def _entropy_dtype(logits, labels):
    _check_labels("softmax_cross_entropy", labels)
    return logits


def _entropy_grad(g, y, logits, labels):
    return softmax_cross_entropy_dx(g, logits, labels), None


def _rows_of(logits, labels):
    """Index arrays of each row's own class. Raises IndexError for a class that does not exist."""
    if labels.size and (labels.min() < 0 or labels.max() >= logits.shape[1]):
        bad = labels.min() if labels.min() < 0 else labels.max()
        raise IndexError(f"label {bad}: want 0 to {logits.shape[1] - 1}")
    return np.arange(len(labels)), labels


CASES = [(3, 4), (2, 19), (5, 2)]


@op(
    code=220,
    shape=_entropy_shape,
    dtype=_entropy_dtype,
    samples=[case((n, c), ints(n, low=0, high=c)) for n, c in CASES],
    grad=_entropy_grad,
)
def softmax_cross_entropy(logits, labels):
    """y = -log softmax(logits)[label] of each row

    logits: [n,classes], labels: i32 [n] -> y: [n]. A label that is not a class is an IndexError.
    """
    return -log_softmax.ref(logits, axis=1)[_rows_of(logits, labels)]


def _entropy_dx_shape(g, logits, labels):
    _check_classes("softmax_cross_entropy_dx", logits, labels)
    if g != labels:
        raise ShapeError(
            f"softmax_cross_entropy_dx: g is {shape_text(g)}, want {shape_text(labels)}"
        )
    return logits


def _entropy_dx_dtype(g, logits, labels):
    _check_labels("softmax_cross_entropy_dx", labels)
    if g is not logits:
        raise DTypeError(f"softmax_cross_entropy_dx: g is {g!r}, logits {logits!r}; want one type")
    return logits


def _entropy_dx_grad(gg, y, g, logits, labels):
    one = broadcast_to(Constant(1.0, dtype=g.dtype), shape=g.shape)
    slope = softmax_cross_entropy_dx(one, logits, labels)  # softmax(logits) - one_hot(labels)
    p = softmax(logits, axis=1)
    weighted = gg * reshape(g, shape=(*g.shape, 1))
    curvature = (weighted - reduce_sum(weighted * p, axes=(1,), keep_dims=True)) * p
    return reduce_sum(gg * slope, axes=(1,)), curvature, None


@op(
    code=221,
    shape=_entropy_dx_shape,
    dtype=_entropy_dx_dtype,
    samples=[case((n,), (n, c), ints(n, low=0, high=c)) for n, c in CASES],
    grad=_entropy_dx_grad,
)
def softmax_cross_entropy_dx(g, logits, labels):
    """y = the gradient of softmax_cross_entropy: g (softmax(logits) - one_hot(labels))

    g: [n], logits: [n,classes], labels: i32 [n] -> y: [n,classes]
    """
    y = softmax.ref(logits, axis=1)
    y[_rows_of(logits, labels)] -= 1
    return y * g[:, None]


def _squared_shape(x, target):
    if x != target:
        raise ShapeError(
            f"mean_squared_error: x is {shape_text(x)}, target {shape_text(target)}; want one shape"
        )
    return ()


def _squared_grad(g, y, x, target):
    axes = tuple(range(x.rank))
    dx = reduce_mean.grad(g, y, x, axes=axes, keep_dims=False)[0] * (x - target) * 2.0
    return dx, -dx


@op(
    code=222,
    shape=_squared_shape,
    samples=[case((3, 4), (3, 4)), case((5,), (5,)), case((2, 3, 7), (2, 3, 7))],
    grad=_squared_grad,
)
def mean_squared_error(x, target):
    """y = the mean of (x - target)^2 over all elements     x, target: one shape -> y: []"""
    return np.mean(np.square(x - target), dtype=x.dtype)
