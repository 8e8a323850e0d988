"""Local functions of an ONNX model, written out; how much that would be is counted before."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from converter.errors import ConvertError

# A function of a function of … doubles what it calls: thirty short ones are a model of 2^30 nodes.
MOST_NODES = 1 << 18
MOST_BYTES = 1 << 29  # of copies
MOST_DEPTH = 64  # functions inside of each other
FOREVER = 10**18  # no count needs to grow beyond

Key = tuple[str, str, str]
Size = tuple[int, int, int]  # nodes, bytes, depth


def written_out(onnx: Any, proto: Any) -> Any:
    """The model without local functions. Raises ConvertError if one calls itself, or if the nodes
    would be more than any model has."""
    nodes, size_bytes, depth = _size(proto)
    if depth > MOST_DEPTH:
        raise ConvertError(f"{depth} local functions inside of each other, want {MOST_DEPTH}")
    most_bytes = MOST_BYTES + proto.ByteSize()
    if nodes > MOST_NODES or size_bytes > most_bytes:
        raise ConvertError(
            f"its local functions written out are {nodes:.3g} nodes of {size_bytes:.3g} bytes; "
            f"want at most {MOST_NODES} of {most_bytes}"
        )
    return onnx.inliner.inline_local_functions(proto)


def _size(proto: Any) -> Size:
    """Of the graph when every call of a local function is replaced by what it calls."""
    bodies = {_key(f, f.name): f for f in proto.functions}
    sizes: dict[Key, Size] = {}
    open_: dict[Key, Iterator[Any]] = {}  # functions that are being counted, innermost last
    calls = {key: [k for k in _called(f.node) if k in bodies] for key, f in bodies.items()}
    for first in bodies:
        stack = [] if first in sizes else [first]
        while stack:  # no recursion: a chain of functions is as long as a file likes
            key = stack[-1]
            todo = open_.setdefault(key, iter(calls[key]))
            below = next((k for k in todo if k not in sizes), None)
            if below is None:
                sizes[key] = _sum(bodies[key].node, sizes)
                del open_[stack.pop()]
            elif below in open_:
                raise ConvertError(f"the local function {below[1]!r} calls itself")
            else:
                stack.append(below)
    return _sum(proto.graph.node, sizes)


def _sum(nodes: Iterable[Any], sizes: dict[Key, Size]) -> Size:
    count = size_bytes = depth = 0
    for node in all_nodes(nodes):
        n, b, d = sizes.get(_key(node, node.op_type), (1, 0, -1))
        count, size_bytes = count + n, size_bytes + b + node.ByteSize()
        depth = max(depth, d + 1)
    return min(count, FOREVER), min(size_bytes, FOREVER), depth


def _called(nodes: Iterable[Any]) -> list[Key]:
    return list(dict.fromkeys(_key(node, node.op_type) for node in all_nodes(nodes)))


def all_nodes(nodes: Iterable[Any]) -> Iterator[Any]:
    """The nodes, and those of the graphs that are their attributes."""
    left = [iter(nodes)]
    while left:
        node = next(left[-1], None)
        if node is None:
            left.pop()
            continue
        yield node
        left += [iter(g.node) for g in graphs_of(node)]


def graphs_of(node: Any) -> list[Any]:
    """The graphs that are a node's attributes."""
    return [g for a in node.attribute for g in (*a.graphs, *([a.g] if a.HasField("g") else []))]


def _key(holder: Any, name: str) -> Key:
    return holder.domain, name, getattr(holder, "overload", "")
