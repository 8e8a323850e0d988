"""Matrix products."""

from __future__ import annotations

import math

import numpy as np

from ir.dtype import DType
from ir.errors import ShapeError
from ir.graph import Shape, Value, shape_text
from ir.op import case, ints, op
from ir.ops.activation import Activation, activate, before_activation
from ir.ops.reduce import reduce_sum
from ir.ops.rules import broadcast, unbroadcast
from ir.ops.shaping import reshape


def _matmul_shape(a: Shape, b: Shape, *, transpose_a: bool, transpose_b: bool) -> Shape:
    if len(a) < 2 or len(b) < 2:
        raise ShapeError(f"matmul: {shape_text(a)} by {shape_text(b)}; want a rank of 2 or more")
    m, k = (a[-1], a[-2]) if transpose_a else (a[-2], a[-1])
    k2, n = (b[-1], b[-2]) if transpose_b else (b[-2], b[-1])
    if k != k2:
        raise ShapeError(
            f"matmul: {shape_text(a)} by {shape_text(b)} with transpose_a={transpose_a}, "
            f"transpose_b={transpose_b}: {k} is not {k2}"
        )
    return (*broadcast(a[:-2], b[:-2]), m, n)


def _matmul_grad(g, y, a, b, *, transpose_a, transpose_b):
    if b.rank == 2 and a.rank > 2 and not transpose_a:  # one product, not one a batch and a sum
        da = matmul(g, b, transpose_b=not transpose_b)
        return da, _over_rows(g, a) if transpose_b else _over_rows(a, g)
    if transpose_a:
        da = matmul(b, g, transpose_a=transpose_b, transpose_b=True)
    else:
        da = matmul(g, b, transpose_b=not transpose_b)
    if transpose_b:
        db = matmul(g, a, transpose_a=True, transpose_b=transpose_a)
    else:
        db = matmul(a, g, transpose_a=not transpose_a)
    return unbroadcast(da, a), unbroadcast(db, b)


def _over_rows(a: Value, b: Value) -> Value:
    """The product a^T b over all leading axes: [...,m] and [...,n] -> [m,n]."""
    return matmul(_rows(a), _rows(b), transpose_a=True)


def _rows(x: Value) -> Value:
    return x if x.rank == 2 else reshape(x, shape=(math.prod(x.shape[:-1]), x.shape[-1]))


@op(
    code=130,
    shape=_matmul_shape,
    samples=[
        case((3, 4), (4, 5)),
        case((4, 3), (4, 5), transpose_a=True),
        case((3, 4), (5, 4), transpose_b=True),
        case((4, 3), (5, 4), transpose_a=True, transpose_b=True),
        case((2, 3, 4), (4, 5)),
        case((2, 1, 3, 4), (3, 4, 2)),
        case((2, 4, 3), (2, 5, 4), transpose_a=True, transpose_b=True),
        case((3, 4), (2, 5, 4), transpose_b=True),
        case((2, 3, 4), (5, 4), transpose_b=True),
        case((2, 4, 3), (4, 2), transpose_a=True),
        case((1, 7), (7, 1)),
        case((17, 13), (13, 35)),
        case((0, 4), (4, 3)),
        case((25, 260), (260, 9)),  # more than one block of each size in the fast kernels
        case((7, 3), (3, 520)),
        case((3, 260), (9, 260), transpose_b=True),
        case(ints(2, 3, 4), ints(4, 5)),
        case(ints(3, 4, high=2**40, dtype=DType.i64), ints(4, 5, dtype=DType.i64)),
    ],
    kernels=("f32", "i32", "i64"),
    onnx="MatMul",
    grad=_matmul_grad,
)
def matmul(a, b, *, transpose_a=False, transpose_b=False):
    """y = a b, over the last two axes     a: [...,m,k], b: [...,k,n] -> y: [...,m,n]

    Leading axes stretch by the numpy rule. A transposed input holds its last two axes swapped.
    """
    a = np.swapaxes(a, -1, -2) if transpose_a else a
    b = np.swapaxes(b, -1, -2) if transpose_b else b
    return np.matmul(a, b)


def _linear_shape(x: Shape, w: Shape, b: Shape | None, *, activation: Activation) -> Shape:
    if len(x) < 2 or len(w) != 2 or x[-1] != w[1]:
        raise ShapeError(
            f"linear: x is {shape_text(x)}, w is {shape_text(w)}; want [...,in] and [out,in]"
        )
    if b is not None and b != w[:1]:
        raise ShapeError(f"linear: b is {shape_text(b)}, want {shape_text(w[:1])}")
    return (*x[:-1], w[0])


def _linear_grad(g, y, x, w, b, *, activation):
    g = before_activation(g, activation, lambda: linear(x, w, b))
    db = None if b is None else reduce_sum(g, axes=tuple(range(g.rank - 1)))
    return matmul(g, w), _over_rows(g, x), db


@op(
    code=131,
    shape=_linear_shape,
    samples=[
        case((3, 4), (5, 4), (5,)),
        case((3, 4), (5, 4)),
        case((2, 3, 4), (5, 4), (5,), activation=Activation.relu),
        case((3, 4), (5, 4), (5,), activation=Activation.relu6),
        case((3, 4), (5, 4), (5,), activation=Activation.hard_swish),
        case((3, 4), (5, 4), (5,), activation=Activation.sigmoid),
        case((3, 4), (5, 4), (5,), activation=Activation.tanh),
        case((3, 4), (5, 4), (5,), activation=Activation.silu),
        case((3, 4), (5, 4), (5,), activation=Activation.gelu),
        case((1, 40), (17, 40), (17,)),
        case((7, 19), (33, 19), (33,)),
        case((25, 260), (9, 260), (9,), activation=Activation.relu),
    ],
    grad=_linear_grad,
)
def linear(x, w, b=None, *, activation=Activation.none):
    """y = activation(x w^T + b)     x: [...,in], w: [out,in], b: [out] -> y: [...,out]"""
    y = np.matmul(x, w.T)
    return activate(activation, y if b is None else y + b)


def _add_shape(x: Shape, r: Shape, w: Shape, b: Shape | None, *, activation: Activation) -> Shape:
    y = _linear_shape(x, w, b, activation=activation)
    if r != y:
        raise ShapeError(f"linear_add: r is {shape_text(r)}, want {shape_text(y)}")
    return y


def _add_grad(g, y, x, r, w, b, *, activation):
    g = before_activation(g, activation, lambda: linear_add(x, r, w, b))
    dx, dw, db = _linear_grad(g, y, x, w, b, activation=Activation.none)
    return dx, g, dw, db


@op(
    code=132,
    shape=_add_shape,
    samples=[
        case((3, 4), (3, 5), (5, 4), (5,)),
        case((2, 3, 4), (2, 3, 5), (5, 4), activation=Activation.relu),
        case((3, 4), (3, 5), (5, 4), (5,), activation=Activation.gelu),
        case((1, 40), (1, 17), (17, 40), (17,), activation=Activation.relu6),
        case((25, 260), (25, 9), (9, 260), (9,)),
    ],
    grad=_add_grad,
)
def linear_add(x, r, w, b=None, *, activation=Activation.none):
    """y = activation(x w^T + b + r), the end of a residual block (He et al. 2016)

    x: [...,in], r: [...,out], w: [out,in], b: [out] -> y: [...,out]
    """
    return activate(activation, linear.ref(x, w, b) + r)
