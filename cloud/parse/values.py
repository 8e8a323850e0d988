"""What numpy's arrays offer, for values of the graph: attributes and methods."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from cloud.parse.faults import refusing
from cloud.parse.indexing import INTEGER
from cloud.parse.structure import described
from cloud.parse.updates import Updates
from ir.dtype import DType
from ir.graph import Value

METHODS = {
    "sum", "mean", "max", "min", "prod", "cumsum", "argmax", "argmin", "dot", "clip", "any", "all",
    "std", "var", "squeeze", "swapaxes", "take", "repeat", "diagonal", "trace", "round",
}  # fmt: skip
OWN_METHODS = {"reshape", "astype", "transpose", "flatten", "ravel", "copy"}
SIZES = {"T", "ndim", "size"}


class Values(Updates):
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
        if name in OWN_METHODS:
            return getattr(self, f"_{name}")(x, *args, **kwargs)
        return self.call(getattr(np, name), (x, *args), kwargs)

    def _reshape(self, x: Value, *shape: Any, order: str = "C") -> Value:
        self.check_order(order)
        return self.op("reshape", x, shape=_opened(shape))  # type: ignore[no-any-return]

    def _transpose(self, x: Value, *axes: Any) -> Value:
        perm = _opened(axes) if axes not in ((), (None,)) else tuple(reversed(range(x.rank)))
        perm = tuple(self.axis_of(x, a) for a in perm)
        return self.op("transpose", x, perm=perm)  # type: ignore[no-any-return]

    def _ravel(self, x: Value, order: str = "C") -> Value:
        return self._reshape(x, -1, order=order)

    def _flatten(self, x: Value, order: str = "C") -> Value:
        return self._copy(self._ravel(x, order))

    def _copy(self, x: Value, order: str = "C") -> Value:
        y = self._reshape(x, x.shape, order=order)  # another value, that may be changed
        self.copies.add(y)
        return y

    def _astype(self, x: Value, dtype: Any, *, copy: bool = True) -> Value:
        y = self.cast(x, dtype if isinstance(dtype, DType) else DType.of(np.empty(0, dtype)))
        return self._copy(y) if y is x and copy and x.rank else y

    def check_order(self, order: Any) -> None:
        """Refuse another order of elements than that of rows. Raises NotKnown."""
        if order not in ("C", "A", "K"):
            hint = "elements lie row by row: for order='F' transpose before and after"
            raise self.not_known(f"order={order!r}", hint)

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


def _opened(sizes: tuple[Any, ...]) -> tuple[Any, ...]:
    """Numbers that are given one by one, or as one tuple or list."""
    return tuple(sizes[0]) if len(sizes) == 1 and isinstance(sizes[0], (tuple, list)) else sizes
