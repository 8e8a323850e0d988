"""Single elements, or parts, read and written at places that are data."""

from __future__ import annotations

from enum import Enum

import numpy as np

from ir.dtype import DType
from ir.errors import DTypeError, ShapeError
from ir.graph import Constant, shape_text
from ir.op import bools, case, exactly, ints, op
from ir.ops.compare import equal
from ir.ops.rules import checked_axes
from ir.ops.shaping import broadcast_to, cast


class Reduction(Enum):
    """What becomes of an element that is written: the new one, or both joined."""

    none = "none"
    add = "add"
    mul = "mul"
    maximum = "max"
    minimum = "min"


NUMBERS = (DType.f32, DType.f64, DType.i32, DType.i64)


def _read_dtype(x, indices, **_):
    if indices is not DType.i32:
        raise DTypeError(f"indices of {indices!r}; want i32")
    return x


def _written_dtype(x, indices, updates, *, reduction, **_):
    joins = reduction is not Reduction.none
    if indices is not DType.i32 or x is not updates or (joins and x not in NUMBERS):
        raise DTypeError(
            f"indices of {indices!r}, elements of {[x, updates]}; want i32 and one type twice, of "
            "32 or 64-bit numbers if they are joined"
        )
    return x


def _write(x, at, updates, reduction):
    y = x.astype(np.result_type(x, updates))  # one of them may be a constant of fewer bits
    if reduction is Reduction.none:
        y[at] = updates
    elif reduction is Reduction.add:
        np.add.at(y, at, updates)
    elif reduction is Reduction.mul:
        np.multiply.at(y, at, updates)
    elif reduction is Reduction.maximum:
        np.maximum.at(y, at, updates)
    else:
        np.minimum.at(y, at, updates)
    return y


def _checked(indices, size):
    """Indices counted from the front; a negative one counts from the end."""
    if indices.size and ((indices < -size) | (indices >= size)).any():
        raise IndexError(f"indices {indices.min()}..{indices.max()}; want {-size}..{size - 1}")
    return np.where(indices < 0, indices + size, indices)


def _written_grad(read, write, g, y, x, indices, updates, *, reduction, **attrs):
    """The gradient of a scatter, of which `read` is the gather and `write` the scatter itself."""

    def put(into, values, how):
        return write(into, indices, values, reduction=how, **attrs)

    def get(values):
        return read(values, indices, **attrs)

    if reduction is Reduction.none:
        return put(g, _filled(updates, 0.0), "none"), None, get(g)
    if reduction is Reduction.add:
        return g, None, get(g)
    if reduction is Reduction.mul:
        return g * put(_filled(x, 1.0), updates, "mul"), None, get(g * y) / updates
    own = cast(equal(x, y), to=g.dtype)
    theirs = cast(equal(updates, get(y)), to=g.dtype)
    share = g / put(own, theirs, "add")  # equal ones have equal parts
    return share * own, None, get(share) * theirs


def _filled(like, number):
    return broadcast_to(Constant(number, dtype=like.dtype), shape=like.shape)


def _elements_shape(x, indices, *, axis):
    checked_axes("gather_elements", x, (axis,))
    _check_inside("gather_elements", x, indices, axis)
    return indices


def _check_inside(name, x, indices, axis):
    if len(indices) != len(x) or any(
        isinstance(i, int) and isinstance(s, int) and i > s
        for k, (i, s) in enumerate(zip(indices, x, strict=True))
        if k != axis
    ):
        raise ShapeError(
            f"{name}: indices are {shape_text(indices)}, x is {shape_text(x)}; "
            f"want indices no larger, but along axis {axis}"
        )


def _gather_elements_grad(g, y, x, indices, *, axis):
    return scatter_elements(_filled(x, 0.0), indices, g, axis=axis, reduction="add"), None


@op(
    code=103,
    shape=_elements_shape,
    dtype=_read_dtype,
    samples=[
        case((3, 4), ints(2, 4, low=-3, high=3)),
        case((3, 4), ints(2, 6, low=0, high=4), axis=1),
        case((2, 3, 2), ints(1, 5, 2, low=0, high=3), axis=1),
        case(ints(4, dtype=DType.i64), ints(3, low=0, high=4)),
        case(bools(4), ints(3, low=0, high=4)),
    ],
    kernels=("any",),
    grad=_gather_elements_grad,
)
def gather_elements(x, indices, *, axis=0):
    """y = for each index the element of x at its own place, but at the index along `axis`

    indices: int32[*i], no larger than x but along `axis` -> y: [*i]. A negative index counts from
    the end; one outside -size..size-1 is an error.
    """
    own = _own_part(x, indices.shape, axis)
    return np.take_along_axis(own, _checked(indices, x.shape[axis]), axis)


def _own_part(x, shape, axis):
    """x cut to `shape`, but along `axis`."""
    return x[tuple(slice(None if k == axis else n) for k, n in enumerate(shape))]


def _scatter_elements_shape(x, indices, updates, *, axis, reduction):
    checked_axes("scatter_elements", x, (axis,))
    _check_inside("scatter_elements", x, indices, axis)
    if updates != indices:
        raise ShapeError(
            f"scatter_elements: updates are {shape_text(updates)}, want {shape_text(indices)}"
        )
    return x


@op(
    code=104,
    shape=_scatter_elements_shape,
    dtype=_written_dtype,
    samples=[
        case((3, 4), exactly([[0, 1, -1, 2], [2, 0, 1, 0]], DType.i32), (2, 4)),
        case((3, 4), ints(2, 6, low=0, high=4), (2, 6), axis=1, reduction="add"),
        case((2, 3, 2), ints(1, 5, 2, low=0, high=3), (1, 5, 2), axis=1, reduction="mul", low=0.5),
        case((3, 4), ints(2, 6, low=0, high=4), (2, 6), axis=1, reduction="max"),
        case((3, 4), ints(5, 4, low=0, high=3), (5, 4), reduction="min"),
        case(bools(4), exactly([2, 0], DType.i32), bools(2)),
        case(ints(4), ints(9, low=0, high=4), ints(9), reduction="add"),
        case(
            ints(4, dtype=DType.i64), ints(9, low=0, high=4),
            ints(9, low=-(2**40), high=2**40, dtype=DType.i64), reduction="max",
        ),
    ],
    kernels=("any",),
    grad=lambda *v, **attrs: _written_grad(gather_elements, scatter_elements, *v, **attrs),
)  # fmt: skip
def scatter_elements(x, indices, updates, *, axis=0, reduction=Reduction.none):
    """y = x with each of `updates` written at its own place, but at its index along `axis`, or
    joined with what is there

    indices: int32[*i], no larger than x but along `axis`, updates: [*i] -> y: like x. A negative
    index counts from the end; one outside -size..size-1 is an error. Of several updates of one
    element the last is written.
    """
    at = list(np.indices(indices.shape, sparse=True))
    at[axis] = _checked(indices, x.shape[axis])
    return _write(x, tuple(at), updates, reduction)


def _parts(x, indices, batch):
    """(leading sizes of the result, sizes of a part) of indices [*i,k] into the axes of x."""
    if not indices or len(indices) <= batch or not isinstance(indices[-1], int):
        raise ShapeError(f"indices are {shape_text(indices)}; want [*i,k] with a k that is fixed")
    depth = indices[-1]
    if not 1 <= depth <= len(x) - batch or indices[:batch] != x[:batch]:
        raise ShapeError(
            f"indices are {shape_text(indices)}, x is {shape_text(x)}; want x's first {batch} "
            f"sizes, and tuples of 1 to {len(x) - batch}"
        )
    return indices[:-1], x[batch + depth :]


def _gather_nd_shape(x, indices, *, batch_dims):
    lead, part = _parts(x, indices, batch_dims)
    return (*lead, *part)


def _places(x, indices, batch):
    """Index arrays for the first axes of x."""
    depth = indices.shape[-1]
    own = np.indices(indices.shape[:-1], sparse=True)[:batch]
    columns = [_checked(indices[..., k], x.shape[batch + k]) for k in range(depth)]
    return (*own, *columns)


def _gather_nd_grad(g, y, x, indices, *, batch_dims):
    nothing = _filled(x, 0.0)
    return scatter_nd(nothing, indices, g, batch_dims=batch_dims, reduction="add"), None


@op(
    code=105,
    shape=_gather_nd_shape,
    dtype=_read_dtype,
    samples=[
        case((3, 4), ints(5, 2, low=-3, high=3)),
        case((3, 4, 2), ints(2, 2, 1, low=0, high=3)),
        case((2, 3, 4), ints(2, 5, 1, low=0, high=3), batch_dims=1),
        case((2, 2, 3), ints(2, 2, 1, low=0, high=3), batch_dims=2),
        case(ints(4, 2, dtype=DType.i8), ints(3, 1, low=0, high=4)),
    ],
    kernels=("any",),
    grad=_gather_nd_grad,
)
def gather_nd(x, indices, *, batch_dims=0):
    """y = the part of x at each tuple of indices; the first `batch_dims` axes go together

    x: [*b,*s,*part], indices: int32[*b,*i,k] of as many k as there are s -> y: [*b,*i,*part]. A
    negative index counts from the end; one outside -size..size-1 is an error.
    """
    return x[_places(x, indices, batch_dims)].copy()


def _scatter_nd_shape(x, indices, updates, *, batch_dims, reduction):
    if updates != _gather_nd_shape(x, indices, batch_dims=batch_dims):
        raise ShapeError(
            f"scatter_nd: updates are {shape_text(updates)}; want what gather_nd reads at "
            f"{shape_text(indices)} of {shape_text(x)}"
        )
    return x


@op(
    code=106,
    shape=_scatter_nd_shape,
    dtype=_written_dtype,
    samples=[
        case((3, 4), exactly([[0, 1], [-1, 2], [2, 0]], DType.i32), (3,)),
        case((5, 4), exactly([[3], [0]], DType.i32), (2, 4)),
        case((3, 4, 2), ints(2, 2, 1, low=0, high=3), (2, 2, 4, 2), reduction="add"),
        case((2, 3, 4), ints(2, 5, 1, low=0, high=3), (2, 5, 4), batch_dims=1, reduction="max"),
        case((4,), ints(9, 1, low=0, high=4), (9,), reduction="mul", low=0.5),
        case((4,), ints(9, 1, low=0, high=4), (9,), reduction="min"),
        case(ints(4, 2, dtype=DType.u8, low=0), exactly([[1], [3]], DType.i32),
             ints(2, 2, dtype=DType.u8, low=0)),
    ],
    kernels=("any",),
    grad=lambda *v, **attrs: _written_grad(gather_nd, scatter_nd, *v, **attrs),
)  # fmt: skip
def scatter_nd(x, indices, updates, *, batch_dims=0, reduction=Reduction.none):
    """y = x with the part at each tuple of indices replaced by its update, or joined with it

    Shapes as in gather_nd, whose result the updates are like. Of several updates of one part the
    last is written.
    """
    return _write(x, _places(x, indices, batch_dims), updates, reduction)
