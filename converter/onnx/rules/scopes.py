"""Graphs inside of an ONNX graph: read in place, or traced with what they read of the outside."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from converter.errors import ConvertError
from converter.items import Item, Items, as_value
from converter.onnx.rules.common import Names, Reader
from converter.onnx.types import kind_of_value
from ir.graph import Constant, Graph, Value, Weight


class Scope(Names):
    """The names in a graph inside: its own, and those of the outside as inputs of its own."""

    def __init__(self, outer: Names, reader: Reader) -> None:
        super().__init__(outer)
        self.reader = reader
        self.captured: dict[Value, Value] = {}  # value outside -> the input that stands for it

    def find(self, name: str) -> Item:
        if name in self or self.outer is None:
            return super().find(name)
        return self._inside(self.outer.find(name))

    def _inside(self, item: Any) -> Any:
        if isinstance(item, Items):
            return Items(map(self._inside, item), item.base, self._inside(item.rows))
        if not isinstance(item, Value) or isinstance(item, (Constant, Weight)):
            return item
        return self.inner(item)

    def inner(self, v: Value) -> Value:
        """The input of the graph inside that stands for a value outside."""
        if v not in self.captured:
            self.captured[v] = Value(v.shape, v.dtype)
        return self.captured[v]


@dataclass
class Traced:
    """A graph inside that has been read."""

    scope: Scope
    items: list[Item]

    def values(self) -> list[Value]:
        """Its outputs as values."""
        return [as_value(i) for i in self.items]

    def graph(self, outer: Sequence[Value], outputs: Sequence[Value]) -> Graph:
        """The graph on the values `outer` of the outside, with these outputs."""
        return Graph(tuple(self.scope.inner(v) for v in outer), tuple(outputs))


Given = Sequence[Item] | Callable[[Scope], Sequence[Item]]


def trace(reader: Reader, proto: Any, given: Given) -> Traced:
    """Read a graph whose inputs are `given`, or what `given` makes in its scope."""
    inner = reader.inside()
    scope = Scope(reader.names, inner)
    items = given(scope) if callable(given) else given
    traced = Traced(scope, _read(inner, scope, proto, items))
    reader.inner_kinds = inner.inner_kinds
    return traced


def inline(reader: Reader, proto: Any, given: Sequence[Item] = ()) -> list[Item]:
    """What a graph inside gives, read as a part of the graph around it."""
    return _read(reader, _Block(reader.names), proto, given)


class _Block(Names):
    """The names in a graph that is read in place."""

    def find(self, name: str) -> Item:
        if name in self or self.outer is None:
            return super().find(name)
        return self.outer.find(name)


def _read(reader: Reader, names: Names, proto: Any, given: Sequence[Item]) -> list[Item]:
    wanted = [v.name for v in proto.input]
    if len(wanted) != len(given):
        raise ConvertError(f"a graph inside takes {len(wanted)} inputs, {len(given)} are given")
    names.update(zip(wanted, given, strict=True))
    padded = [*[None] * len(wanted), *reader.kinds]
    kinds = padded[len(padded) - len(wanted) :]
    names.kinds |= {
        v.name: kind_of_value(v) or kind for v, kind in zip(proto.input, kinds, strict=True)
    }
    reader.read_into(reader, proto, names)
    reader.inner_kinds = [names.kind(v.name) for v in proto.output]
    return [names.find(v.name) for v in proto.output]
