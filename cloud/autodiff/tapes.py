"""Tapes that several nodes read, rewritten so that each has one reader.

The cotangent of a tape is a tape, and tapes have no sum: so what is differentiated must read each
of them once. Nodes that pop the same become one. Where others read the tape as well, they get it as
what was popped, pushed again, or from its maker, which then runs once more for them.
"""

from __future__ import annotations

from collections.abc import Container, Sequence

from ir.dtype import DType
from ir.errors import GraphError
from ir.graph import Node, Value
from ir.op import OPS

_Readers = list[Node | None]  # in order; None: the tape is an output


def parted(
    nodes: Sequence[Node], outputs: Sequence[Value], active: Container[Value]
) -> dict[Value, Value]:
    """What stands in the place of values so that one tape of `active` has a reader less; nothing
    where each has one. Raises GraphError where a tape that comes from outside has several."""
    for tape, readers in _readers(nodes, outputs).items():
        if tape in active and len(readers) > 1:
            return _parted(nodes, tape, readers)
    return {}


def _readers(nodes: Sequence[Node], outputs: Sequence[Value]) -> dict[Value, _Readers]:
    found: dict[Value, _Readers] = {}
    for node in nodes:
        for v in node.present_inputs:
            if v.dtype is DType.tape:
                found.setdefault(v, []).append(node)
    for v in outputs:
        if v.dtype is DType.tape:
            found.setdefault(v, []).append(None)
    return found


def _parted(nodes: Sequence[Node], tape: Value, readers: _Readers) -> dict[Value, Value]:
    pops = [n for n in readers if n is not None and n.op.name == "pop"]
    same = [n for n in pops[1:] if n.attrs == pops[0].attrs]
    if same:
        pairs = (zip(n.results, pops[0].results, strict=True) for n in same)
        return _rebuilt(nodes, {v: w for pair in pairs for v, w in pair}, None)
    if pops:
        return _rebuilt(nodes, {tape: OPS["push"](*pops[0].results)}, pops[0])
    if tape.node is None:
        names = " and ".join("the result" if n is None else repr(n) for n in readers)
        raise GraphError(
            f"{names} read one tape that comes from outside; want one reader, to differentiate it"
        )
    again = tape.node.op.node(tape.node.inputs, tape.node.attrs, tape.node.source)
    return _rebuilt(nodes, {tape: again.results[tape.index]}, readers[0])


def _rebuilt(
    nodes: Sequence[Node], instead: dict[Value, Value], but: Node | None
) -> dict[Value, Value]:
    """`instead`, and the new results of all nodes that read such a value; `but` reads the old."""
    now = dict(instead)
    for node in nodes:
        if node is not but and not now.keys().isdisjoint(node.present_inputs):
            inputs = [None if v is None else now.get(v, v) for v in node.inputs]
            copy = node.op.node(inputs, node.attrs, node.source)
            now |= {v: w for v, w in zip(node.results, copy.results, strict=True) if v not in now}
    return now
