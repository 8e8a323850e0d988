"""Reductions along axes, running totals, and the largest in order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from converter.onnx_rules.common import (
    RULES,
    Item,
    Reader,
    Rule,
    as_type,
    as_value,
    axes_of,
    axis_of,
    compute,
    floats,
    integers,
    known,
    product,
    rule,
    shape_of,
)
from ir.dtype import DType
from ir.graph import Constant, Value
from ir.op import OPS
from ir.ops.compare import equal, where
from ir.ops.elementwise import abs, exp, log, sqrt, sub
from ir.ops.reduce import argmax, argmin, cumprod, cumsum, reduce_max, reduce_mean, reduce_sum
from ir.ops.shaping import broadcast_to, slice_axis
from ir.ops.sorting import topk


def _reduction(op: Callable[..., Item]) -> Rule:
    def apply(_: Reader, attrs: dict[str, Any], x: Item, axes: Item = None) -> Item:
        rank = len(shape_of(x))
        chosen = axes_of(attrs, axes, rank)
        if not chosen and attrs.get("noop_with_empty_axes"):
            return op(x, axes=(), keep_dims=True)
        return op(x, axes=chosen or tuple(range(rank)), keep_dims=bool(attrs.get("keepdims", 1)))

    return apply


def _plain(name: str) -> Callable[..., Item]:
    def reduced(x: Item, *, axes: Any, keep_dims: bool) -> Item:
        if not axes:  # over no axes at all: a sum, product or extremum of one
            return x
        return compute(OPS[name], x, axes=axes, keep_dims=keep_dims)

    return reduced


def _extremum(name: str, of_none: float) -> Callable[..., Item]:
    """The largest or smallest; of nothing, what any number replaces."""

    def reduced(x: Item, *, axes: Any, keep_dims: bool) -> Item:
        v = as_value(x)
        if not axes:
            return v
        if 0 not in [v.shape[a] for a in axes]:
            return compute(OPS[name], x, axes=axes, keep_dims=keep_dims)
        kept = [1 if i in axes else d for i, d in enumerate(v.shape) if keep_dims or i not in axes]
        limits = None if v.dtype.is_float or v.dtype is DType.bool else np.iinfo(v.dtype.numpy)
        least = of_none < 0
        number = of_none if limits is None else limits.min if least else limits.max
        return broadcast_to(  # type: ignore[no-any-return]
            Constant(np.asarray(number).astype(v.dtype.numpy)), shape=tuple(kept)
        )

    return reduced


def _mean(x: Item, **where_: Any) -> Item:
    v = as_value(x)
    if v.dtype.is_float:
        return compute(reduce_mean, v, **where_) if where_["axes"] else v
    count = product(v.shape[a] for a in where_["axes"])
    return compute(OPS["div"], _plain("reduce_sum")(v, **where_), np.full((), count, v.dtype.numpy))


def _sum(x: Value, **where_: Any) -> Value:
    return compute(reduce_sum, x, **where_) if where_["axes"] else x  # type: ignore[no-any-return]


def _typed(formula: Callable[..., Value]) -> Callable[..., Item]:
    """A formula on floats, for any numbers."""

    def reduced(x: Item, **where_: Any) -> Item:
        v = as_value(x)
        return as_type(formula(floats(v), **where_), v.dtype)  # type: ignore[no-any-return]

    return reduced


def _log_sum_exp(x: Value, *, axes: Any, keep_dims: bool) -> Value:
    """Of what is left when the largest is taken off, so that nothing overflows."""
    if not axes or 0 in [x.shape[a] for a in axes]:
        return log(_sum(exp(x), axes=axes, keep_dims=keep_dims))  # type: ignore[no-any-return]
    most = reduce_max(x, axes=axes, keep_dims=True)
    most = where(equal(abs(most), np.inf), 0.0, most)
    total = log(reduce_sum(exp(x - most), axes=axes, keep_dims=keep_dims))
    return total + (most if keep_dims else reduce_sum(most, axes=axes))  # type: ignore[no-any-return]


def _of_squares(x: Item, **where_: Any) -> Item:
    v = as_value(x)
    return _plain("reduce_sum")(compute(OPS["mul"], v, v), **where_)


RULES |= {
    f"Reduce{name}": _reduction(op)
    for name, op in (
        ("Sum", _plain("reduce_sum")),
        ("Prod", _plain("reduce_prod")),
        ("Max", _extremum("reduce_max", -np.inf)),
        ("Min", _extremum("reduce_min", np.inf)),
        ("Mean", _mean),
        ("L1", lambda x, **w: _plain("reduce_sum")(compute(abs, x), **w)),
        ("L2", _typed(lambda x, **w: sqrt(_sum(x * x, **w)))),
        ("SumSquare", _of_squares),
        ("LogSum", _typed(lambda x, **w: log(_sum(x, **w)))),
        ("LogSumExp", _typed(_log_sum_exp)),
    )
}


def _index_reduction(op: Any) -> Rule:
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


def _running(op: Any, name: str) -> None:
    @rule(name)
    def apply(_: Reader, attrs: dict[str, Any], x: Item, axis: Item) -> Item:
        where_ = axis_of(int(known(axis, "axis").item()), len(shape_of(x)))
        options = {k: bool(attrs.get(k, 0)) for k in ("exclusive", "reverse")}
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
