"""Loops: Python's own where all is known, else one `while_loop` whatever the number of turns."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from typing import Any

from cloud.parse.base import BREAK, OFF_THE_END, RETURN, Flow
from cloud.parse.errors import Disagreement, NotKnown, Traced
from cloud.parse.rolled_loop import MOST_TURNS, RolledLoops
from cloud.parse.sequences import Items, Sequence
from cloud.parse.source import assigned_names
from cloud.parse.staged_loop import Turn
from cloud.parse.state import Region
from ir.dtype import DType
from ir.graph import Value, next_serial

MOST_UNROLLED = 256  # turns of a loop that is written out although its turns may be alike
MOST_STEP = 1000  # of a counter that may be 32 bits wide

_DONE = Flow(0)  # how a turn ends that its condition ends
_UNDECIDED = Flow(Value((), DType.i32))  # … that data may end


class RematItems:
    """What a loop runs over that keeps each `every`th state only; see `remat`."""

    def __init__(self, items: Any, every: int) -> None:
        self.items, self.every = items, every

    def __iter__(self) -> Iterator[Any]:
        return iter(self.items)

    def __len__(self) -> int:
        return len(self.items)

    def __bool__(self) -> bool:
        return bool(self.items)


class Loops(RolledLoops):
    def stmt_While(self, node: ast.While) -> Flow:
        if any(isinstance(n, ast.NamedExpr) for n in ast.walk(node.test)):
            return self._while_assigning(node)
        if self.watched_from is not None:
            return self._while(node)
        most = 0 if node in self.long_loops else MOST_UNROLLED
        try:
            return self._or_undone(lambda: self._while(node, most))
        except Traced:
            self.long_loops.add(node)
        every = self._test(node)[1]
        if self._counts(node):
            try:
                flow = self._attempt(lambda: self.staged_while(node, every, sure=True))
                if flow is not None:  # numbers do not decide how it is left
                    return flow
            except (NotKnown, Disagreement):  # its body needs the numbers themselves
                pass
        try:
            return self._or_undone(lambda: self._rolled_while(node, every))
        except (NotKnown, Disagreement):
            return self._while(node)

    def _rolled_while(self, node: ast.While, every: int) -> Flow:
        def turn(_: int) -> Flow | None:
            test = self._test(node)[0]
            if isinstance(test, Value):
                raise self.not_known("a loop that data may end", "let numbers end it", node)
            return self.end_of_body(self.block(node.body)) if test else None

        return self.after_loop(self.rolled_loop(node, turn, every), node.orelse)

    def _while(self, node: ast.While, most: int | None = None) -> Flow:
        """Turn after turn while the condition is known; Traced where more than `most` make nodes"""
        turns, found = 0, (False, 1)

        def turn() -> Flow:
            nonlocal found
            found = self._test(node)
            if found[0] is False:
                return _DONE
            if found[0] is not True:
                return _UNDECIDED
            return self.end_of_body(self.block(node.body))

        while True:
            turns += 1
            if most is not None and turns > most:
                self.watched_from = next_serial()
            try:
                flow = self._attempt(turn)
            finally:
                if most is not None:
                    self.watched_from = None
            if flow is None:
                return self.staged_while(node, found[1], sure=found[0] is True)
            if flow is _DONE:
                return self.block(node.orelse)
            if flow.code == BREAK:
                return OFF_THE_END
            if flow.code == RETURN:
                return flow

    def _counts(self, node: ast.While) -> bool:
        """Whether the known numbers that its turns change are the same as values of the graph:
        integers that go up or down by steps, and floats of double precision."""
        stored, _ = assigned_names(node.body)
        steps = _stepped(node.body)
        for name in stored:
            x = self.scope.vars.get(name)
            if isinstance(x, float) and self.default_float is not DType.f64:
                return False
            if isinstance(x, int) and name not in steps:
                return False
        return True

    def stmt_For(self, node: ast.For) -> Flow:
        items, alone = self._or_undone(lambda: self._items_of(node.iter))
        every, items = (items.every, items.items) if isinstance(items, RematItems) else (1, items)
        sequence = self.sequence(items)
        if sequence is None:
            if alone:
                return self._for_items(node, Items(self.iterated(items)))
            return self.after_loop(self._turns(node, Items(self.iterated(items)), 0), node.orelse)
        known = isinstance(sequence.size, int)
        if sequence.known and known and every == 1:
            flow = self._for_known(node, sequence)
            if flow is not None:
                return flow
        try:
            return self.staged_for(node, sequence, every)
        except (NotKnown, Disagreement):  # its body needs the numbers themselves
            if not known or sequence.size > MOST_TURNS:
                raise
        return self._for_items(node, Items.of(sequence))

    def _items_of(self, node: ast.expr) -> tuple[Any, bool]:
        """What a loop runs over; and whether nobody else can move on an iterator in it."""
        items, region = self.expr(node), self.regions[-1]
        outer = isinstance(items, Iterator) and not region.is_own(items)
        return items, not outer and not region.moved

    def _test(self, node: ast.While) -> tuple[Any, int]:
        """Whether there is a turn more, and which states are kept; see `remat`."""
        test = self.expr(node.test)
        if isinstance(test, RematItems):
            return self.truth(test.items), test.every
        return self.truth(test), 1

    def staged_while(self, node: ast.While, every: int, *, sure: bool) -> Flow:
        turn = Turn(lambda: self._test(node)[0], lambda: self.block(node.body))
        turn.sure, turn.every = sure, every
        return self.after_loop(self.staged_loop(node, turn), node.orelse)

    def staged_for(self, node: ast.For, sequence: Sequence, every: int) -> Flow:
        """`for` as a loop of the graph; where the first turn changes the type of what it carries
        (a sum that starts as 0 and becomes a vector), that turn stands before the loop."""
        sure = isinstance(sequence.size, int) and sequence.size > 0
        try:
            return self._counted_loop(node, sequence, every, first=0, sure=sure)
        except Disagreement:
            if not sure:
                raise

        def first_apart() -> Flow:
            self.assign(node.target, sequence.item(0))
            flow = self.end_of_body(self.block(node.body))
            if not isinstance(flow.code, int) or flow.code:
                raise self.disagreement("the loop is left in its first turn", node)
            return self._counted_loop(node, sequence, every, first=1, sure=sequence.size > 1)

        return self._or_undone(first_apart)

    def _counted_loop(
        self, node: ast.For, sequence: Sequence, every: int, *, first: int, sure: bool
    ) -> Flow:
        """A counter that runs up to the size; a turn starts by taking an item."""
        counter = self.made({"k": first})

        def more() -> Any:
            return self.compare(ast.Lt, counter["k"], sequence.size)

        def body() -> Flow:
            k = counter["k"]
            if isinstance(k, Value):
                self.not_negative.add(k)
            self.assign(node.target, sequence.item(k))
            flow = self.block(node.body)
            self.touch(counter)
            counter["k"] = self.binary(ast.Add, k, 1)
            return flow

        turn = Turn(more, body, counter, sure, every)
        return self.after_loop(self.staged_loop(node, turn), node.orelse)

    def _for_items(self, node: ast.For, items: Items) -> Flow:
        if self.watched_from is None and items.has(MOST_UNROLLED):
            try:
                return self._or_undone(lambda: self._rolled_for(node, items))
            except (NotKnown, Disagreement):
                pass
        return self.after_loop(self._turns(node, items, 0), node.orelse)

    def _rolled_for(self, node: ast.For, items: Items) -> Flow:
        def turn(k: int) -> Flow | None:
            if not items.has(k):
                return None
            self.assign(node.target, items.get(k))
            return self.end_of_body(self.block(node.body))

        return self.after_loop(self.rolled_loop(node, turn, 1), node.orelse)

    def _turns(self, node: ast.For, items: Items, k: int) -> Flow:
        """One turn after the other, as Python does it, from item k on."""
        while items.has(k):
            self.assign(node.target, items.get(k))
            flow = self.end_of_body(self.block(node.body))
            k += 1
            if not isinstance(flow.code, int):
                return self.guarded(flow, lambda k=k: self._turns(node, items, k))
            if flow.code:
                return flow
        return OFF_THE_END

    def _for_known(self, node: ast.For, sequence: Sequence) -> Flow | None:
        """The loop as Python's own; None, with nothing done, where it makes nodes."""
        if self.watched_from is not None:  # a loop around this one waits for the first node
            return self._for_items(node, Items.of(sequence))
        self.watched_from = next_serial()
        try:
            return self._attempt(lambda: self._for_items(node, Items.of(sequence)))
        except Traced:
            return None
        finally:
            self.watched_from = None

    def _while_assigning(self, node: ast.While) -> Flow:
        """`while (x := f()) …` as `while True: if not …: break`, so that x is seen after it."""
        stop: ast.stmt = ast.If(ast.UnaryOp(ast.Not(), node.test), [ast.Break()], [])
        loop = ast.While(ast.Constant(True), [stop, *node.body], [])
        ast.copy_location(loop, node)
        for n in ast.walk(loop):  # what is new stands where the condition does
            if not hasattr(n, "lineno") and isinstance(n, (ast.stmt, ast.expr)):
                ast.copy_location(n, node.test)
        if node.orelse:
            raise self.refused("`else` of a `while` that assigns in its condition", "use a flag")
        return self.stmt_While(loop)

    def _attempt(self, run: Callable[[], Flow]) -> Flow | None:
        """Run it for good; where it turns out to be data that decide, undo it and give None."""
        return self._or_undone(run, lambda flow: isinstance(flow.code, int))

    def _or_undone(
        self, run: Callable[[], Flow], good: Callable[[Flow], bool] = lambda _: True
    ) -> Any:
        """Run it for good; undone, with None, where the result is not `good`, and by an error."""
        region = Region(staged=False)
        self.regions.append(region)
        try:
            flow = run()
        except BaseException:
            self.regions.pop()
            region.restore()
            raise
        self.regions.pop()
        if not good(flow):
            region.restore()
            return None
        self.commit(region)
        return flow


def _stepped(body: list[ast.stmt]) -> set[str]:
    """The variables that these statements change in small steps alone, such as `n += 1`."""
    steps: dict[str, int] = {}
    stored: list[str] = []
    for n in (n for s in body for n in ast.walk(s)):
        match n:
            case ast.Name(name, ast.Store()):
                stored.append(name)
            case ast.AugAssign(ast.Name(name), op, ast.Constant(int(step))):
                steps[name] = steps.get(name, 0) + _is_small(op, step)
            case ast.Assign([ast.Name(name)], ast.BinOp(ast.Name(of), op, ast.Constant(int(step)))):
                steps[name] = steps.get(name, 0) + (of == name and _is_small(op, step))
    return {name for name, n in steps.items() if stored.count(name) == n}


def _is_small(op: ast.operator, step: int) -> bool:
    return isinstance(op, (ast.Add, ast.Sub)) and step <= MOST_STEP
