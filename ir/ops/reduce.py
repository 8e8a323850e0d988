"""Fewer elements out than in, and running totals."""

from __future__ import annotations

import math

import numpy as np

from ir.dtype import DType
from ir.graph import Value
from ir.op import NO_GRAD, case, exactly, ints, op
from ir.ops.compare import equal, where
from ir.ops.rules import checked_axes, elements, same
from ir.ops.shaping import broadcast_to, cast, reshape

SOME = (
    case((3, 4), axes=(0,)),
    case((2, 3, 4), axes=(0, 2), keep_dims=True),
    case((2, 3, 4), axes=(1, 2)),
    case((2, 3, 4, 2), axes=(1,)),
    case((5,), axes=(0,)),
    case((3, 2, 4, 77), axes=(0, 2)),
    case((3, 2, 4, 5), axes=(0, 3)),
    case((150, 3), axes=(0,)),
)
INTS = (
    case(ints(3, 4), axes=(1,)),
    case(ints(3, 4, low=-(2**40), high=2**40, dtype=DType.i64), axes=(0,)),
)
NUMBERS = ("f32", "i32", "i64")


def _reduced(x, *, axes, keep_dims):
    kept = enumerate(x)
    checked_axes("reduction", x, axes)
    if keep_dims:
        return tuple(1 if i in axes else s for i, s in kept)
    return tuple(s for i, s in kept if i not in axes)


def _stretched(reduced, x, axes):
    """A result of a reduction, repeated along the axes that it lost."""
    kept = tuple(1 if i in axes else s for i, s in enumerate(x.shape))
    return broadcast_to(reshape(reduced, shape=kept), shape=x.shape)


@op(
    code=70,
    shape=_reduced,
    samples=(*SOME, *INTS),
    kernels=NUMBERS,
    onnx="ReduceSum",
    grad=lambda g, y, x, *, axes, keep_dims: (_stretched(g, x, axes),),
)
def reduce_sum(x, *, axes=(), keep_dims=False):
    """y = x summed over `axes`, which are dropped from the shape or kept with size 1"""
    return np.sum(x, axis=tuple(axes), keepdims=keep_dims, dtype=x.dtype)


def _mean_grad(g, y, x, *, axes, keep_dims):
    n = elements([x.shape[i] for i in axes])
    share = g * (1 / max(n, 1)) if isinstance(n, int) else g / count_like(x, axes)
    return (_stretched(share, x, axes),)


def count_like(x: Value, axes: tuple[int, ...]) -> Value:
    """`count` in the type of x."""
    n = count(x, axes=axes)
    return n if n.dtype is x.dtype else cast(n, to=x.dtype)


@op(code=71, shape=_reduced, samples=SOME, onnx="ReduceMean", grad=_mean_grad)
def reduce_mean(x, *, axes=(), keep_dims=False):
    """y = the mean of x over `axes`, which are dropped from the shape or kept with size 1"""
    return np.mean(x, axis=tuple(axes), keepdims=keep_dims, dtype=x.dtype)


def _extremum_grad(g, y, x, *, axes, keep_dims):
    chosen = cast(equal(x, _stretched(y, x, axes)), to=g.dtype)
    share = g / reduce_sum(chosen, axes=axes, keep_dims=keep_dims)
    return (_stretched(share, x, axes) * chosen,)


@op(
    code=72,
    shape=_reduced,
    samples=(*SOME, *INTS),
    kernels=NUMBERS,
    onnx="ReduceMax",
    grad=_extremum_grad,
)
def reduce_max(x, *, axes=(), keep_dims=False):
    """y = the largest x over `axes`; equally large ones share the gradient equally"""
    return np.max(x, axis=tuple(axes), keepdims=keep_dims)


@op(
    code=73,
    shape=_reduced,
    samples=(*SOME, *INTS),
    kernels=NUMBERS,
    onnx="ReduceMin",
    grad=_extremum_grad,
)
def reduce_min(x, *, axes=(), keep_dims=False):
    """y = the smallest x over `axes`; equally small ones share the gradient equally"""
    return np.min(x, axis=tuple(axes), keepdims=keep_dims)


def _prod_grad(g, y, x, *, axes, keep_dims):
    """The product of the other elements. A zero must be the only one for it not to be 0."""
    is_zero = equal(x, 0.0)
    nonzero = where(is_zero, 1.0, x)
    zero = cast(is_zero, to=x.dtype)
    zeros = _stretched(reduce_sum(zero, axes=axes), x, axes)
    rest = _stretched(reduce_prod(nonzero, axes=axes), x, axes) / nonzero
    return (_stretched(g, x, axes) * where(equal(zeros, zero), rest, 0.0),)


@op(
    code=74,
    shape=_reduced,
    samples=(*SOME, *INTS),
    kernels=NUMBERS,
    onnx="ReduceProd",
    grad=_prod_grad,
)
def reduce_prod(x, *, axes=(), keep_dims=False):
    """y = the product of x over `axes`

    Its first derivative holds everywhere, higher ones where no element is 0.
    """
    return np.prod(x, axis=tuple(axes), keepdims=keep_dims, dtype=x.dtype)


def _without_axis(x, *, axis, keep_dims):
    return _reduced(x, axes=(axis,), keep_dims=keep_dims)


PLACES = (
    case((3, 4), axis=1),
    case((2, 3, 4), axis=1, keep_dims=True),
    case(exactly([[1, 3, 3], [2, 2, 1]]), axis=1),
    case((5,)),
    case(ints(3, 4), axis=1),
    case(exactly([[2**40, 2**40 + 1], [5, -5]], DType.i64), axis=1),
)


@op(
    code=75,
    shape=_without_axis,
    dtype=DType.i32,
    samples=PLACES,
    kernels=NUMBERS,
    onnx="ArgMax",
    grad=NO_GRAD,
)
def argmax(x, *, axis=0, keep_dims=False):
    """y = the index of the largest x along `axis`, the first one of equals, as int32"""
    return np.argmax(x, axis=axis, keepdims=keep_dims).astype(np.int32)


@op(
    code=76,
    shape=_without_axis,
    dtype=DType.i32,
    samples=PLACES,
    kernels=NUMBERS,
    onnx="ArgMin",
    grad=NO_GRAD,
)
def argmin(x, *, axis=0, keep_dims=False):
    """y = the index of the smallest x along `axis`, the first one of equals, as int32"""
    return np.argmin(x, axis=axis, keepdims=keep_dims).astype(np.int32)


@op(
    code=77,
    shape=lambda x, *, axes: (checked_axes("count", x, axes), ())[1],
    dtype=DType.f32,
    samples=[case((3, 4), axes=(1,)), case((2, 3, 4), axes=(0, 2)), case(ints(2, 3))],
    kernels=("any",),
    grad=NO_GRAD,
)
def count(x, *, axes=()):
    """y = the product of the sizes of x along `axes`, as a float32 scalar"""
    return np.float32(math.prod(x.shape[i] for i in axes))


def _cumsum_grad(g, y, x, *, axis, exclusive, reverse):
    return (cumsum(g, axis=axis, exclusive=exclusive, reverse=not reverse),)


@op(
    code=78,
    shape=lambda x, *, axis, **_: (checked_axes("cumsum", x, (axis,)), same(x))[1],
    samples=[
        case((5,)),
        case((3, 4), axis=1, exclusive=True),
        case((2, 3, 2), axis=1, reverse=True),
        case((3, 4), axis=0, exclusive=True, reverse=True),
        case(ints(3, 4), axis=1),
        case(ints(4, low=-(2**40), high=2**40, dtype=DType.i64), exclusive=True),
    ],
    kernels=NUMBERS,
    onnx="CumSum",
    grad=_cumsum_grad,
)
def cumsum(x, *, axis=0, exclusive=False, reverse=False):
    """y = the sum of x up to each place along `axis`; `exclusive`: without the place itself;
    `reverse`: from the end"""
    x = np.flip(x, axis) if reverse else x
    y = np.cumsum(x, axis, dtype=x.dtype)
    if exclusive:
        y = y - x
    return np.flip(y, axis).copy() if reverse else y


def _cumprod_grad(g, y, x, *, axis, exclusive, reverse):
    sums = cumsum(g * y, axis=axis, exclusive=exclusive, reverse=not reverse)
    return (sums / x,)


@op(
    code=79,
    shape=lambda x, *, axis, **_: (checked_axes("cumprod", x, (axis,)), same(x))[1],
    samples=[
        case((5,), low=0.5),
        case((3, 4), axis=1, exclusive=True, low=-2.0, high=-0.5),
        case((2, 3, 2), axis=1, reverse=True, low=0.5),
        case((3, 4), axis=0, exclusive=True, reverse=True, low=0.5),
        case(ints(3, 4), axis=1),
        case(ints(4, low=-(2**20), high=2**20, dtype=DType.i64), exclusive=True),
    ],
    kernels=NUMBERS,
    onnx="CumProd",
    grad=_cumprod_grad,
)
def cumprod(x, *, axis=0, exclusive=False, reverse=False):
    """y = the product of x up to each place along `axis`; `exclusive`: without the place itself;
    `reverse`: from the end

    Its derivatives hold where no element is 0.
    """
    x = np.flip(x, axis) if reverse else x
    y = np.cumprod(x, axis, dtype=x.dtype)
    if exclusive:
        first = np.ones_like(np.take(y, [0], axis)) if y.shape[axis] else y
        y = np.concatenate([first, y], axis).take(range(y.shape[axis]), axis)
    return np.flip(y, axis).copy() if reverse else y
