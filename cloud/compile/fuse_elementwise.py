"""Elementwise operators that feed each other become one, which reads and writes memory once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from ir.dtype import DType
from ir.errors import AttrError
from ir.graph import Constant, Graph, Node, Shape, Value
from ir.op import OPS
from ir.ops.fused import MOST_CONSTANTS, MOST_INPUTS, MOST_INSTRUCTIONS, assemble, is_fusable
from ir.ops.rules import broadcast
from ir.passes.rewrite import everywhere


@everywhere
def fuse_elementwise(graph: Graph) -> Graph:
    """The graph with groups of elementwise nodes as single nodes of `fused_elementwise`.

    The nodes of a group have results of one shape, and read each other's. What others read of them
    are its results. Single numbers are left alone: the runtime computes those faster one by one.
    """
    last = {group.nodes[-1]: group for group in _groups(graph) if len(group.nodes) > 1}
    fused = {node for group in last.values() for node in group.nodes}
    reads = _reads(graph)
    now: dict[Value, Value] = {}
    for node in graph.nodes:
        if node in last:
            results = _fused(last[node], now, reads) or _rebuilt(last[node].nodes, now)
            now.update(results)
        elif node not in fused:
            now.update(_rebuilt([node], now))
    outputs = tuple(now.get(v, v) for v in graph.outputs)
    updates = tuple((w, now.get(v, v)) for w, v in graph.updates)
    return Graph(graph.inputs, outputs, graph.output_names, updates)


@dataclass(eq=False)
class _Group:
    shape: Shape
    nodes: list[Node] = field(default_factory=list)  # in order


Reads = dict[Value, list[Node | None]]  # who reads a value; None: it is a result of the graph


def _reads(graph: Graph) -> Reads:
    found: Reads = defaultdict(list)
    for node in graph.nodes:
        for v in node.present_inputs:
            found[v].append(node)
    for v in graph.roots:
        found[v].append(None)
    return found


def _groups(graph: Graph) -> list[_Group]:
    """Greedily, in order. A group is computed where its last node stands; so it takes in a node
    only while all that read it before are in the group."""
    reads = _reads(graph)
    position = {node: i for i, node in enumerate(graph.nodes)}
    group_of: dict[Node, _Group] = {}
    for node in graph.nodes:
        shape = node.results[0].shape if node.results else ()
        if not is_fusable(node) or all(d == 1 for d in shape):
            continue
        group = _Group(shape, [node])
        for v in node.present_inputs:
            other = group_of.get(v.node) if v.node else None
            if other is None or other is group or other.shape != shape:
                continue
            members = sorted({*group.nodes, *other.nodes}, key=position.__getitem__)
            if _is_open(members, position, reads) and _is_short(members):
                group.nodes = members
                group_of.update(dict.fromkeys(members, group))
        group_of[node] = group
    return list(dict.fromkeys(group_of.values()))


def _is_open(members: Sequence[Node], position: dict[Node, int], reads: Reads) -> bool:
    end, inside = position[members[-1]], set(members)
    readers = (r for node in members for r in reads[node.results[0]])
    return all(r is None or r in inside or position[r] > end for r in readers)


def _is_short(members: Sequence[Node]) -> bool:
    numbers = {
        v.data.tobytes() for n in members for v in n.present_inputs if isinstance(v, Constant)
    }
    return (
        len(members) <= MOST_INSTRUCTIONS
        and len(_inputs(members)) <= MOST_INPUTS
        and len(numbers) <= MOST_CONSTANTS
    )


def _inputs(members: Sequence[Node]) -> list[Value]:
    """What a group reads of others. Single floats that never change are part of its program."""
    own = {node.results[0] for node in members}
    read = dict.fromkeys(v for node in members for v in node.present_inputs if v not in own)
    return [v for v in read if not _is_number(v)]


def _is_number(v: Value) -> bool:
    return isinstance(v, Constant) and v.dtype is DType.f32 and v.data.size == 1


def _fused(group: _Group, now: dict[Value, Value], reads: Reads) -> dict[Value, Value] | None:
    """The group's results that others read, each with the one in its place; None: too long."""
    inside = set(group.nodes)
    inputs = _inputs(group.nodes)
    outputs = [y for n in group.nodes if not inside.issuperset(reads[y := n.results[0]])]
    if not inputs:
        return None
    try:
        program = assemble(inputs, group.nodes, outputs)
    except AttrError:
        return None
    sources = _unstretched([now.get(v, v) for v in inputs], group.shape)
    source = group.nodes[-1].source
    node = OPS["fused_elementwise"].node(sources, {"program": program}, source)
    for old, new in zip(outputs, node.results, strict=True):
        new.name = old.name
    return dict(zip(outputs, node.results, strict=True))


def _unstretched(inputs: Sequence[Value], shape: Shape) -> list[Value]:
    """The inputs without `broadcast_to`, which a program does by itself, where the others still
    make its results as large."""
    found = list(inputs)
    for i, v in enumerate(inputs):
        if v.node is None or v.node.op.name != "broadcast_to" or v.node.inputs[0] is None:
            continue
        shorter = [*found[:i], v.node.inputs[0], *found[i + 1 :]]
        if broadcast(*(x.shape for x in shorter)) == shape:
            found = shorter
    return found


def _rebuilt(nodes: Sequence[Node], now: dict[Value, Value]) -> dict[Value, Value]:
    """The nodes on new inputs, where those have changed."""
    made: dict[Value, Value] = {}
    for node in nodes:
        inputs = [v and made.get(v, now.get(v, v)) for v in node.inputs]
        if all(a is b for a, b in zip(inputs, node.inputs, strict=True)):
            continue
        copy = node.op.node(inputs, node.attrs, node.source)
        for old, new in zip(node.results, copy.results, strict=True):
            new.name = old.name
            made[old] = new
    return made
