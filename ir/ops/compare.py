"""Truth values from numbers, and choices by them."""

from __future__ import annotations

import numpy as np

from ir.dtype import DType
from ir.errors import DTypeError
from ir.op import NO_GRAD, bools, case, exactly, ints, op
from ir.ops.rules import broadcast, predicate, same, unbroadcast

SOME = exactly([-1, 0, 1, 2, 2]), exactly([-2, 0, 1.5, 2, 3])
PAIRS = (
    case((3, 4), (4,)),
    case((2, 1, 5), (3, 1)),
    case(*SOME),
    case(ints(3, 4, low=0, high=3), ints(4, low=0, high=3)),
    case(exactly([2**40, 2**40 + 1], DType.i64), exactly([2**40, 2**40], DType.i64)),
)
TRUTHS = case(bools(3, 4), bools(4)), case(bools(2, 1, 5), bools(3, 1))
NUMBERS = ("f32", "i32", "i64")


@op(
    code=50,
    shape=broadcast,
    dtype=predicate,
    samples=(*PAIRS, *TRUTHS),
    kernels=(*NUMBERS, "boolean"),
    onnx="Equal",
    grad=NO_GRAD,
)
def equal(a, b):
    """y = whether a = b"""
    return a == b


@op(
    code=51,
    shape=broadcast,
    dtype=predicate,
    samples=PAIRS,
    kernels=NUMBERS,
    onnx="Less",
    grad=NO_GRAD,
)
def less(a, b):
    """y = whether a < b"""
    return a < b


@op(
    code=52,
    shape=broadcast,
    dtype=predicate,
    samples=PAIRS,
    kernels=NUMBERS,
    onnx="Greater",
    grad=NO_GRAD,
)
def greater(a, b):
    """y = whether a > b"""
    return a > b


@op(
    code=53,
    shape=broadcast,
    dtype=predicate,
    samples=PAIRS,
    kernels=NUMBERS,
    onnx="LessOrEqual",
    grad=NO_GRAD,
)
def less_equal(a, b):
    """y = whether a <= b"""
    return a <= b


@op(
    code=54,
    shape=broadcast,
    dtype=predicate,
    samples=PAIRS,
    kernels=NUMBERS,
    onnx="GreaterOrEqual",
    grad=NO_GRAD,
)
def greater_equal(a, b):
    """y = whether a >= b"""
    return a >= b


def _truths(*dtypes, **_):
    if set(dtypes) != {DType.bool}:
        raise DTypeError(f"logical operator on {list(dtypes)}; want bool")
    return DType.bool


@op(
    code=55,
    shape=same,
    dtype=_truths,
    samples=[case(bools(3, 4)), case(bools())],
    kernels=("boolean",),
    onnx="Not",
    grad=NO_GRAD,
)
def logical_not(x):
    """y = whether x is false"""
    return np.logical_not(x)


@op(
    code=56,
    shape=broadcast,
    dtype=_truths,
    samples=TRUTHS,
    kernels=("boolean",),
    onnx="And",
    grad=NO_GRAD,
)
def logical_and(a, b):
    """y = whether both a and b are true"""
    return np.logical_and(a, b)


@op(
    code=57,
    shape=broadcast,
    dtype=_truths,
    samples=TRUTHS,
    kernels=("boolean",),
    onnx="Or",
    grad=NO_GRAD,
)
def logical_or(a, b):
    """y = whether a or b, or both, are true"""
    return np.logical_or(a, b)


def _where_dtype(cond, a, b):
    if cond is not DType.bool or a is not b:
        raise DTypeError(f"where: inputs of {[cond, a, b]}; want bool and twice the same type")
    return a


def _where_grad(g, y, cond, a, b):
    return None, unbroadcast(where(cond, g, 0.0), a), unbroadcast(where(cond, 0.0, g), b)


@op(
    code=58,
    shape=broadcast,
    dtype=_where_dtype,
    samples=[
        case(bools(3, 4), (3, 4), (3, 4)),
        case(bools(3, 1), (4,), ()),
        case(bools(4), ints(2, 4), ints(2, 1)),
        case(bools(3, 1, 7), (3, 171, 7), (171, 1)),
    ],
    kernels=("any",),
    onnx="Where",
    grad=_where_grad,
)
def where(cond, a, b):
    """y = a where cond is true, else b"""
    return np.where(cond, a, b)


@op(
    code=59,
    shape=same,
    dtype=DType.bool,
    samples=[case((3, 4)), case(exactly([np.nan, 0, np.inf]))],
    onnx="IsNaN",
    grad=NO_GRAD,
)
def is_nan(x):
    """y = whether x is not a number"""
    return np.isnan(x)
