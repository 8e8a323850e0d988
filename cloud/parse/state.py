"""What a function's code reads and writes: scopes, containers, and a log that can undo writes."""

from __future__ import annotations

import types
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from cloud.parse.errors import Place
from cloud.parse.source import FunctionSource
from cloud.parse.stateful import STATEFUL, set_state, state_of
from ir.graph import next_serial


class Missing:
    """Marks a variable, a key or an item that is not there."""

    def __repr__(self) -> str:
        return "nothing"


MISSING = Missing()


@dataclass(frozen=True, eq=False)
class Poison:
    """What a variable holds when data decide between things that cannot be one: an error if read"""

    what: str
    hint: str
    place: Place


class Scope:
    """The variables of one call (or one comprehension), and the way to those around it."""

    __slots__ = ("cells", "globals", "parent", "serial", "source", "vars")

    def __init__(
        self,
        source: FunctionSource | None,
        global_names: dict[str, Any],
        parent: Scope | None = None,
        cells: dict[str, Any] | None = None,
    ) -> None:
        self.vars: dict[str, Any] = {}
        self.source = source  # None: a comprehension
        self.globals = global_names
        self.parent = parent
        self.cells = cells or {}
        self.serial = next_serial()

    def function(self) -> Scope:
        """The scope of the function that a comprehension stands in; else this one."""
        scope = self
        while scope.source is None and scope.parent is not None:
            scope = scope.parent
        return scope


@dataclass
class Move:
    """An object has moved on that nothing sets back. `undone`: the trace goes back to before it."""

    x: Any
    undone: bool = False


@dataclass
class Region:
    """A stretch of the trace whose writes can be undone, and whose nodes are told from older ones.

    `staged`: its nodes belong to a sub-graph, so what it does happens only as data decide.
    """

    staged: bool
    start: int = field(default_factory=next_serial)
    # by id: the container, and what it held before
    written: dict[int, tuple[Any, dict[Any, Any]]] = field(default_factory=dict)
    own: dict[int, Any] = field(default_factory=dict)  # containers made here
    effects: list[Callable[[], None]] = field(default_factory=list)  # output that waits
    moved: list[Move] = field(default_factory=list)
    kept: bool = False  # what is done in it is not to be undone, where its owner asks

    def is_own(self, container: Any) -> bool:
        """Whether the container was made in this region, so that nothing outside can see it."""
        if isinstance(container, Scope):
            return container.serial > self.start
        return id(container) in self.own

    def restore(self) -> None:
        for container, before in reversed(self.written.values()):
            replace(container, before)
        for move in self.moved:
            move.undone = True


KEPT = (Scope, dict, list, set, types.CellType, *STATEFUL)  # beside objects with attributes


def contents(container: Any) -> dict[Any, Any]:
    """What a scope, list, dict, set, cell or object holds, by key."""
    if isinstance(container, Scope):
        return dict(container.vars)
    if isinstance(container, dict):
        return dict(container)
    if isinstance(container, list):
        return dict(enumerate(container))
    if isinstance(container, set):
        return {None: frozenset(container)}
    if isinstance(container, types.CellType):
        return {None: container.cell_contents}
    if isinstance(container, STATEFUL):
        return state_of(container)
    return dict(vars(container))


def replace(container: Any, held: dict[Any, Any]) -> None:
    """Make the container hold this and nothing else."""
    if isinstance(container, list):
        container[:] = held.values()
    elif isinstance(container, set):
        container.clear()
        container.update(held[None])
    elif isinstance(container, types.CellType):
        container.cell_contents = held[None]
    elif isinstance(container, STATEFUL):
        set_state(container, held[None])
    else:
        target = container.vars if isinstance(container, Scope) else container
        target = target if isinstance(target, dict) else vars(target)
        target.clear()
        target.update(held)


def put(container: Any, key: Any, value: Any) -> None:
    """Set one item of a container that holds it, or may."""
    if isinstance(container, Scope):
        container.vars[key] = value
    elif isinstance(container, (dict, list)):
        container[key] = value
    elif isinstance(container, set):
        replace(container, {None: value})
    elif isinstance(container, types.CellType):
        container.cell_contents = value
    elif isinstance(container, STATEFUL):
        set_state(container, value)
    else:
        vars(container)[key] = value
