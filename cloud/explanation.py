"""What the compiler makes of a function: nodes and memory before and after each pass."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cloud import modes
from cloud.compile.pipeline import PASSES, Pass, stages
from cloud.compile.program import Form, runs_on_runtime, session_of
from cloud.jit import trace
from ir.evaluate import bind
from ir.graph import Array, Graph
from ir.symbol import evaluate
from ir.walk import walk


@dataclass(frozen=True)
class Stage:
    """A graph after a pass. Bytes are of a run's results and scratch, beside inputs and weights:
    `planned` by the runtime, those of graphs inside included, `least` at the node that needs most,
    `unshared` if no result took the place of another. `taken` is what a run took at most, tapes and
    recursion included; None without arrays to run on. All None where the runtime lacks a kernel."""

    name: str
    node_count: int
    planned_bytes: int | None = None
    least_bytes: int | None = None
    unshared_bytes: int | None = None
    taken_bytes: int | None = None


@dataclass(frozen=True)
class Explanation:
    """What `explain` found. `str(…)` is a table."""

    stages: tuple[Stage, ...]
    graph: Graph  # after the last pass
    updated_in_place: tuple[str, ...]  # weights that the graph overwrites where they lie

    @property
    def node_count(self) -> int:
        """Nodes after the last pass, those of sub-graphs too."""
        return self.stages[-1].node_count

    @property
    def planned_bytes(self) -> int:
        """Memory of a run after the last pass; 0 where the runtime lacks a kernel."""
        return self.stages[-1].planned_bytes or 0

    @property
    def taken_bytes(self) -> int | None:
        """What a run after the last pass took; None where none was run."""
        return self.stages[-1].taken_bytes

    def __str__(self) -> str:
        rows = [("after", "nodes", "planned bytes", "taken", "least bytes", "without reuse")]
        for s in self.stages:
            sizes = (s.planned_bytes, s.taken_bytes, s.least_bytes, s.unshared_bytes)
            rows.append(
                (s.name, f"{s.node_count:,}", *("-" if n is None else f"{n:,}" for n in sizes))
            )
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = []
        for first, *others in rows:
            cells = [c.rjust(w) for c, w in zip(others, widths[1:], strict=True)]
            lines.append("  ".join([first.ljust(widths[0]), *cells]))
        if self.updated_in_place:
            names = [*self.updated_in_place[:3], *["…"][: len(self.updated_in_place) > 3]]
            lines.append(f"{len(self.updated_in_place)} updated in place: {', '.join(names)}")
        return "\n".join(lines)


def explain(target: Any, *args: Any, passes: Sequence[Pass] = PASSES) -> Explanation:
    """How a graph, or a function for these arguments, changes from pass to pass; with arrays it is
    run once after each.

    A graph with free dimensions needs arrays for its inputs, as a function does.
    """
    if isinstance(target, Graph):
        graph, arrays = target, list(args)
    else:
        traced = trace(target, args)
        graph, arrays = traced.graph, traced.arrays(args)
    form = Form(graph)
    weights = graph.weights
    inputs = [*arrays, *(weights[i].data for i in form.weight_inputs)] if arrays else []
    found, last = [], form.graph
    for name, last in stages(form.graph, passes):
        found.append(_measured(name, last, inputs))
    names = tuple(str(w.name) for w, _ in graph.updates)
    return Explanation(tuple(found), last, names)


def _measured(name: str, graph: Graph, inputs: Sequence[Array]) -> Stage:
    count = sum(len(g.nodes) for g in walk([graph]))
    if not runs_on_runtime(graph):
        return Stage(name, count)
    session = session_of(graph, modes.settings().kernels, threads=1)
    sizes = bind([v.shape for v in graph.inputs], [a.shape for a in inputs]) if inputs else {}
    if sizes:
        session.resize(sizes)
    unshared = sum(n.written_bytes for n in session.nodes("run"))
    unshared += sum(_written_bytes(g, sizes) for g in walk([graph]) if g is not graph)
    planned, least, taken = session.planned_bytes("run"), session.least_bytes("run"), None
    if inputs:
        names = [i.name for i in session.inputs("run")]
        session.run(dict(zip(names, inputs, strict=True)), entry="run")
        taken = session.peak_bytes("run")
    return Stage(name, count, planned, least, unshared, taken)


def _written_bytes(graph: Graph, sizes: Mapping[str, int]) -> int:
    """Bytes of all results of a graph's own nodes, but for views of others."""
    results = [v for n in graph.nodes if not n.op.view for v in n.results]
    return sum(v.dtype.size_bytes * math.prod(evaluate(d, sizes) for d in v.shape) for v in results)
