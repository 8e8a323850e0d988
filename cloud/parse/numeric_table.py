"""Functions of Python, math and numpy on numbers and arrays, for values."""

from __future__ import annotations

import ast
import builtins
import functools
import math
from typing import Any

import numpy as np

from cloud.parse.structure import described
from cloud.parse.table import on_values
from ir.dtype import DType
from ir.graph import Constant, Value


def as_float(m: Any, x: Any) -> Value:
    """x as a value of a float type."""
    x = m.number(m.as_value(x))
    return x if x.dtype.is_float else m.cast(x, m.default_float)


_UNARY: dict[str, tuple[Any, ...]] = {
    name: (getattr(np, name), getattr(math, name)) for name in ("sin", "cos", "exp", "sqrt", "tanh")
}
for _name in ("acos", "asin", "atan", "acosh", "asinh", "atanh"):
    _UNARY[_name] = (getattr(np, f"arc{_name[1:]}"), getattr(math, _name))
for _name, _functions in _UNARY.items():
    on_values(*_functions)(lambda m, x, *, name=_name: m.op(name, as_float(m, x)))
for _name in ("floor", "ceil"):
    on_values(getattr(np, _name))(lambda m, x, *, name=_name: m.op(name, as_float(m, x)))
    on_values(getattr(math, _name))(
        lambda m, x, *, name=_name: m.cast(m.op(name, as_float(m, x)), DType.i32)
    )
for _name, _f in (
    ("log", np.log),
    ("sign", np.sign),
    ("erf", math.erf),
    ("reciprocal", np.reciprocal),
):
    on_values(_f)(lambda m, x, *, name=_name: m.op(name, as_float(m, x)))
for _kind, _f in (
    (ast.Add, np.add),
    (ast.Sub, np.subtract),
    (ast.Mult, np.multiply),
    (ast.Div, np.divide),
    (ast.Pow, np.power),
    (ast.Pow, math.pow),
    (ast.Mod, np.mod),
    (ast.FloorDiv, np.floor_divide),
    (ast.MatMult, np.matmul),
    (ast.BitAnd, np.logical_and),
    (ast.BitOr, np.logical_or),
):
    on_values(_f)(lambda m, a, b, *, kind=_kind: m.binary(kind, a, b))
for _kind, _f in (
    (ast.Lt, np.less),
    (ast.LtE, np.less_equal),
    (ast.Gt, np.greater),
    (ast.GtE, np.greater_equal),
    (ast.Eq, np.equal),
    (ast.NotEq, np.not_equal),
):
    on_values(_f)(lambda m, a, b, *, kind=_kind: m.compare(kind, a, b))


@on_values(np.negative)
def _negative(m, x):
    return m.unary(ast.USub, x)


@on_values(np.logical_not)
def _logical_not(m, x):
    return m.op("logical_not", x)


@on_values(builtins.abs, np.abs, np.fabs, math.fabs)
def _abs(m, x):
    return (
        m.weakly(m.op("maximum", x, m.op("neg", x)), m.is_weak(x))
        if not (x := m.number(x)).dtype.is_float
        else m.op("abs", x)
    )


@on_values(np.square)
def _square(m, x):
    return m.binary(ast.Mult, x, x)


@on_values(math.tan, np.tan)
def _tan(m, x):
    x = as_float(m, x)
    return m.op("div", m.op("sin", x), m.op("cos", x))


@on_values(math.sinh, np.sinh)
def _sinh(m, x):
    """With what e^x - 1 keeps of small x, whose digits e^x - e^-x would lose."""
    e = _expm1(m, x)
    return m.op("mul", m.op("add", e, m.op("div", e, m.op("add", e, _one(m, x)))), 0.5)


@on_values(math.cosh, np.cosh)
def _cosh(m, x):
    x = as_float(m, x)
    return m.op("mul", m.op("add", m.op("exp", x), m.op("exp", m.op("neg", x))), 0.5)


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


@on_values(math.hypot, np.hypot)
def _hypot(m, *xs):
    squares = [m.binary(ast.Mult, x, x) for x in xs]
    return m.op(
        "sqrt", as_float(m, functools.reduce(lambda a, b: m.binary(ast.Add, a, b), squares))
    )


@on_values(math.dist)
def _dist(m, p, q):
    pairs = zip(m.iterated(p), m.iterated(q), strict=True)
    return m.call(math.hypot, tuple(m.binary(ast.Sub, a, b) for a, b in pairs), {})


@on_values(math.atan2, np.arctan2)
def _atan2(m, y, x):
    """atan of the smaller side by the larger one, turned to where it lies"""
    y, x = m.promoted(y, x, at_least_float=True)
    zero, one = Constant(0, dtype=x.dtype), _one(m, x)
    steep = m.op("greater", m.op("abs", y), m.op("abs", x))
    below, left = m.op("less", y, zero), m.op("less", x, zero)
    over, under = m.op("where", steep, x, y), m.op("where", steep, y, x)
    under = m.op("where", m.op("equal", under, zero), one, under)
    angle = m.op("atan", m.op("div", over, under))
    half = m.op("where", below, Constant(-math.pi / 2, dtype=x.dtype), math.pi / 2)
    back = m.op("where", left, m.op("add", half, half), zero)
    return m.op("where", steep, m.op("sub", half, angle), m.op("add", angle, back))


@on_values(math.copysign, np.copysign)
def _copysign(m, x, sign):
    x, sign = m.promoted(x, sign, at_least_float=True)
    negative = m.op("less", sign, Constant(0, dtype=sign.dtype))
    size = m.op("abs", x)
    return m.op("where", negative, m.op("neg", size), size)


@on_values(math.cbrt, np.cbrt)
def _cbrt(m, x):
    x = as_float(m, x)
    return _copysign(m, m.binary(ast.Pow, m.op("abs", x), 1 / 3), x)


@on_values(math.log)
def _log(m, x, base=None):
    y = m.op("log", as_float(m, x))
    return y if base is None else m.binary(ast.Div, y, m.call(math.log, (base,), {}))


for _f, _base in ((np.log2, 2), (math.log2, 2), (np.log10, 10), (math.log10, 10)):
    on_values(_f)(
        lambda m, x, *, base=_base: m.binary(
            ast.Mult, m.op("log", as_float(m, x)), 1 / math.log(base)
        )
    )
for _f in (np.exp2, math.exp2):
    on_values(_f)(lambda m, x: m.op("exp", m.binary(ast.Mult, as_float(m, x), math.log(2))))
for _f in (np.degrees, math.degrees, np.rad2deg):
    on_values(_f)(lambda m, x: m.binary(ast.Mult, as_float(m, x), 180 / math.pi))
for _f in (np.radians, math.radians, np.deg2rad):
    on_values(_f)(lambda m, x: m.binary(ast.Mult, as_float(m, x), math.pi / 180))


@on_values(np.trunc, math.trunc)
def _trunc(m, x):
    x = as_float(m, x)
    return m.op("mul", m.op("sign", x), m.op("floor", m.op("abs", x)))


@on_values(np.rint)
def _rint(m, x):
    return m.op("round", as_float(m, x))


@on_values(np.round, np.around)
def _rounded(m, a, decimals=0):
    if isinstance(a, Value) and not a.dtype.is_float and decimals >= 0:
        return m.number(a)
    scale = 10.0**decimals
    y = m.op("round", m.binary(ast.Mult, as_float(m, a), scale))
    return m.binary(ast.Div, y, scale) if decimals else y


@on_values(np.isfinite, math.isfinite)
def _isfinite(m, x):
    return m.compare(ast.Lt, m.op("abs", as_float(m, x)), math.inf)


@on_values(np.isinf, math.isinf)
def _isinf(m, x):
    return m.compare(ast.Eq, m.op("abs", as_float(m, x)), math.inf)


@on_values(np.logical_xor)
def _logical_xor(m, a, b):
    a, b = (m.cast(m.as_value(x), DType.bool) for x in (a, b))
    return m.compare(ast.NotEq, a, b)


@on_values(math.isnan, np.isnan)
def _isnan(m, x):
    return m.op("is_nan", as_float(m, x))


def _one(m: Any, x: Any) -> Constant:
    return Constant(1, dtype=as_float(m, x).dtype)


@on_values(np.dot)
def _dot(m, a, b):
    a, b = m.promoted(a, b)
    return m.op("mul", a, b) if not a.rank or not b.rank else m.matmul(a, b)


@on_values(np.outer)
def _outer(m, a, b):
    a, b = m.promoted(a, b)
    return m.op("mul", m.op("reshape", a, shape=(-1, 1)), m.op("reshape", b, shape=(1, -1)))


@on_values(np.vdot, np.inner)
def _inner(m, a, b):
    a, b = m.promoted(a, b)
    if a.rank != 1 or b.rank != 1:
        raise m.not_known(f"inner of {described(a)} and {described(b)}", "use @ or np.einsum")
    return m.matmul(a, b)


@on_values(np.where)
def _where(m, condition, a=None, b=None):
    if a is None or b is None:
        raise m.not_known("np.where of a condition alone", "give what to choose between")
    a, b = m.promoted(a, b)
    return m.op("where", m.cast(m.as_value(condition), DType.bool), a, b)


@on_values(np.clip)
def _clip(m, x, a_min=None, a_max=None, *, min=None, max=None):
    if (a_min is not None or a_max is not None) and (min is not None or max is not None):
        raise ValueError("both a_min or a_max and min or max; want one of these names")
    low, high = (min if a_min is None else a_min), (max if a_max is None else a_max)
    x = x if low is None else m.op("maximum", *m.promoted(x, low))
    return x if high is None else m.op("minimum", *m.promoted(x, high))


@on_values(np.full)
def _filled(m, shape, fill_value):
    shape = tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)
    return m.op("broadcast_to", m.as_value(fill_value), shape=shape)


@on_values(np.zeros_like)
def _zeros_like(m, x):
    return _full(m, x, 0)


@on_values(np.ones_like)
def _ones_like(m, x):
    return _full(m, x, 1)


def _full(m: Any, x: Value, number: int) -> Value:
    scalar = Constant(number, dtype=x.dtype)
    return m.op("broadcast_to", scalar, shape=x.shape) if x.shape else scalar  # type: ignore[no-any-return]


@on_values(np.reshape)
def _reshape(m, x, shape, order="C"):
    return m.method_of_value(m.as_value(x), "reshape", shape, order=order)


@on_values(np.transpose)
def _transpose(m, x, axes=None):
    return m.op("transpose", x, perm=tuple(axes or reversed(range(x.rank))))


@on_values(np.broadcast_to)
def _broadcast_to(m, x, shape):
    return m.op("broadcast_to", x, shape=tuple(shape))


@on_values(np.concatenate)
def _concatenate(m, items, axis=0):
    values = [as_array(m, x) for x in m.iterated(items)]
    for v in values[1:]:
        values[0], _ = m.promoted(values[0], v)
    values = [m.cast(v, values[0].dtype) for v in values]
    if axis is None:
        values, axis = [m.op("reshape", v, shape=(-1,)) for v in values], 0
    return m.op("concat", *values, axis=m.axis_of(values[0], axis))


@on_values(np.stack)
def _stack(m, items, axis=0):
    return m.stacked(list(m.iterated(items)), axis)


@on_values(np.array)
def _new_array(m, x, dtype=None):
    y = as_array(m, x, dtype)
    return m.method_of_value(y, "copy") if y is x else y


@on_values(np.asarray)
def as_array(m, x, dtype=None):
    """x as a value; lists of values as arrays of them"""

    def build(x: Any) -> Value:
        if isinstance(x, (list, tuple)):
            return m.stacked([build(i) for i in x])
        return m.as_value(x)

    y = build(x)
    return y if dtype is None else m.cast(y, DType.of(np.empty(0, dtype)))


@on_values(np.shape)
def _shape(m, x):
    return x.shape


@on_values(builtins.len)
def _len(m, x):
    if isinstance(x, Value):
        if not x.rank:
            raise m.not_known(f"len() of {described(x)}", "only arrays that have an axis have one")
        return m.size_value(x.shape[0])
    return len(x)


@on_values(builtins.float)
def _to_float(m, x):
    return m.weakly(as_float(m, _single(m, x, "float")), m.is_weak(x))


@on_values(builtins.int)
def _to_int(m, x):
    return m.cast(_single(m, x, "int"), DType.i32)


def _single(m: Any, x: Value, kind: str) -> Value:
    if x.rank:
        raise m.not_known(f"{kind}() of {described(x)}", "take one of it, or write x.astype(…)")
    return x


@on_values(builtins.bool)
def _to_bool(m, x):
    return m.truth(x)


@on_values(builtins.round)
def _round(m, x, digits=None):
    if digits is not None:
        return _rounded(m, x, digits)
    return m.cast(m.op("round", as_float(m, x)), DType.i32)


@on_values(builtins.pow)
def _pow(m, a, b):
    return m.binary(ast.Pow, a, b)


@on_values(builtins.divmod)
def _divmod(m, a, b):
    return m.binary(ast.FloorDiv, a, b), m.binary(ast.Mod, a, b)
