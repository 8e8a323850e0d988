"""Remainders and the bits of integers."""

from __future__ import annotations

from enum import Enum

import numpy as np

from ir.dtype import DType
from ir.errors import DTypeError
from ir.op import NO_GRAD, case, exactly, ints, op
from ir.ops.rules import broadcast, unbroadcast

WHOLE = exactly([7, -7, 7, -7, 5, -(2**31)], DType.i32), exactly([3, 3, -3, -3, 0, -1], DType.i32)
LONG = ints(5, low=-(2**40), high=2**40, dtype=DType.i64)


def _mod_grad(g, y, a, b, *, truncated):
    by_b = (y - a) / b  # minus the quotient, whole and so a constant
    return unbroadcast(g, a), unbroadcast(g * by_b, b)


@op(
    code=42,
    shape=broadcast,
    samples=[
        case((3, 4), (4,), low=0.7),
        case((3, 1), (3, 4), low=-2.0, high=-0.5, truncated=True),
        case(exactly([4.5, -4.5, 4.5]), exactly([2, 2, -2])),
        case(exactly([4.5, -4.5, 4.5]), exactly([2, 2, -2]), truncated=True),
        case(*WHOLE),
        case(*WHOLE, truncated=True),
        case(LONG, ints(5, low=1, high=99, dtype=DType.i64)),
        case(LONG, ints(5, low=-99, high=-1, dtype=DType.i64), truncated=True),
    ],
    kernels=("f32", "i32", "i64"),
    grad=_mod_grad,
)
def mod(a, b, *, truncated=False):
    """y = what is left of a when b is taken off as often as it goes, with the sign of b;
    `truncated`: with that of a. Of integers, 0 where b is 0."""
    if a.dtype.kind == "f":
        return np.fmod(a, b) if truncated else np.mod(a, b)
    with np.errstate(all="ignore"):  # 0 as a divisor
        return np.fmod(a, b) if truncated else np.mod(a, b)


class Bits(Enum):
    """What is done with two integers bit by bit; shifts move those of a by b places."""

    conjunction = "and"
    disjunction = "or"
    difference = "xor"
    left = "left"
    right = "right"


def _integers(a, b, **_):
    if a is not b or a not in (DType.i32, DType.i64):
        raise DTypeError(f"bitwise: inputs of {[a, b]}; want i32 or i64 twice")
    return a


_BITS = ints(3, 4), ints(4)


@op(
    code=43,
    shape=broadcast,
    dtype=_integers,
    samples=[
        *(case(*_BITS, kind=kind) for kind in ("and", "or", "xor")),
        case(ints(6), exactly([0, 1, 5, 31, 32, -1], DType.i32), kind="left"),
        case(ints(6), exactly([0, 1, 5, 31, 32, -1], DType.i32), kind="right"),
        case(LONG, LONG, kind="xor"),
        case(LONG, exactly([0, 1, 33, 63, 64], DType.i64), kind="right"),
    ],
    kernels=("i32", "i64"),
    grad=NO_GRAD,
)
def bitwise(a, b, *, kind=Bits.conjunction):
    """y = a and b joined bit by bit, or the bits of a moved by b places: to the right with the
    sign kept. Nothing but the sign is left of b places that are negative or more than there are."""
    if kind in (Bits.left, Bits.right):
        width = 8 * a.dtype.itemsize
        inside = (b >= 0) & (b < width)
        places = np.where(inside, b, 0)
        if kind is Bits.left:
            return np.where(inside, np.left_shift(a, places), 0).astype(a.dtype)
        return np.where(inside, np.right_shift(a, places), np.where(a < 0, -1, 0)).astype(a.dtype)
    of_two = {Bits.conjunction: np.bitwise_and, Bits.disjunction: np.bitwise_or}
    return of_two.get(kind, np.bitwise_xor)(a, b)
