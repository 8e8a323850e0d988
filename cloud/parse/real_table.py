"""Functions of real numbers that keep digits, signs and infinities, for values."""

from __future__ import annotations

import ast
import builtins
import functools
import math
from typing import Any

import numpy as np

from cloud.parse.numeric_table import as_float, rounded, whole_number
from cloud.parse.table import on_values
from ir.dtype import DType
from ir.graph import Constant, Value


def _one(m: Any, x: Any) -> Constant:
    return Constant(1, dtype=as_float(m, x).dtype)


@on_values(math.log1p, np.log1p)
def _log1p(m, x):
    """log(u) x / (u - 1) with u = 1 + x as it is rounded: to the last digits (Goldberg 1991)"""
    x, one = as_float(m, x), _one(m, x)

    def near(x: Value) -> Value:
        u = m.op("add", x, one)
        moved = m.op("sub", u, one)
        still = m.op("equal", moved, Constant(0, dtype=x.dtype))
        safe = m.op("where", still, one, moved)
        return m.op("where", still, x, m.op("mul", m.op("log", u), m.op("div", x, safe)))  # type: ignore[no-any-return]

    return _near_zero(m, x, near, lambda x: m.op("log", m.op("add", x, one)))


@on_values(math.expm1, np.expm1)
def _expm1(m, x):
    """2 t / (1 - t) with t = tanh(x / 2), which keeps the digits of small x"""
    x, one = as_float(m, x), _one(m, x)

    def near(x: Value) -> Value:
        t = m.op("tanh", m.op("mul", x, 0.5))
        return m.op("div", m.op("add", t, t), m.op("sub", one, t))  # type: ignore[no-any-return]

    return _near_zero(m, x, near, lambda x: m.op("sub", m.op("exp", x), one))


def _near_zero(m: Any, x: Value, near: Any, far: Any) -> Value:
    """near(x) where |x| < 1/2, else far(x); neither is computed, nor differentiated, elsewhere."""
    half, one = Constant(0.5, dtype=x.dtype), _one(m, x)
    small = m.op("less", m.op("abs", x), half)
    zero = Constant(0, dtype=x.dtype)
    y: Value = m.op(
        "where", small, near(m.op("where", small, x, zero)), far(m.op("where", small, one, x))
    )
    return y


@on_values(np.hypot)
def _hypot(m, x1, x2):
    return _length(m, *m.promoted(x1, x2, at_least_float=True))


@on_values(math.hypot)
def _hypot_of_many(m, *coordinates):
    return _length(m, *(as_float(m, x) for x in coordinates))


def _length(m: Any, *xs: Any) -> Value:
    """The root of the sum of squares, of what is left of all when the largest is divided by"""
    largest = functools.reduce(
        lambda a, b: m.op("maximum", *m.promoted(a, b)), [m.op("abs", x) for x in xs]
    )
    most = np.finfo(largest.dtype.numpy).max
    zero, one, most = (Constant(n, dtype=largest.dtype) for n in (0, 1, most))
    scale = m.op("where", m.op("equal", largest, zero), one, m.op("minimum", largest, most))
    scale = m.op("stop_gradient", scale)
    parts = [m.binary(ast.Div, x, scale) for x in xs]
    total = functools.reduce(
        lambda a, b: m.binary(ast.Add, a, b), [m.binary(ast.Mult, p, p) for p in parts]
    )
    return m.op("mul", m.op("sqrt", total), scale)  # type: ignore[no-any-return]


@on_values(math.dist)
def _dist(m, p, q):
    pairs = zip(m.iterated(p), m.iterated(q), strict=True)
    return m.call(math.hypot, tuple(m.binary(ast.Sub, a, b) for a, b in pairs), {})


@on_values(math.atan2, np.arctan2)
def _atan2(m, x1, x2):
    """atan of the smaller side by the larger one, turned to where it lies"""
    y, x = m.promoted(x1, x2, at_least_float=True)
    zero, one = Constant(0, dtype=x.dtype), _one(m, x)
    below, left = _is_negative(m, y), _is_negative(m, x)
    y = m.op("where", below, m.op("neg", y), y)  # not abs, whose derivative at 0 is 0
    x = m.op("where", left, m.op("neg", x), x)
    steep = m.op("greater", y, x)
    over, under = m.op("where", steep, x, y), m.op("where", steep, y, x)
    endless = m.op("equal", over, Constant(math.inf, dtype=x.dtype))  # and so is what is under it
    over = m.op("where", endless, one, over)
    under = m.op("where", m.op("logical_or", endless, m.op("equal", under, zero)), one, under)
    angle = m.op("atan", m.op("div", over, under))
    angle = m.op("where", steep, m.op("sub", math.pi / 2, angle), angle)
    angle = m.op("where", left, m.op("sub", math.pi, angle), angle)
    return m.op("where", below, m.op("neg", angle), angle)


def _is_negative(m: Any, x: Value) -> Value:
    """Whether x has the sign of -1: of zeros their inverse tells."""
    zero = Constant(0, dtype=x.dtype)
    told = m.op("where", m.op("equal", x, zero), m.op("reciprocal", x), x)
    return m.op("less", m.op("stop_gradient", told), zero)  # type: ignore[no-any-return]


@on_values(np.signbit)
def _signbit(m, x):
    return _is_negative(m, as_float(m, x))


@on_values(math.copysign, np.copysign)
def _copysign(m, x1, x2):
    x, sign = m.promoted(x1, x2, at_least_float=True)
    size = m.op("abs", x)
    return m.op("where", _is_negative(m, sign), m.op("neg", size), size)


@on_values(math.cbrt, np.cbrt)
def _cbrt(m, x):
    x = as_float(m, x)
    return _copysign(m, m.binary(ast.Pow, m.op("abs", x), 1 / 3), x)


@on_values(np.trunc)
def truncated(m, x):
    """x without its fraction, with its sign"""
    x = m.as_value(x)
    if not x.dtype.is_float:
        return x
    negative = m.op("less", x, Constant(0, dtype=x.dtype))
    return m.op("where", negative, m.op("ceil", x), m.op("floor", x))


@on_values(builtins.round)
def _round(m, number, ndigits=None):
    if ndigits is None:
        return whole_number(m, number, "round")
    if number.rank or number.dtype is not DType.f64 or ndigits <= 0:
        return rounded(m, number, ndigits)
    return _to_digits(m, number, ndigits)


def _to_digits(m: Any, x: Value, digits: int) -> Value:
    """The number of that many digits next to x, a float64. The product by 10^digits is rounded;
    what that left out tells the side of what looks like the middle of two (Dekker 1971)."""

    def const(n: float) -> Constant:
        return Constant(n, dtype=DType.f64)

    scale, factor = 10.0**digits, 2.0**27 + 1
    limit = const(2.0**52 / scale)
    has_digits, whole = m.op("less", m.op("abs", x), limit), m.op("stop_gradient", x)
    x = m.op("where", has_digits, x, const(0))
    y = m.op("mul", x, const(scale))
    grown = m.op("mul", x, const(factor))
    high = m.op("sub", grown, m.op("sub", grown, x))
    upper = factor * scale - (factor * scale - scale)
    parts = ((high, upper), (m.op("sub", x, high), upper), (high, scale - upper))
    left_out = y
    for part, of_scale in parts:
        left_out = m.op("sub", left_out, m.op("mul", part, const(of_scale)))
    left_out = m.op("sub", m.op("mul", m.op("sub", x, high), const(scale - upper)), left_out)
    below = m.op("floor", y)
    middle = m.op("equal", m.op("sub", y, below), const(0.5))
    nearest = m.op("where", m.op("greater", left_out, const(0)), m.op("ceil", y), m.op("round", y))
    nearest = m.op("where", m.op("less", left_out, const(0)), below, nearest)
    nearest = m.op("where", middle, nearest, m.op("round", y))
    return m.op("where", has_digits, m.op("div", nearest, const(scale)), whole)  # type: ignore[no-any-return]
