"""Axes that only a run knows: what is done along them is done along each axis that is meant."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from converter.errors import ConvertError
from converter.found_sizes import as_i32, traced
from converter.items import Item, as_type, as_value, compute, iota
from converter.onnx.rules.common import READING
from converter.onnx.rules.found import fitted
from ir.dtype import DType
from ir.graph import Constant, Value
from ir.op import OPS
from ir.ops.compare import equal, less, where
from ir.ops.elementwise import add, mul
from ir.ops.index import gather
from ir.ops.reduce import cumprod, cumsum, reduce_max, reduce_prod
from ir.ops.rules import elements
from ir.ops.scatter import scatter_elements
from ir.ops.shaping import broadcast_to, reshape, slice_axis
from ir.ops.sorting import topk
from ir.symbol import Dim

JOINED = {"reduce_sum": "add", "reduce_prod": "mul", "reduce_max": "max", "reduce_min": "min"}


def is_open(axes: Item) -> bool:
    """Whether axes, which a model computes, have to be found by a run."""
    return isinstance(axes, Value) and traced(axes) is None and axes.shape != (0,)


@dataclass(frozen=True)
class FoundAxes:
    """Some axes of a tensor of this rank: `chosen`: int32[rank], 1 where an axis is meant, 0
    elsewhere; `count`: how many are meant."""

    chosen: Value
    rank: int
    count: int
    found: dict[tuple[Any, ...], tuple[Dim, ...]] = field(default_factory=dict)  # sizes, bound once

    @staticmethod
    def of(axes: Value, rank: int) -> FoundAxes:
        flat = as_i32(axes if axes.rank else reshape(axes, shape=(1,)))
        flat = where(less(flat, 0), flat + rank, flat)
        (count,) = flat.shape
        if not isinstance(count, int) or count > rank:
            raise ConvertError(f"{count} of {rank} axes")
        column = reshape(flat, shape=(count, 1))
        same = OPS["cast"](equal(column, Constant(np.arange(rank, dtype=np.int32))), to=DType.i32)
        return FoundAxes(reduce_max(same, axes=(0,)), rank, count)

    def others(self) -> Value:
        """The axes that are not meant, in order: int32[rank - count]"""
        order = self.chosen * self.rank + Constant(np.arange(self.rank, dtype=np.int32))
        return topk(order, k=self.rank - self.count, largest=False)[0]  # type: ignore[no-any-return]


def _sizes(x: Value) -> Value:
    return OPS["sizes"].node([], {"of": x.shape}).results[0]


def _dims(axes: FoundAxes, what: str, x: Value, sizes: Callable[[], Value]) -> tuple[Dim, ...]:
    """What becomes of the sizes of x; the same for the same sizes."""
    key = (what, *x.shape)
    if key not in axes.found:
        axes.found[key] = tuple(READING.get().found.sizes(sizes()))
    return axes.found[key]


def squeezed(x: Value, axes: FoundAxes) -> Value:
    """x without the axes."""
    return fitted(x, _dims(axes, "squeezed", x, lambda: gather(_sizes(x), axes.others())))


def unsqueezed(x: Value, axes: FoundAxes) -> Value:
    """x with new axes of size 1; `axes` are those of the result."""
    old = cumsum(1 - axes.chosen, axis=0) - 1
    old = OPS["maximum"](old, 0)  # before the first that was there, where the size is 1 anyway
    sizes = gather(_sizes(x), old) if x.rank else axes.chosen
    new = where(equal(axes.chosen, 1), 1, sizes)
    return fitted(x, _dims(axes, "unsqueezed", x, lambda: new))


def reduced(name: str, x: Value, axes: FoundAxes, *, keep_dims: bool, first: float) -> Value:
    """x joined over the axes: each element where the axes that are left say; `first` is what
    changes nothing."""
    kept = where(equal(axes.chosen, 1), 1, _sizes(x))
    strides = cumprod(kept, axis=0, exclusive=True, reverse=True) * (1 - axes.chosen)
    at: Any = np.zeros((), np.int32)
    for i, size in enumerate(x.shape):
        step = reshape(slice_axis(strides, i, i + 1, axis=0), shape=())
        line = compute(mul, iota(size), step)
        at = compute(add, at, reshape(line, shape=(size, *(1,) * (x.rank - 1 - i))))
    small = x.dtype in (DType.i8, DType.u8, DType.bool)
    flat = reshape(as_type(x, DType.i32) if small else x, shape=(elements(x.shape),))
    places = reshape(broadcast_to(at, shape=x.shape), shape=flat.shape)
    dims = _dims(axes, "kept", x, lambda: kept)
    start = Constant(np.asarray(first).astype(flat.dtype.numpy))
    empty = broadcast_to(start, shape=(elements(dims),))
    y = fitted(scatter_elements(empty, places, flat, reduction=JOINED[name]), dims)
    y = y if keep_dims else squeezed(y, axes)
    return as_value(as_type(y, x.dtype))


def size_of(x: Value, axes: FoundAxes) -> Value:
    """The product of the sizes of x along the axes: int32[]"""
    return reduce_prod(where(equal(axes.chosen, 1), _sizes(x), 1), axes=(0,))  # type: ignore[no-any-return]


def along(x: Value, axis: Value, run: Callable[[int], Value]) -> Value:
    """What `run` gives for the one axis that is meant."""
    flat = reshape(as_i32(axis), shape=())
    flat = where(less(flat, 0), flat + x.rank, flat)
    y = run(0)
    for i in range(1, x.rank):
        y = compute(where, equal(flat, i), run(i), y)
    return y
