"""The largest or smallest elements, in order."""

from __future__ import annotations

import numpy as np

from ir.dtype import DType
from ir.errors import ShapeError
from ir.graph import Constant, shape_text
from ir.op import case, exactly, ints, op
from ir.ops.rules import checked_axes
from ir.ops.scatter import scatter_elements
from ir.ops.shaping import broadcast_to


def _topk_shape(x, *, k, axis, largest):
    checked_axes("topk", x, (axis,))
    size = x[axis]
    if isinstance(k, int) and (k < 0 or (isinstance(size, int) and k > size)):
        raise ShapeError(f"topk: {k} of {shape_text(x)} along axis {axis}; want 0 to {size}")
    shape = (*x[:axis], k, *x[axis + 1 :])
    return [shape, shape]


def _topk_grad(g, y, x, *, k, axis, largest):
    if g[0] is None:
        return (None,)
    nothing = broadcast_to(Constant(0.0, dtype=x.dtype), shape=x.shape)
    return (scatter_elements(nothing, y[1], g[0], axis=axis, reduction="add"),)


@op(
    code=80,
    shape=_topk_shape,
    dtype=lambda x, **_: [x, DType.i32],
    samples=[
        case((7,), k=3),
        case((3, 9), k=9, axis=1, largest=False),
        case((2, 8, 3), k=2, axis=1),
        case(exactly([[1, 3, 3, 2], [2, 2, 1, 2]], DType.i32), k=3, axis=1),
        case((4, 5), k=0, axis=1),
        case(ints(3, 12, low=0, high=5), k=7, axis=1, largest=False),
        case(exactly([2**40, 2**40 + 1, -5, 2**40], DType.i64), k=4),
    ],
    results=("values", "indices"),
    kernels=("f32", "i32", "i64"),
    grad=_topk_grad,
)
def topk(x, *, k=1, axis=0, largest=True):
    """values = the k largest (or smallest) x along `axis`, in order, and where they stand: of equal
    ones the first comes first

    x: [*a,size,*b] -> values: [*a,k,*b], indices: int32[*a,k,*b]
    """
    size = x.shape[axis]
    if largest:  # backwards twice, so that equal ones keep their order
        order = size - 1 - np.flip(np.argsort(np.flip(x, axis), axis, kind="stable"), axis)
    else:
        order = np.argsort(x, axis, kind="stable")
    order = np.take(order, np.arange(k), axis)
    return np.take_along_axis(x, order, axis), order.astype(np.int32)
