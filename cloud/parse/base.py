"""What every part of the front end's interpreter may use of the others."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from cloud.parse.errors import Disagreement, NotKnown, Place, Placed, Traced, UnsupportedSyntax
from cloud.parse.source import FunctionSource
from cloud.parse.state import KEPT, Move, Region, Scope, contents
from cloud.parse.stateful import DRAW_BEFORE, MOVES, STATEFUL, changed_by, tracked
from cloud.parse.structure import parts, record
from ir.dtype import DType
from ir.graph import Node, Value
from ir.op import OPS, located
from ir.ops.shaping import resolved_shape


@dataclass(frozen=True)
class Flow:
    """How a block was left: 0 off its end, 1 by return, 2 by break, 3 by continue.

    `code` is a number or, where data decide, an int32 value that is one of `possible`.
    """

    code: int | Value
    value: Any = None  # what is returned, where that is possible
    possible: frozenset[int] = frozenset({0})


OFF_THE_END = Flow(0)
RETURN, BREAK, CONTINUE = 1, 2, 3


@dataclass
class Frame:
    """One interpreted call that is under way."""

    source: FunctionSource
    scope: Scope
    node: ast.AST
    first_argument: Any = None


@dataclass(eq=False)
class Activation:
    """A call under way, as recursion sees it; see recursion.py."""

    identity: Any
    arguments: Any
    staged_depth: int
    inlined: bool = False  # recursion was found not to fit a function: it is unrolled
    template: Any = None  # of the arguments, once the function is built
    results: Any = None  # the template of its results, once that is known
    captures: list[Value] = field(default_factory=list)
    function: Any = None


class Base:
    """State of one trace. The other parts are mixed into one class, Machine."""

    def __init__(self) -> None:
        self.regions: list[Region] = []
        self.frames: list[Frame] = []
        self.activations: list[Activation] = []
        self.weak: set[Value] = set()  # values whose numbers come from Python's
        self.not_negative: set[Value] = set()  # loop counters
        self.default_float = DType.f32
        self.long_loops: set[ast.AST] = set()  # each had more turns than are written out
        self.copies: set[Value] = set()  # in numpy no views of what they are computed from
        self.origins: dict[Value, list[Any]] = {}  # what parameters of loops, functions stand for
        self.views: dict[Value, tuple[Value, Callable[..., Any]]] = {}  # of others, as numpy's f
        self.changes = 0  # of arrays in place
        self.defaults: dict[FunctionSource, Any] = {}  # of the arguments of functions
        self.using: list[Any] = []  # what is computed and waits for the rest of its expression
        self.sources: dict[tuple[str, str, int], Placed] = {}
        self.moved: dict[int, Move] = {}  # objects that nothing sets back, by id
        self.watched_from: int | None = None  # a node made after this one ends a Python loop

    # Methods of other parts that the parts below them call.
    branch: Callable[..., Any]
    block: Callable[..., Flow]
    expr: Callable[..., Any]
    call: Callable[..., Any]
    index: Callable[..., Any]
    assign: Callable[..., None]

    @property
    def scope(self) -> Scope:
        return self.frames[-1].scope

    @property
    def staged_depth(self) -> int:
        return sum(r.staged for r in self.regions)

    def op(self, name: str, *inputs: Any, **attrs: Any) -> Any:
        """A node whose source is the place that is interpreted."""
        found = OPS[name]
        if name == "reshape":
            attrs["shape"] = resolved_shape(inputs[0].shape, attrs["shape"])
        node = found.node([x if x is None else self._leaf(x) for x in inputs], attrs)
        self.mark(node)
        return node.results if found.gives_tuple else node.results[0]

    def mark(self, node: Node) -> None:
        if self.frames:
            frame = self.frames[-1]
            file, line = frame.source.filename, getattr(frame.node, "lineno", 0)
            source = located(f"{file.rpartition('/')[2]}:{line}")
            if (source, file, line) not in self.sources:
                self.sources[source, file, line] = Placed.at(source, self.place())
            node.source = self.sources[source, file, line]

    def touch(self, container: Any) -> None:
        """To be called before a container changes, so that the change can be undone."""
        if not self.regions:
            return
        region, container = self.regions[-1], tracked(container)
        if not region.is_own(container) and id(container) not in region.written:
            if not isinstance(container, KEPT) and not hasattr(container, "__dict__"):
                kind = type(container).__name__
                hint = "change it before, or use a list, a dict or an object with attributes"
                raise self.refused(f"a {kind} changes, which cannot be set back", hint)
            region.written[id(container)] = (container, contents(container))

    def touch_called(self, f: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """To be called before Python calls f, which may change objects with state of their own."""
        if self.regions:
            for x in changed_by(f, args, kwargs):
                if isinstance(x, MOVES):
                    self.move(x)
                else:
                    self.touch(x)

    def move(self, x: Any) -> None:
        """To be called before x moves on, which nothing sets back. Raises UnsupportedSyntax in a
        sub-graph, and where x moved before in a region that was undone: it would move twice."""
        if not self.regions:
            return
        known = self.moved.get(id(x))
        twice = known is not None and known.undone
        for region in reversed(self.regions):
            if region.is_own(x):
                break
            twice = twice or region.staged
        if twice:
            kind = type(x).__name__
            what = f"a {kind} from outside of a loop or a branch of the graph moves on in it"
            raise self.refused(what, DRAW_BEFORE)
        if not self.regions[-1].is_own(x):
            self.moved[id(x)] = Move(x)
            self.regions[-1].moved.append(self.moved[id(x)])

    def commit(self, region: Region) -> None:
        """What was done in the region, which is no longer the innermost one, stays done."""
        if not self.regions:
            for effect in region.effects:
                effect()
            return
        outer = self.regions[-1]
        for i, (container, before) in region.written.items():
            if not outer.is_own(container):
                outer.written.setdefault(i, (container, before))
        outer.moved.extend(region.moved)
        outer.own.update(region.own)
        outer.effects.extend(region.effects)

    def made(self, x: Any) -> Any:
        """x, which was made just now if it is a list, dict, set or dataclass, or has a state."""
        if self.regions:
            held = x if isinstance(x, MOVES) else tracked(x)
            kinds = (list, dict, set, *STATEFUL, *MOVES)
            if isinstance(held, kinds) or record(x) is not None:
                self.regions[-1].own[id(held)] = held
        return x

    def owned(self, tree: Any) -> Any:
        """A structure that was made just now, all of it: its changes are seen nowhere else."""
        stack = [tree] if self.regions else []
        while stack:
            x = stack.pop()
            if isinstance(x, (list, dict)) or record(x) is not None:
                self.regions[-1].own[id(x)] = x
            stack.extend(parts(x))
        return tree

    @contextmanager
    def in_use(self, x: Any) -> Iterator[None]:
        """Inside, x waits for what is computed here, to be used as it is then."""
        before = len(self.using)
        self.using.append(x)
        try:
            yield
        finally:
            del self.using[before:]

    def check_watch(self) -> None:
        if self.watched_from is not None:
            raise Traced

    def place(self, node: ast.AST | None = None) -> Place | None:
        """Of `node`, or of what is interpreted now; None outside of interpreted code."""
        if not self.frames:
            return None
        frame = self.frames[-1]
        return Place.of(node or frame.node, frame.source.filename, frame.source.lines)

    def refused(self, what: str, hint: str, node: ast.AST | None = None) -> UnsupportedSyntax:
        return UnsupportedSyntax(what, self.place(node), hint)

    def not_known(self, what: str, hint: str, node: ast.AST | None = None) -> NotKnown:
        return NotKnown(what, self.place(node), hint)

    def disagreement(
        self,
        what: str,
        node: ast.AST | None = None,
        hint: str = "give both the same shape, type and structure",
    ) -> Disagreement:
        return Disagreement(what, self.place(node), hint)

    def _leaf(self, x: Any) -> Value:
        return x if isinstance(x, Value) else self.as_value(x)  # type: ignore[attr-defined]
