"""Why each node of a converted model is what it is: which nodes of the source it stands for, which
pass put them together, and why it is int8 or float32."""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

from cloud.compress.quantize import Quantized, names_of
from ir.dtype import DType
from ir.graph import Graph, Node, Value, is_fixed
from ir.ops import OUTPUT_AXIS
from ir.passes.rewrite import REPLACED

BRIDGES = {
    "quantize": "makes int8 of float32 for what follows",
    "quantize_16": "makes int16 of float32 for what follows",
    "dequantize": "makes float32 of stored integers for what follows",
    "requantize": "brings stored integers to the scale of what they meet",
    "decompress": "reads a stored weight back for the layer behind it",
}


@dataclass
class Provenance:
    """Where the nodes of a graph went, by their sources. `home`: the source of the node that one is
    part of now, None where its result was known or not needed; `moved_by`: the step that did it."""

    home: dict[str, str | None] = field(default_factory=dict)
    moved_by: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, graph: Graph) -> Provenance:
        return cls({n.source: n.source for n in graph.nodes})

    def after(self, step: str, change: Callable[[Graph], Graph], graph: Graph) -> Graph:
        """`change(graph)`, with a look at what becomes of each node."""
        replaced: dict[str, list[str]] = {}

        def tell(node: Node, results: Sequence[Value]) -> None:
            sources = [v.node.source for v in results if v.node is not None]
            replaced.setdefault(node.source, []).extend(sources)

        token = REPLACED.set(tell)
        try:
            new = change(graph)
        finally:
            REPLACED.reset(token)
        alive = {n.source for n in new.nodes}
        gone = {n.source for n in graph.nodes} - alive
        targets = {s: _target(s, graph, replaced, alive) for s in gone}
        for source, at in self.home.items():
            if at in targets:
                self.home[source] = targets[at]
                self.moved_by[source] = step
        return new

    def parts(self, source: str) -> list[str]:
        """The source nodes that the node of this source stands for, with the steps."""
        return [
            f"{s} ({self.moved_by[s]})" if s in self.moved_by else s
            for s, at in self.home.items()
            if at == source
        ]

    def vanished(self) -> dict[str, str]:
        """Source nodes that are in no node any more, and the step that left them out."""
        return {s: self.moved_by[s] for s, at in self.home.items() if at is None}


def _target(
    source: str, graph: Graph, replaced: dict[str, list[str]], alive: set[str]
) -> str | None:
    """The source of the node in whose place, or as part of which, a node's work goes on."""
    seen, queue = {source}, [source]
    for at in queue:
        following = replaced[at] if at in replaced else _readers(at, graph)
        for s in following:
            if s in alive:
                return s
            if s not in seen:
                seen.add(s)
                queue.append(s)
    return None


def _readers(source: str, graph: Graph) -> list[str]:
    results = {v for n in graph.nodes if n.source == source for v in n.results}
    return [n.source for n in graph.nodes if results.intersection(n.present_inputs)]


def rows(
    final: Graph, source: Sequence[tuple[str, str]], known: Provenance, whys: dict[str, str]
) -> list[dict[str, Any]]:
    """A row for each node of `final`: node, op, type, from, why; then for each node of the source
    (name and operator) that is in none of them: node, op, type "none", why."""
    found = []
    for node in final.nodes:
        why = BRIDGES.get(node.op.name) or whys.get(node.source, "")
        types = ", ".join(dict.fromkeys(_type(v.dtype) for v in node.results))
        found.append(
            {"node": node.source, "op": node.op.name, "type": types,
             "from": known.parts(node.source), "why": why}
        )  # fmt: skip
    vanished = known.vanished()
    for name, op in source:
        if name in vanished:
            why = f"left out by {vanished[name]}: its result is known, or nothing needs it"
        elif name not in known.home:
            why = "left out while reading: its result is known, is its input, or nothing needs it"
        else:
            continue
        found.append({"node": name, "op": op, "type": "none", "from": [], "why": why})
    return found


def reasons(made: Quantized, kept: Container[Node], keep_float: Sequence[str]) -> dict[str, str]:
    """Why each node of the float graph is int8 or not, by its source."""
    return {n.source: _reason(n, made, kept, keep_float) for n in made.source.nodes if n.source}


def _reason(node: Node, made: Quantized, kept: Container[Node], keep_float: Sequence[str]) -> str:
    layer, stored = node.op.name in OUTPUT_AXIS, made.stored
    if node.results[0] in stored:
        return "its weights are fixed" if layer else "what it reads is stored in integers"
    pattern = next((p for n in names_of(node) for p in keep_float if fnmatchcase(n, p)), None)
    if pattern is not None:
        return f"stays float: --keep-float {pattern}"
    if node in kept:
        return "stays float: --max-drop wants it"
    if node in made.unfit:
        return f"stays float: {made.unfit[node]}"
    if layer and not is_fixed(*node.present_inputs[1:]):
        trains = any(getattr(v, "trainable", False) for v in node.present_inputs[1:])
        return f"stays float: its weights {'train' if trains else 'are computed'}"
    if not layer and not any(v in stored for v in node.present_inputs):
        return "stays float: nothing that it reads is stored smaller"
    return f"stays float: {node.op.name} has no smaller form for these inputs"


def _type(dtype: DType) -> str:
    return dtype.numpy.name if dtype is not DType.tape else "tape"
