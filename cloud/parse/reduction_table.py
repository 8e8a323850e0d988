"""Functions of Python, math and numpy that make less of many numbers, for values."""

from __future__ import annotations

import ast
import builtins
import functools
import math
from typing import Any

import numpy as np

from cloud.parse.numeric_table import as_array, as_float
from cloud.parse.structure import described
from cloud.parse.table import Handler, on_values
from ir.dtype import DType
from ir.graph import Value


def _typed(m: Any, x: Any, dtype: Any, out: Any = None) -> Any:
    """x, a list of values as an array, in the type that numpy's `dtype` says, if any."""
    if out is not None:
        raise m.not_known("out= among values", "assign the result")
    return as_array(m, x, dtype)


def _accumulated(m: Any, x: Any, dtype: Any, out: Any) -> Value:
    """x in the type in which numpy adds up: of integers and truth values the one of 64 bits."""
    x = _typed(m, x, dtype, out)
    return x if x.dtype.is_float or dtype is not None else m.cast(x, DType.i64)


def _of_many(name: str) -> Handler:
    def of(m: Any, a: Any, axis: Any = None, out: Any = None, keepdims: bool = False) -> Any:
        a = _typed(m, a, None, out)
        return m.cast(m.reduce(name, a, axis, keepdims), a.dtype)

    return of


def _of_two(name: str) -> Handler:
    return lambda m, x1, x2: m.op(name, *m.promoted(x1, x2))


def _of_pythons(name: str) -> Handler:
    def of(m: Any, *args: Any, **named: Any) -> Any:
        if named.pop("key", None) is not None:
            raise m.not_known(f"{name} with a key on values", "compare in a loop")
        if len(args) == 1 and isinstance(args[0], Value) and args[0].rank > 1:
            raise m.not_known(f"{name} of {described(args[0])}", f"write np.{name}")
        items = list(m.iterated(args[0])) if len(args) == 1 else list(args)
        if not items and "default" in named:
            return named["default"]
        if len(args) == 1 and isinstance(args[0], Value):
            return m.reduce(f"reduce_{name}", args[0])
        return functools.reduce(lambda a, b: m.op(f"{name}imum", *m.promoted(a, b)), items)

    return of


for _name, _python, _many in (
    ("max", builtins.max, (np.max, np.amax)),
    ("min", builtins.min, (np.min, np.amin)),
):
    on_values(_python)(_of_pythons(_name))
    on_values(*_many)(_of_many(f"reduce_{_name}"))
    on_values(getattr(np, f"{_name}imum"))(_of_two(f"{_name}imum"))


@on_values(builtins.sum)
def _sum(m, items, start=0):
    if isinstance(items, Value):
        return _plus(m, start, m.reduce("reduce_sum", items, 0))
    return functools.reduce(lambda a, b: _plus(m, a, b), m.iterated(items), start)


@on_values(math.fsum)
def _fsum(m, items):
    return as_float(m, _sum(m, items))


@on_values(math.prod)
def _product(m, items, *, start=1):
    if isinstance(items, Value):
        items = [m.reduce("reduce_prod", items, 0)]
    return functools.reduce(lambda a, b: _times(m, a, b), m.iterated(items), start)


def _plus(m: Any, total: Any, x: Any) -> Any:
    nothing = isinstance(total, int) and total == 0
    return x if nothing else m.binary(ast.Add, total, x, grows=True)


def _times(m: Any, total: Any, x: Any) -> Any:
    nothing = isinstance(total, int) and total == 1
    return x if nothing else m.binary(ast.Mult, total, x, grows=True)


def _total(name: str) -> Handler:
    def of(
        m: Any, a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: bool = False
    ) -> Any:
        return m.reduce(name, _accumulated(m, a, dtype, out), axis, keepdims)

    return of


on_values(np.sum)(_total("reduce_sum"))
on_values(np.prod)(_total("reduce_prod"))


@on_values(np.mean)
def _mean(m, a, axis=None, dtype=None, out=None, keepdims=False):
    return m.reduce("reduce_mean", as_float(m, _typed(m, a, dtype, out)), axis, keepdims)


@on_values(np.var)
def _var(m, a, axis=None, dtype=None, out=None, ddof=0, keepdims=False):
    a = as_float(m, _typed(m, a, dtype, out))
    mean = m.reduce("reduce_mean", a, axis, True)
    y = m.reduce("reduce_mean", m.power(m.binary(ast.Sub, a, mean), 2), axis, keepdims)
    if not ddof:
        return y
    n = math.prod(a.shape) // max(math.prod(y.shape), 1)
    return m.binary(ast.Mult, y, n / (n - ddof))


@on_values(np.std)
def _std(m, a, axis=None, dtype=None, out=None, ddof=0, keepdims=False):
    return m.op("sqrt", _var(m, a, axis, dtype, out, ddof, keepdims))


@on_values(np.ptp)
def _ptp(m, a, axis=None, out=None, keepdims=False):
    a = _typed(m, a, None, out)
    largest, least = (m.reduce(f"reduce_{n}", a, axis, keepdims) for n in ("max", "min"))
    return m.binary(ast.Sub, largest, least)


@on_values(np.linalg.norm)
def _norm(m, x, ord=None, axis=None, keepdims=False):
    """The length of all elements, or along an axis; ord 1 and inf of vectors."""
    x = as_float(m, x)
    if ord in (None, 2, "fro") and (ord != 2 or x.rank == 1 or isinstance(axis, int)):
        return m.op("sqrt", m.reduce("reduce_sum", m.op("mul", x, x), axis, keepdims))
    if ord in (1, math.inf) and (x.rank == 1 or isinstance(axis, int)):
        name = "reduce_sum" if ord == 1 else "reduce_max"
        return m.reduce(name, m.op("abs", x), axis, keepdims)
    raise m.not_known(f"the norm {ord!r} of {described(x)}", "write it with sums and products")


@on_values(np.cumsum)
def _cumsum(m, a, axis=None, dtype=None, out=None):
    a, axis = _along(m, _accumulated(m, a, dtype, out), axis)
    return m.op("cumsum", a, axis=axis)


def _place_of(name: str) -> Handler:
    def of(m: Any, a: Any, axis: Any = None, out: Any = None, *, keepdims: bool = False) -> Any:
        a = _typed(m, a, None, out)
        flat, along = _along(m, a, axis)
        place = m.cast(m.op(name, flat, axis=along, keep_dims=keepdims), DType.i64)
        if axis is None and keepdims:
            return m.op("reshape", place, shape=(1,) * a.rank)
        return place

    return of


on_values(np.argmax)(_place_of("argmax"))
on_values(np.argmin)(_place_of("argmin"))


def _along(m: Any, x: Value, axis: Any) -> tuple[Value, int]:
    """x and the axis; without one all its elements along one."""
    if axis is None:
        return m.op("reshape", x, shape=(-1,)), 0
    return x, m.axis_of(x, axis)


def _joined_truths(m: Any, x: Any, name: str, axis: Any = None, keepdims: bool = False) -> Value:
    truths = m.cast(m.cast(x, DType.bool), DType.f32)
    return m.cast(m.reduce(name, truths, axis, keepdims), DType.bool)  # type: ignore[no-any-return]


for _name, _python, _numpy in (
    ("reduce_prod", builtins.all, np.all),
    ("reduce_max", builtins.any, np.any),
):

    @on_values(_python)
    def _python_truths(m, iterable, *, name=_name):
        x = iterable if isinstance(iterable, Value) else m.stacked(list(m.iterated(iterable)))
        return _joined_truths(m, x, name)

    @on_values(_numpy)
    def _truths(m, a, axis=None, out=None, keepdims=False, *, name=_name):
        return _joined_truths(m, _typed(m, a, None, out), name, axis, keepdims)
