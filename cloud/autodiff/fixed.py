"""Which inputs of a function every call of itself, inside of it, hands on as they are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ir.dtype import DType
from ir.graph import Function, Graph, Node, Value
from ir.walk import functions

Origins = Mapping[Value, int]  # which input of the function a value is


def fixed_inputs(f: Function) -> list[int]:
    """The inputs, other than tapes, that are the same in all calls that one call of f leads to.
    There are none where other functions lead back to f."""
    if any(g is not f and f in functions(g.graph) for g in functions(f.graph)):
        return []
    origins = {v: i for i, v in enumerate(f.graph.inputs)}
    calls = list(_calls(f, f.graph, origins))
    kept = [i for i, (_, dtype) in enumerate(f.inputs) if dtype is not DType.tape]
    return [i for i in kept if all(i == found[i] for found in calls)]


def _calls(f: Function, graph: Graph, origins: Origins) -> Iterator[list[int | None]]:
    """For each call of f in the graph or one inside, which input of f each operand is."""
    for node in graph.nodes:
        given = [None if v is None else origins.get(v) for v in node.inputs]
        if node.attrs.get("body") is f:
            yield given
        for inner, operands in _inside(node, given):
            pairs = zip(inner.inputs, operands, strict=True)
            yield from _calls(f, inner, {v: i for v, i in pairs if i is not None})


def _inside(node: Node, given: list[int | None]) -> Iterator[tuple[Graph, list[int | None]]]:
    """Graphs that run inside of a node, and what their inputs are."""
    if node.op.name == "cond":
        yield node.attrs["then"], given[1:]
        yield node.attrs["otherwise"], given[1:]
    elif node.op.name == "while_loop":
        body = node.attrs["body"]
        same = [a is b for a, b in zip(body.inputs, body.outputs, strict=True)]
        still = [i if s else None for i, s in zip(given, same, strict=True)]
        yield body, still
        yield node.attrs["condition"], still
