"""Programs by what their graphs compute: a graph that is built again is not compiled again."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Hashable
from enum import Enum
from threading import Lock
from typing import Any, TypeVar

from ir.graph import Constant, Function, Graph, Value, Weight

T = TypeVar("T")
MOST_PROGRAMS = 1024  # sessions that are kept, the ones called last


class Cache:
    """What was made for a key, the latest `most` of them."""

    def __init__(self, most: int = MOST_PROGRAMS) -> None:
        self.most = most
        self._made: OrderedDict[Hashable, Any] = OrderedDict()
        self._lock = Lock()

    def get(self, key: Hashable, make: Callable[[], T]) -> T:
        """What `make` gave for this key, now or earlier."""
        with self._lock:
            if key in self._made:
                self._made.move_to_end(key)
                found: T = self._made[key]
                return found
        new = make()
        with self._lock:
            self._made[key] = new
            while len(self._made) > self.most:
                self._made.popitem(last=False)
        return new

    def clear(self) -> None:
        with self._lock:
            self._made.clear()


def fingerprint(graph: Graph) -> Hashable:
    """Equal for graphs that compute the same from the same inputs and weights, node for node.

    Names are left out, and so are the elements of weights: those are handed to programs at a call.
    """
    return _Fingerprint(graph).key


class _Fingerprint:
    def __init__(self, graph: Graph) -> None:
        self.weights = {w: i for i, w in enumerate(graph.weights)}
        self.functions: dict[Function, int] = {}
        types = tuple((w.shape, w.dtype, w.trainable, w.state) for w in self.weights)
        self.key: Hashable = (types, self.graph(graph))

    def graph(self, graph: Graph) -> Hashable:
        number: dict[Value, Hashable] = {v: i for i, v in enumerate(graph.inputs)}
        rows: list[Hashable] = [tuple((v.shape, v.dtype) for v in graph.inputs)]

        def of(v: Value | None) -> Hashable:
            return None if v is None else number[v] if v in number else self.leaf(v)

        for node in graph.nodes:
            attrs = tuple(map(self.attr, node.attrs.values()))
            rows.append((node.op.name, tuple(map(of, node.inputs)), attrs))
            for v in node.results:
                number[v] = len(number)
        ends = tuple(of(v) for v in graph.outputs)
        updates = tuple((self.weights[w], of(v)) for w, v in graph.updates)
        return tuple(rows), ends, updates

    def leaf(self, v: Value) -> Hashable:
        if isinstance(v, Weight):
            return "weight", self.weights[v]
        if isinstance(v, Constant):
            data = v.data.tobytes()
            short = data if len(data) <= 32 else hashlib.blake2b(data, digest_size=32).digest()
            return v.dtype, v.shape, short
        return "unknown", id(v)  # a graph that does not run: whoever compiles it says why

    def attr(self, a: Any) -> Hashable:
        if isinstance(a, Graph):
            return self.graph(a)
        if isinstance(a, Function):
            if a in self.functions:
                return "function", self.functions[a]
            self.functions[a] = len(self.functions)
            return "function", self.functions[a], self.graph(a.graph)
        return repr(a) if isinstance(a, (float, Enum)) else a  # -0.0 is 0.0 for a dict
