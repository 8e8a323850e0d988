"""A sub-graph in two halves: one runs forward and keeps what the other, its reverse, needs.

A gradient that is differentiated in reverse again reads each value in one place, so that the value
has one cotangent, summed part by part in the order in which the parts arise, as where the program
is written out. A value that a loop's turn gives is what the next turn begins with: so the
reverse half does not keep it twice, but is handed the results and gives back the inputs, which
are the results of what ran before.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cloud.autodiff.cut import kept
from cloud.autodiff.values import NewNames, blank, or_zeros
from ir.dtype import DType
from ir.graph import Constant, Function, Graph, Value, Weight, order, substitute
from ir.op import OPS
from ir.ops.control import new_tape

if TYPE_CHECKING:
    from cloud.autodiff.reverse import Reverse


class Tapes:
    """Where values are kept. Outside of loops (`inner` is False) each node has a tape of its own;
    inside one tape goes through all nodes, and back through all in reverse."""

    def __init__(self, inner: bool) -> None:
        self.inner = inner
        self.forward = Value((), DType.tape)
        self.backward = Value((), DType.tape)


@dataclass
class Split:
    """The two halves as values; `Halves` and the steps make graphs of them."""

    graph: Graph
    names: NewNames  # for further inputs
    outputs: list[Value]
    tape: tuple[Value, Value] | None  # of the forward half, in and out; None: nothing is kept
    back_tape: tuple[Value, Value]  # of the reverse half, in and out
    seeds: list[Value]
    sums: list[Value]  # cotangents so far, of the inputs `threaded` and of leaves
    bars: list[Value]
    new_sums: list[Value]
    handed: list[int]  # inputs of the graph that the reverse half reads
    results: list[Value]  # of the graph, in the reverse half
    restored: list[Value]  # inputs of the graph that the reverse half gives back

    def forward(self, with_tape: bool, *more: tuple[Value, Value]) -> Graph:
        """inputs, more, tape -> outputs, more, tape"""
        inputs = [*self.graph.inputs, *(a for a, _ in more)]
        outputs = [*self.outputs, *(b for _, b in more)]
        if with_tape:
            before, after = self.tape or (self._unread_tape(),) * 2
            inputs.append(before)
            outputs.append(after)
        return Graph(tuple(inputs), tuple(outputs))

    def reverse(
        self,
        with_tape: bool,
        handed: Sequence[int],
        *more: tuple[Value, Value],
        is_loop: bool = False,
    ) -> Graph:
        """tape, more, results, seeds, sums, handed -> tape, more, restored, bars, sums, and for a
        loop handed"""
        passed = [self.graph.inputs[i] for i in handed]
        inputs = [*(a for a, _ in more), *self.results, *self.seeds, *self.sums, *passed]
        outputs = [*(b for _, b in more), *self.restored, *self.bars, *self.new_sums]
        if is_loop:
            outputs += passed
        if with_tape:
            before, after = self.back_tape
            inputs.insert(0, before)
            outputs.insert(0, after)
        return Graph(tuple(inputs), tuple(outputs))

    def _unread_tape(self) -> Value:
        return Value((), DType.tape)


@dataclass(frozen=True)
class Asked:
    """What the reverse half of a function is handed and gives back, by position."""

    results: list[int]
    restored: list[int]  # inputs that it gives back
    inputs: list[int]  # that it reads as they are


@dataclass
class Halves:
    """A function's forward half (xs, tape) -> (ys, tape), and its reverse half
    (tape, results, seeds, bars, sums, inputs) -> (tape, restored, bars, sums)."""

    forward: Function
    reverse: Function
    wanted: list[int]  # inputs that get cotangents
    leaves: Sequence[Value]
    asked: Asked

    def both(self) -> Function:
        """(xs, seeds, bars, sums) -> (bars, sums): one after the other, on a tape of their own."""
        xs = [Value(*t) for t in self.forward.inputs[:-1]]
        handed = [xs[i] for i in self.asked.inputs]
        first = 1 + len(self.asked.results)
        types = self.reverse.inputs[first : len(self.reverse.inputs) - len(handed)]
        seeds = [Value(*t) for t in types]
        *ys, tape = OPS["call"](*xs, new_tape(), body=self.forward)
        results = [ys[i] for i in self.asked.results]
        found = OPS["call"](tape, *results, *seeds, *handed, body=self.reverse)
        found = found[1 + len(self.asked.restored) :]
        name = self.forward.name.removesuffix("_forward")
        return Function.of(f"{name}_again", Graph((*xs, *seeds), tuple(found)))


class Halving:
    """A graph swept forward and back, whose `halves` are made once it is known what they are to
    hand each other."""

    def __init__(
        self,
        reverse: Reverse,
        graph: Graph,
        *,
        given: Collection[int],
        seeded: Sequence[int],
        wanted: Sequence[int],
        leaves: Sequence[Value],
        threaded: Sequence[int] = (),
        free: Collection[int] = (),
        handed: Collection[int] = (),
        is_loop: bool = False,
    ) -> None:
        """The graph's inputs `given` vary and its outputs `seeded` have cotangents.

        Cotangents are made of the inputs `wanted`, and added to those of `leaves` and of the inputs
        `threaded`, so that a sum runs on through bodies in the order in which its parts arise, as
        it does where the body is written out: the same bits either way. The reverse half
        reads the inputs `free` as they are, and those of `handed` where that is cheaper than
        keeping.
        """
        self.reverse = reverse
        self.graph = graph
        self.seeded = seeded
        self.free, self.handed = free, handed
        self.tapes = Tapes(inner=True)
        self.names = NewNames(graph.inputs)
        self.start, self.back_start = self.tapes.forward, self.tapes.backward
        named = graph.inputs if is_loop else graph.outputs
        self.seeds = {i: blank(graph.outputs[i], self.names.of(named[i])) for i in seeded}
        to_add = [*(graph.inputs[i] for i in threaded), *leaves]
        self.sums = {v: blank(v, self.names.of(v)) for v in to_add}
        varying = [graph.inputs[i] for i in given]
        seeds = [self.seeds.get(i) for i in range(len(graph.outputs))]
        self.swept = reverse.sweep(graph.outputs, seeds, varying, self.sums, self.tapes)
        self.bars = [or_zeros(self.swept.bar(v), v) for v in (graph.inputs[i] for i in wanted)]
        self.new_sums = [self.swept.bars[v] for v in leaves]

    def restored(self, i: int) -> Value:
        """Input i where the reverse half reads it last."""
        x = self.graph.inputs[i]
        return self.swept.at.get(x, x)

    def moves(self, i: int) -> bool:
        """Whether input i is read last in another place than at first, or is a result as well."""
        x = self.graph.inputs[i]
        is_result = any(self.swept.outputs[j] is x for j in self.seeded)
        return x.dtype.is_float and (is_result or self.restored(i) is not x)

    def carried(self, state: Sequence[int]) -> list[int]:
        """Of a loop's state, the parts whose values the reverse half reads: at each turn it is
        handed what the turn gave, and gives what the turn began with."""
        found: list[int] = []
        while True:
            needed = set(self._needed(found))
            more = [i for i in state if i not in found and self._concerns(i, needed)]
            if not more:
                return sorted(found)
            found += more

    def results_read(self, restored: Sequence[int]) -> list[int]:
        """The results that the reverse half reads, where it restores these inputs."""
        needed = set(self._needed(restored))
        return [i for i in self.seeded if self._is_moving(self.swept.outputs[i], needed)]

    def asked(self, wanted: Sequence[int], before: Asked) -> Asked:
        """What a function's reverse half asks for, beside what was asked before. Who calls the
        function has its inputs anyway."""
        restored = sorted({*before.restored, *(i for i in wanted if self.moves(i))})
        needed = set(self._needed(restored))
        read = {i for i in wanted if self._is_moving(self.graph.inputs[i], needed)}
        results = {*before.results, *self.results_read(restored)}
        return Asked(sorted(results), restored, sorted({*before.inputs, *read}))

    def _concerns(self, i: int, needed: Collection[Value]) -> bool:
        x, y = self.graph.inputs[i], self.swept.outputs[i]
        return self.restored(i) is not x or any(self._is_moving(v, needed) for v in (x, y))

    def _is_moving(self, v: Value, needed: Collection[Value]) -> bool:
        return v in needed and v.dtype.is_float and not isinstance(v, (Constant, Weight))

    def halves(self, results: Sequence[int] = (), restored: Sequence[int] = ()) -> Split:
        """The halves, of which the reverse one is handed these results of the graph, and gives
        these inputs back."""
        graph = self.graph
        read = [blank(graph.outputs[i]) for i in results]
        again: dict[Value, Value] = {}
        for i, v in zip(results, read, strict=True):
            again.setdefault(self.swept.outputs[i], v)
        needed = [v for v in self._needed(restored) if v not in again]
        passed = [graph.inputs[i] for i in (*self.free, *self.handed)]
        still = [*(graph.inputs[i] for i in self.free), *again]
        chosen = kept(needed, free=still, handed=passed, as_computed=self.reverse.again)
        keep = [v for v in chosen if v not in passed]
        tape = _pushed(self.tapes.forward, keep)
        first, popped = _popped(keep, self.back_start)
        since = math.inf if self._back_from is None else self._back_from
        back, *rest = substitute(self._roots(restored), again | popped, since)
        leaves = Graph((), tuple(rest)).leaves
        n, m = len(self.bars), len(self.bars) + len(self.new_sums)
        return Split(
            graph,
            self.names,
            self.swept.outputs,
            None if tape is self.start else (self.start, tape),
            (first, back),
            list(self.seeds.values()),
            list(self.sums.values()),
            rest[:n],
            rest[n:m],
            [i for i in (*self.free, *self.handed) if graph.inputs[i] in leaves],
            read,
            rest[m:],
        )

    @property
    def _back_from(self) -> int | None:
        return self.swept.back_from if self.reverse.again else None

    def _roots(self, restored: Sequence[int]) -> list[Value]:
        back = [self.restored(i) for i in restored]
        return [self.tapes.backward, *self.bars, *self.new_sums, *back]

    def _needed(self, restored: Sequence[int]) -> list[Value]:
        start = {self.back_start, *self.seeds.values(), *self.sums.values()}
        return _needed(self._roots(restored), start, self.reverse, self._back_from)


def _pushed(tape: Value, values: Sequence[Value]) -> Value:
    for v in values:
        tape = OPS["push"](tape, v)
    return tape


def _popped(values: Sequence[Value], below: Value) -> tuple[Value, dict[Value, Value]]:
    """A tape on which the values were pushed, and what was popped in their place; the tape under
    them stands in the place of `below`."""
    tape = first = Value((), DType.tape)
    found: dict[Value, Value] = {}
    for v in reversed(values):
        tape, found[v] = OPS["pop"](tape, shape=v.shape, dtype=v.dtype)
    found[below] = tape
    return first, found


def _needed(
    roots: Sequence[Value], start: set[Value], reverse: Reverse, back_from: int | None
) -> list[Value]:
    """Values of the forward pass that nodes of the backward pass read, or that are roots. Nodes of
    the backward pass depend on `start`; with `back_from` all are that were made since."""
    back = set(start)
    found: dict[Value, None] = {}
    nodes = order(roots)
    for node in nodes:
        is_late = node in reverse.late or (back_from is not None and node.serial >= back_from)
        if is_late or any(v in back for v in node.present_inputs):
            back.update(node.results)
    for node in nodes:
        if node.results[0] in back:
            found |= dict.fromkeys(v for v in node.present_inputs if v not in back)
    found |= dict.fromkeys(v for v in roots if v not in back)
    return list(found)
