"""Weights that passes made of one weight get names of their own."""

from __future__ import annotations

from ir.graph import Graph, Value, Weight, is_fixed, substitute
from ir.passes.rewrite import fixed_like


def unique_names(graph: Graph) -> Graph:
    """The second fixed weight of the name w is w.2, the next one w.3: in a file names differ."""
    taken: set[str] = set()
    renamed: dict[Value, Value] = {}
    for w in graph.weights:
        base = name = w.name or "weight"
        n = 1
        while name in taken:
            n += 1
            name = f"{base}.{n}"
        taken.add(name)
        if name != w.name and is_fixed(w):
            renamed[w] = _copy(w, name)
    if not renamed:
        return graph
    outputs = substitute(graph.roots, renamed)
    count = len(graph.outputs)
    updates = [(w, new) for (w, _), new in zip(graph.updates, outputs[count:], strict=True)]
    return Graph(graph.inputs, outputs[:count], graph.output_names, tuple(updates))


def _copy(w: Weight, name: str) -> Value:
    new = fixed_like(w, w.data)
    new.name = name
    return new
