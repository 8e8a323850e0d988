"""The walk that every pass shares: node by node in order, a rule may say what a node becomes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from functools import wraps
from itertools import chain
from typing import Any

import numpy as np

from ir.graph import Array, Constant, Function, Graph, Node, Value, Weight
from ir.walk import functions, inner_first

# (the node, its inputs in the new graph) -> its results in the new graph, or None: leave it
Rule = Callable[[Node, Sequence[Value | None]], Sequence[Value] | Value | None]
# Told of every node that a rule replaces, and of what stands in its place.
REPLACED: ContextVar[Callable[[Node, Sequence[Value]], None] | None] = ContextVar(
    "replaced", default=None
)


def rewrite(graph: Graph, rule: Rule) -> Graph:
    """The graph with every node offered to `rule`; nodes that nothing needs any more vanish.

    New nodes and values keep the source and the names of those whose place they take.
    """
    now: dict[Value, Value] = {}
    done = set(graph.nodes)  # they may belong to other graphs too, and are left as they are
    sources = {n.source for n in graph.nodes}
    tell = REPLACED.get()
    for node in graph.nodes:
        inputs = [None if v is None else now.get(v, v) for v in node.inputs]
        results = rule(node, inputs)
        if results is None:
            changed = any(a is not b for a, b in zip(inputs, node.inputs, strict=True))
            results = (
                node.op.node(inputs, node.attrs, node.source).results if changed else node.results
            )
        else:
            results = (results,) if isinstance(results, Value) else results
            if tell is not None:
                tell(node, results)
        for old, new in zip(node.results, results, strict=True):
            if new is not old:
                now[old] = new
                if new.node is not None and new.node not in done:
                    new.name = new.name or old.name
                    _trace_back(new.node, node.source, sources, done)
    outputs = tuple(now.get(v, v) for v in graph.outputs)
    updates = tuple((w, now.get(v, v)) for w, v in graph.updates)
    return Graph(graph.inputs, outputs, graph.output_names, updates)


def _trace_back(made: Node, source: str, sources: set[str], done: set[Node]) -> None:
    """Give new nodes the source of the one in whose place they stand, unless they have another's.

    A line of the pass that made them is no source.
    """
    stack = [made]
    while stack:
        node = stack.pop()
        if node not in done:
            done.add(node)
            node.source = node.source if node.source in sources else source
            stack += [v.node for v in node.present_inputs if v.node is not None]


def everywhere(change: Callable[[Graph], Graph]) -> Callable[[Graph], Graph]:
    """The pass that applies `change`, a pass over one graph's own nodes, to all that it reaches.

    Sub-graphs and bodies of functions are changed first, each once; functions become new ones.
    """

    @wraps(change)
    def changed(graph: Graph) -> Graph:
        bodies = {f: Function(f.name, f.inputs, f.results) for f in functions(graph)}
        done: dict[Graph, Graph] = {}
        every = [*(f.graph for f in bodies), graph]
        for each in (g for start in every for g in inner_first(start)):
            if each not in done:
                done[each] = change(_with_attrs(each, done, bodies))
        for old, new in bodies.items():
            new.graph = done[old.graph]
        return done[graph]

    return changed


def _with_attrs(
    graph: Graph, graphs: Mapping[Graph, Graph], bodies: Mapping[Function, Function]
) -> Graph:
    """The graph with other sub-graphs and functions in its nodes."""
    if not any(True for n in graph.nodes for _ in chain(n.functions(), n.subgraphs())):
        return graph

    def swap(node: Node, inputs: Sequence[Value | None]) -> Sequence[Value] | None:
        attrs = {k: _swapped(a, graphs, bodies) for k, a in node.attrs.items()}
        if all(attrs[k] is a for k, a in node.attrs.items()):
            return None
        return node.op.node(inputs, attrs, node.source).results

    return rewrite(graph, swap)


def _swapped(attr: Any, graphs: Mapping[Graph, Graph], bodies: Mapping[Function, Function]) -> Any:
    if isinstance(attr, Function):
        return bodies[attr]
    return graphs[attr] if isinstance(attr, Graph) else attr


def uses(graph: Graph) -> Counter[Value | None]:
    """How often each value is read, by nodes and as a result of the graph."""
    counts: Counter[Value | None] = Counter(v for node in graph.nodes for v in node.present_inputs)
    counts.update(graph.roots)
    return counts


def fixed_like(old: Value, data: Array) -> Weight | Constant:
    """A leaf of other data, in the place of one that never changes; a weight's keeps its name."""
    data = np.ascontiguousarray(data)
    if isinstance(old, Weight):
        return Weight(data, name=old.name or "", trainable=False)
    return Constant(data, name=old.name)
