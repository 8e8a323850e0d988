"""Graphs as text that reads well and parses back.

    graph(%x: f32[batch,3]) {
      %w: f32[3] = weight trainable
      %0: f32[] = constant [0.1]
      %1: f32[batch,3] = mul(%x, %w)
      %y: f32[batch] = reduce_sum(%1, axes=[1])
      %2: f32[3] = sgd_step(%w, %g, %0) @"train.py:7"
      return loss=%y
      update %w = %2
    }

Every value is named once, where it is made: `%name`, or `%"any name"`, with `#1` behind it where
another value has the same name; a number stands for a value without a name. Types are checked when
the text is parsed, not believed. Left out inputs are `none`; attributes at their defaults are left
out; a sub-graph is an attribute that is written `graph(…) {…}`. Functions stand before the graph,
each as `function power(%n: i32[], %x: f32[]) -> f32[] {…}`, and are named where they are called,
`body=power`: in their own bodies too. Weights, and constants of more than
16 elements, are named here and come from elsewhere.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from enum import Enum
from itertools import chain
from typing import Any

import numpy as np

from ir.graph import Array, Constant, Function, Graph, Node, Value, Weight, shape_text
from ir.walk import functions, walk

_Functions = Mapping[Function, str]
MOST_INLINE = 16  # elements of a constant that is written out


def to_text(graph: Graph, *, sources: bool = False) -> str:
    """The graph as text; with `sources`, where each node comes from."""
    names = _function_names(graph)
    lines = [_function_lines(f, names, sources) for f in names]
    return "\n".join((*chain(*lines), *_graph_lines(graph, names, sources))) + "\n"


def parse_text(
    text: str,
    *,
    weights: Mapping[str, Weight] | None = None,
    constants: Mapping[str, Array] | None = None,
) -> Graph:
    """The graph that `to_text` wrote, on `weights` by name and what `large_constants` gave.

    Raises GraphError with the line and the column of what is wrong.
    """
    from ir.text_parser import Parser

    return Parser(text, weights or {}, constants or {}).whole()


def large_constants(graph: Graph) -> dict[str, Array]:
    """The constants that the text only names by their hash: hash -> elements."""
    every = (v for g in walk([graph]) for v in g.leaves)
    return {_hash(v): v.data for v in every if isinstance(v, Constant) and not _is_inline(v)}


def node_line(graph: Graph, node: Node) -> str:
    """The first line of one node in the graph's text."""
    names = _function_names(Graph((), node.results))
    return _node_text(node, value_names(graph), names, False).splitlines()[0]


def value_names(graph: Graph) -> dict[Value, str]:
    """A different name for every value of the graph, as its text has it."""
    names: dict[Value, str] = {}
    uses: dict[str, int] = {}
    unnamed = 0
    for v in (*graph.leaves, *(r for n in graph.nodes for r in n.results)):
        if v.name is None:
            names[v] = f"%{unnamed}"
            unnamed += 1
            continue
        count = uses[v.name] = uses.get(v.name, -1) + 1
        names[v] = f"%{_word(v.name)}" + (f"#{count}" if count else "")
    return names


def _function_names(graph: Graph) -> dict[Function, str]:
    """A different name for every function that the graph reaches."""
    names: dict[Function, str] = {}
    for f in functions(graph):
        name, n = f.name, 1
        while name in names.values():
            name, n = f"{f.name}_{n}", n + 1
        names[f] = name
    return names


def _function_lines(f: Function, functions: _Functions, sources: bool) -> Iterator[str]:
    lines = iter(_graph_lines(f.graph, functions, sources))
    head = next(lines).removeprefix("graph").removesuffix(" {")
    types = ", ".join(f"{dtype!r}{shape_text(shape)}" for shape, dtype in f.results)
    yield f"function {_word(functions[f])}{head} -> {types} {{"
    yield from lines


def _graph_lines(graph: Graph, functions: _Functions, sources: bool) -> Iterator[str]:
    names = value_names(graph)
    inputs = ", ".join(_declared(v, names) for v in graph.inputs)
    yield f"graph({inputs}) {{"
    given = set(graph.inputs)
    for v in (v for v in graph.leaves if v not in given):
        yield f"  {_declared(v, names)} = {_leaf_text(v)}"
    for node in graph.nodes:
        text = _node_text(node, names, functions, sources)
        yield from ("  " + line for line in text.splitlines())
    outputs = zip(graph.output_names, graph.outputs, strict=True)
    yield "  return " + ", ".join(f"{_word(n)}={names[v]}" for n, v in outputs)
    yield from (f"  update {names[w]} = {names[new]}" for w, new in graph.updates)
    yield "}"


def _node_text(node: Node, names: Mapping[Value, str], functions: _Functions, sources: bool) -> str:
    results = ", ".join(_declared(v, names) for v in node.results)
    inputs = ["none" if v is None else names[v] for v in node.inputs]
    while inputs and inputs[-1] == "none":
        inputs.pop()
    attrs = [
        f"{name}={_attr_text(value, functions, sources)}"
        for name, value in node.attrs.items()
        if not _is_default(value, node.op.attrs.get(name))
    ]
    source = f" @{json.dumps(node.source, ensure_ascii=False)}" if sources and node.source else ""
    return f"{results} = {node.op.name}({', '.join([*inputs, *attrs])}){source}"


def _is_default(value: Any, default: Any) -> bool:
    if isinstance(value, (Graph, Function)):
        return value is default
    return repr(value) == repr(default)


def _attr_text(value: Any, functions: _Functions, sources: bool) -> str:
    if isinstance(value, Graph):
        return "\n".join(_graph_lines(value, functions, sources))
    if isinstance(value, Function):
        return _word(functions[value])
    if isinstance(value, Enum):
        return json.dumps(value.value)
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return "[" + ", ".join(map(str, value)) + "]"
    return repr(value) if isinstance(value, float) else str(value)


def _leaf_text(v: Value) -> str:
    if isinstance(v, Weight):
        return "weight " + ("state" if v.state else "trainable" if v.trainable else "frozen")
    if isinstance(v, Constant):
        return f"constant {_elements(v)}" if _is_inline(v) else f"constant sha256:{_hash(v)}"
    return "unknown"  # no graph of ours has such a leaf; it is shown in errors


def _is_inline(v: Constant) -> bool:
    """Small, and every element survives the text (a NaN with a payload does not)."""
    if v.data.size > MOST_INLINE:
        return False
    again = np.array(_element_texts(v.data), v.data.dtype) if v.dtype.is_float else v.data
    return again.tobytes() == v.data.tobytes()


def _elements(v: Constant) -> str:
    return "[" + ", ".join(_element_texts(v.data)) + "]"


def _element_texts(array: Array) -> list[str]:
    return [str(x).lower() for x in array.ravel()]  # numpy's text of a float is the shortest exact


def _hash(v: Constant) -> str:
    return hashlib.sha256(v.data.tobytes()).hexdigest()[:16]


def _declared(v: Value, names: Mapping[Value, str]) -> str:
    return f"{names[v]}: {v.dtype!r}{shape_text(v.shape)}"


def _word(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z_][\w.]*", name) else json.dumps(name, ensure_ascii=False)
