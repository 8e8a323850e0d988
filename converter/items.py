"""What a name of a source model stands for while it is read, and what all rules do with it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

import numpy as np

from converter.errors import ConvertError
from converter.found_sizes import FoundSizes, alike, as_i32, sizes_as_data, traced
from ir.dtype import DType
from ir.errors import IrError, ShapeError
from ir.graph import Array, Constant, Node, Value, Weight
from ir.op import OPS, Op
from ir.ops.compare import less, where
from ir.ops.integers import bitwise
from ir.ops.shaping import Element, cast, reshape
from ir.symbol import Dim, Expr, maximum

Item = Value | Array | None
Shapes = Mapping[str, Sequence[int | str]]
SMALL = "source.weights"  # metadata: of how many bits, where the source has some of fewer than 32
MOST = 2**28  # elements of an array that is computed while reading
# What a rule may run into: shapes that do not fit, attributes that are missing or of another kind.
RULE_ERRORS = (
    IrError, ArithmeticError, AttributeError, LookupError, MemoryError, TypeError, ValueError,
)  # fmt: skip


class Items(tuple[Any, ...]):
    """A sequence: its elements. Of one that a loop makes longer, `base` tells which it was before;
    of one that a loop has made, `rows` holds the elements."""

    base: Any
    rows: Value | None

    def __new__(cls, items: Any = (), base: Any = None, rows: Value | None = None) -> Items:
        made = super().__new__(cls, items)
        made.base, made.rows = base, rows
        return made


@dataclass
class Arranger:
    """What rules of any format write to: weights that were rearranged for all uses, and the sizes
    that nodes bind."""

    found: FoundSizes = field(default_factory=FoundSizes)
    arranged: dict[tuple[Weight, str], Weight] = field(default_factory=dict)
    _named: set[Node] = field(default_factory=set)

    def arrange(self, item: Item, how: str, change: Callable[[Any], Any]) -> Item:
        """A weight in our layout, which `change` makes of an array or, for one that the model
        computes, of a value. A weight that several nodes use in one way is kept single."""
        if isinstance(item, Weight):
            if (item, how) not in self.arranged:
                data = np.ascontiguousarray(change(item.data))
                self.arranged[item, how] = Weight(data, name=item.name or "", trainable=False)
            return self.arranged[item, how]
        if isinstance(item, np.ndarray):
            return np.ascontiguousarray(change(item))
        return change(as_value(item))

    def name_nodes(self, items: Sequence[Any], source: str) -> list[Any]:
        """Say of all that was made for `items`, and was not there before, where it comes from.

        The items, each tied to the nodes that bind sizes which it speaks of.
        """
        new: set[Node] = set()
        out = [self._named_item(item, source, new) for item in items]
        self._named |= new
        return out

    def _named_item(self, item: Any, source: str, new: set[Node]) -> Any:
        if isinstance(item, Items):
            each = [self._named_item(i, source, new) for i in item]
            return Items(each, item.base, self._named_item(item.rows, source, new))
        made: set[Node] = set()
        stack = [item.node] if isinstance(item, Value) else []
        while stack:
            node = stack.pop()
            if node is not None and node not in self._named and node not in made:
                node.source = source
                made.add(node)
                stack += [v.node for v in node.present_inputs]
        new |= made
        return self.found.tied(item, made) if isinstance(item, Value) else item


def as_value(item: Item) -> Value:
    """A value of the graph; an array that is known becomes a constant."""
    if isinstance(item, Value):
        return item
    if item is None:
        raise ConvertError("an input that is left out is used")
    if isinstance(item, Items):
        raise ConvertError("a sequence is used as a tensor; want ConcatFromSequence")
    array = np.asarray(item)
    if array.dtype == object:
        return sizes_as_data(array)
    return Constant(narrow(array))


def narrow(array: Array) -> Array:
    """The array in the types that models compute in: float32 for other floats, and for integers
    that there are no kernels for wider ones."""
    to = _COMPUTED.get(array.dtype.name)
    if to is None:
        return array
    with np.errstate(over="ignore"):
        return array.astype(to)


_COMPUTED = {
    "float16": np.float32, "bfloat16": np.float32, "float64": np.float32, "int16": np.int32,
    "uint16": np.int32, "uint32": np.int64, "uint64": np.int64,
}  # fmt: skip


def wrapped_around(item: Any, kind: str) -> Any:
    """A value of the wider type that a kind of integers is computed in, of numbers that this kind
    holds: int16 and uint16 in int32, uint32 in int64. What is of any other type stays."""
    if not isinstance(item, Value):
        return item
    if (kind, item.dtype) == ("int16", DType.i32):
        return cast(cast(item, to=DType.i16), to=DType.i32)
    if (kind, item.dtype) == ("uint16", DType.i32):
        return compute(bitwise, item, np.int32(2**16 - 1))
    if (kind, item.dtype) == ("uint32", DType.i64):
        return compute(bitwise, item, np.int64(2**32 - 1))
    return item


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


def compute(op: Op | Callable[..., Any], *items: Item, **attrs: Any) -> Any:
    """The operator on values, or its reference at once when every input is known.

    Small integers and truth values that the operator has no kernel for are computed as int32, and
    what they give wraps around to their own type again.
    """
    items = tuple(settled(i) if isinstance(i, np.ndarray) else i for i in items)
    if not any(isinstance(i, Value) for i in items):
        try:
            y = op(*items, **attrs)
            return tuple(map(np.asarray, y)) if isinstance(y, tuple) else np.asarray(y)
        except TypeError:  # free sizes, of which there are sums and products alone
            given = [d for a in attrs.values() for d in (a if isinstance(a, tuple) else (a,))]
            free = any(isinstance(d, Expr) for d in given)
            if not free and all(not isinstance(i, np.ndarray) or i.dtype != object for i in items):
                raise
    values = [None if i is None else as_value(i) for i in items]
    narrow_type = next(v.dtype for v in values if v is not None)
    wide = _wider(op, narrow_type) if isinstance(op, Op) else None
    if wide is None:
        try:
            return op(*values, **attrs)
        except ShapeError:
            same = alike(op, values, attrs)
            if same is None:
                raise
            return op(*same, **attrs)
    y = op(*(cast(v, to=wide) if v and v.dtype is narrow_type else v for v in values), **attrs)
    back = [cast(v, to=narrow_type) if v.dtype is wide else v for v in _tuple(y)]
    return tuple(back) if isinstance(y, tuple) else back[0]


def settled(array: Array) -> Array:
    """Sizes that all are numbers as integers; others stay objects."""
    if array.dtype != object or not all(isinstance(d, int) for d in array.ravel()):
        return array
    return array.astype(np.int64)


def _tuple(y: Any) -> tuple[Value, ...]:
    return y if isinstance(y, tuple) else (y,)


def _wider(op: Op, dtype: DType) -> DType | None:
    """The type to compute in, where the operator has no kernel for `dtype`."""
    own = "boolean" if dtype is DType.bool else dtype.name
    if not op.kernels or "any" in op.kernels or own in op.kernels:
        return None
    if dtype in (DType.i8, DType.u8, DType.bool):
        for wide in (DType.i32, DType.f32):  # both hold all of theirs
            if wide.name in op.kernels:
                return wide
    raise ConvertError(f"elements of {dtype.name}; want {' or '.join(op.kernels)} for {op.name}")


def as_type(x: Item, dtype: DType) -> Any:
    """x with elements of a type."""
    if isinstance(x, np.ndarray):
        return cast.ref(x, to=Element(dtype))
    v = as_value(x)
    if v.dtype is dtype:
        return v
    source = v.node.inputs[0] if v.node is not None and v.node.op is cast else None
    if (dtype, v.dtype) == (DType.i32, DType.i64) and source is not None and source.dtype is dtype:
        return source  # int32 there and back is as it was
    return cast(v, to=dtype)


def floats(x: Item) -> Value:
    """x as a value of float32."""
    return as_value(as_type(x, DType.f32))


def indices(x: Item, size: Dim | None = None) -> Any:
    """x as int32; with a size, negative ones counted from the front. What is beyond 32 bits stays
    outside of all that there is."""
    if isinstance(x, np.ndarray):
        if size is not None and x.dtype != object and (x < 0).any():
            x = np.where(x < 0, x + size, x)
        x = settled(x)
        if x.dtype != object:
            limits = np.iinfo(np.int32)
            return np.clip(x, limits.min, limits.max).astype(np.int32)
    v = as_i32(as_value(x))
    if size is None or isinstance(x, np.ndarray):
        return v
    return where(less(v, 0), v + length(size), v)


def length(size: Dim) -> Any:
    """A size as a number that is added to indices."""
    if isinstance(size, int):
        return size
    return reshape(OPS["sizes"].node([], {"of": (size,)}).results[0], shape=())


def iota(size: Dim, dtype: DType = DType.i32) -> Item:
    """0, 1 … size-1."""
    if isinstance(size, int):
        check_count(size)
        return np.arange(size, dtype=dtype.numpy)
    return as_type(OPS["iota"].node([], {"size": size}).results[0], dtype)  # type: ignore[no-any-return]


def known(item: Item, what: str) -> np.ndarray:
    """An input that must be known while reading (axes, shapes, pads)."""
    if isinstance(item, (Constant, Weight)):
        return item.data
    if isinstance(item, Value) and (array := traced(item)) is not None:
        return array
    if not isinstance(item, np.ndarray):
        raise ConvertError(f"{what} is computed by the model; want a constant")
    return item


def number(item: Item, what: str) -> float:
    """A known input of one element."""
    array = known(item, what)
    if array.size != 1:
        raise ConvertError(f"{what} has {array.size} elements, want one")
    return float(array.reshape(-1)[0])


def shape_of(item: Item) -> tuple[Dim, ...]:
    return item.shape if isinstance(item, (Value, np.ndarray)) else ()


def axis_of(axis: int, rank: int) -> int:
    """The axis counted from the front."""
    if not -rank <= axis < rank:
        raise ConvertError(f"axis {axis} of rank {rank}")
    return axis % rank


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


def identifier(name: str) -> str:
    """The name of a free size, as symbols may be called."""
    text = "".join(c if c.isalnum() else "_" for c in name)
    return text if text.isidentifier() else f"d{text}"


def same_pads(size: Dim, k: int, stride: int, dilation: int, auto: str) -> tuple[Dim, Dim]:
    """What is put before and behind an axis, so that there is a window for every stride."""
    steps = (size + stride - 1) // stride
    total = maximum((steps - 1) * stride + (k - 1) * dilation + 1 - size, 0)
    small, large = total // 2, total - total // 2
    return (small, large) if auto == "SAME_UPPER" else (large, small)
