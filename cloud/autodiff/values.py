"""Zeros, ones and sums among cotangents."""

from __future__ import annotations

from collections.abc import Iterable

from ir.dtype import DType
from ir.errors import GraphError
from ir.graph import Constant, Value
from ir.op import OPS
from ir.ops.control import new_tape


def zeros_like(v: Value) -> Value:
    """Zeros in the shape and type of `v`; an empty tape for a tape."""
    return new_tape() if v.dtype is DType.tape else filled_like(v, 0.0)


def or_zeros(g: Value | None, v: Value) -> Value:
    """The cotangent of `v`, zeros where it has none."""
    return zeros_like(v) if g is None else g


def ones_like(v: Value) -> Value:
    return filled_like(v, 1.0)


def filled_like(v: Value, number: float) -> Value:
    """A tensor of one number in the shape and type of `v`; the shape may be symbolic."""
    scalar = Constant(number, dtype=v.dtype)
    return OPS["broadcast_to"](scalar, shape=v.shape) if v.shape else scalar


def accumulate(bar: dict[Value, Value], x: Value, g: Value) -> None:
    """Add to the cotangent of x."""
    if g.shape != x.shape:
        raise AssertionError(f"gradient of shape {list(g.shape)} for {x!r}")
    if x in bar and x.dtype is DType.tape:
        raise GraphError(f"{x!r} is read twice; want a tape that is read once, to differentiate it")
    bar[x] = bar[x] + g if x in bar else g


def blank(v: Value, name: str | None = None) -> Value:
    """A leaf in the shape and type of `v`."""
    return Value(v.shape, v.dtype, name=name)


class NewNames:
    """Names for the further inputs of a sub-graph, unlike those that it has."""

    def __init__(self, values: Iterable[Value]) -> None:
        self.taken = {v.name for v in values}

    def __call__(self, wanted: str) -> str:
        name, n = wanted, 1
        while name in self.taken:
            name, n = f"{wanted}{n}", n + 1
        self.taken.add(name)
        return name

    def of(self, v: Value) -> str | None:
        """For the cotangent of v."""
        return self(f"g_{v.name}") if v.name else None
