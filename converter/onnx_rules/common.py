"""What the rules share: their table, the three things that an ONNX name stands for, attributes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

import numpy as np

from converter.errors import ConvertError
from ir.graph import Array, Constant, Node, Value, Weight
from ir.op import Op
from ir.symbol import Dim, Expr

Item = Value | Array | None
Rule = Callable[..., Any]
RULES: dict[str, Rule] = {}
MOST = 2**28  # elements of an array that is computed while reading


@dataclass
class Reader:
    """What rules see of the model: its opset, and weights that were rearranged for all uses."""

    opset: int
    arranged: dict[tuple[Weight, str], Weight] = field(default_factory=dict)
    _named: set[Node] = field(default_factory=set)

    def arrange(self, item: Item, how: str, change: Callable[[Array], Array]) -> Item:
        """A weight in our layout. A weight that several nodes use in one way is kept single."""
        if isinstance(item, Weight):
            if (item, how) not in self.arranged:
                data = np.ascontiguousarray(change(item.data))
                self.arranged[item, how] = Weight(data, name=item.name or "", trainable=False)
            return self.arranged[item, how]
        if isinstance(item, np.ndarray):
            return np.ascontiguousarray(change(item))
        raise ConvertError(f"a weight that the graph computes ({item!r}); want an initializer")

    def name_nodes(self, item: Item, source: str) -> None:
        """Say of all that was made for `item`, and was not there before, where it comes from."""
        stack = [item.node] if isinstance(item, Value) else []
        while stack:
            node = stack.pop()
            if node is not None and node not in self._named:
                self._named.add(node)
                node.source = source
                stack += [v.node for v in node.present_inputs]


def rule(*names: str) -> Callable[[Rule], Rule]:
    """Declare the rule of the ONNX operators `names`."""

    def declare(fn: Rule) -> Rule:
        RULES.update(dict.fromkeys(names, fn))
        return fn

    return declare


def as_value(item: Item) -> Value:
    """A value of the graph; an array that is known becomes a constant."""
    if isinstance(item, Value):
        return item
    if item is None:
        raise ConvertError("an input that is left out is used")
    array = np.asarray(item)
    if array.dtype == object:
        raise ConvertError(f"a shape with free sizes ({array.tolist()}) is used as data")
    return Constant(narrow(array))


def narrow(array: Array) -> Array:
    """The array in the types that models compute in: float32 and int32 for wider or half ones."""
    if array.dtype in (np.float16, np.float64):
        with np.errstate(over="ignore"):
            return array.astype(np.float32)
    if array.dtype == np.int64:
        small = array.astype(np.int32)
        if not np.array_equal(small, array):
            raise ConvertError(f"integers of {array.min()} to {array.max()}; want 32-bit ones")
        return small
    return array


def without_nan(array: Array, what: str) -> Array:
    """The array. Raises ConvertError, with the place, where a number of a model is none; infinities
    may be: they are the masks of attention."""
    if array.dtype.kind == "f" and np.isnan(array).any():
        places = np.argwhere(np.isnan(array))
        raise ConvertError(
            f"{what}: {len(places)} of {array.size} numbers are NaN, the first at "
            f"{places[0].tolist()}"
        )
    return array


def compute(op: Op | Callable[..., Any], *items: Item, **attrs: Any) -> Item:
    """The operator on values, or its reference at once when every input is known."""
    if not any(isinstance(i, Value) for i in items):
        return np.asarray(op(*items, **attrs))
    return op(*(None if i is None else as_value(i) for i in items), **attrs)


def known(item: Item, what: str) -> np.ndarray:
    """An input that must be known while reading (axes, shapes, pads)."""
    if isinstance(item, Weight):
        return item.data
    if not isinstance(item, np.ndarray):
        raise ConvertError(f"{what} is computed by the model; want a constant")
    return item


def number(item: Item, what: str) -> float:
    """A known input of one element."""
    array = known(item, what)
    if array.size != 1:
        raise ConvertError(f"{what} has {array.size} elements, want one")
    return float(array.reshape(-1)[0])


def integers(item: Item, what: str) -> list[Any]:
    """A known input as a list of sizes, symbolic ones among them."""
    return [d if isinstance(d, Expr) else int(d) for d in known(item, what).ravel().tolist()]


def shape_of(item: Item) -> tuple[Dim, ...]:
    return item.shape if isinstance(item, (Value, np.ndarray)) else ()


def axis_of(axis: int, rank: int) -> int:
    """The axis counted from the front."""
    if not -rank <= axis < rank:
        raise ConvertError(f"axis {axis} of rank {rank}")
    return axis % rank


def axes_of(attrs: dict[str, Any], item: Item, rank: int) -> tuple[int, ...]:
    """Axes from the attribute (old opsets) or the input (new ones), counted from the front."""
    axes = attrs.get("axes", ()) if item is None else integers(item, "axes")
    return tuple(sorted(axis_of(int(a), rank) for a in axes))


def static(shape: tuple[Dim, ...], what: str) -> tuple[int, ...]:
    """Sizes that must not be free."""
    if any(isinstance(d, Expr) for d in shape):
        sizes = list(map(str, shape))
        raise ConvertError(f"{what}: size {sizes} is free; want a fixed one (--input)")
    return tuple(int(d) for d in shape if not isinstance(d, Expr))


def check_count(n: Any) -> None:
    """Refuse to compute arrays that no model holds."""
    if n > MOST:
        raise ConvertError(f"a constant of {n} elements; want at most {MOST}")


def product(dims: Any) -> Any:
    return reduce(lambda a, b: a * b, dims, 1)
