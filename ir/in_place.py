"""An order of a graph's nodes in which weights can be overwritten in place."""

from __future__ import annotations

from collections.abc import Iterator

from ir.bound import binders, spoken_of
from ir.errors import GraphError
from ir.graph import Graph, Node, Value, Weight
from ir.walk import walk


def in_place_order(graph: Graph) -> tuple[Node, ...]:
    """The nodes of `graph`, each update of a weight after every node that reads the old value.

    A view of a weight counts as the weight, because it may share the weight's memory. Raises
    GraphError where the graph has no such order, or where an update cannot be done in place.
    """
    updates = _updates_by_node(graph)
    if not updates:
        return graph.nodes
    updated = {w for ws in updates.values() for w in ws}
    readers: dict[Weight, list[Node]] = {w: [] for w in updated}
    seen_through = _views(graph)
    for node in graph.nodes:
        for w in {w: None for w in _weights_read(node, seen_through) if w in updated}:
            readers[w].append(node)
    for v, name in zip(graph.outputs, graph.output_names, strict=True):
        base = seen_through.get(v, v)
        if isinstance(base, Weight) and base in updated:
            raise GraphError(
                f"output {name!r} is the old value of weight {base.name!r}, which the graph "
                "overwrites; want the new value, or a copy"
            )
    before = {n: [r for w in ws for r in readers[w] if r is not n] for n, ws in updates.items()}
    if bound := binders(graph.nodes):
        for node in graph.nodes:
            wanted = dict.fromkeys(bound[s] for s in sorted(spoken_of(node)) if s in bound)
            before.setdefault(node, []).extend(b for b in wanted if b is not node)
    return _sorted(graph, before)


def _updates_by_node(graph: Graph) -> dict[Node, list[Weight]]:
    """The weights that each update operator overwrites; every such result must be an update."""
    found: dict[Node, list[Weight]] = {}
    listed: set[Value] = set()
    for weight, new in graph.updates:
        node = new.node
        if node is None or new.index >= node.op.updates or node.inputs[new.index] is not weight:
            raise GraphError(
                f"weight {weight.name!r}: its new value is {new!r}; want result i of an update "
                "operator whose input i is this weight"
            )
        if new in listed:
            raise GraphError(f"weight {weight.name!r} is updated twice")
        listed.add(new)
        found.setdefault(node, []).append(weight)
    for node in graph.nodes:
        for v in node.results[: node.op.updates]:
            if v not in listed:
                raise GraphError(
                    f"{node!r}: result {v.index} overwrites a weight, but is no update of the graph"
                )
        if any(g.updates for g in walk(node.subgraphs())):
            raise GraphError(f"{node!r}: a sub-graph updates weights; only the entry itself may")
    overwritten = [w for ws in found.values() for w in ws]
    if twice := next((w for w in overwritten if overwritten.count(w) > 1), None):
        raise GraphError(f"weight {twice.name!r} is updated twice")
    return found


def _views(graph: Graph) -> dict[Value, Value]:
    """What each view shows: view -> the value whose bytes it shares."""
    shown: dict[Value, Value] = {}
    for node in graph.nodes:
        if node.op.view and (x := node.inputs[0]) is not None:
            shown[node.results[0]] = shown.get(x, x)
    return shown


def _weights_read(node: Node, seen_through: dict[Value, Value]) -> Iterator[Weight]:
    for v in node.present_inputs:
        base = seen_through.get(v, v)
        if isinstance(base, Weight):
            yield base
    for graph in walk(node.subgraphs()):
        yield from (v for v in graph.leaves if isinstance(v, Weight))


def _sorted(graph: Graph, before: dict[Node, list[Node]]) -> tuple[Node, ...]:
    """Depth first in the graph's own order, with the nodes `before` as further needs of a node."""
    done: dict[Node, None] = {}
    open_: set[Node] = set()
    stack = [(n, False) for n in reversed(graph.nodes)]
    while stack:
        node, ready = stack.pop()
        if node in done:
            continue
        if ready:
            done[node] = None
            open_.discard(node)
            continue
        if node in open_:
            raise GraphError(
                f"{node!r}: no order of the nodes reads every old weight before it is overwritten; "
                "want one of the updates on a copy"
            )
        open_.add(node)
        stack.append((node, True))
        needs = [*(v.node for v in node.present_inputs if v.node), *before.get(node, [])]
        stack.extend((n, False) for n in reversed(needs) if n not in done)
    return tuple(done)
