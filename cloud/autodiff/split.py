"""A sub-graph in two halves: one runs forward and keeps what the other, its reverse, needs."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cloud.autodiff.cut import kept
from cloud.autodiff.values import NewNames, blank, or_zeros
from ir.dtype import DType
from ir.graph import Function, Graph, Value, order, substitute
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
        """tape, more, seeds, sums, handed -> tape, more, bars, sums (, handed)"""
        passed = [self.graph.inputs[i] for i in handed]
        inputs = [*(a for a, _ in more), *self.seeds, *self.sums, *passed]
        outputs = [*(b for _, b in more), *self.bars, *self.new_sums]
        if is_loop:
            outputs += passed
        if with_tape:
            before, after = self.back_tape
            inputs.insert(0, before)
            outputs.insert(0, after)
        return Graph(tuple(inputs), tuple(outputs))

    def _unread_tape(self) -> Value:
        return Value((), DType.tape)


@dataclass
class Halves:
    """A function's forward half (xs, tape) -> (ys, tape), and its reverse half
    (tape, seeds, bars, sums, fixed inputs) -> (tape, bars, sums)."""

    forward: Function
    reverse: Function
    wanted: list[int]  # inputs that get cotangents
    leaves: Sequence[Value]
    fixed: list[int]  # inputs that the reverse half reads as they are

    def both(self) -> Function:
        """(xs, seeds, bars, sums) -> (bars, sums): one after the other, on a tape of their own."""
        xs = [Value(*t) for t in self.forward.inputs[:-1]]
        fixed = [xs[i] for i in self.fixed]
        seeds = [Value(*t) for t in self.reverse.inputs[1 : len(self.reverse.inputs) - len(fixed)]]
        *_, tape = OPS["call"](*xs, new_tape(), body=self.forward)
        _, *found = OPS["call"](tape, *seeds, *fixed, body=self.reverse)
        name = self.forward.name.removesuffix("_forward")
        return Function.of(f"{name}_again", Graph((*xs, *seeds), tuple(found)))


def split(
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
) -> Split:
    """The halves of a graph whose inputs `given` vary and whose outputs `seeded` have cotangents.

    Cotangents are made of the inputs `wanted`, and added to those of `leaves` and of the inputs
    `threaded`, so that a sum runs on through bodies in the order in which its parts arise, as it
    does where the body is written out: the same bits either way. The reverse half
    reads the inputs `free` as they are, and those of `handed` where that is cheaper than keeping.
    """
    tapes = Tapes(inner=True)
    names = NewNames(graph.inputs)
    start, back_start = tapes.forward, tapes.backward
    named = graph.inputs if is_loop else graph.outputs
    seeds = {i: blank(graph.outputs[i], names.of(named[i])) for i in seeded}
    to_add = [*(graph.inputs[i] for i in threaded), *leaves]
    sums = {v: blank(v, names.of(v)) for v in to_add}
    varying = [graph.inputs[i] for i in given]
    all_seeds = [seeds.get(i) for i in range(len(graph.outputs))]
    swept = reverse.sweep(graph.outputs, all_seeds, varying, sums, tapes)
    bars = [or_zeros(swept.bar(v), v) for v in (graph.inputs[i] for i in wanted)]
    roots = [tapes.backward, *bars, *(swept.bars[v] for v in leaves)]
    back_from = swept.back_from if reverse.again else None
    needed = _needed(roots, {back_start, *seeds.values(), *sums.values()}, reverse, back_from)
    passed = [graph.inputs[i] for i in (*free, *handed)]
    still = [graph.inputs[i] for i in free]
    chosen = kept(needed, free=still, handed=passed, as_computed=reverse.again)
    keep = [v for v in chosen if v not in passed]
    tape = _pushed(tapes.forward, keep)
    first, again = _popped(keep, back_start)
    back, *rest = substitute(roots, again, math.inf if back_from is None else back_from)
    read = Graph((), tuple(rest)).leaves
    return Split(
        graph,
        names,
        swept.outputs,
        None if tape is start else (start, tape),
        (first, back),
        list(seeds.values()),
        list(sums.values()),
        rest[: len(bars)],
        rest[len(bars) :],
        [i for i in (*free, *handed) if graph.inputs[i] in read],
    )


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
