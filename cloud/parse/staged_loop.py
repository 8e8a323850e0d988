"""A loop of the graph: the body is traced until it is clear what it carries from turn to turn."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from cloud.autodiff import zeros_like
from cloud.parse.base import RETURN, Flow
from cloud.parse.branches import Branches
from cloud.parse.capture import Closing
from cloud.parse.errors import Disagreement, Diverges, Mismatch
from cloud.parse.plan import Slot, begun, operands, placed, specs, template_of, widened
from cloud.parse.sequences import Sequences
from cloud.parse.source import assigned_names
from cloud.parse.state import MISSING, Poison, Region, contents, put
from cloud.parse.stateful import DRAW_BEFORE, State
from cloud.parse.structure import NUMBER, Spec, leaves, values_in
from ir.graph import Value, next_serial

MOST_ROUNDS = 12


@dataclass
class Turn:
    """A loop: whether there is one more turn, and the turn.

    `counter`: a dict of the loop's own. `sure`: it certainly runs once. `every`: see while_loop.
    `endless`: its condition always holds, so that its body alone leaves it.
    """

    more: Callable[[], Any]
    body: Callable[[], Flow]
    counter: dict[str, Any] | None = None
    sure: bool = False
    every: int = 1
    endless: bool = False
    leaving: dict[str, Any] = field(default_factory=dict)  # how the last turn was left
    set_anew: dict[str, Poison] = field(default_factory=dict)  # variables that no turn may inherit


@dataclass
class Round:
    """What one trace of the loop found, over the same parameters in condition and body."""

    parameters: list[Value]
    condition: Any
    starts: tuple[int, int]
    after: dict[tuple[int, Any], Any]
    fresh: list[tuple[Any, Any]]  # variables that exist only inside
    possible: frozenset[int]
    containers: dict[int, Any]


Plan = dict[tuple[int, Any], Slot]


class StagedLoops(Branches, Sequences):
    def staged_loop(self, node: ast.stmt, turn: Turn) -> Flow:
        """Add a while_loop; gives how its last turn was left."""
        self.check_watch()
        turn.leaving = self.made({"code": 0})
        plan = self._first_plan(node, turn)
        changes, linked = self.changes, False
        for _ in range(MOST_ROUNDS):
            try:
                found = self._round(plan, turn)
            except Diverges:  # of a type that another way of the program will tell
                return Flow(0)
            if self._widen(plan, found, node, turn):
                continue
            if linked or self.changes == changes:
                return self._built(plan, found, node, turn)
            self.link(plan, found.parameters, found.after)  # what is changed may be seen elsewhere
            linked = True
        raise self.disagreement("what the loop carries has another type after every turn", node)

    def _first_plan(self, node: Any, turn: Turn) -> Plan:
        """Variables that will surely change: values that the body stores, numbers it updates."""
        plan: Plan = {}
        stored, updated = assigned_names(node.body)
        for name in sorted(stored):
            x = self.scope.vars.get(name, MISSING)
            if isinstance(x, NUMBER) and (name in updated or isinstance(x, float)):
                self._add(plan, self.scope, name, x, widen_number=True)
            elif isinstance(x, (Value, tuple)) and values_in(x):
                self._add(plan, self.scope, name, x)
        if turn.counter is not None:
            self._add(plan, turn.counter, "k", turn.counter["k"], widen_number=True)
        return plan

    def _add(self, plan: Plan, c: Any, key: Any, x: Any, *, widen_number: bool = False) -> Slot:
        template = template_of(self, x)
        if widen_number:
            template = Spec((), self.number_dtype(x), weak=True)
        slot = plan[id(c), key] = Slot(c, key, x, template)
        return slot

    def _round(self, plan: Plan, turn: Turn) -> Round:
        """Trace condition and body once on parameters for what the plan carries."""
        leaving = turn.leaving
        region = Region(staged=True)
        self.regions.append(region)
        try:
            parameters, before = self._install(plan)
            for name, x in turn.set_anew.items():
                self.touch(self.scope)
                put(self.scope, name, x)
            start = next_serial()
            held = {i: contents(c) for i, (c, _) in region.written.items()}
            if isinstance(leaving["code"], Value):  # data decide whether to go on
                going_on = self.compare(ast.Eq, leaving["code"], 0)
                condition = self.both(going_on, lambda: self._more(turn))
            else:
                condition = self._more(turn)
            self._check_unchanged(region, held)
            body_start = next_serial()
            flow = self.end_of_body(turn.body())
            self._note_leaving(leaving, flow)
            after, fresh = self._changes(region, before)
        finally:
            self.regions.pop()
            region.restore()
        starts = (start, body_start)
        containers = {id(c): c for c, _ in region.written.values()}
        return Round(parameters, condition, starts, after, fresh, flow.possible, containers)

    def _more(self, turn: Turn) -> Any:
        test = turn.more()
        turn.endless = test is True
        return test

    def _check_unchanged(self, region: Region, held: dict[int, dict[Any, Any]]) -> None:
        """Refuse a condition that changes what is outside of it: its graph gives a truth alone."""
        for i, (c, before) in region.written.items():
            old, now = held.get(i, before), contents(c)
            if old.keys() != now.keys() or not all(_same_items(now[k], x) for k, x in old.items()):
                raise self.refused(
                    "a condition of a loop that changes what is outside of it",
                    "write `while True:` and `if not …: break` in its body",
                )

    def _install(self, plan: Plan) -> tuple[list[Value], dict[tuple[int, Any], Any]]:
        parameters = self.parameters_for(plan)
        return parameters, self.put_all(plan, iter(parameters))

    def parameters_for(self, plan: Plan) -> list[Value]:
        """Leaves for all values that the slots hold."""
        parameters = []
        for slot in plan.values():
            own = [self.weakly(Value(s.shape, s.dtype), s.weak) for s in specs(slot.template)]
            if not slot.blank:
                initial = begun(slot.template, slot.initial)
                self.origins.update({p: [x] for p, x in zip(own, initial, strict=True)})
            for p, before in zip(own, slot.before, strict=False):
                self.origins.setdefault(p, []).append(before)
            parameters += own
        return parameters

    def link(self, plan: Plan, parameters: list[Value], after: dict[tuple[int, Any], Any]) -> None:
        """Note that in later turns the parameters may be the arrays that a turn ends with."""
        for (key, slot), own in zip(plan.items(), _by_slot(plan, parameters), strict=True):
            if key in after:
                for p, y in zip(own, begun(slot.template, after[key]), strict=True):
                    self.origins.setdefault(p, []).append(y)
            slot.before = own

    def put_all(self, plan: Plan, values: Iterator[Value]) -> dict[tuple[int, Any], Any]:
        """Let the slots hold these values; gives what each one holds."""
        held: dict[tuple[int, Any], Any] = {}
        for key, slot in plan.items():
            held[key] = self.owned(placed(slot.template, values))
            self.touch(slot.container)
            put(slot.container, slot.key, held[key])
        return held

    def _note_leaving(self, leaving: dict[str, Any], flow: Flow) -> None:
        if flow.possible == {0}:
            return
        self.touch(leaving)
        leaving["code"] = flow.code
        if RETURN in flow.possible:
            leaving["value"] = flow.value

    def _changes(
        self, region: Region, before: dict[tuple[int, Any], Any]
    ) -> tuple[dict[tuple[int, Any], Any], list[tuple[Any, Any]]]:
        """What differs at the end of a turn from its start: by slot, and what is new."""
        after: dict[tuple[int, Any], Any] = {}
        fresh: list[tuple[Any, Any]] = []
        for c, old in region.written.values():
            if region.is_own(c):
                continue
            now = contents(c)
            if isinstance(c, list) and len(now) != len(old):
                raise self.disagreement(
                    f"a list of {len(old)} holds {len(now)} items after a turn of the loop",
                    hint="make an array of the most items before the loop, and set x[i] in it",
                )
            for key in {**old, **now}:
                slot = (id(c), key)
                x, y = before.get(slot, old.get(key, MISSING)), now.get(key, MISSING)
                if isinstance(y, State):
                    raise self.disagreement(f"{y} changes in a loop of the graph", hint=DRAW_BEFORE)
                if slot in before or x is not y:
                    after[slot] = y
                if x is MISSING:
                    fresh.append((c, key))
        return after, fresh

    def _widen(self, plan: Plan, found: Round, node: ast.stmt, turn: Turn) -> bool:
        """Make the plan hold what a turn changes; whether it had to grow."""
        grown = False
        for key, y in found.after.items():
            slot = plan.get(key)
            if slot is None:
                grown |= self._new_slot(plan, found.containers[key[0]], key, y, node, turn)
                continue
            try:
                template = widened(self, slot.template, y)
            except Mismatch as m:
                raise self.disagreement(f"{_label(slot.key)} changes in a loop: {m}") from None
            if template != slot.template:
                slot.template, grown = template, True
        return grown

    def _new_slot(
        self, plan: Plan, container: Any, key: Any, y: Any, node: ast.stmt, turn: Turn
    ) -> bool:
        """Carry one more item, if it matters; one that exists only inside may start as zeros."""
        x = contents(container).get(key[1], MISSING)
        missing = x is MISSING or isinstance(x, Poison)
        if y is MISSING or (missing and isinstance(y, Poison)):
            return False
        if isinstance(y, Poison):
            if container is not self.scope:
                raise Disagreement(y.what, y.place, y.hint)
            return _set_anew(turn, key[1], y)
        if not missing:
            try:
                template = widened(self, template_of(self, x), y)
            except Mismatch as m:
                what = f"{_label(key[1])} changes in a loop: {m}"
                if container is not self.scope or self.lives(node, key[1]):
                    raise self.disagreement(what) from None
                hint = "give both the same shape, type and structure"
                return _set_anew(turn, key[1], Poison(what, hint, self.place(node)))
            if not any(True for _ in specs(template)):
                return False
            plan[key] = Slot(container, key[1], x, template)
            return True
        returned = container is turn.leaving
        kept = container is self.scope and turn.sure and self.lives(node, key[1])
        if returned or kept:
            plan[key] = Slot(container, key[1], MISSING, template_of(self, y), blank=True)
            return True
        return False

    def lives(self, node: ast.stmt, name: str) -> bool:
        return self.frames[-1].source.is_live_after(node, name)

    def _built(self, plan: Plan, found: Round, node: ast.stmt, turn: Turn) -> Flow:
        self._drop_dead(plan, found, node)
        condition = Closing(found.starts[0], found.parameters)
        body = Closing(found.starts[1], found.parameters)
        first, last = self._state(plan, found)
        if found.condition is False:
            return Flow(0)
        if found.condition is True:
            raise self.refused("a loop that never ends", "let its condition depend on data", node)
        test = condition.close([self.as_value(found.condition)])
        self.frames[-1].node = node
        results = self.loop_node(first, (condition, test), (body, body.close(last)), turn.every)
        self._settle(plan, found, iter(results), node)
        code = turn.leaving["code"]
        ways = found.possible - {0} if turn.endless else found.possible | {0}
        code = next(iter(ways)) if len(ways) == 1 else code
        return Flow(code, turn.leaving.get("value"), ways)

    def loop_node(
        self,
        first: list[Value],
        condition: tuple[Closing, list[Value]],
        body: tuple[Closing, list[Value]],
        every: int,
    ) -> list[Value]:
        """The last state of a loop whose condition and body were closed to these values."""
        (test, tests), (turn, outputs) = condition, body
        outer = list({**test.captured, **turn.captured})
        inputs = turn.graph(outputs, outer).inputs
        kept = [*outputs, *inputs[len(first) :]]
        graphs = {"condition": test.graph(tests, outer), "body": turn.graph(kept, outer)}
        results = self.op("while_loop", *first, *outer, **graphs, every=every)
        return list(results[: len(first)])

    def _state(self, plan: Plan, found: Round) -> tuple[list[Value], list[Value]]:
        """What the loop starts with and what a turn ends with."""
        first: list[Value] = []
        last: list[Value] = []
        parameters = iter(found.parameters)
        for key, slot in plan.items():
            own = [next(parameters) for _ in specs(slot.template)]
            if slot.blank:
                first += map(zeros_like, own)
            else:
                first += self.converted(slot, slot.initial)
            last += self.converted(slot, found.after[key]) if key in found.after else own
        return first, last

    def converted(self, slot: Slot, tree: Any) -> Iterator[Value]:
        try:
            yield from list(operands(self, slot.template, tree))
        except Mismatch as m:
            hint = f"{_label(slot.key)} changes in a loop: {m}"
            raise self.disagreement(hint) from None

    def _settle(self, plan: Plan, found: Round, results: Iterator[Value], node: ast.stmt) -> None:
        """After the loop: what was carried has its last value, the rest is not to be read."""
        self.settle(plan, results)
        carried = {(id(s.container), s.key) for s in plan.values()}
        changed = [(id(c), c, k) for c, k in found.fresh]
        changed += [(i, found.containers[i], k) for i, k in found.after]
        for i, c, key in changed:
            if (i, key) not in carried and c is self.scope:
                what = f"{_label(key)} is set inside a loop only, or has another type there"
                self.touch(c)
                hint = "give it a value of the same shape and type before the loop"
                put(c, key, Poison(what, hint, self.place(node)))

    def settle(self, plan: Plan, results: Iterator[Value]) -> None:
        """Let the slots hold the results of a loop."""
        for slot in plan.values():
            tree = placed(slot.template, results)
            for v, s in zip(leaves(tree), leaves(slot.template), strict=True):
                if isinstance(s, Spec):
                    self.weakly(v, s.weak)
            self.touch(slot.container)
            put(slot.container, slot.key, tree)

    def _drop_dead(self, plan: Plan, found: Round, node: ast.stmt) -> None:
        """Leave out variables that each turn sets anew and that nobody reads after the loop."""
        candidates = [
            k for k, s in plan.items() if s.container is self.scope and not self.lives(node, s.key)
        ]
        if not candidates:
            return
        own = dict(zip(plan, _by_slot(plan, found.parameters), strict=True))
        rest = [k for k in plan if k not in candidates]
        needed = _read([self.as_value(found.condition)], min(found.starts))
        while True:
            roots = [v for k in rest for v in leaves(found.after.get(k)) if isinstance(v, Value)]
            needed |= _read(roots, min(found.starts))
            more = [k for k in candidates if k not in rest and needed.intersection(own[k])]
            if not more:
                break
            rest += more
        for k in set(plan) - set(rest):
            del plan[k]
        found.parameters[:] = [p for k in plan for p in own[k]]


def _same_items(a: Any, b: Any) -> bool:
    """Whether these are one thing, or what a deque or a set holds, twice."""
    if isinstance(a, tuple) and isinstance(b, tuple) and len(a) == len(b):
        return all(x is y for x, y in zip(a, b, strict=True))
    return a is b


def _set_anew(turn: Turn, name: str, why: Poison) -> bool:
    """Trace the turn once more, with an error where it reads the variable before it sets it."""
    first = name not in turn.set_anew
    turn.set_anew.setdefault(name, why)
    return first


def _by_slot(plan: Plan, parameters: list[Value]) -> Iterator[list[Value]]:
    rest = iter(parameters)
    for slot in plan.values():
        yield [next(rest) for _ in specs(slot.template)]


def _read(roots: list[Value], start: int) -> set[Value]:
    """The leaves and older values that the roots are computed from."""
    found: set[Value] = set()
    stack, seen = list(roots), set()
    while stack:
        v = stack.pop()
        if v in seen:
            continue
        seen.add(v)
        if v.node is None or v.node.serial < start:
            found.add(v)
        else:
            stack.extend(v.node.present_inputs)
    return found


def _label(key: Any) -> str:
    return key if isinstance(key, str) else f"item {key!r}"
