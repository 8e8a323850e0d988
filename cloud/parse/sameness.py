"""Whether what one turn of a loop computes is what another one does, but for constants."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ir.graph import Constant, Graph, Node, Value


class Sameness:
    """Compares values made since `start` with those of another turn, made since `later`. What is
    older must be the same. `constants`: those of the first turn, each with the other's."""

    def __init__(self, start: int, later: int) -> None:
        self.start, self.later = start, later
        self.constants: dict[Constant, Constant] = {}
        self._nodes: dict[Node, Node] = {}
        self._inputs: dict[Value, Value] = {}  # of graphs inside

    def of(self, these: Sequence[Value], those: Sequence[Value]) -> bool:
        """Whether these values are computed as those are."""
        stack: list[tuple[Value | None, Value | None]] = [*zip(these, those, strict=True)]
        while stack:
            a, b = stack.pop()
            if a is None or b is None:
                if a is not b:
                    return False
            elif isinstance(a, Constant):
                if not self._may_stand_for(a, b):
                    return False
            elif a.node is None or a.node.serial < self.start:
                if self._inputs.get(a, a) is not b:
                    return False
            elif b.node is None or b.node.serial < self.later or a.index != b.index:
                return False
            elif a.node not in self._nodes:
                if not self._same_kind(a.node, b.node):
                    return False
                self._nodes[a.node] = b.node
                stack.extend(zip(a.node.inputs, b.node.inputs, strict=True))
            elif self._nodes[a.node] is not b.node:
                return False
        return True

    def _may_stand_for(self, a: Constant, b: Value) -> bool:
        if not isinstance(b, Constant) or a.shape != b.shape or a.dtype is not b.dtype:
            return False
        known = self.constants.setdefault(a, b)
        return known is b or known.data.tobytes() == b.data.tobytes()

    def _same_kind(self, n: Node, m: Node) -> bool:
        if n.op is not m.op or len(n.inputs) != len(m.inputs):
            return False
        return all(self._same_attribute(x, m.attrs[name]) for name, x in n.attrs.items())

    def _same_attribute(self, x: Any, y: Any) -> bool:
        if not isinstance(x, Graph) or x is y:
            return type(x) is type(y) and bool(x == y)
        if not isinstance(y, Graph) or len(x.inputs) != len(y.inputs):
            return False
        if len(x.outputs) != len(y.outputs):
            return False
        self._inputs |= zip(x.inputs, y.inputs, strict=True)
        return self.of(x.outputs, y.outputs)
