"""Which values a derivative concerns: they vary with something, and something varies with them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from ir.dtype import DType
from ir.graph import Graph, Node, Value
from ir.op import NoGrad

Flags = frozenset[int]  # positions among the inputs or outputs of a graph
_Key = tuple[str, Graph, Flags]


class Activity:
    """Dependence through loops, branches and functions, each sub-graph and set of flags once.

    `leaves`: weights and constants that sub-graphs may read and that count as varying.
    """

    def __init__(self, leaves: Collection[Value] = ()) -> None:
        self.leaves = frozenset(leaves)
        self._settled: dict[_Key, Flags] = {}
        self._guesses: dict[_Key, Flags] = {}
        self._visited: set[_Key] | None = None  # in this round, while a fixed point is sought

    def active(self, nodes: Sequence[Node], start: Iterable[Value]) -> set[Value]:
        """`start` and every result that varies with it or with the leaves, differentiably."""
        found = {*start, *self.leaves}
        for node in nodes:
            for i in self._active_results(node, found):
                found.add(node.results[i])
        return found

    def useful(self, nodes: Sequence[Node], ends: Iterable[Value]) -> set[Value]:
        """`ends` and every value that they vary with, differentiably."""
        found = set(ends)
        for node in reversed(nodes):
            if not found.isdisjoint(node.results):
                found.update(node.inputs[i] for i in self._useful_inputs(node, found))  # type: ignore[misc]
        return found

    def outputs(self, graph: Graph, inputs: Flags) -> Flags:
        """The outputs that vary where these inputs do."""
        return self._fixed(("active", graph, inputs))

    def inputs(self, graph: Graph, outputs: Flags) -> Flags:
        """The inputs that these outputs vary with."""
        return self._fixed(("useful", graph, outputs))

    def loop_active(self, body: Graph, state: Flags) -> Flags:
        """The parts of a loop's state that vary at some turn where these do at its start."""
        while (after := state | self.outputs(body, state)) != state:
            state = after
        return state

    def loop_useful(self, body: Graph, state: Flags) -> Flags:
        """The parts of a loop's state that these parts of the last one vary with."""
        while (before := state | self.inputs(body, state)) != state:
            state = before
        return state

    def _active_results(self, node: Node, active: set[Value]) -> Iterable[int]:
        flags = frozenset(i for i, v in enumerate(node.inputs) if v in active)
        match node.op.name:
            case "cond":
                inner = frozenset(i - 1 for i in flags if i)
                branches = (node.attrs["then"], node.attrs["otherwise"])
                return frozenset().union(*(self.outputs(g, inner) for g in branches))
            case "while_loop":
                return self.loop_active(node.attrs["body"], flags)
            case "call":
                return self.outputs(node.attrs["body"].graph, flags)
            case "with_gradient":  # nothing flows to the results that it stands for
                flags = frozenset(i for i in flags if i >= node.attrs["results"])
        if isinstance(node.op.grad, NoGrad) or not flags:
            return ()
        return (v.index for v in node.results if varies(v))

    def _useful_inputs(self, node: Node, useful: set[Value]) -> Iterable[int]:
        flags = frozenset(v.index for v in node.results if v in useful)
        match node.op.name:
            case "cond":
                branches = (node.attrs["then"], node.attrs["otherwise"])
                inner = frozenset().union(*(self.inputs(g, flags) for g in branches))
                return frozenset(i + 1 for i in inner)
            case "while_loop":
                return self.loop_useful(node.attrs["body"], flags)
            case "call":
                return self.inputs(node.attrs["body"].graph, flags)
        if isinstance(node.op.grad, NoGrad):
            return ()
        first = node.attrs["results"] if node.op.name == "with_gradient" else 0
        inputs = list(enumerate(node.inputs))[first:]
        return (i for i, v in inputs if v is not None and varies(v))

    def _fixed(self, key: _Key) -> Flags:
        """The least fixed point: functions may ask for their own answer."""
        if key in self._settled:
            return self._settled[key]
        if self._visited is not None:
            if key not in self._visited:
                self._visited.add(key)
                self._guesses[key] = self._guesses.get(key, frozenset()) | self._computed(key)
            return self._guesses.get(key, frozenset())
        while True:
            before = dict(self._guesses)
            self._visited = set()
            self._fixed(key)
            self._visited = None
            if self._guesses == before:
                break
        self._settled |= self._guesses
        self._guesses = {}
        return self._settled[key]

    def _computed(self, key: _Key) -> Flags:
        kind, graph, flags = key
        if kind == "active":
            found = self.active(graph.nodes, (graph.inputs[i] for i in flags))
            return frozenset(i for i, v in enumerate(graph.outputs) if v in found)
        found = self.useful(graph.nodes, (graph.outputs[i] for i in flags))
        return frozenset(i for i, v in enumerate(graph.inputs) if v in found)


def varies(v: Value) -> bool:
    """Whether values of this type have derivatives: floats, and tapes of them."""
    return v.dtype.is_float or v.dtype is DType.tape
