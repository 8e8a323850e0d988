"""Normalisation: over a batch, over features, and softmax."""

from __future__ import annotations

import numpy as np

from ir.errors import ShapeError
from ir.graph import Shape, Value, shape_text
from ir.op import case, floats, op
from ir.ops.elementwise import reciprocal, sqrt
from ir.ops.reduce import reduce_mean, reduce_sum
from ir.ops.shaping import broadcast_to
from ir.symbol import Dim


def _check_features(name: str, x: Shape, *features: Shape) -> None:
    """Raise ShapeError unless each of `features` is one number a feature (last axis) of x."""
    if not x:
        raise ShapeError(f"{name}: x is a scalar, want features on a last axis")
    for shape in features:
        if shape != x[-1:]:
            raise ShapeError(f"{name}: {shape_text(shape)} beside x {shape_text(x)}; want {x[-1:]}")


def _batch_axes(x: Value) -> tuple[int, ...]:
    return tuple(range(x.rank - 1))


def reciprocal_deviation(variance: Value, epsilon: float) -> Value:
    return reciprocal(sqrt(variance + epsilon))


def _mean(x: Value, axes: tuple[int, ...]) -> Value:
    return reduce_mean(x, axes=axes, keep_dims=True)


def _mean_grad(g: Value, y: Value, x: Value) -> Value:
    """The gradient of x from that of its mean y over all axes but the last."""
    return reduce_mean.grad(g, y, x, axes=_batch_axes(x), keep_dims=False)[0]  # type: ignore


def _normalised_grad(g: Value, normalised: Value, axes: tuple[int, ...]) -> Value:
    """The gradient of x, but for the division by its deviation, from that of x normalised."""
    return g - _mean(g, axes) - normalised * _mean(g * normalised, axes)


def _batch_shape(x, scale, bias, mean, variance, *, epsilon):
    _check_features("batch_norm", x, scale, bias, mean, variance)
    return x


def _batch_grad(g, y, x, scale, bias, mean, variance, *, epsilon):
    r = reciprocal_deviation(variance, epsilon)
    db = reduce_sum(g, axes=_batch_axes(x))
    dscale = reduce_sum(g * (x - mean), axes=_batch_axes(x)) * r
    return g * (scale * r), dscale, db, -(db * scale * r), dscale * scale * r * r * -0.5


@op(
    code=200,
    shape=_batch_shape,
    samples=[
        case((2, 3, 4, 5), (5,), (5,), (5,), floats(5, low=0.5, high=2.0)),
        case((3, 6), (6,), (6,), (6,), floats(6, low=0.5, high=2.0), epsilon=1e-3),
        case((1, 3, 3, 19), (19,), (19,), (19,), floats(19, low=0.5, high=2.0)),
    ],
    grad=_batch_grad,
)
def batch_norm(x, scale, bias, mean, variance, *, epsilon=1e-5):
    """y = (x - mean) / sqrt(variance + epsilon) scale + bias

    x: [...,c], the others: [c] -> y: [...,c]. Ioffe and Szegedy 2015.
    """
    r = scale / np.sqrt(variance + x.dtype.type(epsilon))
    return (x - mean) * r + bias


def train_shape(x, scale, bias, *, epsilon):
    _check_features("batch_norm_train", x, scale, bias)
    if len(x) < 2:
        raise ShapeError(f"batch_norm_train: x is {shape_text(x)}, want a batch of features")
    return [x, x[-1:], x[-1:]]


def _train_grad(g, y, x, scale, bias, *, epsilon):
    found = (None,) * 3
    if g[0] is not None:
        found = batch_norm_train_dx(g[0], x, scale, *y[1:], epsilon=epsilon)
    return with_moments(found, g, y, x)


def with_moments(found, g, y, x):
    """The gradients of batch norm's inputs: those from its result, and x's from the moments'."""
    (dx, dscale, dbias), (_, gmean, gvariance), (_, mean, variance) = found, g, y
    if gmean is not None:
        dx = _plus(dx, _mean_grad(gmean, mean, x))
    if gvariance is not None:
        dx = _plus(dx, _mean_grad(gvariance, variance, x) * (x - mean) * 2.0)
    return dx, dscale, dbias


def _plus(a: Value | None, b: Value) -> Value:
    return b if a is None else a + b


@op(
    code=201,
    shape=train_shape,
    samples=[
        case((2, 3, 4, 5), (5,), (5,)),
        case((7, 6), (6,), (6,), epsilon=1e-3),
        case((2, 3, 3, 19), (19,), (19,)),
    ],
    results=("y", "mean", "variance"),
    grad=_train_grad,
)
def batch_norm_train(x, scale, bias, *, epsilon=1e-5):
    """y = (x - mean) / sqrt(variance + epsilon) scale + bias, with x's own mean and variance

    x: [...,c], scale, bias: [c] -> y: [...,c], mean, variance: [c], over all axes but the last; the
    variance is the biased one. Ioffe and Szegedy 2015.
    """
    axes = tuple(range(x.ndim - 1))
    mean = np.mean(x, axis=axes)
    variance = np.mean(np.square(x - mean), axis=axes)
    return (x - mean) * (scale / np.sqrt(variance + x.dtype.type(epsilon))) + bias, mean, variance


def train_dx_shape(g, x, scale, mean, variance, *, epsilon):
    _check_features("batch_norm_train_dx", x, scale, mean, variance)
    if g != x:
        raise ShapeError(f"batch_norm_train_dx: g is {shape_text(g)}, want {shape_text(x)}")
    return [x, x[-1:], x[-1:]]


def train_dx_grad(gg, y, g, x, scale, mean, variance, *, epsilon):
    """From dx = a (g - mean(g) - n mean(g n)) with n = (x - mean) r, a = scale r, dscale = sum(g n)
    and dbias = sum(g): the gradients of g and n, and from that of n those of x, mean and r."""
    gdx, gdscale, gdbias = gg
    axes = _batch_axes(x)
    r = reciprocal_deviation(variance, epsilon)
    centred = x - mean
    normalised = centred * r
    dg = dnormalised = dscale = None
    if gdx is not None:
        a = scale * r
        along = _mean(gdx * normalised, axes)
        dg = _normalised_grad(gdx, normalised, axes) * a
        dnormalised = -(g * along + gdx * _mean(g * normalised, axes)) * a
        dscale = reduce_sum(gdx * _normalised_grad(g, normalised, axes), axes=axes) * r
    if gdscale is not None:
        dg = _plus(dg, normalised * gdscale)
        dnormalised = _plus(dnormalised, g * gdscale)
    if gdbias is not None:
        dg = _plus(dg, broadcast_to(gdbias, shape=g.shape))
    if dnormalised is None:
        return dg, None, None, None, None
    dx = dnormalised * r
    dr = reduce_sum(dnormalised * centred, axes=axes)
    if dscale is not None:
        dr = dr + dscale * scale * reciprocal(r)
    return dg, dx, dscale, -reduce_sum(dx, axes=axes), dr * r * r * r * -0.5


@op(
    code=205,
    shape=train_dx_shape,
    samples=[
        case((2, 3, 4, 5), (2, 3, 4, 5), (5,), (5,), floats(5, low=0.5, high=2.0)),
        case((7, 6), (7, 6), (6,), (6,), floats(6, low=0.5, high=2.0), epsilon=1e-3),
        case((70, 19), (70, 19), (19,), (19,), floats(19, low=0.5, high=2.0)),
    ],
    results=("dx", "dscale", "dbias"),
    grad=train_dx_grad,
)
def batch_norm_train_dx(g, x, scale, mean, variance, *, epsilon=1e-5):
    """The gradients of batch_norm_train's inputs, from its y's: with n = (x - mean) r and
    r = 1 / sqrt(variance + epsilon), dx = scale r (g - mean(g) - n mean(g n)), dscale = sum(g n),
    dbias = sum(g)

    g, x: [...,c], the others: [c] -> dx: [...,c], dscale, dbias: [c]
    """
    axes = tuple(range(x.ndim - 1))
    r = 1 / np.sqrt(variance + x.dtype.type(epsilon))
    n = (x - mean) * r
    dscale, dbias = np.sum(g * n, axis=axes), np.sum(g, axis=axes)
    dx = scale * r * (g - np.mean(g, axis=axes) - n * np.mean(g * n, axis=axes))
    return dx, dscale, dbias


def _centred(x):
    """x - mean, over the last axis: 0 where all elements are the same, which r makes the most of"""
    return x - np.mean(x, axis=-1, keepdims=True, dtype=np.float64).astype(x.dtype)


def _layer_shape(x, scale, bias, *, epsilon):
    _check_features("layer_norm", x, scale, bias)
    return x


def _layer_grad(g, y, x, scale, bias, *, epsilon):
    return layer_norm_dx(g, x, scale, epsilon=epsilon)


@op(
    code=202,
    shape=_layer_shape,
    samples=[
        case((3, 6), (6,), (6,)),
        case((2, 3, 19), (19,), (19,), epsilon=1e-3),
        case((1, 40), (40,), (40,)),
    ],
    grad=_layer_grad,
)
def layer_norm(x, scale, bias, *, epsilon=1e-5):
    """y = (x - mean) / sqrt(variance + epsilon) scale + bias, over the last axis

    x: [...,c], scale, bias: [c] -> y: [...,c]. The biased variance. Ba et al. 2016.
    """
    centred = _centred(x)
    variance = np.mean(np.square(centred), axis=-1, keepdims=True)
    return centred / np.sqrt(variance + x.dtype.type(epsilon)) * scale + bias


def _layer_dx_shape(g, x, scale, *, epsilon):
    _check_features("layer_norm_dx", x, scale)
    if g != x:
        raise ShapeError(f"layer_norm_dx: g is {shape_text(g)}, want {shape_text(x)}")
    return [x, x[-1:], x[-1:]]


def _layer_dx_grad(gg, y, g, x, scale, *, epsilon):
    """From dx = r (h - mean(h) - n mean(h n)) with h = g scale and n = c r, c = x - mean(x),
    dscale = sum(g n) and dbias = sum(g): the gradients of h and n, and from that of n that of x."""
    gdx, gdscale, gdbias = gg
    last, batch = (x.rank - 1,), _batch_axes(x)
    centred = x - _mean(x, last)
    r = reciprocal_deviation(_mean(centred * centred, last), epsilon)
    normalised = centred * r
    dg = dnormalised = dscale = moved = None
    if gdx is not None:
        h = g * scale
        dh = _normalised_grad(gdx, normalised, last) * r
        along = gdx * _mean(h * normalised, last) + h * _mean(gdx * normalised, last)
        dg, dscale, dnormalised = dh * scale, reduce_sum(dh * g, axes=batch), -(along * r)
        moved = gdx * _normalised_grad(h, normalised, last)
    if gdscale is not None:
        dg = _plus(dg, normalised * gdscale)
        dnormalised = _plus(dnormalised, g * gdscale)
    if gdbias is not None:
        dg = _plus(dg, broadcast_to(gdbias, shape=g.shape))
    if dnormalised is None:
        return dg, None, None
    moved = _mean(_plus(moved, dnormalised * centred), last)
    dcentred = dnormalised * r - centred * (r * r * r * moved)
    return dg, dcentred - _mean(dcentred, last), dscale


@op(
    code=206,
    shape=_layer_dx_shape,
    samples=[
        case((3, 6), (3, 6), (6,)),
        case((2, 3, 19), (2, 3, 19), (19,), epsilon=1e-3),
        case((70, 40), (70, 40), (40,)),
    ],
    results=("dx", "dscale", "dbias"),
    grad=_layer_dx_grad,
)
def layer_norm_dx(g, x, scale, *, epsilon=1e-5):
    """The gradients of layer_norm's inputs: with h = g scale, n = (x - mean) r and
    r = 1 / sqrt(variance + epsilon), dx = r (h - mean(h) - n mean(h n)), means and variance over
    the last axis, dscale = sum(g n), dbias = sum(g)

    g, x: [...,c], scale: [c] -> dx: [...,c], dscale, dbias: [c]
    """
    batch = tuple(range(x.ndim - 1))
    centred = _centred(x)
    variance = np.mean(np.square(centred), axis=-1, keepdims=True)
    r = 1 / np.sqrt(variance + x.dtype.type(epsilon))
    n, h = centred * r, g * scale
    level, tilt = (np.mean(v, axis=-1, keepdims=True) for v in (h, h * n))
    return r * (h - level - n * tilt), np.sum(g * n, axis=batch), np.sum(g, axis=batch)


def _softmax_shape(name: str, x: Shape, axis: Dim) -> Shape:
    if not (isinstance(axis, int) and 0 <= axis < len(x)):
        raise ShapeError(f"{name}: axis {axis} of x {shape_text(x)}; want 0 to {len(x) - 1}")
    return x


SOFTMAX_CASES = [
    case((3, 4), axis=1),
    case((2, 3, 19), axis=2, low=-30.0, high=30.0),
    case((2, 3, 4), axis=1),
    case((5, 3), axis=0),
    case((1, 40), axis=1),
]


def _softmax_grad(g, y, x, *, axis):
    return (softmax_dx(g, y, axis=axis),)


@op(
    code=203,
    shape=lambda x, *, axis: _softmax_shape("softmax", x, axis),
    samples=SOFTMAX_CASES,
    grad=_softmax_grad,
)
def softmax(x, *, axis=1):
    """y = e^x / (the sum of e^x along `axis`), written so that e^x cannot overflow"""
    e = np.exp(x - np.max(x, axis=axis, keepdims=True, initial=-np.inf))
    return e / np.sum(e, axis=axis, keepdims=True)


def _softmax_dx_shape(g, y, *, axis):
    if g != y:
        raise ShapeError(f"softmax_dx: g is {shape_text(g)}, want {shape_text(y)}")
    return _softmax_shape("softmax_dx", y, axis)


def _softmax_dx_grad(gg, dx, g, y, *, axis):
    def along(a: Value) -> Value:
        return reduce_sum(a * y, axes=(axis,), keep_dims=True)

    return softmax_dx(gg, y, axis=axis), gg * (g - along(g)) - g * along(gg)


@op(
    code=207,
    shape=_softmax_dx_shape,
    samples=[
        case((3, 4), (3, 4), axis=1),
        case((2, 3, 19), (2, 3, 19), axis=2),
        case((2, 3, 4), (2, 3, 4), axis=1),
        case((5, 3), (5, 3), axis=0),
        case((1, 40), (1, 40), axis=1),
    ],
    grad=_softmax_dx_grad,
)
def softmax_dx(g, y, *, axis=1):
    """dx = y (g - the sum of g y along `axis`): the gradient of softmax's x, y being its result

    g, y: one shape -> dx: the same
    """
    return (g - np.sum(g * y, axis=axis, keepdims=True)) * y


def _log_softmax_grad(g, y, x, *, axis):
    return (g - softmax(x, axis=axis) * reduce_sum(g, axes=(axis,), keep_dims=True),)


@op(
    code=204,
    shape=lambda x, *, axis: _softmax_shape("log_softmax", x, axis),
    samples=SOFTMAX_CASES,
    grad=_log_softmax_grad,
)
def log_softmax(x, *, axis=1):
    """y = x - log(the sum of e^x along `axis`), written so that e^x cannot overflow"""
    x = x - np.max(x, axis=axis, keepdims=True)
    return x - np.log(np.sum(np.exp(x), axis=axis, keepdims=True))
