"""Sizes that a model computes: as far as they are known while reading, and else bound by a run."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from converter.errors import ConvertError
from ir.bound import spoken_of
from ir.dtype import DType
from ir.graph import Array, Constant, Node, Value
from ir.op import MAX_RANK, OPS, Op
from ir.symbol import Dim, Expr, symbol, symbols

MOST = 1024  # elements of a shape that is looked at
LOOKED_THROUGH = ("after", "cast", "concat", "gather", "reshape", "slice")
DEEPEST = 64  # nodes between a shape and where its elements come from


class FoundSizes:
    """The free dimensions that nodes of one graph bind while it is read.

    `names` are those that are taken, in all graphs of the model.
    """

    def __init__(self, names: set[str] | None = None) -> None:
        self.names: set[str] = set() if names is None else names
        self.bound: dict[str, Value] = {}  # free dimension -> the result of what binds it
        self._sizes: dict[tuple[Value, int], Expr] = {}  # element of a vector -> its size

    def inner(self) -> FoundSizes:
        """Those of a graph inside, whose names differ from all others."""
        return FoundSizes(self.names)

    def sizes(self, v: Value, wanted: Sequence[int] | None = None) -> list[Dim]:
        """The elements of a vector of integers as sizes: known ones as such, others bound here.

        `wanted`: the elements to take. Raises ConvertError for what is no short vector.
        """
        parts = self.known(v, integers=True)
        every = range(len(parts)) if wanted is None else wanted
        open_ = [i for i in every if parts[i] is None and (v, i) not in self._sizes]
        for begin in range(0, len(open_), MAX_RANK):
            self._bind(v, open_[begin : begin + MAX_RANK])
        return [self._sizes[v, i] if (d := parts[i]) is None else d for i in every]

    def known(self, v: Value, *, integers: bool = False) -> list[Dim | None]:
        """The elements of a vector of numbers, None for those that the model computes."""
        parts = _elements(v, 0)
        if parts is None or (integers and v.dtype.is_float):
            raise ConvertError(f"{v!r} is used as sizes; want integers in one axis of known length")
        return parts

    def _bind(self, v: Value, elements: Sequence[int]) -> None:
        flat = as_i32(v if v.rank == 1 else OPS["reshape"](v, shape=(1,)))
        if list(elements) != list(range(int(flat.shape[0]))):
            flat = OPS["gather"](flat, np.array(elements, np.int32), axis=0)
        names = [self._name() for _ in elements]
        sizes = tuple(map(symbol, names))
        bound = OPS["bind_sizes"](flat, sizes=sizes)
        for i, name, size in zip(elements, names, sizes, strict=True):
            self.bound[name] = bound
            self._sizes[v, i] = size

    def _name(self) -> str:
        number = len(self.names)
        while (name := f"found{number}") in self.names:
            number += 1
        self.names.add(name)
        return name

    def tied(self, item: Value, made: Collection[Node]) -> Value:
        """The value, behind the nodes that bind sizes which the nodes `made` for it speak of, where
        nothing else leads back to these."""
        if not self.bound:
            return item
        new = set(made)
        spoken = set().union(*map(spoken_of, made))
        read = {v for n in made for v in n.present_inputs if v.node not in new}
        there = set().union(*(symbols(d) for v in read for d in v.shape))
        there |= {name for n in made for name, b in self.bound.items() if b in n.present_inputs}
        ties = dict.fromkeys(self.bound[s] for s in sorted(spoken - there) if s in self.bound)
        ties.pop(item, None)
        return OPS["after"](item, *ties) if ties else item  # type: ignore[no-any-return]


def traced(v: Value) -> Array | None:
    """The integers that a value consists of, free sizes among them, if all are known."""
    parts = _elements(v, 0)
    if parts is None or any(d is None for d in parts):
        return None
    array = np.array(parts, object)
    known = all(isinstance(d, int) for d in parts)
    return (array.astype(np.int64) if known else array).reshape(tuple(map(int, v.shape)))  # type: ignore[arg-type]


Operands = Sequence[Value | None]


def alike(op: Op, values: Operands, attrs: dict[str, Any]) -> Operands | None:
    """The inputs of an operator that wants equal sizes, with sizes that only a run can compare
    taken to be the same: the run checks it. None: they differ for certain, or it is another one."""
    if op.name == "matmul":
        return _alike_inside(*values, **attrs)
    joined = attrs["axis"] if op.name == "concat" else None
    if op.family not in ("elementwise", "compare") and joined is None:
        return None
    given = [v.shape for v in values if v is not None]
    rank = max(map(len, given))
    columns = [[s[i - rank] for s in given if len(s) >= rank - i] for i in range(rank)]
    wanted = [_common(sizes) for sizes in columns]
    out: list[Value | None] = []
    for v in values:
        shape = () if v is None else v.shape
        offset = rank - len(shape)
        new = tuple(
            d if i == joined or d == 1 else wanted[i] for i, d in enumerate(shape, start=offset)
        )
        if any(isinstance(a, int) and a != b for a, b in zip(shape, new, strict=True)):
            return None
        out.append(v if shape == new else OPS["same_shape"](v, shape=new))
    return out if any(a is not b for a, b in zip(out, values, strict=True)) else None


def _alike_inside(
    a: Value | None, b: Value | None, *, transpose_a: bool = False, transpose_b: bool = False
) -> Operands | None:
    """The factors of a product, whose columns and rows are taken to be as many."""
    if a is None or b is None or min(a.rank, b.rank) < 2:
        return None
    places = a.rank - 1 - transpose_a, b.rank - 2 + transpose_b
    sizes = a.shape[places[0]], b.shape[places[1]]
    numbers = [d for d in sizes if isinstance(d, int)]
    if sizes[0] == sizes[1] or len(numbers) == 2:
        return None
    wanted = numbers[0] if numbers else _common(sizes)
    out: list[Value | None] = []
    for v, place in zip((a, b), places, strict=True):
        shape = (*v.shape[:place], wanted, *v.shape[place + 1 :])
        out.append(v if v.shape == shape else OPS["same_shape"](v, shape=shape))
    return out


def _common(sizes: Sequence[Dim]) -> Dim:
    """The size that others are taken to have: a number, or what is said in the fewest words."""
    others = (d for d in sizes if d != 1)
    return min(others, key=lambda d: (isinstance(d, Expr), len(str(d))), default=1)


def sizes_as_data(array: Array) -> Value:
    """A vector, or one number, of free sizes as a value of the graph."""
    if array.ndim > 1 or array.size > MAX_RANK:
        raise ConvertError(f"{array.size} free sizes of rank {array.ndim} are used as data")
    of = tuple(d if isinstance(d, Expr) else int(d) for d in array.ravel().tolist())
    y: Value = OPS["cast"](OPS["sizes"].node([], {"of": of}).results[0], to="i64")
    return y if array.ndim else OPS["reshape"](y, shape=())  # type: ignore[no-any-return]


def as_i32(v: Value) -> Value:
    """Integers as int32; what is beyond is as good as the largest and the smallest of these."""
    if v.dtype is not DType.i64:
        return v if v.dtype is DType.i32 else OPS["cast"](v, to="i32")  # type: ignore[no-any-return]
    source = v.node.inputs[0] if v.node is not None and v.node.op.name == "cast" else None
    if source is not None and source.dtype is DType.i32:
        return source  # int32 there and back is as it was
    limits = np.iinfo(np.int32)
    limited = OPS["minimum"](OPS["maximum"](v, int(limits.min)), int(limits.max))
    return OPS["cast"](limited, to="i32")  # type: ignore[no-any-return]


def _elements(v: Value, depth: int) -> list[Dim | None] | None:
    """What is known of each integer in a value of at most one axis; None: it has no such shape."""
    if v.rank > 1 or not all(isinstance(d, int) and d <= MOST for d in v.shape):
        return None
    count = int(v.shape[0]) if v.rank else 1  # type: ignore[arg-type]
    if count == 0:
        return []
    unknown: list[Dim | None] = [None] * count
    if isinstance(v, Constant):
        return [int(i) for i in v.data.ravel()] if v.data.dtype.kind in "iu" else unknown
    if v.node is None or depth > DEEPEST:
        return unknown
    return _of_node(v.node, depth + 1) or unknown


def _of_node(node: Node, depth: int) -> list[Dim | None] | None:
    attrs: dict[str, Any] = node.attrs
    name = node.op.name
    if name not in LOOKED_THROUGH:  # inputs that are read twice would be looked at twice, and so on
        return list(attrs["of"]) if name == "sizes" else None
    looked_at = node.present_inputs if name == "concat" else node.present_inputs[:1]
    below = [_elements(x, depth) for x in looked_at]
    match name:
        case "reshape" | "after":
            return below[0]
        case "cast" if node.results[0].dtype in (DType.i32, DType.i64):
            return below[0] if node.inputs[0].dtype in (DType.i32, DType.i64) else None  # type: ignore[union-attr]
        case "concat":
            return None if None in below else [d for part in below for d in part or ()]
        case "slice" if below[0] is not None and all(isinstance(d, int) for d in attrs["begin"]):
            bounds = (attrs[k][0] for k in ("begin", "end", "step"))
            return below[0][slice(*bounds)] if attrs["step"] == (1,) else None
        case "gather" if below[0] is not None and isinstance(node.inputs[1], Constant):
            places = node.inputs[1].data.ravel().tolist()
            return [below[0][i] for i in places] if node.inputs[0].rank == 1 else None  # type: ignore[union-attr]
    return None
