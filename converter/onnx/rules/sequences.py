"""Sequences and optional values: lists of tensors that are known while reading fold away.

A sequence that a loop makes longer by one element in each turn becomes what the loop collects: one
tensor, whose rows are the elements.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from converter.errors import ConvertError
from converter.items import (
    Item,
    Items,
    as_type,
    as_value,
    axis_of,
    compute,
    known,
    product,
    shape_of,
    static,
)
from converter.onnx.rules.common import Reader, integers, rule
from converter.onnx.rules.scopes import inline
from converter.onnx.rules.shapes import part_of, reshaped
from ir.dtype import DType
from ir.graph import Value
from ir.op import OPS


def elements(item: Any) -> Items:
    """A sequence whose elements are known one by one."""
    if not isinstance(item, Items) or item.rows is not None:
        raise ConvertError("a sequence that a loop makes is taken apart; want ConcatFromSequence")
    return item


def _place(item: Item, count: int, default: int) -> int:
    """A known position, counted from the front."""
    if item is None:
        return default
    (at,) = known(item, "position").ravel().tolist()
    if not -count <= at < count + (default == count):
        raise ConvertError(f"position {at} of a sequence of {count}")
    return int(at) % count if at < 0 else int(at)


@rule("SequenceEmpty")
def empty(_: Reader, attrs: dict[str, Any]) -> Items:
    return Items()


@rule("SequenceConstruct")
def construct(_: Reader, attrs: dict[str, Any], *xs: Item) -> Items:
    return Items(xs)


@rule("SequenceInsert")
def insert(_: Reader, attrs: dict[str, Any], sequence: Any, x: Item, at: Item = None) -> Items:
    old = elements(sequence)
    place = _place(at, len(old), len(old))
    if old.base is not None and place != len(old):
        raise ConvertError("a loop puts an element before others; want it at the end")
    return Items([*old[:place], x, *old[place:]], old.base)


@rule("SequenceErase")
def erase(_: Reader, attrs: dict[str, Any], sequence: Any, at: Item = None) -> Items:
    old = elements(sequence)
    place = _place(at, len(old), len(old) - 1)
    return Items([*old[:place], *old[place + 1 :]])


@rule("SequenceAt")
def element_at(_: Reader, attrs: dict[str, Any], sequence: Any, at: Item) -> Item:
    if isinstance(sequence, Items) and sequence.rows is not None:
        index = OPS["reshape"](as_type(at, DType.i32), shape=())
        count = as_value(np.array(sequence.rows.shape[:1], object))
        last = OPS["reshape"](as_type(count, DType.i32), shape=())
        index = OPS["where"](OPS["less"](index, 0), OPS["add"](index, last), index)
        return OPS["gather"](sequence.rows, index, axis=0)  # type: ignore[no-any-return]
    old = elements(sequence)
    return old[_place(at, len(old), 0)]


@rule("SequenceLength")
def length(_: Reader, attrs: dict[str, Any], sequence: Any) -> Item:
    if isinstance(sequence, Items) and sequence.rows is not None:
        return np.array(sequence.rows.shape[0], object)
    return np.array(len(elements(sequence)))


@rule("SplitToSequence")
def split(reader: Reader, attrs: dict[str, Any], x: Item, sizes: Item = None) -> Items:
    dims = shape_of(x)
    axis = axis_of(attrs.get("axis", 0), len(dims))
    (total,) = static((dims[axis],), "split")
    given = [1] if sizes is None else integers(sizes, "split")
    if sizes is None or np.ndim(known(sizes, "split")) == 0:
        step = int(given[0])
        parts = [min(step, total - at) for at in range(0, total, step)]
    else:
        parts = given
    ends = np.cumsum([0, *parts]).tolist()
    found = [part_of(x, axis, a, b) for a, b in pairwise(ends)]
    if sizes is None and not attrs.get("keepdims", 1):
        found = [reshaped(v, [d for i, d in enumerate(shape_of(v)) if i != axis]) for v in found]
    return Items(found)


@rule("ConcatFromSequence")
def concat(reader: Reader, attrs: dict[str, Any], sequence: Any) -> Item:
    new_axis, axis = attrs.get("new_axis", 0), attrs["axis"]
    if isinstance(sequence, Items) and sequence.rows is not None:
        return _joined_rows(sequence.rows, axis, bool(new_axis))
    items = list(elements(sequence))
    if not items:
        raise ConvertError("an empty sequence is joined; want at least one element")
    if new_axis:
        axis = axis_of(axis, len(shape_of(items[0])) + 1)
        items = [reshaped(v, [*shape_of(v)[:axis], 1, *shape_of(v)[axis:]]) for v in items]
    return compute(OPS["concat"], *items, axis=axis_of(axis, len(shape_of(items[0]))))  # type: ignore[no-any-return]


def _joined_rows(rows: Value, axis: int, new_axis: bool) -> Value:
    """The rows beside each other along a new axis, or behind each other along one of theirs."""
    axis = axis_of(axis, rows.rank if new_axis else rows.rank - 1)
    perm = [*range(1, rows.rank)]
    perm.insert(axis, 0)
    y = OPS["transpose"](rows, perm=tuple(perm)) if axis else rows
    if new_axis:
        return y  # type: ignore[no-any-return]
    shape = (*y.shape[:axis], product(y.shape[axis : axis + 2]), *y.shape[axis + 2 :])
    return OPS["reshape"](y, shape=shape)  # type: ignore[no-any-return]


@rule("SequenceMap")
def each(reader: Reader, attrs: dict[str, Any], first: Any, *more: Any) -> list[Any]:
    """The body on each element, and on those of further sequences beside it."""
    count = len(elements(first))
    lists = [x if isinstance(x, Items) else Items([x] * count) for x in (first, *more)]
    turns = [inline(reader, attrs["body"], turn) for turn in zip(*lists, strict=True)]
    return [Items(column) for column in zip(*turns, strict=True)]


@rule("Optional", "OptionalGetElement")
def optional(_: Reader, attrs: dict[str, Any], x: Item = None) -> Item:
    return x


@rule("OptionalHasElement")
def has_element(_: Reader, attrs: dict[str, Any], x: Item = None) -> Item:
    return np.array(x is not None)
