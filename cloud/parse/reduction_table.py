"""Functions of Python, math and numpy that make less of many numbers, for values."""

from __future__ import annotations

import ast
import builtins
import functools
import math
from typing import Any

import numpy as np

from cloud.parse.numeric_table import as_float
from cloud.parse.structure import described
from cloud.parse.table import Handler, on_values
from ir.dtype import DType
from ir.graph import Value


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


@on_values(builtins.sum, math.fsum)
def _sum(m, items, start=0):
    total = start
    if isinstance(items, Value):
        rest = m.reduce("reduce_sum", items, 0)
        return _plus(m, start, rest)
    for x in m.iterated(items):
        total = _plus(m, total, x)
    return total


def _plus(m: Any, total: Any, x: Any) -> Any:
    if isinstance(total, int) and total == 0:
        return x
    return m.binary(ast.Add, total, x, grows=True)


def _reduction(name: str) -> Handler:
    def of(m: Any, x: Any, axis: Any = None, keepdims: bool = False) -> Any:
        x = m.stacked(x) if isinstance(x, (list, tuple)) else x
        return m.reduce(name, as_float(m, x) if name == "reduce_mean" else x, axis, keepdims)

    return of


for _name, _f in (
    ("reduce_sum", np.sum),
    ("reduce_mean", np.mean),
    ("reduce_prod", np.prod),
    ("reduce_prod", math.prod),
):
    on_values(_f)(_reduction(_name))


@on_values(np.var)
def _var(m, x, axis=None, ddof=0, keepdims=False):
    x = as_float(m, m.stacked(x) if isinstance(x, (list, tuple)) else x)
    mean = m.reduce("reduce_mean", x, axis, True)
    y = m.reduce("reduce_mean", m.power(m.binary(ast.Sub, x, mean), 2), axis, keepdims)
    if not ddof:
        return y
    n = math.prod(x.shape) // max(math.prod(y.shape), 1)
    return m.binary(ast.Mult, y, n / (n - ddof))


@on_values(np.std)
def _std(m, x, axis=None, ddof=0, keepdims=False):
    return m.op("sqrt", _var(m, x, axis, ddof, keepdims))


@on_values(np.ptp)
def _ptp(m, x, axis=None):
    return m.binary(ast.Sub, m.reduce("reduce_max", x, axis), m.reduce("reduce_min", x, axis))


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
def _cumsum(m, x, axis=None):
    x, axis = _along(m, x, axis)
    return m.op("cumsum", x, axis=axis)


@on_values(np.argmax)
def _argmax(m, x, axis=None):
    x, axis = _along(m, x, axis)
    return m.op("argmax", x, axis=axis)


@on_values(np.argmin)
def _argmin(m, x, axis=None):
    x, axis = _along(m, x, axis)
    return m.op("argmin", x, axis=axis)


def _along(m: Any, x: Value, axis: Any) -> tuple[Value, int]:
    """x and the axis; without one all its elements along one."""
    if axis is None:
        return m.op("reshape", x, shape=(-1,)), 0
    return x, m.axis_of(x, axis)


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
