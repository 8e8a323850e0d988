"""The walk that every pass shares: node by node in order, a rule may say what a node becomes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np

from ir.graph import Array, Constant, Graph, Node, Value, Weight

# (the node, its inputs in the new graph) -> its results in the new graph, or None: leave it
Rule = Callable[[Node, Sequence[Value | None]], Sequence[Value] | Value | None]


def rewrite(graph: Graph, rule: Rule) -> Graph:
    """The graph with every node offered to `rule`; nodes that nothing needs any more vanish.

    New nodes and values keep the source and the names of those whose place they take.
    """
    now: dict[Value, Value] = {}
    done = set(graph.nodes)  # they may belong to other graphs too, and are left as they are
    sources = {n.source for n in graph.nodes}
    for node in graph.nodes:
        inputs = [v and now.get(v, v) for v in node.inputs]
        results = rule(node, inputs)
        if results is None:
            changed = any(a is not b for a, b in zip(inputs, node.inputs, strict=True))
            results = (
                node.op.node(inputs, node.attrs, node.source).results if changed else node.results
            )
        elif isinstance(results, Value):
            results = (results,)
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


def in_subgraphs(
    change: Callable[[Graph], Graph],
) -> Callable[[Node, Sequence[Value | None]], Sequence[Value] | None]:
    """A rule that applies a pass to the sub-graphs of nodes and leaves other nodes as they are."""

    def rule(node: Node, inputs: Sequence[Value | None]) -> Sequence[Value] | None:
        if not any(True for _ in node.subgraphs()):
            return None
        attrs = {k: change(a) if isinstance(a, Graph) else a for k, a in node.attrs.items()}
        return node.op.node(inputs, attrs, node.source).results

    return rule


def uses(graph: Graph) -> Counter[Value]:
    """How often each value is read, by nodes and as a result of the graph."""
    counts = Counter(v for node in graph.nodes for v in node.present_inputs)
    counts.update(graph.roots)
    return counts


def fixed_like(old: Value, data: Array) -> Weight | Constant:
    """A leaf of other data, in the place of one that never changes; a weight's keeps its name."""
    data = np.ascontiguousarray(data)
    if isinstance(old, Weight):
        return Weight(data, name=old.name or "", trainable=False)
    return Constant(data, name=old.name)
