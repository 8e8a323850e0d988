"""What x[key] = new means for values, which never change: another value."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from cloud.parse.indexing import Indexing, front_of, together
from cloud.parse.structure import described, values_in
from ir.dtype import DType
from ir.graph import Constant, Value

Change = Callable[[Value], Value] | None


class Updates(Indexing):
    def updated(self, x: Value, key: Any, new: Any, change: Change = None) -> Value:
        """x with x[key] = new: another value, for values never change. `change`: where the key has
        a mask that is a value, what becomes of `new` in the form of x."""
        new = self.call(np.asarray, (new,), {}) if isinstance(new, (list, tuple)) else new
        new = self.as_value(new, None if change else x.dtype)
        if not values_in([key]):
            return self._placed(x, key, new)
        given = self.entries(x, key)
        entries = [e for e in given if e is not Ellipsis]
        if any(isinstance(e, Value) and e.dtype is DType.bool for e in entries):
            mask, new = self._chosen(x, entries, new)
            new = self.cast(change(new) if change else new, x.dtype)
            return self.op("where", mask, new, x)  # type: ignore[no-any-return]
        if any(e is None or (isinstance(e, slice) and e != slice(None)) for e in entries):
            raise self.not_known("a slice beside an index that is a value", "write a loop")
        return self._found(x, entries, new, front_of(given))

    def _placed(self, x: Value, key: Any, new: Value) -> Value:
        """x with x[key] = new where the place is known: each element has its source."""
        mask = np.zeros(x.shape, np.bool_)
        mask[key] = True
        if new.rank == 0:
            return self.op("where", Constant(mask), new, x)  # type: ignore[no-any-return]
        part = np.empty(x.shape, np.int32)[key].shape
        sources = np.zeros(x.shape, np.int32)
        sources[key] = np.broadcast_to(
            np.arange(math.prod(new.shape), dtype=np.int32).reshape(new.shape), part
        )
        if not mask.any():
            return x
        flat = self.op("reshape", new, shape=(-1,))
        spread = self.op("gather", flat, Constant(sources))
        return self.op("where", Constant(mask), spread, x)  # type: ignore[no-any-return]

    def has_unknown_mask(self, key: Any) -> bool:
        """Whether an index is a mask, and is a value."""
        items = key if isinstance(key, tuple) else (key,)
        return any(isinstance(i, Value) and i.dtype is DType.bool for i in items)

    def _chosen(self, x: Value, entries: list[Any], new: Value) -> tuple[Value, Value]:
        """The mask, and what is new where it is true, in the form of x: the mask is unknown, so
        the new is the same wherever it is."""
        at = next(n for n, e in enumerate(entries) if isinstance(e, Value))
        mask, before = entries[at], x.shape[:at]
        after = x.shape[at + mask.rank :]
        if any(
            not isinstance(e, slice) or e != slice(None) for e in entries[:at] + entries[at + 1 :]
        ):
            raise self.not_known(
                "a mask beside other indices", "choose with np.where, or write a loop"
            )
        part = (*before, 1, *after)
        if not _fits(new, part):
            raise self.not_known(
                f"{described(new)} for the places of a mask that is a value",
                "how many they are is not known: give one number or row, or use np.where",
            )
        new = self.op("broadcast_to", new, shape=part)
        new = self.op("reshape", new, shape=(*before, *(1,) * mask.rank, *after))
        return self.op("reshape", mask, shape=(*mask.shape, *(1,) * len(after))), new

    def _found(self, x: Value, entries: list[Any], new: Value, front: int) -> Value:
        """x with x[entries] = new, where each place is compared with the indices: one outside of x
        is nowhere, and of several that meet the last one stays. `front`: the axes before theirs."""
        axes = [n for n, e in enumerate(entries) if not isinstance(e, slice)]
        places = [self.places(entries[a], x.shape[a]) for a in axes]
        shape = together(places)
        count = math.prod(shape)
        hit: Value | None = None
        for axis, place in zip(axes, places, strict=True):
            column = self.as_value(place, DType.i32)
            if shape:
                column = self.op("broadcast_to", column, shape=shape)
                column = self.op("reshape", column, shape=(count, *(1,) * x.rank))
            line = [1] * x.rank
            line[axis] = x.shape[axis]
            every = Constant(np.arange(x.shape[axis], dtype=np.int32).reshape(line))
            here = self.compare(ast.Eq, every, column)
            hit = here if hit is None else self.op("logical_and", hit, here)
        kept = [s for n, s in enumerate(x.shape) if n not in axes]
        front = front if shape else 0
        part = (*kept[:front], *shape, *kept[front:])
        if not _fits(new, part):
            raise ValueError(f"an array of {new.shape} where one of {part} is wanted")
        new = self.op("broadcast_to", new, shape=part) if new.shape != part else new
        return self._last_of(x, axes, hit, new, (front, len(shape), count))

    def _last_of(
        self, x: Value, axes: list[int], hit: Any, new: Value, where: tuple[int, int, int]
    ) -> Value:
        """x, but at each place that is hit the part of `new` of the last index that hits it."""
        front, rank, count = where
        kept = [n for n in range(x.rank) if n not in axes]
        apart = [1 if n in axes else s for n, s in enumerate(x.shape)]
        if not rank:
            return self.op("where", hit, self.op("reshape", new, shape=tuple(apart)), x)  # type: ignore[no-any-return]
        if count == 0:
            return x
        numbers = np.arange(1, count + 1, dtype=np.int32).reshape(count, *(1,) * x.rank)
        hit = self.op("where", hit, Constant(numbers), Constant(np.int32(0)))
        last = self.op("reduce_max", hit, axes=(0,), keep_dims=False)
        source = self.op("maximum", self.binary(ast.Sub, last, 1), Constant(np.int32(0)))
        source = self.op("reshape", source, shape=tuple(x.shape[a] for a in axes))
        sizes = new.shape
        rows = self.op(
            "reshape", new, shape=(*sizes[:front], count, *sizes[front + rank :])
        )  # the indices are one axis, among those that are kept
        rows = self.op("gather", rows, source, axis=front)
        order = [*kept[:front], *axes, *kept[front:]]
        perm = tuple(order.index(n) for n in range(x.rank))
        rows = self.op("transpose", rows, perm=perm) if perm != tuple(range(x.rank)) else rows
        return self.op("where", self.compare(ast.Gt, last, 0), rows, x)  # type: ignore[no-any-return]


def _fits(x: Value, shape: tuple[Any, ...]) -> bool:
    """Whether x broadcasts to the shape."""
    if x.rank > len(shape):
        return False
    return all(s in (1, t) for s, t in zip(x.shape[::-1], shape[::-1], strict=False))
