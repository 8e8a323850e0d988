"""Sizes that a run finds: shapes that are data, and operators that find any number of things."""

from __future__ import annotations

from typing import Any

import numpy as np

from converter.found_sizes import as_i32
from converter.items import Item, as_type, as_value, axis_of, iota, known
from converter.onnx.rules.common import Reader, rule
from ir.dtype import DType
from ir.graph import Constant, Value
from ir.op import OPS
from ir.ops.rules import elements
from ir.symbol import Dim

NO_LIMIT = 2**30


def fitted(x: Value, shape: tuple[Dim, ...]) -> Value:
    """x in another shape, which the run checks where it is not known before."""
    same = elements(x.shape) == elements(shape)
    return OPS["reshape" if same else "fit_shape"](x, shape=shape)  # type: ignore[no-any-return]


def reshape_to_found(reader: Reader, x: Item, dims: Value, allow_zero: bool) -> Value:
    """Reshape where only a run knows all sizes; those that are known stay so."""
    v = as_value(x)
    wanted = OPS["reshape_sizes"](as_i32(dims), old=v.shape, allow_zero=allow_zero)
    found = reader.found.sizes(wanted)
    for i, d in enumerate(reader.found.known(dims)):
        if d is not None and d != -1:
            found[i] = v.shape[i] if d == 0 and not allow_zero else d
    return fitted(v, tuple(found))


def expand_to_found(reader: Reader, x: Value, dims: Value) -> Value:
    """Expand where only a run knows all sizes."""
    (rank,) = dims.shape
    wide = (1,) * (int(rank) - x.rank) + x.shape  # type: ignore[arg-type]
    if x.rank > int(rank):  # type: ignore[arg-type]
        dims = OPS["concat"](np.ones(x.rank - int(rank), dims.dtype.numpy), dims, axis=0)  # type: ignore[arg-type]
    old = OPS["sizes"].node([], {"of": wide}).results[0]
    narrow = as_i32(dims)
    stretched = OPS["where"](OPS["equal"](narrow, 1), old, narrow)
    found = reader.found.sizes(stretched)
    for i, (d, n) in enumerate(zip(reader.found.known(dims), wide, strict=True)):
        if d is not None:
            found[i] = n if d == 1 else d
    return OPS["stretch_to"](x, shape=tuple(found))  # type: ignore[no-any-return]


def slice_found(reader: Reader, x: Item, *parts: Item) -> Value:
    """Slice whose bounds only a run knows."""
    v = as_value(x)
    bounds = [None if p is None else as_i32(as_value(p)) for p in parts]
    begin, step, size = OPS["slice_bounds"](*bounds, of=v.shape)
    axes = parts[2] if len(parts) > 2 else np.arange(int(bounds[0].shape[0]))  # type: ignore[union-attr, arg-type]
    every = isinstance(axes, Value) and reader.found.known(axes).count(None) > 0
    chosen = range(v.rank) if every else [axis_of(int(a), v.rank) for a in known(axes, "axes")]
    found = dict(zip(chosen, reader.found.sizes(size, chosen), strict=True))
    shape = tuple(found.get(i, d) for i, d in enumerate(v.shape))
    return OPS["slice_at"](v, begin, step, shape=shape)  # type: ignore[no-any-return]


def range_found(reader: Reader, start: Value, limit: Value, delta: Value) -> Value:
    """Range whose bounds are free or computed."""
    bounds = [OPS["reshape"](v, shape=()) if v.rank else v for v in (start, limit, delta)]
    parts = [reader.found.known(v)[0] for v in bounds]
    if not start.dtype.is_float and None not in parts and parts[2] == 1:
        n = parts[1] - parts[0]  # type: ignore[operator]
    else:
        (n,) = reader.found.sizes(OPS["range_size"](*bounds))
    steps = iota(n, start.dtype)
    return OPS["add"](OPS["mul"](steps, bounds[2]), bounds[0])  # type: ignore[no-any-return]


@rule("NonZero")
def nonzero(reader: Reader, attrs: dict[str, Any], x: Item) -> Item:
    if isinstance(x, np.ndarray):
        return np.array(np.nonzero(x))
    return as_type(OPS["transpose"](_places(reader, as_value(x)), perm=(1, 0)), DType.i64)


def _places(reader: Reader, x: Value) -> Value:
    """Where x is not 0: [count, rank]."""
    if x.dtype not in (DType.f32, DType.i32, DType.i64, DType.bool):
        x = OPS["cast"](x, to="i32")
    indices, count = OPS["nonzero"](x)
    return first_rows(reader, indices, count)


def first_rows(reader: Reader, x: Value, count: Value) -> Value:
    """The first `count` rows of x."""
    (n,) = reader.found.sizes(count)
    rest = x.shape[1:]
    return OPS["slice"](x, begin=(0,) * x.rank, end=(n, *rest), step=(1,) * x.rank)  # type: ignore[no-any-return]


@rule("Compress")
def compress(reader: Reader, attrs: dict[str, Any], x: Item, condition: Item) -> Item:
    v = as_value(x)
    if "axis" not in attrs:
        v = OPS["reshape"](v, shape=(elements(v.shape),))
    axis = axis_of(attrs.get("axis", 0), v.rank)
    places = _places(reader, as_value(condition))
    return OPS["gather"](v, OPS["reshape"](places, shape=places.shape[:1]), axis=axis)


@rule("Unique")
def unique(reader: Reader, attrs: dict[str, Any], x: Item) -> list[Item]:
    v = as_value(x)
    axis = axis_of(attrs["axis"], v.rank) if "axis" in attrs else 0
    if "axis" not in attrs:
        v = OPS["reshape"](v, shape=(elements(v.shape),))
    rows = OPS["transpose"](v, perm=(axis, *(i for i in range(v.rank) if i != axis)))
    rows = OPS["reshape"](rows, shape=(v.shape[axis], elements(rows.shape[1:])))
    if rows.dtype not in (DType.f32, DType.i32, DType.i64):
        rows = OPS["cast"](rows, to="i32")
    in_order = not attrs.get("sorted", 1)
    first, group, counts, count = OPS["unique_rows"](rows, in_order=in_order)
    first, counts = (first_rows(reader, i, count) for i in (first, counts))
    wide = [as_type(i, DType.i64) for i in (first, group, counts)]
    return [OPS["gather"](v, first, axis=axis), *wide]


@rule("NonMaxSuppression")
def non_max_suppression(
    reader: Reader,
    attrs: dict[str, Any],
    boxes: Item,
    scores: Item,
    most: Item = None,
    overlap: Item = None,
    threshold: Item = None,
) -> Item:
    bounds = [
        _scalar(0 if most is None else most, DType.i32),
        _scalar(0.0 if overlap is None else overlap, DType.f32),
        _scalar(-np.inf if threshold is None else threshold, DType.f32),
    ]
    limit = NO_LIMIT
    if isinstance(bounds[0], Constant):
        limit = min(max(int(bounds[0].data), 0), NO_LIMIT)
    selected, count, _ = OPS["non_max_suppression"](
        as_value(boxes), as_value(scores), *bounds, limit=limit,
        center=bool(attrs.get("center_point_box", 0)),
    )  # fmt: skip
    return as_type(first_rows(reader, selected, count), DType.i64)


def _scalar(item: Any, dtype: DType) -> Value:
    """A bound as one number without axes; integers beyond 32 bits are as good as the largest."""
    if not isinstance(item, Value):
        item = np.asarray(item)
        if dtype is DType.i32:
            item = np.clip(item, -(2**31), 2**31 - 1)
        return Constant(item.reshape(()).astype(dtype.numpy))
    v = as_i32(item) if dtype is DType.i32 else as_type(item, dtype)
    return OPS["reshape"](v, shape=()) if v.rank else v  # type: ignore[no-any-return]
