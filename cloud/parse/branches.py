"""Branches that data decide between: both are traced, and `cond` joins what they change."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from cloud.parse.arithmetic import Arithmetic
from cloud.parse.base import BREAK, CONTINUE, OFF_THE_END, RETURN, Flow
from cloud.parse.capture import Closing
from cloud.parse.errors import Diverges, Mismatch
from cloud.parse.join import Joiner, filled
from cloud.parse.source import is_abrupt
from cloud.parse.state import MISSING, Poison, Region, contents, replace
from cloud.parse.stateful import DRAW_BEFORE, STATEFUL, State
from ir.graph import Constant, Value, order

MOST_EAGER = 8  # operators that are computed although their result may not be needed


@dataclass
class Outcome:
    """What one branch did: its result, and what each container holds that it wrote."""

    region: Region
    result: Any = None
    after: dict[int, dict[Any, Any]] = field(default_factory=dict)
    diverged: Diverges | None = None

    @property
    def returned(self) -> bool:
        return isinstance(self.result, Flow) and self.result.possible == {RETURN}


class Branches(Arithmetic):
    def branch(self, predicate: Value, a: Callable[[], Any], b: Callable[[], Any]) -> Any:
        """a() where the predicate holds, else b(): results and side effects, joined."""
        self.check_watch()
        return self._joined(predicate, self.speculate(a), self.speculate(b), a, b)

    def both(self, a: Any, b: Callable[[], Any]) -> Any:
        """Whether a and then b() are true."""
        return self.logical(self.truth(a), b, when=True)

    def either(self, a: Any, b: Callable[[], Any]) -> Any:
        """Whether a or else b() is true."""
        return self.logical(self.truth(a), b, when=False)

    def logical(self, a: Any, b: Callable[[], Any], *, when: bool) -> Any:
        """a, or, where it is `when`, the truth of b(), which is not computed otherwise: unless it
        is so cheap and harmless that computing it costs less than a branch."""
        if not isinstance(a, Value):
            return self.truth(b()) if a is when else a
        tried = self.speculate(lambda: self.truth(b()))
        if tried.diverged is None and not tried.after:
            if isinstance(tried.result, bool):
                return a if tried.result is when else tried.result
            if _is_harmless(tried.result, tried.region.start):
                name = "logical_and" if when else "logical_or"
                return self.op(name, a, tried.result)
        other = lambda: not when  # noqa: E731
        run = lambda: self.truth(b())  # noqa: E731
        return self.branch(a, run, other) if when else self.branch(a, other, run)

    def stmt_If(self, node: ast.If, rest: list[ast.stmt]) -> tuple[Flow, bool]:
        """Also whether `rest`, what follows in the block, was run: by the one branch that goes on
        where the other one leaves the block."""
        test = self.truth(self.expr(node.test))
        if isinstance(test, bool):
            return self.block(node.body if test else node.orelse), False
        self.check_watch()
        leaves = is_abrupt(node.body), is_abrupt(node.orelse)
        bodies = [node.body, node.orelse]
        followed = bool(rest) and leaves[0] != leaves[1]
        if followed:
            side = 1 if leaves[0] else 0
            bodies[side] = [*bodies[side], *rest]
        runs = [self._runner(body) for body in bodies]
        outcomes = [self.speculate(run) for run in runs]
        if rest and not followed:
            side = _goes_on(outcomes)
            if side is not None:
                runs[side] = self._runner([*bodies[side], *rest])
                outcomes[side] = self.speculate(runs[side])
                followed = True
        self.frames[-1].node = node
        return self._joined(test, *outcomes, *runs), followed

    def guarded(self, flow: Flow, rest: Callable[[], Flow]) -> Flow:
        """What follows in a block after something that may have left it, as data decide."""
        left = flow.possible - {0}
        code = next(iter(left)) if len(left) == 1 else flow.code
        goes_on = self.compare(ast.Eq, flow.code, 0)
        leaves = Flow(code, flow.value, left)
        joined: Flow = self.branch(goes_on, rest, lambda: leaves)
        return joined

    def after_loop(self, flow: Flow, orelse: list[ast.stmt]) -> Flow:
        """How a loop statement is left, from how its last body was: `else`, then break is over."""
        if isinstance(flow.code, int):
            if flow.code == RETURN:
                return flow
            return self.block(orelse) if flow.code == 0 else OFF_THE_END

        def left() -> Flow:
            if flow.possible <= {0, BREAK}:
                return OFF_THE_END
            if flow.possible - {0} == {RETURN} and (orelse or 0 not in flow.possible):
                return Flow(RETURN, flow.value, frozenset({RETURN}))
            return Flow(self.recoded(flow, BREAK), flow.value, flow.possible - {BREAK} | {0})

        if not orelse:
            return left()
        ran_off: Flow = self.branch(
            self.compare(ast.Eq, flow.code, 0), lambda: self.block(orelse), left
        )
        return ran_off

    def recoded(self, flow: Flow, ended: int) -> int | Value:
        """The code of a flow where one kind of leaving ends here and control goes on."""
        if ended not in flow.possible:
            return flow.code
        if isinstance(flow.code, int) or flow.possible <= {0, ended}:
            return 0
        zero = Constant(0, dtype=flow.code.dtype)
        code: Value = self.op("where", self.compare(ast.Eq, flow.code, ended), zero, flow.code)
        return code

    def end_of_body(self, flow: Flow) -> Flow:
        """How one turn of a loop ends: `continue` is the same as running off its end."""
        code = self.recoded(flow, CONTINUE)
        possible = flow.possible - {CONTINUE} | ({0} if CONTINUE in flow.possible else set())
        return Flow(code, flow.value, possible)

    def speculate(self, run: Callable[[], Any]) -> Outcome:
        """Run in a region of its own, take note of what changed, and undo it."""
        region = Region(staged=True)
        self.regions.append(region)
        outcome = Outcome(region)
        try:
            outcome.result = run()
            written = [c for c, _ in region.written.values() if not region.is_own(c)]
            outcome.after = {id(c): contents(c) for c in written}
        except Diverges as d:
            outcome.diverged = d
        finally:
            self.regions.pop()
            region.restore()
        return outcome

    def _runner(self, body: list[ast.stmt]) -> Callable[[], Flow]:
        return lambda: self.block(body)

    def _joined(self, predicate: Value, a: Outcome, b: Outcome, run_a: Any, run_b: Any) -> Any:
        if a.diverged and b.diverged:
            raise Diverges(a.diverged.activations | b.diverged.activations)
        if a.diverged or b.diverged:
            return run_b() if a.diverged else run_a()
        joiner = Joiner(self, predicate, (a.after, b.after))
        try:
            result = joiner.join(a.result, b.result)
        except Mismatch as m:
            raise self.disagreement(f"two branches give different results: {m}") from None
        writes = self._joined_writes(joiner, a, b)
        results = self._cond(predicate, joiner, a.region.start, b.region.start)
        for container, held in writes:
            self.touch(container)
            replace(container, {key: filled(tree, results) for key, tree in held.items()})
        return filled(result, results)

    def _joined_writes(self, joiner: Joiner, a: Outcome, b: Outcome) -> list[tuple[Any, Any]]:
        """Each container that a branch wrote, with what it holds after either."""
        found = (c for o in (a, b) for c, _ in o.region.written.values() if id(c) in o.after)
        writes = []
        for i, c in {id(c): c for c in found}.items():
            now = contents(c)
            x, y = a.after.get(i, now), b.after.get(i, now)
            if isinstance(c, list) and len(x) != len(y):
                raise self.disagreement(
                    f"a list holds {len(x)} items after one branch, {len(y)} after the other",
                    hint="let both branches leave as many items, such as zeros",
                )
            held = {}
            for key in {**x, **y}:
                p, q = x.get(key, MISSING), y.get(key, MISSING)
                unchanged = p is q and p is now.get(key, MISSING)
                held[key] = p if unchanged else self._joined_slot(joiner, c, key, p, q, (a, b))
            writes.append((c, held))
        return writes

    def _joined_slot(
        self, joiner: Joiner, c: Any, key: Any, p: Any, q: Any, outcomes: tuple[Outcome, Outcome]
    ) -> Any:
        if c is self.scope:  # a branch that returns does not care for its variables any more
            gone = [o.returned for o in outcomes]
            if all(gone) or not self._matters(key):
                return Poison(f"{key} is not kept here", "give it a value first", self.place())
            if gone[0] or gone[1]:
                kept = q if gone[0] else p
                if kept is MISSING or isinstance(kept, Poison):
                    return self._unset(key) if kept is MISSING else kept
                blank = joiner.blank(kept)
                return joiner.join(blank, kept) if gone[0] else joiner.join(kept, blank)
        try:
            if isinstance(p, State) or isinstance(q, State):
                raise Mismatch("no graph can carry it")
            return joiner.join(p, q)
        except Mismatch as m:
            if isinstance(c, (set, *STATEFUL)):
                what = f"a {type(c).__name__} changes in one of two branches that data choose"
                raise self.disagreement(what, hint=DRAW_BEFORE) from None
            if p is MISSING or q is MISSING:
                return self._unset(key)
            hint = "give it the same shape, type and structure in both branches"
            return Poison(f"{_name(key)} differs between two branches: {m}", hint, self.place())

    def _matters(self, name: str) -> bool:
        frame = self.frames[-1]
        return not isinstance(frame.node, ast.If) or frame.source.is_live_after(frame.node, name)

    def _unset(self, key: Any) -> Poison:
        what = f"{_name(key)} is set in only one of two branches"
        return Poison(what, "give it a value before the condition", self.place())

    def _cond(self, predicate: Value, joiner: Joiner, start_a: int, start_b: int) -> list[Value]:
        if not joiner.pairs:
            return []
        a, b = Closing(start_a, ()), Closing(start_b, ())
        roots_a = a.close(x for x, _ in joiner.pairs)
        roots_b = b.close(y for _, y in joiner.pairs)
        outer = list({**a.captured, **b.captured})
        results: tuple[Value, ...] = self.op(
            "cond",
            predicate,
            *outer,
            then=a.graph(roots_a, outer),
            otherwise=b.graph(roots_b, outer),
        )
        for (x, y), z in zip(joiner.pairs, results, strict=True):
            self.weakly(z, x in self.weak and y in self.weak)
        return list(results)


def _goes_on(outcomes: list[Outcome]) -> int | None:
    """The number of the branch that runs off its end where the other one certainly does not."""
    if any(o.diverged for o in outcomes):
        return None
    codes = [o.result.code for o in outcomes]
    if all(isinstance(c, int) for c in codes) and (codes[0] == 0) != (codes[1] == 0):
        return codes.index(0)
    return None


def _is_harmless(v: Value, start: int) -> bool:
    """Whether computing it takes a few elementwise operators, which never fail."""
    nodes = [n for n in order([v]) if n.serial >= start]
    families = ("elementwise", "compare", "shaping")
    return len(nodes) <= MOST_EAGER and all(n.op.family in families for n in nodes)


def _name(key: Any) -> str:
    return key if isinstance(key, str) else f"item {key!r}"
