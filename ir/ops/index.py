"""Elements chosen by integers that are data."""

from __future__ import annotations

import numpy as np

from ir.dtype import DType
from ir.errors import DTypeError, ShapeError
from ir.graph import shape_text
from ir.op import NO_GRAD, case, exactly, ints, op
from ir.ops.rules import checked_axes, same
from ir.ops.shaping import Element


def _gather_shape(x, indices, *, axis):
    checked_axes("gather", x, (axis,))
    return x[:axis] + indices + x[axis + 1 :]


def _gather_dtype(x, indices, **_):
    if indices is not DType.i32:
        raise DTypeError(f"indices of {indices!r}; want i32")
    return x


def checked_indices(indices, size):
    if indices.size and (indices.min() < 0 or indices.max() >= size):
        raise IndexError(f"indices {indices.min()}..{indices.max()}; want 0..{size - 1}")
    return indices


@op(
    code=99,
    shape=_gather_shape,
    dtype=_gather_dtype,
    samples=[
        case((5, 3), ints(2, 2, low=0, high=5)),
        case((2, 4, 3), ints(3, low=0, high=4), axis=1),
        case((2, 4), exactly(1, DType.i32), axis=1),
        case(ints(4, 2, dtype=DType.i8), ints(5, low=0, high=4)),
    ],
    kernels=("any",),
    onnx="Gather",
    grad=lambda g, y, x, indices, *, axis: (
        scatter_add(g, indices, axis=axis, size=x.shape[axis]),
        None,
    ),
)
def gather(x, indices, *, axis=0):
    """y = the parts of x at `indices` along `axis`     x: [*a, size, *b], indices: int32[*i] ->
    y: [*a, *i, *b]; an index outside 0..size-1 is an error"""
    return np.take(x, checked_indices(indices, x.shape[axis]), axis)


def _scatter_add_shape(g, indices, *, axis, size):
    if g[axis : axis + len(indices)] != indices:
        raise ShapeError(
            f"scatter_add: g is {shape_text(g)}, indices are {shape_text(indices)}; "
            f"want g to hold the indices' sizes from axis {axis} on"
        )
    return (*g[:axis], size, *g[axis + len(indices) :])


@op(
    code=100,
    shape=_scatter_add_shape,
    dtype=_gather_dtype,
    samples=[
        case((2, 2, 3), ints(2, 2, low=0, high=5), size=5),
        case((2, 3, 3), ints(3, low=0, high=4), axis=1, size=4),
        case((2,), exactly(1, DType.i32), axis=1, size=4),
    ],
    grad=lambda gg, y, g, indices, *, axis, size: (gather(gg, indices, axis=axis), None),
)
def scatter_add(g, indices, *, axis=0, size=1):
    """y = the gradient of gather: zeros with each part of g added at its index along `axis`
    g: [*a, *i, *b], indices: int32[*i] -> y: [*a, size, *b]"""
    y = np.zeros((*g.shape[:axis], size, *g.shape[axis + indices.ndim :]), g.dtype)
    np.add.at(y, (slice(None),) * axis + (checked_indices(indices, size),), g)
    return y


@op(
    code=102,
    shape=lambda indices, *, depth, **_: (*indices, depth),
    dtype=DType.f32,
    samples=[
        case(ints(3, low=0, high=4), depth=4),
        case(ints(2, 3, low=-1, high=4), depth=3, on=0.9, off=0.1),
    ],
    kernels=("i32",),
    onnx="OneHot",
    grad=NO_GRAD,
)
def one_hot(indices, *, depth=1, on=1.0, off=0.0):
    """y = `on` at each index, `off` elsewhere     indices: int32[*i] -> y: float32[*i, depth]; an
    index outside 0..depth-1 makes a row of `off`"""
    return np.where(indices[..., None] == np.arange(depth), np.float32(on), np.float32(off))


def _bitcast_dtype(x, *, to):
    if x is DType.bool or to.dtype is DType.bool or to.dtype.size_bytes != x.size_bytes:
        raise DTypeError(f"bitcast: {x!r} as {to.dtype!r}; want types of one size, and no bool")
    return to.dtype


@op(
    code=107,
    shape=same,
    dtype=_bitcast_dtype,
    samples=[
        case((3, 4), to="i32"),
        case(ints(3, 4, low=0, high=2**30), to="f32"),
        case(ints(5, dtype=DType.i8), to="u8"),
        case(ints(5, dtype=DType.i64), to="f64"),
    ],
    kernels=("any",),
    grad=NO_GRAD,
)
def bitcast(x, *, to=Element.f32):
    """y = the bits of x, taken for elements of another type of the same size"""
    return x.view(to.dtype.numpy)
