"""From nodes traced in a region to a graph that stands alone: outer values become inputs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ir.graph import Constant, Graph, Node, Value, Weight, rebuild


class Closing:
    """Closes what was computed from `parameters` since `start` into a graph.

    `captured` holds, in order, the outer values that are read, each with the input it became.
    """

    def __init__(self, start: int, parameters: Sequence[Value]) -> None:
        self.start = start
        self.parameters = [_twin(p) for p in parameters]
        self.captured: dict[Value, Value] = {}
        self._now: dict[Value, Value] = dict(zip(parameters, self.parameters, strict=True))

    def close(self, roots: Iterable[Value]) -> list[Value]:
        """The roots, computed from the graph's own inputs."""
        roots = list(roots)
        stack = [v.node for v in roots]
        found: set[Node] = set()
        while stack:
            node = stack.pop()
            if node is None or node in found or node.serial < self.start:
                continue
            found.add(node)
            stack.extend(v.node for v in node.present_inputs)
        for node in sorted(found, key=lambda n: n.serial):  # copies are made in the same order
            self._copy(node)
        return [self._inner(v) for v in roots]

    def reads(self, parameter: Value) -> bool:
        """Whether something closed so far is computed from the parameter."""
        return parameter in self._read

    @property
    def _read(self) -> set[Value]:
        return {v for new in self._now.values() if new.node for v in new.node.present_inputs}

    def graph(self, roots: Sequence[Value], outer: Sequence[Value]) -> Graph:
        """The graph of these closed roots whose inputs are the parameters, then `outer`."""
        inputs = [self.captured.setdefault(v, _twin(v)) for v in outer]
        return Graph((*self.parameters, *inputs), tuple(roots))

    def _copy(self, node: Node) -> None:
        inputs = [None if v is None else self._inner(v) for v in node.inputs]
        copy = rebuild(node, inputs)
        self._now.update(zip(node.results, copy.results, strict=True))

    def _inner(self, v: Value) -> Value:
        if v in self._now:
            return self._now[v]
        if isinstance(v, (Constant, Weight)) or (v.node and v.node.serial >= self.start):
            return v
        if v not in self.captured:
            self.captured[v] = _twin(v)
        return self.captured[v]


def _twin(v: Value) -> Value:
    return Value(v.shape, v.dtype, name=v.name)
