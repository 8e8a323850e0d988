"""Reductions along axes, running totals, and the largest in order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from converter.items import (
    Item,
    as_type,
    as_value,
    axis_of,
    compute,
    floats,
    known,
    product,
    shape_of,
)
from converter.onnx.rules.common import RULES, Reader, Rule, axes_of, integers, rule
from converter.onnx.rules.found_axes import FoundAxes, along, is_open, reduced, size_of, squeezed
from ir.dtype import DType
from ir.graph import Constant, Value
from ir.op import OPS, Op
from ir.ops.compare import equal, where
from ir.ops.elementwise import abs, div, exp, log, mul, sqrt, sub
from ir.ops.reduce import argmax, argmin, cumprod, cumsum, reduce_mean
from ir.ops.shaping import broadcast_to, slice_axis
from ir.ops.sorting import topk

Axes = tuple[int, ...] | FoundAxes
# What a sum, a product, an extremum of nothing is; infinity: the last number of the type.
OF_NOTHING = {"reduce_sum": 0, "reduce_prod": 1, "reduce_max": -np.inf, "reduce_min": np.inf}


def _reduction(formula: Callable[[Value, Axes, bool], Item]) -> Rule:
    def apply(_: Reader, attrs: dict[str, Any], x: Item, axes: Item = None) -> Item:
        v = as_value(x)
        keep = bool(attrs.get("keepdims", 1))
        if is_open(axes):
            return formula(v, FoundAxes.of(as_value(axes), v.rank), keep)
        none = axes is None or shape_of(axes) == (0,)
        chosen = () if none and "axes" not in attrs else axes_of(attrs, axes, v.rank)
        if not chosen and attrs.get("noop_with_empty_axes"):
            return formula(v, (), True)
        return formula(v, chosen or tuple(range(v.rank)), keep)

    return apply


def _joined(name: str, x: Value, axes: Axes, keep: bool) -> Value:
    """The operator `name` of the table over the axes; over none it leaves x as it is."""
    if isinstance(axes, FoundAxes):
        return reduced(name, x, axes, keep_dims=keep, first=_of_nothing(name, x.dtype))
    if not axes:
        return x
    if 0 in [x.shape[a] for a in axes]:
        kept = [1 if i in axes else d for i, d in enumerate(x.shape) if keep or i not in axes]
        nothing = np.asarray(_of_nothing(name, x.dtype)).astype(x.dtype.numpy)
        return broadcast_to(Constant(nothing), shape=tuple(kept))  # type: ignore[no-any-return]
    return compute(OPS[name], x, axes=axes, keep_dims=keep)  # type: ignore[no-any-return]


def _of_nothing(name: str, dtype: DType) -> float:
    number = OF_NOTHING[name]
    if np.isfinite(number) or dtype.is_float:
        return number
    if dtype is DType.bool:
        return float(number > 0)
    limits = np.iinfo(dtype.numpy)
    return limits.min if number < 0 else limits.max


def _simple(name: str) -> Callable[[Value, Axes, bool], Value]:
    return lambda x, axes, keep: _joined(name, x, axes, keep)


def _sum(x: Value, axes: Axes, keep: bool) -> Value:
    return _joined("reduce_sum", x, axes, keep)


def _mean(x: Value, axes: Axes, keep: bool) -> Item:
    if axes == ():
        return x
    if isinstance(axes, FoundAxes):
        return compute(div, _sum(x, axes, keep), as_type(size_of(x, axes), x.dtype))
    if x.dtype.is_float:
        return reduce_mean(x, axes=axes, keep_dims=keep)
    count = product(x.shape[a] for a in axes)
    return compute(div, _sum(x, axes, keep), np.full((), count, x.dtype.numpy))


def _on_floats(formula: Callable[[Value, Axes, bool], Value]) -> Callable[..., Item]:
    """A formula on floats, for any numbers."""
    return lambda x, axes, keep: as_type(formula(floats(x), axes, keep), x.dtype)


def _log_sum_exp(x: Value, axes: Axes, keep: bool) -> Value:
    """Of what is left when the largest is taken off, so that nothing overflows."""
    if not axes or (not isinstance(axes, FoundAxes) and 0 in [x.shape[a] for a in axes]):
        return log(_sum(exp(x), axes, keep))  # type: ignore[no-any-return]
    most = _joined("reduce_max", x, axes, True)
    most = where(equal(abs(most), np.inf), 0.0, most)
    total = log(_sum(exp(_less(x, most)), axes, keep))
    if not keep:
        open_ = isinstance(axes, FoundAxes)
        most = squeezed(most, axes) if open_ else _sum(most, axes, False)
    return total + most  # type: ignore[no-any-return]


def _less(x: Value, most: Value) -> Value:
    """x - most, which stretches to x as far as only a run can tell."""
    if x.shape != most.shape and any(not isinstance(d, int) for d in most.shape):
        most = OPS["stretch_to"](most, shape=x.shape)
    return x - most


RULES |= {
    f"Reduce{name}": _reduction(formula)
    for name, formula in (
        ("Sum", _simple("reduce_sum")),
        ("Prod", _simple("reduce_prod")),
        ("Max", _simple("reduce_max")),
        ("Min", _simple("reduce_min")),
        ("Mean", _mean),
        ("L1", lambda x, axes, keep: _sum(compute(abs, x), axes, keep)),
        ("L2", _on_floats(lambda x, axes, keep: sqrt(_sum(x * x, axes, keep)))),
        ("SumSquare", lambda x, axes, keep: _sum(compute(mul, x, x), axes, keep)),
        ("LogSum", _on_floats(lambda x, axes, keep: log(_sum(x, axes, keep)))),
        ("LogSumExp", _on_floats(_log_sum_exp)),
    )
}


def _index_reduction(op: Op) -> Rule:
    def apply(_: Reader, attrs: dict[str, Any], x: Item) -> Item:
        v = as_value(x)
        axis = axis_of(attrs.get("axis", 0), v.rank)
        options = {"axis": axis, "keep_dims": bool(attrs.get("keepdims", 1))}
        if not attrs.get("select_last_index"):
            return as_type(compute(op, v, **options), DType.i64)  # type: ignore[no-any-return]
        last = v.shape[axis] - 1
        found = compute(op, slice_axis(v, last, -1, axis=axis, step=-1), **options)
        return as_type(compute(sub, np.int32(last), found), DType.i64)  # type: ignore[no-any-return]

    return apply


RULES |= {"ArgMax": _index_reduction(argmax), "ArgMin": _index_reduction(argmin)}


def _running(op: Op, name: str) -> None:
    @rule(name)
    def apply(_: Reader, attrs: dict[str, Any], x: Item, axis: Item) -> Item:
        options = {k: bool(attrs.get(k, 0)) for k in ("exclusive", "reverse")}
        if is_open(axis):
            v = as_value(x)
            return along(v, as_value(axis), lambda i: compute(op, v, axis=i, **options))
        where_ = axis_of(int(known(axis, "axis").item()), len(shape_of(x)))
        return compute(op, x, axis=where_, **options)


_running(cumsum, "CumSum")
_running(cumprod, "CumProd")


@rule("TopK")
def top_k(_: Reader, attrs: dict[str, Any], x: Item, k: Item = None) -> tuple[Item, Item]:
    v = as_value(x)
    (count,) = [attrs["k"]] if k is None else integers(k, "k")
    axis = axis_of(attrs.get("axis", -1), v.rank)
    values, places = compute(topk, v, k=count, axis=axis, largest=bool(attrs.get("largest", 1)))
    return values, as_type(places, DType.i64)
