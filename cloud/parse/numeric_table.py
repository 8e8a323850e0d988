"""Functions of Python, math and numpy on numbers and arrays, for values."""

from __future__ import annotations

import ast
import builtins
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
    name: (getattr(np, name), getattr(math, name))
    for name in ("sin", "cos", "tan", "sinh", "cosh", "tanh", "exp", "sqrt")
}
for _name in ("acos", "asin", "atan", "acosh", "asinh", "atanh"):
    _UNARY[_name] = (getattr(np, f"arc{_name[1:]}"), getattr(math, _name))
for _name, _functions in _UNARY.items():
    on_values(*_functions)(lambda m, x, *, name=_name: m.op(name, as_float(m, x)))
for _name in ("floor", "ceil"):
    on_values(getattr(np, _name))(lambda m, x, *, name=_name: _step(m, x, name))
    on_values(getattr(math, _name))(lambda m, x, *, name=_name: whole_number(m, x, name))
for _name, _f in (
    ("log", np.log),
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
    (ast.BitAnd, np.bitwise_and),
    (ast.BitOr, np.bitwise_or),
    (ast.BitXor, np.bitwise_xor),
    (ast.LShift, np.left_shift),
    (ast.RShift, np.right_shift),
):
    on_values(_f)(lambda m, a, b, *, kind=_kind: m.binary(kind, a, b))
for _kind, _f in ((ast.BitAnd, np.logical_and), (ast.BitOr, np.logical_or)):
    on_values(_f)(lambda m, a, b, *, kind=_kind: m.binary(kind, _truths(m, a), _truths(m, b)))
for _kind, _f in (
    (ast.Lt, np.less),
    (ast.LtE, np.less_equal),
    (ast.Gt, np.greater),
    (ast.GtE, np.greater_equal),
    (ast.Eq, np.equal),
    (ast.NotEq, np.not_equal),
):
    on_values(_f)(lambda m, a, b, *, kind=_kind: m.compare(kind, a, b))


def _step(m: Any, x: Any, name: str) -> Value:
    """Floor or ceil; integers and truth values stay as they are."""
    x = m.as_value(x)
    return m.op(name, x) if x.dtype.is_float else x  # type: ignore[no-any-return]


@on_values(np.negative)
def _negative(m, x):
    return m.unary(ast.USub, x)


@on_values(np.positive)
def _positive(m, x):
    return m.unary(ast.UAdd, x)


@on_values(np.invert)
def _invert(m, x):
    return m.unary(ast.Invert, x)


def _truths(m: Any, x: Any) -> Value:
    return m.cast(as_array(m, x), DType.bool)  # type: ignore[no-any-return]


@on_values(np.logical_not)
def _logical_not(m, x):
    return m.op("logical_not", _truths(m, x))


@on_values(np.sign)
def _sign(m, x):
    return m.op("sign", m.number(m.as_value(x)))


@on_values(builtins.abs, np.abs)
def _abs(m, x):
    x = x if isinstance(x, Value) and x.dtype is DType.bool and x.rank else m.number(m.as_value(x))
    return x if x.dtype is DType.bool else m.weakly(m.op("abs", x), m.is_weak(x))


@on_values(np.fabs, math.fabs)
def _fabs(m, x):
    return m.op("abs", as_float(m, x))


@on_values(np.square)
def _square(m, x):
    return m.binary(ast.Mult, x, x)


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


@on_values(np.rint)
def _rint(m, x):
    return m.op("round", as_float(m, x))


@on_values(np.round, np.around)
def rounded(m, a, decimals=0):
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
    return m.compare(ast.NotEq, _truths(m, a), _truths(m, b))


@on_values(math.isnan, np.isnan)
def _isnan(m, x):
    return m.op("is_nan", as_float(m, x))


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
    if isinstance(x, Value) and x.dtype in (DType.u8, DType.i8, DType.i16, DType.i32, DType.i64):
        info = np.iinfo(x.dtype.numpy)  # what is beyond it bounds nothing
        low = None if isinstance(low, int) and low < info.min else low
        high = None if isinstance(high, int) and high > info.max else high
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
    x = _single(m, x, "int")
    return m.weakly(m.number(x), True) if not x.dtype.is_float else _integer(m, x)


@on_values(math.trunc)
def _to_trunc(m, x):
    return _to_int(m, x)


def whole_number(m: Any, x: Any, name: str) -> Value:
    """What floor, ceil or round make of x: an integer of Python's"""
    x = _single(m, x, name)
    if not x.dtype.is_float:
        return m.weakly(m.number(x), True)  # type: ignore[no-any-return]
    return _integer(m, m.op(name, x))


def _integer(m: Any, x: Value) -> Value:
    return m.weakly(m.cast(x, DType.i64), True)  # type: ignore[no-any-return]


def _single(m: Any, x: Value, kind: str) -> Value:
    if x.rank:
        raise m.not_known(f"{kind}() of {described(x)}", "take one of it, or write x.astype(…)")
    return x


@on_values(builtins.bool)
def _to_bool(m, x):
    return m.truth(x)


@on_values(builtins.pow)
def _pow(m, a, b):
    return m.binary(ast.Pow, a, b)


@on_values(builtins.divmod)
def _divmod(m, a, b):
    return m.binary(ast.FloorDiv, a, b), m.binary(ast.Mod, a, b)
