"""The walk that every pass shares: node by node in order, a rule may replace what a node becomes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from ir.graph import Graph, Node, Value, Weight

# (the node, its inputs in the new graph) -> its results in the new graph, or None: leave it
Rule = Callable[[Node, Sequence[Value | None]], Sequence[Value] | Value | None]


def rewrite(graph: Graph, rule: Rule) -> Graph:
    """The graph with every node offered to `rule`; nodes that nothing needs any more vanish."""
    now: dict[Value, Value] = {}
    for node in graph.nodes:
        inputs = [v and now.get(v, v) for v in node.inputs]
        results = rule(node, inputs)
        if results is None:
            changed = any(a is not b for a, b in zip(inputs, node.inputs, strict=True))
            results = node.op.node(inputs, node.attrs, node.source).results if changed else node.results
        elif isinstance(results, Value):
            results = (results,)
        for old, new in zip(node.results, results, strict=True):
            if new is not old:
                now[old] = new
                if new.node is not None:
                    new.node.source = new.node.source or node.source
    outputs = tuple(now.get(v, v) for v in graph.outputs)
    updates = tuple((w, now.get(v, v)) for w, v in graph.updates)
    return Graph(graph.inputs, outputs, graph.output_names, updates)


def uses(graph: Graph) -> Counter[Value]:
    """How often each value is read, by nodes and as a result of the graph."""
    counts = Counter(v for node in graph.nodes for v in node.present_inputs)
    counts.update(graph.roots)
    return counts


def is_fixed(*values: Value | None) -> bool:
    """All are known now and for ever: constants and weights that nothing trains."""
    return all(hasattr(v, "data") and not (isinstance(v, Weight) and (v.trainable or v.state)) for v in values)
