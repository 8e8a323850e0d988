"""Loops whose turns are known, as loops of the graph: turns that differ in numbers alone are one.

Each turn is traced on parameters for the values that turns change, while what is known goes on as
Python computes it. As long as a turn's nodes are those of the first one, no more is kept of it than
the constants that differ: they become tables, which the loop reads at its counter.
"""

from __future__ import annotations

import ast
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from cloud.autodiff import zeros_like
from cloud.parse.base import Flow
from cloud.parse.capture import Closing
from cloud.parse.errors import Mismatch, UnsupportedSyntax
from cloud.parse.faults import FAULTS
from cloud.parse.functions import Closure
from cloud.parse.lifting import with_values
from cloud.parse.plan import Slot, operands, specs, template_of, widened
from cloud.parse.sameness import Sameness
from cloud.parse.staged_loop import MOST_ROUNDS, Plan, StagedLoops
from cloud.parse.state import MISSING, Missing, Poison, Region, contents, put
from cloud.parse.stateful import State
from cloud.parse.structure import leaves, values_in
from ir.dtype import DType
from ir.errors import IrError
from ir.graph import Array, Constant, Value, next_serial

MOST_RUNS = 64  # loops that one statement becomes because its turns differ now and then
MOST_ALONE = 8  # turns in a row that are like none of their neighbours: then all are written out
MOST_TURNS = 1_000_000
KNOWN = (
    int, float, complex, str, bytes, type(None), Missing, State, np.ndarray, np.generic, range,
    slice, type, types.FunctionType, types.BuiltinFunctionType, types.ModuleType,
)  # fmt: skip
Items = dict[tuple[int, Any], Any]  # what slots hold
OneTurn = Callable[[int], Flow | None]  # of a number; None: there is none


@dataclass
class Run:
    """Turns with the same nodes. `outputs` are the first one's, computed from `parameters`."""

    plan: Plan
    parameters: list[Value]
    start: int
    outputs: list[Value]
    temporary: dict[str, Poison]  # variables that each turn sets anew
    tables: dict[Constant, list[Array]] = field(default_factory=dict)
    turns: int = 1


class RolledLoops(StagedLoops):
    def rolled_loop(self, node: ast.stmt, turn: OneTurn, every: int) -> Flow:
        """Turn after turn as loops of the graph; gives how the last one was left.

        Raises NotKnown where data decide whether there is a turn, or turns go on and on.
        """
        k = runs = alone = 0
        while True:
            run = self._run(node, turn, k) if alone < MOST_ALONE and runs < MOST_RUNS else None
            if run is not None:
                self.frames[-1].node = node
                self._as_loop(run, every)
                k, runs, alone = k + run.turns, runs + 1, 0
                continue
            flow, k, alone = turn(k), k + 1, alone + 1
            if k > MOST_TURNS:
                what = f"a loop of more than {MOST_TURNS:,} turns that numbers decide"
                raise self.refused(what, "let it end earlier, or let data decide", node)
            if flow is None:
                return Flow(0)
            if not isinstance(flow.code, int):
                raise self.not_known("a loop that data may leave", "let numbers end it", node)
            if flow.code:
                return flow

    def _run(self, node: ast.stmt, turn: OneTurn, k: int) -> Run | None:
        """The turns from k on that are alike; None, and nothing is done, where no two are."""
        with self._apart() as whole:
            run = self._first(node, turn, k)
            while run is not None and self._follows(run, turn, k + run.turns):
                run.turns += 1
            if run is None or run.turns < 2:
                return None
            whole.kept = True
        return run

    def _first(self, node: ast.stmt, turn: OneTurn, k: int) -> Run | None:
        """Turn k, on parameters for all that it changes and that holds values."""
        plan: Plan = {}
        for _ in range(MOST_ROUNDS):
            with self._apart() as region:
                parameters = self.parameters_for(plan)
                before = self.put_all(plan, iter(parameters))
                start = next_serial()
                if not self._goes_through(turn, k):
                    return None
                changed = self._changed(plan, region, before, node)
                if changed is None:
                    return None
                wider, temporary = changed
                if _templates(wider) == _templates(plan):
                    region.kept = True
                    ends = {key: contents(s.container)[s.key] for key, s in plan.items()}
                    self.link(plan, parameters, ends)
                    return Run(plan, parameters, start, self._last(plan), temporary)
                plan = wider
        return None

    def _follows(self, run: Run, turn: OneTurn, k: int) -> bool:
        """Whether turn k has the nodes of the run; then it is done, else undone."""
        with self._apart() as region:
            self.touch(self.scope)
            for name in run.temporary:
                self.scope.vars.pop(name, None)
            before = self.put_all(run.plan, iter(run.parameters))
            same = Sameness(run.start, next_serial())
            if k > MOST_TURNS or not self._goes_through(turn, k):
                return False
            changed = self._changed(run.plan, region, before, None)
            if changed is None or changed[1].keys() != run.temporary.keys():
                return False
            if _templates(changed[0]) != _templates(run.plan):
                return False
            if not same.of(run.outputs, self._last(run.plan)):
                return False
            for a, b in same.constants.items():
                run.tables.setdefault(a, [a.data] * run.turns).append(b.data)
            region.kept = True
        return True

    @contextmanager
    def _apart(self) -> Iterator[Region]:
        """A region that is undone unless it is `kept`."""
        region = Region(staged=False)
        self.regions.append(region)
        frames = len(self.frames)
        try:
            yield region
        finally:
            del self.frames[frames:]
            self.regions.pop()
            if region.kept:
                self.commit(region)
            else:
                region.restore()

    def _goes_through(self, turn: OneTurn, k: int) -> bool:
        """Whether there is a turn k that runs off its end. Where it fails it is run again by
        itself, which tells the user."""
        try:
            flow = turn(k)
        except (UnsupportedSyntax, *FAULTS, IrError):
            return False
        return flow is not None and isinstance(flow.code, int) and flow.code == 0

    def _changed(
        self, plan: Plan, region: Region, before: Items, node: ast.stmt | None
    ) -> tuple[Plan, dict[str, Poison]] | None:
        """The plan with all that a turn changes and that holds values, and the variables that it
        sets anew. None: something is changed that no loop can carry."""
        found, temporary = dict(plan), {}
        for c, old in region.written.values():
            if region.is_own(c):
                continue
            for name, y in {**dict.fromkeys(old, MISSING), **contents(c)}.items():
                key = (id(c), name)
                x = before.get(key, old.get(name, MISSING))
                if y is x:
                    continue
                if key not in plan and not values_in(y):
                    if not self._is_known(y):
                        return None
                    continue
                if key not in plan and isinstance(x, (Poison, Missing)):
                    if c is not self.scope:
                        return None
                    if node is None or not self.lives(node, name):
                        temporary[name] = Poison(*_SET_INSIDE, self.place(node))
                        continue
                slot = self._slot(plan.get(key), c, name, x, y)
                if slot is None:
                    return None
                found[key] = slot
        return found, temporary

    def _slot(self, known: Slot | None, c: Any, name: Any, x: Any, y: Any) -> Slot | None:
        """The slot of an item that is x before a turn and y after it, wide enough for both."""
        try:
            if known is not None:
                return replace(known, template=widened(self, known.template, y))
            if isinstance(x, (Poison, Missing)):
                return Slot(c, name, MISSING, template_of(self, y), blank=True)
            return Slot(c, name, x, widened(self, template_of(self, x), y))
        except Mismatch:
            return None

    def _is_known(self, x: Any) -> bool:
        """Whether nothing in x can hold a value."""
        for leaf in leaves(x):
            if isinstance(leaf, Closure):
                if leaf.scope is not self.scope or values_in(
                    [leaf.defaults, leaf.keyword_defaults]
                ):
                    return False
            elif not isinstance(leaf, KNOWN):
                return False
        return True

    def _last(self, plan: Plan) -> list[Value]:
        return [
            v
            for slot in plan.values()
            for v in operands(self, slot.template, contents(slot.container)[slot.key])
        ]

    def _as_loop(self, run: Run, every: int) -> None:
        """The loop, with tables in the places of constants that differ from turn to turn."""
        k = Value((), DType.i32)
        parameters = [k, *run.parameters]
        condition, body = (Closing(run.start, parameters) for _ in range(2))
        at_k = {
            c: self.op("gather", Constant(np.stack(arrays)), k, axis=0)
            for c, arrays in run.tables.items()
            if any(a.tobytes() != c.data.tobytes() for a in arrays)
        }
        outputs = with_values(run.outputs, at_k)
        one, turns = (Constant(n, dtype=DType.i32) for n in (1, run.turns))
        first = [Constant(0, dtype=DType.i32)]
        for slot in run.plan.values():
            blank = [Value(s.shape, s.dtype) for s in specs(slot.template)]
            first += map(zeros_like, blank) if slot.blank else self.converted(slot, slot.initial)
        results = self.loop_node(
            first,
            (condition, condition.close([self.op("less", k, turns)])),
            (body, body.close([self.op("add", k, one), *outputs])),
            every,
        )
        self.settle(run.plan, iter(results[1:]))
        for name, why in run.temporary.items():
            self.touch(self.scope)
            put(self.scope, name, why)


_SET_INSIDE = (
    "a variable that each turn of a loop sets is read before that, or after the loop",
    "give it a value of the same shape and type before the loop",
)


def _templates(plan: Plan) -> dict[tuple[int, Any], Any]:
    return {key: slot.template for key, slot in plan.items()}
