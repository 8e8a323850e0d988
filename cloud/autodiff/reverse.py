"""Reverse mode over one graph: cotangents from node to node (Griewank and Walther 2008, ch. 3)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from cloud.autodiff.activity import Activity
from cloud.autodiff.control import CallStep, CondStep, LoopStep, Step, Tapes, segmented
from cloud.autodiff.split import Halves
from cloud.autodiff.tapes import parted
from cloud.autodiff.values import accumulate
from ir.graph import Constant, Function, Graph, Node, Value, Weight, next_serial, order, substitute
from ir.op import OPS, NoGrad
from ir.walk import functions, walk

# a function, its inputs that vary, results that matter, and inputs to whose sums it adds
Wanted = tuple[Function, frozenset[int], frozenset[int], frozenset[int]]
STEPS: dict[str, type[Step]] = {"cond": CondStep, "while_loop": LoopStep, "call": CallStep}


@dataclass
class Swept:
    """One graph swept forward and back."""

    outputs: list[Value]  # the same numbers; loops and calls now also give what is kept
    bars: dict[Value, Value]
    moved: dict[Value, Value]  # values that functions were opened before, and what they became
    back_from: int  # nodes of the backward pass were made from here on
    at: dict[Value, Value]  # where the backward pass reads values at its end

    def bar(self, v: Value) -> Value | None:
        """The cotangent of a value of the graph that was given."""
        return self.bars.get(self.moved.get(v, v))


class Reverse:
    """One differentiation. What it makes of a function is kept, for the function may call itself.

    `late`: nodes of the backward pass that read nothing but values of the forward pass. `again`:
    its result is differentiated in reverse once more, see `differentiated_again`.
    """

    def __init__(self, wrt: Iterable[Value]) -> None:
        self.again = _AGAIN.get()
        self.leaves = tuple(v for v in wrt if isinstance(v, (Weight, Constant)))
        self.activity = Activity(self.leaves)
        self.halves: dict[Wanted, Halves] = {}
        self.late: set[Node] = set()
        self._read: dict[Graph, tuple[Value, ...]] = {}
        self._recursive: dict[Function, bool] = {}

    def sweep(
        self,
        outputs: Sequence[Value],
        seeds: Sequence[Value | None],
        varying: Iterable[Value],
        bars: Mapping[Value, Value],
        tapes: Tapes,
    ) -> Swept:
        """Cotangents of all that lies between `varying` and the outputs that have a seed.

        `bars`: cotangents to add to.
        """
        varying = set(varying)
        outputs, moved = self._opened(outputs, varying)
        nodes = _in_order(outputs)
        active = self.activity.active(nodes, varying)
        seeded = [y for y, s in zip(outputs, seeds, strict=True) if s is not None]
        useful = self.activity.useful(nodes, seeded)
        shared = _shared(nodes, active & useful, {*seeded, *bars})
        now: dict[Value, Value] = {}
        steps = {}
        for node in nodes:
            inputs = [None if v is None else now.get(v, v) for v in node.inputs]
            wanted = frozenset(v.index for v in node.results if v in active and v in useful)
            if node.op.name in STEPS and wanted:
                given = frozenset(i for i, v in enumerate(node.inputs) if v in active)
                step = STEPS[node.op.name](self, node, inputs, given, wanted, shared[node], tapes)
                steps[node] = step
                now.update(zip(node.results, step.results, strict=True))
            elif (self.again and steps) or _differ(inputs, node.inputs):  # in the same order
                copy = node.op.node(inputs, node.attrs, node.source)
                now.update(zip(node.results, copy.results, strict=True))
        bar, at, back_from = dict(bars), dict(now), next_serial()
        for y, seed in zip(outputs, seeds, strict=True):
            if seed is not None and y in active:
                accumulate(bar, y, seed)
        for node in reversed(nodes):
            if node in steps:
                self._pull_step(steps[node], node, bar, active, at)
            elif not active.isdisjoint(node.results) and not isinstance(node.op.grad, NoGrad):
                self._pull(node, bar, active, at)
        return Swept([now.get(v, v) for v in outputs], bar, moved, back_from, at)

    def read_by(self, graph: Graph) -> tuple[Value, ...]:
        """The leaves that get gradients and that a graph, or one inside of it, reads."""
        if graph not in self._read:
            read = {v for g in walk([graph]) for v in g.leaves} if self.leaves else set()
            self._read[graph] = tuple(v for v in self.leaves if v in read)
        return self._read[graph]

    def is_recursive(self, f: Function) -> bool:
        if f not in self._recursive:
            self._recursive[f] = f in functions(f.graph)
        return self._recursive[f]

    def _pull(
        self, node: Node, bar: dict[Value, Value], active: set[Value], at: Mapping[Value, Value]
    ) -> None:
        """Cotangents of the inputs of one node by its operator's rule, which reads values where
        they stand, `at`.

        A sum that is differentiated again has a name of its own from its first part on: in a loop
        it was begun before the first turn.
        """
        g = tuple(bar.get(y) for y in node.results)
        if all(x is None for x in g):
            return
        results = tuple(at.get(y, y) for y in node.results)
        inputs = [None if v is None else at.get(v, v) for v in node.inputs]
        many = node.op.gives_tuple
        found = node.op.grad(  # type: ignore[operator]
            g if many else g[0], results if many else results[0], *inputs, **node.attrs
        )
        for x, gx in zip(node.inputs, found, strict=True):
            if x is not None and x in active and gx is not None:
                accumulate(bar, x, gx if x in bar else _named(gx, self.again))

    def _pull_step(
        self,
        step: Step,
        node: Node,
        bar: dict[Value, Value],
        active: set[Value],
        at: dict[Value, Value],
    ) -> None:
        g = [bar.get(v) for v in node.results]
        if not step.keeps_order and all(x is None for x in g):
            return
        for i, gx in step.pull(g, bar, at).items():
            x = node.inputs[i]
            if x is None or x not in active:
                continue
            if i in step.threaded:
                bar[x] = gx
            else:
                accumulate(bar, x, gx)

    def _opened(
        self, outputs: Sequence[Value], varying: set[Value]
    ) -> tuple[list[Value], dict[Value, Value]]:
        """The outputs with functions that do not call themselves opened, loops in segments, and
        tapes that are read once.

        Only what depends on `varying` is changed; what these and the others became is given too.
        """
        moved: dict[Value, Value] = {}
        while True:
            nodes = _in_order(outputs)
            active = self.activity.active(nodes, varying)
            now: dict[Value, Value] = {}
            for node in nodes:
                inputs = [None if v is None else now.get(v, v) for v in node.inputs]
                results: Sequence[Value] | None = None
                if not active.isdisjoint(node.results):
                    results = self._in_place_of(node, inputs)
                if results is None and (now or _differ(inputs, node.inputs)):
                    results = node.op.node(inputs, node.attrs, node.source).results
                if results is not None:
                    now.update(zip(node.results, results, strict=True))
            if not (now or (now := parted(nodes, outputs, active))):
                return list(outputs), moved
            moved = {v: now.get(w, w) for v, w in moved.items()} | now
            varying.update(now[v] for v in tuple(varying) if v in now)
            outputs = [now.get(v, v) for v in outputs]

    def _in_place_of(self, node: Node, inputs: list[Value | None]) -> Sequence[Value] | None:
        if node.op.name == "while_loop" and node.attrs["every"] > 1:
            return segmented(node, inputs)
        if node.op.name != "call" or node.attrs["remat"]:
            return None
        f = node.attrs["body"]
        if self.is_recursive(f):
            return None
        return substitute(f.graph.outputs, dict(zip(f.graph.inputs, inputs, strict=True)))  # type: ignore[arg-type]


@contextmanager
def differentiated_again() -> Iterator[None]:
    """Inside, what is built is differentiated in reverse once more. Then its tapes keep the values
    that it reads, and no others to compute them from: a value that is computed twice has its
    cotangent in two parts, which are not the bits of one sum."""
    token = _AGAIN.set(True)
    try:
        yield
    finally:
        _AGAIN.reset(token)


def renamed(v: Value) -> Value:
    """What goes into a derivative, or comes out of one beside it: v, and where that is
    differentiated again a name of its own, as a tensor in eager mode has, so that its cotangent
    is the same sum."""
    return _named(v, _AGAIN.get())


def _named(v: Value, again: bool) -> Value:
    if not again or type(v) is Constant or not v.dtype.is_float:
        return v
    return OPS["reshape"](v, shape=v.shape)  # type: ignore[no-any-return]


_AGAIN: ContextVar[bool] = ContextVar("again", default=False)


def _differ(these: Sequence[Value | None], those: Sequence[Value | None]) -> bool:
    return any(a is not b for a, b in zip(these, those, strict=True))


def _in_order(outputs: Sequence[Value]) -> list[Node]:
    """The nodes that outputs need, as the program made them: in both modes the same."""
    return sorted(order(outputs), key=lambda n: n.serial)


def _shared(
    nodes: Sequence[Node], concerned: set[Value], ends: set[Value]
) -> dict[Node, frozenset[int]]:
    """The inputs of nodes of control flow, by position, whose cotangents later readers add to."""
    found: dict[Node, frozenset[int]] = {}
    read = set(ends)
    for node in reversed(nodes):
        if node.op.name in STEPS:
            first = {v: i for i, v in reversed(list(enumerate(node.inputs))) if v in read}
            found[node] = frozenset(first.values())
        if not concerned.isdisjoint(node.results):
            read.update(node.present_inputs)
    return found


assert OPS.keys() >= STEPS.keys()
