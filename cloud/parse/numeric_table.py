"""Functions of Python, math and numpy on numbers and arrays, for values."""

from __future__ import annotations

import ast
import builtins
import functools
import math
from typing import Any

import numpy as np

from cloud.parse.structure import described
from cloud.parse.table import Handler, on_values
from ir.dtype import DType
from ir.graph import Constant, Value


def _float(m: Any, x: Any) -> Value:
    """x as a value of a float type."""
    x = m.number(m.as_value(x))
    return x if x.dtype.is_float else m.cast(x, m.default_float)


_UNARY: dict[str, tuple[Any, ...]] = {
    name: (getattr(np, name), getattr(math, name))
    for name in ("sin", "cos", "exp", "log", "sqrt", "tanh")
}
for _name, _functions in _UNARY.items():
    on_values(*_functions)(lambda m, x, name=_name: m.op(name, _float(m, x)))
for _name in ("floor", "ceil"):
    on_values(getattr(np, _name))(lambda m, x, name=_name: m.op(name, _float(m, x)))
    on_values(getattr(math, _name))(
        lambda m, x, name=_name: m.cast(m.op(name, _float(m, x)), DType.i32)
    )
for _name, _f in (("sign", np.sign), ("erf", math.erf), ("reciprocal", np.reciprocal)):
    on_values(_f)(lambda m, x, name=_name: m.op(name, _float(m, x)))
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
    on_values(_f)(lambda m, a, b, kind=_kind: m.binary(kind, a, b))
for _kind, _f in (
    (ast.Lt, np.less),
    (ast.LtE, np.less_equal),
    (ast.Gt, np.greater),
    (ast.GtE, np.greater_equal),
    (ast.Eq, np.equal),
    (ast.NotEq, np.not_equal),
):
    on_values(_f)(lambda m, a, b, kind=_kind: m.compare(kind, a, b))


@on_values(np.negative)
def _negative(m, x):
    return m.unary(ast.USub, x)


@on_values(np.logical_not)
def _logical_not(m, x):
    return m.op("logical_not", x)


@on_values(builtins.abs, np.abs, math.fabs)
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
    x = _float(m, x)
    return m.op("div", m.op("sin", x), m.op("cos", x))


@on_values(math.sinh, np.sinh)
def _sinh(m, x):
    x = _float(m, x)
    return m.op("mul", m.op("sub", m.op("exp", x), m.op("exp", m.op("neg", x))), 0.5)


@on_values(math.cosh, np.cosh)
def _cosh(m, x):
    x = _float(m, x)
    return m.op("mul", m.op("add", m.op("exp", x), m.op("exp", m.op("neg", x))), 0.5)


@on_values(math.log1p, np.log1p)
def _log1p(m, x):
    return m.op("log", m.op("add", _float(m, x), _one(m, x)))


@on_values(math.expm1, np.expm1)
def _expm1(m, x):
    return m.op("sub", m.op("exp", _float(m, x)), _one(m, x))


@on_values(math.hypot, np.hypot)
def _hypot(m, a, b):
    return m.op("sqrt", m.binary(ast.Add, m.power(a, 2), m.power(b, 2)))


@on_values(math.isnan, np.isnan)
def _isnan(m, x):
    return m.op("is_nan", _float(m, x))


def _one(m: Any, x: Any) -> Constant:
    return Constant(1, dtype=_float(m, x).dtype)


def _extremum(name: str) -> Handler:
    def of(m: Any, *args: Any, key: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
        reduction = "reduce_max" if name == "maximum" else "reduce_min"
        if key is not None:
            raise m.not_known(f"{name} with a key on values", "compare in a loop")
        if len(args) == 1 and isinstance(args[0], Value):
            return m.reduce(reduction, args[0], axis, keepdims)
        if len(args) == 2 and axis is None and isinstance(args[0], Value) and args[1] is None:
            return m.reduce(reduction, args[0], None, keepdims)
        items = list(m.iterated(args[0])) if len(args) == 1 else list(args)
        return functools.reduce(lambda a, b: m.op(name, *m.promoted(a, b)), items)

    return of


for _name, _pair in (
    ("maximum", (builtins.max, np.max, np.amax, np.maximum)),
    ("minimum", (builtins.min, np.min, np.amin, np.minimum)),
):
    on_values(*_pair)(_extremum(_name))


@on_values(builtins.sum)
def _sum(m, items, start=0):
    total = start
    if isinstance(items, Value):
        rest = m.reduce("reduce_sum", items, 0)
        return rest if isinstance(start, int) and start == 0 else m.binary(ast.Add, start, rest)
    for x in m.iterated(items):
        total = x if isinstance(total, int) and total == 0 else m.binary(ast.Add, total, x)
    return total


def _reduction(name: str) -> Handler:
    def of(m: Any, x: Any, axis: Any = None, keepdims: bool = False) -> Any:
        x = m.stacked(x) if isinstance(x, (list, tuple)) else x
        return m.reduce(name, _float(m, x) if name == "reduce_mean" else x, axis, keepdims)

    return of


for _name, _f in (("reduce_sum", np.sum), ("reduce_mean", np.mean), ("reduce_prod", np.prod)):
    on_values(_f)(_reduction(_name))


@on_values(np.cumsum)
def _cumsum(m, x, axis=None):
    x = m.op("reshape", x, shape=(-1,)) if axis is None else x
    return m.op("cumsum", x, axis=(axis or 0) % x.rank)


@on_values(np.argmax)
def _argmax(m, x, axis=None):
    x = m.op("reshape", x, shape=(-1,)) if axis is None else x
    return m.op("argmax", x, axis=(axis or 0) % x.rank)


@on_values(np.argmin)
def _argmin(m, x, axis=None):
    x = m.op("reshape", x, shape=(-1,)) if axis is None else x
    return m.op("argmin", x, axis=(axis or 0) % x.rank)


@on_values(np.all, builtins.all)
def _all(m, x, axis=None):
    x = m.stacked(list(m.iterated(x))) if not isinstance(x, Value) else x
    return m.cast(
        m.reduce("reduce_prod", m.cast(m.cast(x, DType.bool), DType.f32), axis), DType.bool
    )


@on_values(np.any, builtins.any)
def _any(m, x, axis=None):
    x = m.stacked(list(m.iterated(x))) if not isinstance(x, Value) else x
    return m.cast(
        m.reduce("reduce_max", m.cast(m.cast(x, DType.bool), DType.f32), axis), DType.bool
    )


@on_values(np.dot)
def _dot(m, a, b):
    a, b = m.promoted(a, b)
    return m.op("mul", a, b) if not a.rank or not b.rank else m.matmul(a, b)


@on_values(np.outer)
def _outer(m, a, b):
    a, b = m.promoted(a, b)
    return m.op("mul", m.op("reshape", a, shape=(-1, 1)), m.op("reshape", b, shape=(1, -1)))


@on_values(np.where)
def _where(m, condition, a, b):
    a, b = m.promoted(a, b)
    return m.op("where", m.cast(m.as_value(condition), DType.bool), a, b)


@on_values(np.clip)
def _clip(m, x, low, high):
    x = x if low is None else m.op("maximum", *m.promoted(x, low))
    return x if high is None else m.op("minimum", *m.promoted(x, high))


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
def _reshape(m, x, shape):
    return m.op("reshape", x, shape=shape if isinstance(shape, (tuple, list)) else (shape,))


@on_values(np.transpose)
def _transpose(m, x, axes=None):
    return m.op("transpose", x, perm=tuple(axes or reversed(range(x.rank))))


@on_values(np.broadcast_to)
def _broadcast_to(m, x, shape):
    return m.op("broadcast_to", x, shape=tuple(shape))


@on_values(np.concatenate)
def _concatenate(m, items, axis=0):
    values = [m.as_value(x) for x in m.iterated(items)]
    return m.op("concat", *values, axis=axis % values[0].rank)


@on_values(np.stack)
def _stack(m, items, axis=0):
    return m.stacked(list(m.iterated(items)), axis)


@on_values(np.array, np.asarray)
def _array(m, x, dtype=None):
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
            raise TypeError(f"len() of {described(x)}")
        return m.size_value(x.shape[0])
    return len(x)


@on_values(builtins.float)
def _to_float(m, x):
    return m.weakly(_float(m, x), m.is_weak(x))


@on_values(builtins.int)
def _to_int(m, x):
    return m.cast(x, DType.i32)


@on_values(builtins.bool)
def _to_bool(m, x):
    return m.truth(x)


@on_values(builtins.round)
def _round(m, x, digits=None):
    if digits is not None:
        raise m.not_known("round of a value to some digits", "multiply, round and divide")
    return m.cast(m.op("round", _float(m, x)), DType.i32)


@on_values(builtins.pow)
def _pow(m, a, b):
    return m.binary(ast.Pow, a, b)


@on_values(builtins.divmod)
def _divmod(m, a, b):
    return m.binary(ast.FloorDiv, a, b), m.binary(ast.Mod, a, b)
