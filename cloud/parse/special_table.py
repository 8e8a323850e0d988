"""Functions of math and numpy with edge cases of their own, made of operators, for values."""

from __future__ import annotations

import ast
import builtins
import functools
import math
from typing import Any

import numpy as np

from cloud.parse.numeric_table import as_float
from cloud.parse.real_table import truncated
from cloud.parse.table import on_values
from ir.dtype import DType
from ir.graph import Constant, Value


@on_values(math.erfc)
def _erfc(m, x):
    """1 - erf(x) near 0, else a factor of e^(-x x), which keeps its digits where it is tiny"""
    x = as_float(m, x)
    size, half = m.op("abs", x), _number(0.5, x)
    near = m.op("less", size, half)
    tail = _erfc_tail(m, m.op("where", near, half, size))
    left = m.op("less", x, _number(0, x))
    far = m.op("where", left, m.op("sub", _number(2, x), tail), tail)
    middle = m.op("sub", _number(1, x), m.op("erf", m.op("where", near, x, _number(0, x))))
    return m.op("where", near, middle, far)


# e^(x x) erfc(x) (1 + 2 x) by powers of (x - 2) / (x + 2) for x from 0 on, to 1e-15
_TAIL = (
    1.2769783815525289, -0.09276382658574488, -0.16603039761533683, 0.1640512800333045,
    -0.05422000098938379, -0.008034015077442468, 0.008722653817412258, 0.0012713388821376322,
    -0.0014568132813392836, -0.00045434003881532993, 0.00020636268647766627,
    0.00015103451606103123, -1.4901062178327189e-06, -3.6405228656991725e-05,
    -1.3550461660621755e-05, 3.6625719586210967e-06, 5.3380619799498e-06, 1.5928194907995805e-06,
    -8.486280593803529e-07, -9.484075426015245e-07, -1.283145001602249e-07, 2.3591501687225773e-07,
    9.110270309406622e-08, -2.608477109026454e-08, -1.4276847782986204e-08, 2.3276016782674513e-10,
)  # fmt: skip


def _erfc_tail(m: Any, x: Value) -> Value:
    """erfc of x from 1/2 on. x x is split so that e^(-x x) is exact but for its own rounding."""
    x = m.op("minimum", x, _number(30, x))  # from where on it is 0 in every type
    t = m.op("div", m.op("sub", x, _number(2, x)), m.op("add", x, _number(2, x)))
    factor = m.op("div", _power_series(m, t, _TAIL), m.op("add", _times(m, x, 2), _number(1, x)))
    coarse = _times(m, m.op("floor", _times(m, x, 16)), 1 / 16)
    rest = m.op("mul", m.op("sub", x, coarse), m.op("add", x, coarse))
    parts = (m.op("exp", m.op("neg", p)) for p in (m.op("mul", coarse, coarse), rest))
    return functools.reduce(lambda a, b: m.op("mul", a, b), parts, factor)


def _power_series(m: Any, t: Value, coefficients: tuple[float, ...]) -> Value:
    """The sum of coefficients[i] t^i (Horner 1819)"""
    y: Value = _number(coefficients[-1], t)
    for c in coefficients[-2::-1]:
        y = m.op("add", m.op("mul", y, t), _number(c, t))
    return y


@on_values(math.fmod)
def _fmod(m, a, b):
    """What is left of a after whole b's, with the sign of a"""
    return m.op("mod", *m.promoted(a, b, at_least_float=True), truncated=True)


@on_values(np.fmod)
def _np_fmod(m, a, b):
    return m.op("mod", *m.promoted(a, b, numbers=True), truncated=True)


@on_values(math.remainder)
def _remainder(m, x, y):
    """x less the nearest whole number of y, of two the even one"""
    x, y = m.promoted(x, y, at_least_float=True)
    size = m.op("abs", y)
    rest = m.op("mod", x, size, truncated=True)
    near, far = m.op("abs", rest), m.op("sub", size, m.op("abs", rest))
    half = _times(m, m.op("sub", x, rest), 0.5)
    even = m.op("equal", m.op("mod", half, size, truncated=True), _number(0, x))
    tie = m.op("logical_and", m.op("equal", near, far), m.op("logical_not", even))
    over = m.op("logical_or", m.op("greater", near, far), tie)
    past = m.op("sub", rest, m.op("mul", m.op("sign", rest), size))
    return m.op("where", over, past, rest)


@on_values(math.modf, np.modf)
def _modf(m, x):
    x = as_float(m, x)
    whole = truncated(m, as_float(m, x))
    part = m.op("where", _is_infinite(m, x), _number(0, x), m.op("sub", x, whole))
    return part, whole


@on_values(math.ldexp, np.ldexp)
def _ldexp(m, x, i):
    """x 2^i, in three exact steps, for 2^i may be out of range where the result is not"""
    x, i = as_float(m, x), m.as_value(i)
    if i.dtype.is_float:
        raise m.not_known("ldexp by a float", "give an integer, or write x * 2.0**i")
    info = np.finfo(x.dtype.numpy)
    powers = np.ldexp(x.dtype.numpy.type(1), np.arange(info.minexp, info.maxexp, dtype=np.int32))
    i = m.cast(i, DType.i32)
    for _ in range(3):
        step = _within(m, i, int(info.minexp), int(info.maxexp) - 1)
        place = m.op("sub", step, Constant(info.minexp, dtype=DType.i32))
        x = m.op("mul", x, m.op("gather", Constant(powers), place))
        i = m.op("sub", i, step)
    return x


def _within(m: Any, x: Value, low: int, high: int) -> Value:
    bounds = (Constant(n, dtype=x.dtype) for n in (low, high))
    y: Value = m.op("maximum", x, next(bounds))
    return m.op("minimum", y, next(bounds))  # type: ignore[no-any-return]


@on_values(math.isclose)
def _isclose(m, a, b, *, rel_tol=1e-9, abs_tol=0.0):
    a, b = m.promoted(a, b, at_least_float=True)
    largest = m.op("maximum", m.op("abs", a), m.op("abs", b))
    return _close(
        m, a, b, m.call(builtins.max, (m.binary(ast.Mult, largest, rel_tol), abs_tol), {})
    )


@on_values(np.isclose)
def _np_isclose(m, a, b, rtol=1e-5, atol=1e-8, equal_nan=False):
    a, b = m.promoted(a, b, at_least_float=True)
    bound = m.binary(ast.Add, m.binary(ast.Mult, m.op("abs", b), rtol), atol)
    close = _close(m, a, b, bound)
    both = m.op("logical_and", m.op("is_nan", a), m.op("is_nan", b))
    return m.op("logical_or", close, both) if equal_nan else close


@on_values(np.allclose)
def _allclose(m, a, b, rtol=1e-5, atol=1e-8, equal_nan=False):
    return m.call(np.all, (_np_isclose(m, a, b, rtol, atol, equal_nan),), {})


def _close(m: Any, a: Value, b: Value, bound: Any) -> Value:
    """Whether two numbers are equal, or finite and at most `bound` apart."""
    apart = m.op("abs", m.op("sub", a, b))
    near = m.compare(ast.LtE, apart, bound)
    finite = m.op("less", apart, _number(math.inf, a))
    near = m.op("logical_and", near, finite)
    return m.op("logical_or", m.op("equal", a, b), near)  # type: ignore[no-any-return]


@on_values(np.heaviside)
def _heaviside(m, x, at_zero):
    """0 below 0, 1 above it, at_zero there; not a number for what is none"""
    x, at_zero = m.promoted(x, at_zero, at_least_float=True)
    zero, one = _number(0, x), _number(1, x)
    y = m.op("where", m.op("less", x, zero), zero, one)
    y = m.op("where", m.op("equal", x, zero), at_zero, y)
    return m.op("where", m.op("is_nan", x), _number(math.nan, x), y)


@on_values(np.logaddexp)
def _logaddexp(m, a, b):
    return _sum_of_powers(m, *m.promoted(a, b, at_least_float=True), 1.0)


@on_values(np.logaddexp2)
def _logaddexp2(m, a, b):
    return _sum_of_powers(m, *m.promoted(a, b, at_least_float=True), math.log(2))


def _sum_of_powers(m: Any, a: Value, b: Value, log: float) -> Value:
    """The logarithm of base^a + base^b; `log` is that of the base. (`maximum` would halve what
    a second derivative is made of where both are equal.)"""
    above = m.op("less", a, b)
    high, low = m.op("where", above, b, a), m.op("where", above, a, b)
    alike = m.op("logical_and", m.op("equal", a, b), _is_infinite(m, a))
    apart = m.op("where", alike, _number(0, a), m.op("sub", low, high))  # not inf - inf
    more = _times(m, m.op("softplus", _times(m, apart, log)), 1 / log)
    return m.op("add", high, more)  # type: ignore[no-any-return]


@on_values(np.float_power)
def _float_power(m, a, b):
    return m.op("pow", *(m.cast(m.as_value(x), DType.f64) for x in (a, b)))


for _name, _f in (("maximum", np.fmax), ("minimum", np.fmin)):

    @on_values(_f)
    def _without_nan(m, a, b, *, name=_name):
        """The larger or smaller one; of two of which one is not a number the other"""
        a, b = m.promoted(a, b, at_least_float=True)
        first = m.op("where", m.op("is_nan", a), b, a)
        return m.op(name, first, m.op("where", m.op("is_nan", b), a, b))


@on_values(np.sinc)
def _sinc(m, x):
    """sin(pi x) / (pi x), by its series near 0, so that it has all derivatives there"""
    angle = _times(m, as_float(m, x), math.pi)
    zero, one = _number(0, angle), _number(1, angle)
    near = m.op("less", m.op("abs", angle), _number(0.5, angle))
    close, far = m.op("where", near, angle, zero), m.op("where", near, one, angle)
    series = tuple((-1) ** k / math.factorial(2 * k + 1) for k in range(9))
    by_series = _power_series(m, m.op("mul", close, close), series)
    return m.op("where", near, by_series, m.op("div", m.op("sin", far), far))


@on_values(np.nan_to_num)
def _nan_to_num(m, x, copy=True, nan=0.0, posinf=None, neginf=None):
    x = m.as_value(x)
    if not x.dtype.is_float:
        return x
    info, infinite = np.finfo(x.dtype.numpy), _is_infinite(m, x)
    above = m.op("greater", x, _number(0, x))
    largest = float(info.max) if posinf is None else posinf
    least = float(info.min) if neginf is None else neginf
    ends = m.op("where", above, *(m.as_value(n, x.dtype) for n in (largest, least)))
    y = m.op("where", infinite, ends, x)
    return m.op("where", m.op("is_nan", x), m.as_value(nan, x.dtype), y)


def _is_infinite(m: Any, x: Value) -> Value:
    return m.op("equal", m.op("abs", x), _number(math.inf, x))  # type: ignore[no-any-return]


def _times(m: Any, x: Value, n: float) -> Value:
    return m.op("mul", x, _number(n, x))  # type: ignore[no-any-return]


def _number(n: float, x: Value) -> Constant:
    """A number in the type of x."""
    return Constant(n, dtype=x.dtype)
