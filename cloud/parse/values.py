"""What numpy's arrays offer, for values of the graph: attributes, methods, indices."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from cloud.parse.arithmetic import Arithmetic
from cloud.parse.faults import refusing
from cloud.parse.structure import described
from ir.dtype import DType
from ir.graph import Array, Constant, Value

INTEGER = (int, np.integer)
METHODS = {
    "sum", "mean", "max", "min", "prod", "cumsum", "argmax", "argmin", "dot", "clip", "any", "all",
    "std", "var", "squeeze", "swapaxes", "take", "repeat", "diagonal", "trace", "round",
}  # fmt: skip
OWN_METHODS = {"reshape", "astype", "transpose", "flatten", "ravel", "copy"}
SIZES = {"T", "ndim", "size"}


class Values(Arithmetic):
    def attribute_of_value(self, x: Value, name: str) -> Any:
        """x.name as numpy has it. Raises NotKnown for what values do not have."""
        simple: dict[str, Callable[[], Any]] = {
            "T": lambda: self.op("transpose", x, perm=tuple(reversed(range(x.rank)))),
            "ndim": lambda: x.rank,
            "size": lambda: math.prod(x.shape),
        }
        if name in simple:
            return simple[name]()
        if name in METHODS or name in OWN_METHODS:
            return lambda *args, **kwargs: self.method_of_value(x, name, *args, **kwargs)
        if name == "item":
            raise self.not_known("the number of a value", "it is known when the graph runs")
        if not hasattr(x, name):
            raise self.not_known(
                f"a value has no attribute {name!r}", "the operators are in cloud.ops"
            )
        return getattr(x, name)

    def has_attribute(self, x: Value, name: str) -> bool:
        """Whether x, an array or a number, has an attribute of this name."""
        return name in METHODS | OWN_METHODS | SIZES | {"item"} or hasattr(x, name)

    @refusing("give arguments that fit its shape and that are known")
    def method_of_value(self, x: Value, name: str, *args: Any, **kwargs: Any) -> Any:
        if name == "reshape":
            shape = args[0] if len(args) == 1 and isinstance(args[0], (tuple, list)) else args
            return self.op("reshape", x, shape=tuple(shape))
        if name == "transpose":
            perm = args[0] if len(args) == 1 and isinstance(args[0], (tuple, list)) else args
            return self.op("transpose", x, perm=tuple(perm) or tuple(reversed(range(x.rank))))
        if name in ("flatten", "ravel"):
            return self.op("reshape", x, shape=(-1,))
        if name == "copy":
            return self.op("reshape", x, shape=x.shape)  # another value, that may be changed
        if name == "astype":
            dtype = args[0] if isinstance(args[0], DType) else DType.of(np.empty(0, args[0]))
            return self.cast(x, dtype)
        return self.call(getattr(np, name), (x, *args), kwargs)

    def reduce(self, name: str, x: Any, axis: Any = None, keepdims: bool = False) -> Value:
        """A reduction with numpy's `axis`: None for all axes, a number or several."""
        x = self.number(self.as_value(x))
        axis = range(x.rank) if axis is None else axis
        axes = axis if isinstance(axis, (tuple, list, range)) else [axis]
        axes = tuple(sorted(self.axis_of(x, a) for a in axes))
        if not axes:
            return x
        return self.op(name, x, axes=axes, keep_dims=bool(keepdims))  # type: ignore[no-any-return]

    def axis_of(self, x: Value, axis: Any, more: int = 0) -> int:
        """The axis from 0 of x, or of what has `more` axes. Raises NotKnown where there is none."""
        rank = x.rank + more
        if not isinstance(axis, INTEGER) or not -rank <= axis < rank:
            hint = f"give a number from {-rank} to {rank - 1}" if rank else "give no axis"
            raise self.not_known(f"axis {described(axis)} of {described(x)}", hint)
        return int(axis) % rank

    def index(self, x: Value, key: Any) -> Value:
        """x[key] as numpy has it: numbers, slices, None, ..., integer arrays and values."""
        items = list(key) if isinstance(key, tuple) else [key]
        items = self._with_ellipsis(x, items)
        axis, dropped, added = 0, [], []
        for place, item in enumerate(items):
            if item is None:
                added.append(place - len(dropped))
                continue
            if isinstance(item, slice):
                x = self._slice(x, axis, item)
                axis += 1
            elif isinstance(item, INTEGER) and not isinstance(item, bool):
                x = self._pick(x, axis, int(item))
                dropped.append(place)
            else:
                x, rank = self._gather(x, axis, item)
                if rank == 0:
                    dropped.append(place)
                axis += rank
        if added:
            shape = list(x.shape)
            for place in added:
                shape.insert(place, 1)
            x = self.op("reshape", x, shape=tuple(shape))
        return x

    def updated(self, x: Value, key: Any, new: Any) -> Value:
        """x with x[key] = new: another value, for values never change."""
        items = self._with_ellipsis(x, list(key) if isinstance(key, tuple) else [key])
        new = self.as_value(new, x.dtype)
        if not any(isinstance(i, Value) for i in items):
            return self._placed(x, tuple(items), new)
        mask: Value | None = None
        for axis, item in enumerate(items):
            if isinstance(item, slice) and item == slice(None):
                continue
            if isinstance(item, slice) or np.ndim(item if not isinstance(item, Value) else 0):
                raise self.not_known("a slice beside an index that is a value", "write a loop")
            if isinstance(item, Value):
                item = self._wrapped(item, x.shape[axis])
            shape = [1] * x.rank
            shape[axis] = x.shape[axis]
            places = Constant(np.arange(x.shape[axis], dtype=np.int32).reshape(shape))
            hit = self.compare(ast.Eq, places, item)
            mask = hit if mask is None else self.op("logical_and", mask, hit)
        kept = [s for s, i in zip(x.shape, items, strict=True) if isinstance(i, slice)]
        new = self.op("broadcast_to", new, shape=tuple(kept)) if new.shape != tuple(kept) else new
        apart = [s if isinstance(i, slice) else 1 for s, i in zip(x.shape, items, strict=True)]
        new = self.op("reshape", new, shape=tuple(apart))
        return self.op("where", mask, new, x)  # type: ignore[no-any-return]

    def _placed(self, x: Value, key: tuple[Any, ...], new: Value) -> Value:
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
        flat = self.op("reshape", new, shape=(-1,))
        spread = self.op("gather", flat, Constant(sources))
        return self.op("where", Constant(mask), spread, x)  # type: ignore[no-any-return]

    def _with_ellipsis(self, x: Value, items: list[Any]) -> list[Any]:
        used = sum(i is not None and i is not Ellipsis for i in items)
        if used > x.rank:
            raise self.not_known(f"{used} indices of {described(x)}", f"it has {x.rank} axes")
        fill = [slice(None)] * (x.rank - used)
        at = next((n for n, i in enumerate(items) if i is Ellipsis), None)
        return [*items, *fill] if at is None else [*items[:at], *fill, *items[at + 1 :]]

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

    def _gather(self, x: Value, axis: int, item: Any) -> tuple[Value, int]:
        """The parts at an index that is a value or an array; and how many axes it stands for."""
        if isinstance(item, (list, np.ndarray)):
            item = Constant(self._places_of(np.asarray(item), x.shape[axis]))
            return self.op("gather", x, item, axis=axis), item.rank
        if not isinstance(item, Value) or item.dtype.is_float or item.dtype is DType.bool:
            raise self.not_known(
                f"an index that is {described(item)}",
                "the size of the result must be known: use np.where to choose elements",
            )
        indices = self._wrapped(item, x.shape[axis])
        return self.op("gather", x, indices, axis=axis), indices.rank

    def _places_of(self, item: Array, size: Any) -> Array:
        """Known indices, or a mask of an axis, as places from 0. Raises IndexError."""
        if item.dtype == np.bool_ and item.shape == (size,):
            return np.flatnonzero(item).astype(np.int32)
        whole = item.dtype.kind in "iu" or item.size == 0
        if not whole or (isinstance(size, int) and ((item < -size) | (item >= size)).any()):
            raise IndexError(f"index {item.tolist()} of an axis of {size}")
        return (item % size).astype(np.int32)

    def _wrapped(self, i: Value, size: Any) -> Value:
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

    def stacked(self, items: Sequence[Any], axis: int = 0) -> Value:
        """The items along a new axis; numbers among them become values."""
        values = [self.as_value(x) for x in items]
        dtype = values[0].dtype
        for v in values[1:]:
            dtype = self.common_dtype(Value((), dtype), v)
        place = self.axis_of(values[0], axis, more=1)
        apart = [
            self.op(
                "reshape",
                self.cast(v, dtype),
                shape=(*v.shape[:place], 1, *v.shape[place:]),
            )
            for v in values
        ]
        return self.op("concat", *apart, axis=place)  # type: ignore[no-any-return]
