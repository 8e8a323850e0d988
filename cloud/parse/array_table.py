"""Functions of numpy that bring the elements of an array into another form, for values."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from cloud.parse.structure import leaves
from cloud.parse.table import on_values
from ir.dtype import DType
from ir.graph import Constant, Value

RESHAPES = (np.squeeze, np.expand_dims, np.atleast_1d, np.atleast_2d, np.atleast_3d)
TRANSPOSES = (np.swapaxes, np.moveaxis, np.rollaxis)
GATHERS = (np.flip, np.fliplr, np.flipud, np.roll, np.repeat, np.tile, np.diagonal, np.rot90)
SPLITS = (np.split, np.array_split, np.hsplit, np.vsplit, np.dsplit)


def _known_shape(m: Any, f: Callable[..., Any], x: Any, others: Any) -> Value:
    """x as a value of known sizes, where all else is known. Raises NotKnown."""
    x = m.as_value(x)
    if any(isinstance(a, Value) for a in leaves(others)):
        raise m.not_known(f"np.{f.__name__} where more than its array is a value", "use numbers")
    if not all(isinstance(d, int) for d in x.shape):
        raise m.not_known(f"np.{f.__name__} of free sizes", "use reshape, transpose or an index")
    return x  # type: ignore[no-any-return]


def _rearranged(m: Any, x: Value, place: Any) -> Value:
    """The elements of x at these places of it, in the shape of `place`."""
    flat = m.op("reshape", x, shape=(-1,))
    y: Value = m.op("gather", flat, Constant(np.ascontiguousarray(place, np.int32)))
    return y


def _places(x: Value) -> Any:
    return np.arange(math.prod(x.shape), dtype=np.int32).reshape(x.shape)


for _f in RESHAPES:

    @on_values(_f)
    def _reshaped(m, x, *args, f=_f, **kwargs):
        x = _known_shape(m, f, x, (args, kwargs))
        shape = f(np.broadcast_to(np.int8(0), x.shape), *args, **kwargs).shape
        return m.op("reshape", x, shape=shape)


@on_values(np.ravel)
def _ravelled(m, x, order="C"):
    return m.method_of_value(m.as_value(x), "ravel", order)


for _f in TRANSPOSES:

    @on_values(_f)
    def _transposed(m, x, *args, f=_f, **kwargs):
        x = _known_shape(m, f, x, (args, kwargs))
        numbered = np.broadcast_to(np.int8(0), range(1, x.rank + 1))  # axis i has size i + 1
        return m.op("transpose", x, perm=tuple(d - 1 for d in f(numbered, *args, **kwargs).shape))


for _f in GATHERS:

    @on_values(_f)
    def _gathered(m, x, *args, f=_f, **kwargs):
        x = _known_shape(m, f, x, (args, kwargs))
        y = _rearranged(m, x, f(_places(x), *args, **kwargs))
        m.views[y] = (x, lambda a: f(a, *args, **kwargs))
        return y


for _f in SPLITS:

    @on_values(_f)
    def _split(m, x, *args, f=_f, **kwargs):
        x = _known_shape(m, f, x, (args, kwargs))
        parts = [_rearranged(m, x, p) for p in f(_places(x), *args, **kwargs)]
        for i, y in enumerate(parts):
            m.views[y] = (x, lambda a, i=i: f(a, *args, **kwargs)[i])
        return m.made(parts)


@on_values(np.take)
def _take(m, x, indices, axis=None):
    x = m.as_value(x)
    x = m.op("reshape", x, shape=(-1,)) if axis is None else x
    return m.index(x, (slice(None),) * m.axis_of(x, axis or 0) + (indices,))


@on_values(np.pad)
def _pad(m, x, pad_width, mode="constant", **kwargs):
    x = _known_shape(m, np.pad, x, (pad_width, kwargs))
    if mode != "constant":
        return _rearranged(m, x, np.pad(_places(x), pad_width, mode, **kwargs))
    if unknown := kwargs.keys() - {"constant_values"}:
        raise TypeError(f"unknown arguments of mode {mode!r}: {', '.join(unknown)}")
    widths = np.broadcast_to(pad_width, (x.rank, 2)).tolist()
    value = float(kwargs.get("constant_values", 0))
    return m.op("pad", x, before=[b for b, _ in widths], after=[a for _, a in widths], value=value)


@on_values(np.diag)
def _diag(m, x, k=0):
    x = _known_shape(m, np.diag, x, k)
    if x.rank != 1:
        return _rearranged(m, x, np.diag(_places(x), k))
    place = np.diag(_places(x) + 1, k)
    zero = Constant(0, dtype=x.dtype)
    return m.op("where", Constant(place > 0), _rearranged(m, x, np.maximum(place - 1, 0)), zero)


for _f in (np.triu, np.tril):

    @on_values(_f)
    def _triangle(m, x, k=0, *, f=_f):
        x = _known_shape(m, f, x, k)
        kept = Constant(f(np.ones(x.shape, np.bool_), k))
        return m.op("where", kept, x, Constant(0, dtype=x.dtype))


@on_values(np.trace)
def _trace(m, a, offset=0, axis1=0, axis2=1, dtype=None, out=None):
    a = _known_shape(m, np.trace, a, (offset, axis1, axis2))
    diagonal = _rearranged(m, a, np.diagonal(_places(a), offset, axis1, axis2))
    return m.call(np.sum, (diagonal, -1, dtype, out), {})


def _joined(axis_of: Callable[[Value], int], least: Callable[[Any], Any]) -> Callable[..., Any]:
    def of(m: Any, items: Any) -> Any:
        parts = [m.as_value(x) for x in m.iterated(items)]
        parts = [
            m.op("reshape", x, shape=least(np.broadcast_to(np.int8(0), x.shape)).shape)
            for x in parts
        ]
        for p in parts[1:]:
            parts[0], _ = m.promoted(parts[0], p)
        parts = [m.cast(p, parts[0].dtype) for p in parts]
        return m.op("concat", *parts, axis=axis_of(parts[0]))

    return of


on_values(np.hstack)(_joined(lambda x: min(x.rank - 1, 1), np.atleast_1d))
on_values(np.vstack)(_joined(lambda x: 0, np.atleast_2d))
on_values(np.dstack)(_joined(lambda x: 2, np.atleast_3d))
on_values(np.column_stack)(
    _joined(lambda x: 1, lambda a: a[:, None] if a.ndim == 1 else np.atleast_2d(a))
)


@on_values(np.diff)
def _diff(m, x, n=1, axis=-1):
    x = m.as_value(x)
    before = (slice(None),) * m.axis_of(x, axis)
    for _ in range(n):
        later, earlier = m.index(x, (*before, slice(1, None))), m.index(x, (*before, slice(-1)))
        if x.dtype is DType.bool:
            x = m.compare(ast.NotEq, later, earlier)
        else:
            x = m.binary(ast.Sub, later, earlier)
    return x


@on_values(np.trapezoid if hasattr(np, "trapezoid") else np.trapz)
def _trapezoid(m, y, x=None, dx=1.0, axis=-1):
    y = m.as_value(y)
    before = (slice(None),) * m.axis_of(y, axis)
    later, earlier = m.index(y, (*before, slice(1, None))), m.index(y, (*before, slice(-1)))
    widths = dx if x is None else _diff(m, m.as_value(x), axis=axis)
    both = m.binary(ast.Mult, m.binary(ast.Add, later, earlier), widths)
    return m.binary(ast.Div, m.reduce("reduce_sum", both, axis), 2)


@on_values(np.full_like)
def _full_like(m, x, fill_value):
    x = m.as_value(x)
    return m.op("broadcast_to", m.as_value(fill_value, x.dtype), shape=x.shape)


@on_values(np.size)
def _size(m, x):
    return math.prod(m.as_value(x).shape)


@on_values(np.ndim)
def _ndim(m, x):
    return m.as_value(x).rank


for _kind in (np.float16, np.float32, np.float64, np.int32, np.int64, np.bool_):

    @on_values(_kind)
    def _of_type(m, x, *, kind=_kind):
        return m.cast(m.as_value(x), DType.of(np.empty(0, kind)))


@on_values(np.einsum)
def _einsum(m, equation, *operands):
    if not isinstance(equation, str):
        equation, operands = _lettered((equation, *operands))
    """Sums of products by labels (Einstein 1916), two operands at a time as one matmul."""
    equation = equation.replace(" ", "")
    given, _, result = equation.partition("->")
    terms = given.split(",")
    if "->" not in equation:
        every = given.replace(",", "")
        result = "".join(sorted(c for c in set(every) if every.count(c) == 1))
    if "." in equation or any(len(set(t)) < len(t) for t in (*terms, result)):
        raise m.not_known(f"einsum {equation!r}", "name each axis once; no ... and no diagonals")
    values = [m.as_value(x) for x in operands]
    if not set(result) <= set("".join(terms)):
        raise m.not_known(
            f"einsum {equation!r}", "let each label of the result be one of an operand"
        )
    if len(terms) != len(values) or any(
        len(t) != v.rank for t, v in zip(terms, values, strict=False)
    ):
        raise m.not_known(
            f"einsum {equation!r} of {len(values)} operands of ranks {[v.rank for v in values]}",
            "give one label for each axis of each operand",
        )
    labels, y = terms[0], values[0]
    for i, (more, x) in enumerate(zip(terms[1:], values[1:], strict=True)):
        wanted = set(result).union(*terms[i + 2 :])
        labels, y = _contracted(m, labels, y, more, x, wanted)
    labels, y = _summed(m, labels, y, set(result))
    return m.op("transpose", y, perm=tuple(labels.index(c) for c in result)) if y.rank else y


def _lettered(parts: tuple[Any, ...]) -> tuple[str, tuple[Any, ...]]:
    """The equation and the operands of arrays that lists of numbers, one for each axis, follow."""
    terms = ["".join(chr(ord("a") + i) for i in numbers) for numbers in parts[1::2]]
    if len(parts) % 2:
        result = "".join(chr(ord("a") + i) for i in parts[-1])
        return f"{','.join(terms)}->{result}", parts[:-1:2]
    return ",".join(terms), parts[::2]


def _summed(m: Any, labels: str, x: Value, wanted: set[str]) -> tuple[str, Value]:
    """x without the axes that nobody wants."""
    axes = tuple(i for i, c in enumerate(labels) if c not in wanted)
    x = m.op("reduce_sum", x, axes=axes) if axes else x
    return "".join(c for c in labels if c in wanted), x


def _contracted(m: Any, a: str, x: Value, b: str, y: Value, wanted: set[str]) -> tuple[str, Value]:
    """The product of two operands, summed over what nobody else wants: one batched matmul."""
    a, x = _summed(m, a, x, wanted | set(b))
    b, y = _summed(m, b, y, wanted | set(a))
    both = [c for c in a if c in b]
    batch, inner = [c for c in both if c in wanted], [c for c in both if c not in wanted]
    rows, columns = [c for c in a if c not in b], [c for c in b if c not in a]
    sizes = dict(zip((*a, *b), (*x.shape, *y.shape), strict=True))
    x, y = m.promoted(x, y)

    def shaped(v: Value, labels: str, *groups: list[str]) -> Any:
        order = [c for g in groups for c in g]
        v = m.op("transpose", v, perm=tuple(labels.index(c) for c in order)) if order else v
        ends = [math.prod(sizes[c] for c in g) for g in groups[1:]]
        return m.op("reshape", v, shape=(*(sizes[c] for c in groups[0]), *ends))

    z = m.op("matmul", shaped(x, a, batch, rows, inner), shaped(y, b, batch, inner, columns))
    order = [*batch, *rows, *columns]
    return "".join(order), m.op("reshape", z, shape=tuple(sizes[c] for c in order))
