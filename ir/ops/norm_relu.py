"""Batch norm in training together with the ReLU behind it: neither what lies between them nor the
gradient there is ever written to memory."""

from __future__ import annotations

import math

import numpy as np

from ir.op import case, floats, op
from ir.ops.compare import greater, less, logical_and, where
from ir.ops.norm import (
    batch_norm_train,
    batch_norm_train_dx,
    reciprocal_deviation,
    train_dx_grad,
    train_dx_shape,
    train_shape,
    with_moments,
)


def _grad(g, y, x, scale, bias, *, epsilon, limit):
    found = (None,) * 3
    if g[0] is not None:
        found = batch_norm_relu_dx(g[0], x, scale, *y[1:], bias, epsilon=epsilon, limit=limit)
    return with_moments(found, g, y, x)


@op(
    code=208,
    shape=lambda x, scale, bias, *, epsilon, limit: train_shape(x, scale, bias, epsilon=epsilon),
    samples=[
        case((2, 3, 4, 5), (5,), (5,)),
        case((7, 6), (6,), floats(6, low=-0.2, high=0.9), epsilon=1e-3, limit=1.0),
        case((2, 3, 3, 19), (19,), (19,), limit=math.inf),
    ],
    results=("y", "mean", "variance"),
    grad=_grad,
)
def batch_norm_relu(x, scale, bias, *, epsilon=1e-5, limit=6.0):
    """y = batch_norm_train's y limited to [0, limit], and the mean and variance of x

    x: [...,c], scale, bias: [c] -> y: [...,c], mean, variance: [c]. `limit`: infinity for ReLU, 6
    for ReLU6.
    """
    y, mean, variance = batch_norm_train.ref(x, scale, bias, epsilon=epsilon)
    return np.clip(y, 0, limit).astype(x.dtype), mean, variance


def _dx_shape(g, x, scale, mean, variance, bias, *, epsilon, limit):
    train_shape(x, scale, bias, epsilon=epsilon)
    return train_dx_shape(g, x, scale, mean, variance, epsilon=epsilon)


def _dx_grad(gg, y, g, x, scale, mean, variance, bias, *, epsilon, limit):
    forward = (x - mean) * (scale * reciprocal_deviation(variance, epsilon)) + bias
    inside = logical_and(greater(forward, 0.0), less(forward, limit))
    passed = where(inside, g, 0.0)
    dg, *others = train_dx_grad(gg, y, passed, x, scale, mean, variance, epsilon=epsilon)
    return where(inside, dg, 0.0), *others, None


@op(
    code=209,
    shape=_dx_shape,
    samples=[
        case((2, 3, 4, 5), (2, 3, 4, 5), (5,), (5,), floats(5, low=0.5, high=2.0), (5,)),
        case(
            (7, 6), (7, 6), (6,), (6,), floats(6, low=0.5, high=2.0), (6,), epsilon=1e-3, limit=1.0
        ),
        case(
            (70, 19), (70, 19), (19,), (19,), floats(19, low=0.5, high=2.0), (19,), limit=math.inf
        ),
    ],
    results=("dx", "dscale", "dbias"),
    grad=_dx_grad,
)
def batch_norm_relu_dx(g, x, scale, mean, variance, bias, *, epsilon=1e-5, limit=6.0):
    """The gradients of batch_norm_relu's inputs: those that batch_norm_train_dx gives for g where
    y lies between 0 and limit, and 0 elsewhere

    g, x: [...,c], the others: [c] -> dx: [...,c], dscale, dbias: [c]
    """
    forward = (x - mean) * (scale / np.sqrt(variance + x.dtype.type(epsilon))) + bias
    passed = np.where((forward > 0) & (forward < limit), g, x.dtype.type(0))
    return batch_norm_train_dx.ref(passed, x, scale, mean, variance, epsilon=epsilon)
