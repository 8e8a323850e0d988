"""numpy's indices of values: numbers, slices, None, ..., masks and arrays of integers."""

from __future__ import annotations

import ast
import math
from typing import Any

import numpy as np

from cloud.parse.arithmetic import Arithmetic
from cloud.parse.structure import described
from ir.dtype import DType
from ir.graph import Constant, Value

INTEGER = (int, np.integer)


class Indexing(Arithmetic):
    def index(self, x: Value, key: Any) -> Value:
        """x[key] as numpy has it: numbers, slices, None, ..., integer arrays and values."""
        entries = self.entries(x, key)
        axis, arrays = 0, []
        for e in entries:
            if e is None:
                x = self.op("reshape", x, shape=(*x.shape[:axis], 1, *x.shape[axis:]))
            elif isinstance(e, slice):
                x = self._slice(x, axis, e)
            elif isinstance(e, INTEGER):
                x = self._pick(x, axis, int(e))
            elif isinstance(e, Value) and e.dtype is DType.bool:
                raise self.unknown_size(e)
            elif isinstance(e, Value) and not e.rank:
                x = self.op("gather", x, self.wrapped(e, x.shape[axis]), axis=axis)
            elif e is not Ellipsis:
                arrays.append((axis, e))
            axis += e is None or isinstance(e, slice) or _is_array(e)
        return self._gathered(x, arrays, front_of(entries)) if arrays else x

    def entries(self, x: Value, key: Any) -> list[Any]:
        """What the key says of each axis of x: numbers, slices, arrays and values of integers or,
        unknown, of truths; between them None, and an Ellipsis that stands for no axis, which
        separates arrays all the same. Known masks are the places that they choose."""
        items = [self._entry(i) for i in (key if isinstance(key, tuple) else (key,))]
        used = sum(_axes(i) for i in items)
        if used > x.rank:
            raise self.not_known(f"{used} indices of {described(x)}", f"it has {x.rank} axes")
        fill = [slice(None)] * (x.rank - used)
        at = next((n for n, i in enumerate(items) if i is Ellipsis), None)
        items = items + fill if at is None else items[:at] + (fill or [...]) + items[at + 1 :]
        axis, entries = 0, []
        for item in items:
            sizes = x.shape[axis : axis + _axes(item)]
            axis += len(sizes)
            if not _is_mask(item):
                entries.append(item)
                continue
            if any(isinstance(s, int) and s != t for s, t in zip(sizes, item.shape, strict=True)):
                raise IndexError(f"a mask of {item.shape} of axes of {sizes}")
            entries += [item] if isinstance(item, Value) else np.nonzero(item)
        return entries

    def _entry(self, item: Any) -> Any:
        """One index: a list of them as an array."""
        if isinstance(item, (list, tuple, range)) and any(isinstance(i, Value) for i in item):
            item = self.stacked(list(item))
        if isinstance(item, Value) and not item.dtype.is_float:
            return item
        if item is None or item is Ellipsis or isinstance(item, slice):
            return item
        if isinstance(item, INTEGER) and not isinstance(item, bool):
            return item
        if not isinstance(item, (list, tuple, range, np.ndarray)):
            raise self.unknown_size(item)
        array = np.asarray(item)
        if array.dtype == np.bool_ and array.ndim:
            return array
        if array.dtype.kind not in "iu" and array.size:
            raise IndexError(f"index {array.tolist()}: want integers")
        return array.astype(np.int64) if array.ndim else int(array)

    def unknown_size(self, item: Any) -> Exception:
        return self.not_known(
            f"an index that is {described(item)}",
            "the size of the result must be known: use np.where to choose elements",
        )

    def _gathered(self, x: Value, arrays: list[tuple[int, Any]], front: int) -> Value:
        """The parts at arrays of indices, which are taken together: their axes come first, or,
        where nothing separates the indices, stay where they are."""
        axes = [axis for axis, _ in arrays]
        rest = [a for a in range(x.rank) if a not in axes]
        perm = (*rest[:front], *axes, *rest[front:])
        if perm != tuple(range(x.rank)):
            x = self.op("transpose", x, perm=perm)
        sizes = x.shape[front : front + len(axes)]
        places = [self.places(i, size) for (_, i), size in zip(arrays, sizes, strict=True)]
        together(places)
        flat = places[0]
        for place, size in zip(places[1:], sizes[1:], strict=True):
            above = self.binary(ast.Mult, flat, self.size_value(size))
            flat = self.binary(ast.Add, above, place)
        for place, size in zip(places[1:], sizes[1:], strict=True):
            if isinstance(place, Value):  # outside of its axis it must not hit the next one
                inside = self.compare(ast.Lt, place, self.size_value(size))
                if place not in self.not_negative:
                    inside = self.op("logical_and", self.compare(ast.GtE, place, 0), inside)
                flat = self.op("where", inside, flat, Constant(np.int32(-1)))
        if len(axes) > 1:
            shape = (*x.shape[:front], math.prod(sizes), *x.shape[front + len(axes) :])
            x = self.op("reshape", x, shape=shape)
        return self.op("gather", x, self.as_value(flat, DType.i32), axis=front)  # type: ignore[no-any-return]

    def places(self, item: Any, size: Any) -> Any:
        """Indices as places from 0 in int32: known ones are known. Raises IndexError."""
        if isinstance(item, Value):
            return self.wrapped(item, size)
        item = np.asarray(item)
        if isinstance(size, int):
            if ((item < -size) | (item >= size)).any():
                raise IndexError(f"index {item.tolist()} of an axis of {size}")
            return np.where(item < 0, item + size, item).astype(np.int32)
        item = item.astype(np.int32)
        return self.wrapped(Constant(item), size) if (item < 0).any() else item

    def wrapped(self, i: Value, size: Any) -> Value:
        """The index as int32, one below 0 counted from the end."""
        if i in self.not_negative:
            return self.cast(i, DType.i32)
        i = self.cast(i, DType.i32)
        end = self.binary(ast.Add, i, self.size_value(size))
        return self.op("where", self.compare(ast.Lt, i, 0), end, i)  # type: ignore[no-any-return]

    def size_value(self, size: Any) -> Any:
        """A size as a number, or, where it is free, as a value that is computed from a shape."""
        if isinstance(size, int):
            return size
        ones = self.op("broadcast_to", Constant(np.float32(1)), shape=(size,))
        return self.op("cast", self.op("count", ones, axes=(0,)), to=DType.i32)

    def _slice(self, x: Value, axis: int, s: slice) -> Value:
        bounds = (s.start, s.stop, s.step)
        if any(isinstance(b, Value) for b in bounds):
            raise self.not_known(
                "a slice whose bounds are values",
                "its size must be known: index with `start + np.arange(size)`",
            )
        if s == slice(None):
            return x
        size = x.shape[axis]
        if not isinstance(size, int):
            begin, end, step = s.start or 0, size if s.stop is None else s.stop, s.step or 1
            end = size + end if isinstance(end, int) and end < 0 else end
        else:
            begin, end, step = s.indices(size)
            end = max(begin, end) if step > 0 else min(begin, end)
            if begin == size or (step < 0 and begin < 0):  # nothing of it
                begin, end, step = 0, 0, 1
        return self._sliced(x, axis, begin, end, step)

    def _sliced(self, x: Value, axis: int, begin: Any, end: Any, step: int) -> Value:
        first: list[Any] = [0] * x.rank
        last, steps = list(x.shape), [1] * x.rank
        first[axis], last[axis], steps[axis] = begin, end, step
        y: Value = self.op("slice", x, begin=tuple(first), end=tuple(last), step=tuple(steps))
        return y

    def _pick(self, x: Value, axis: int, i: int) -> Value:
        size = x.shape[axis]
        if isinstance(size, int) and not -size <= i < size:
            raise IndexError(f"index {i} of an axis of {size}")
        begin = i + size if i < 0 else i
        x = self._sliced(x, axis, begin, begin + 1, 1)
        return self.op("reshape", x, shape=(*x.shape[:axis], *x.shape[axis + 1 :]))  # type: ignore[no-any-return]


def together(places: list[Any]) -> tuple[Any, ...]:
    """The shape of indices that are taken together. Raises IndexError."""
    shapes = [p.shape if _is_array(p) else () for p in places]
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        text = ", ".join(map(str, shapes))
        raise IndexError(f"indices of the shapes {text}, which do not go together") from None


def front_of(entries: list[Any]) -> int:
    """How many axes of the result come before those of the arrays: none where a slice, a None or an
    Ellipsis separates two indices."""
    at = [n for n, e in enumerate(entries) if isinstance(e, (*INTEGER, Value, np.ndarray))]
    together = at[-1] - at[0] + 1 == len(at)
    return sum(e is not Ellipsis for e in entries[: at[0]]) if together else 0


def _axes(item: Any) -> int:
    """How many axes an entry stands for."""
    return len(item.shape) if _is_mask(item) else int(item is not None and item is not Ellipsis)


def _is_mask(item: Any) -> bool:
    if isinstance(item, Value):
        return item.dtype is DType.bool
    return isinstance(item, np.ndarray) and item.dtype == np.bool_


def _is_array(item: Any) -> bool:
    return isinstance(item, (Value, np.ndarray)) and len(item.shape) > 0
