"""Functions: graphs by name, so that a graph can be called before it is known, also by itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ir.dtype import DType
from ir.errors import GraphError

if TYPE_CHECKING:
    from ir.graph import Graph, Shape, Value


class Function:
    """A graph that nodes may name before it is known: so a function can call itself.

    `inputs` and `results` are its signature. `graph` is set once, when the body is known.
    """

    __slots__ = ("_graph", "inputs", "name", "results")

    def __init__(
        self,
        name: str,
        inputs: Sequence[tuple[Shape, DType]],
        results: Sequence[tuple[Shape, DType]],
    ) -> None:
        self.name = name
        self.inputs = tuple((tuple(shape), dtype) for shape, dtype in inputs)
        self.results = tuple((tuple(shape), dtype) for shape, dtype in results)
        self._graph: Graph | None = None

    @staticmethod
    def of(name: str, graph: Graph) -> Function:
        """A function with this body, which does not call it."""
        made = Function(name, signature(graph.inputs), signature(graph.outputs))
        made.graph = graph
        return made

    @property
    def graph(self) -> Graph:
        if self._graph is None:
            raise GraphError(f"function {self.name!r} has no body yet")
        return self._graph

    @graph.setter
    def graph(self, graph: Graph) -> None:
        if self._graph is not None:
            raise GraphError(f"function {self.name!r} has a body already")
        have = signature(graph.inputs), signature(graph.outputs)
        if have != (self.inputs, self.results):
            texts = " -> ".join(map(signature_text, have))
            wanted = " -> ".join(map(signature_text, (self.inputs, self.results)))
            raise GraphError(f"function {self.name!r}: the body is {texts}, want {wanted}")
        self._graph = graph

    @property
    def is_defined(self) -> bool:
        """Whether the body is known."""
        return self._graph is not None

    def __repr__(self) -> str:
        return f"<function {self.name}>"


def signature(values: Sequence[Value]) -> tuple[tuple[Shape, DType], ...]:
    """Shapes and types."""
    return tuple((v.shape, v.dtype) for v in values)


def signature_text(types: Sequence[tuple[Shape, DType]]) -> str:
    """Shapes and types as text: (f32[2,3], i32[])"""
    sizes = [(dtype, ",".join(map(str, shape))) for shape, dtype in types]
    return "(" + ", ".join(f"{dtype!r}[{text}]" for dtype, text in sizes) + ")"
