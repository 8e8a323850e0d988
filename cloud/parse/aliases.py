"""Arrays that are changed in place and may be seen under another name: those are refused.

A value never changes: what x[i] = y or x += y changes gets a new one, in the one place that the
program names. In Python all places that hold the array, or a view of it, see the change.
"""

from __future__ import annotations

import functools
import sys
import types
from collections import ChainMap, deque
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from cloud.parse.base import Base
from cloud.parse.functions import Closure
from cloud.parse.state import Scope
from ir.graph import Array, Value
from ir.ops.shaping import numpy_slices

Slot = tuple[Any, Any]  # a scope, container or object, and the name or key in it
Path = tuple[Value, ...]
EMPTY: Mapping[Value, Value] = {}
# operators that give views: what numpy makes of an array where one has this shape and attributes
_VIEWS: dict[str, Callable[[Any, Any], Callable[[Array], Array]]] = {
    "reshape": lambda shape, attrs: lambda a: a.reshape(shape),
    "transpose": lambda shape, attrs: lambda a: a.transpose(attrs["perm"]),
    "broadcast_to": lambda shape, attrs: lambda a: np.broadcast_to(a, shape),
    "slice": lambda shape, attrs: lambda a: a[numpy_slices(**attrs)],
}
_LIBRARIES = {*sys.stdlib_module_names, "numpy", "cloud", "ir"} - {"__main__"}
_HINT = "change a copy, or change it by one name and read it by that one"


class Aliases(Base):
    def check_alone(self, old: Any, slot: Slot, node: Any) -> None:
        """Refuse to change the array `old`, which is to be another one in `slot` alone, where
        something that is read later holds it as well, or a view of it."""
        if not isinstance(old, (Value, np.ndarray)) or not len(old.shape):
            return
        memory = Memory(self)
        self.changes += 1
        changed = memory.of(old)
        for what, tree in self._read_later(slot):
            held = _Held(tree, slot)
            if any(memory.meet(changed, memory.of(x)) for x in held):
                raise self.refused(f"an array is changed that is also {what}", _HINT, node)

    def _read_later(self, slot: Slot) -> Iterator[tuple[str, Any]]:
        """What is read once the node that is interpreted is done, in words and itself."""
        for frame in self.frames:
            scope, source = frame.scope.function(), frame.source
            for name, held in scope.vars.items():
                if _is(slot, scope, name):
                    continue
                if source.is_live_after(frame.node, name) and not source.sets(frame.node, name):
                    yield f"{name} of {source.name}", held
            yield f"a default argument of {source.name}", self.defaults.get(source, ())
            for name in source.loads.keys() - scope.vars.keys():
                if (around := _holder(scope.parent, name)) is not None:
                    if not _is(slot, around, name):
                        yield f"{name} around {source.name}", around.vars[name]
                elif slot[0] is None and slot[1] == name:
                    continue  # it is what is changed
                elif name in scope.cells:
                    yield f"{name} around {source.name}", _content(scope.cells[name])
                elif name in scope.globals:
                    yield f"{name} outside of {source.name}", scope.globals[name]
        yield "used in the same statement", self.using


class Memory:
    """Where arrays lie, as far as numpy has views: small arrays stand for those of the graph."""

    def __init__(self, machine: Base) -> None:
        self.machine = machine
        self._own: dict[Value, Array] = {}

    def of(self, x: Any, inside: Mapping[Value, Value] = EMPTY, on: Path = ()) -> list[Array]:
        """Arrays in the memory that x may lie in. `inside`: what the inputs of the graphs that x is
        of stand for. `on`: the values that are being asked about."""
        if isinstance(x, np.ndarray):
            return [x] if x.ndim else []
        if not isinstance(x, Value) or not x.rank or x in on:
            return []  # what numpy gives for one element is a number
        found = self._found(x, inside, (*on, x))
        if found or x in inside:
            return found
        if x not in self._own:
            known = all(isinstance(n, int) for n in x.shape)  # else one element is for all
            self._own[x] = np.empty(x.shape if known else 1, np.int8)
        return [self._own[x]]

    def meet(self, a: list[Array], b: list[Array]) -> bool:
        """Whether an element of the one is one of the other."""
        return any(_share(x, y) for x in a for y in b)

    def _found(self, x: Value, inside: Mapping[Value, Value], on: Path) -> list[Array]:
        """The memory that x shares with what it is made from."""
        if x in inside:
            return self.of(inside[x], inside, on)
        if (begun := self.machine.origins.get(x)) is not None:
            more = [a for y in begun for a in self.of(y, inside, on)]
            # those that were asked about on the way to one of these had it stand for itself
            return [self._own[x], *more] if x in self._own else more
        if x.node is None or x in self.machine.copies:
            return []
        if x in self.machine.views:
            base, f = self.machine.views[x]
            return [_viewed(a, base, f) for a in self.of(base, inside, on)]
        name, attrs = x.node.op.name, x.node.attrs
        operands = x.node.present_inputs
        if name in _VIEWS:
            f = _VIEWS[name](x.shape, attrs)
            return [_viewed(a, operands[0], f) for a in self.of(operands[0], inside, on)]
        if name == "gather" and not operands[1].rank:  # one of the rows, unknown which
            return self.of(operands[0], inside, on)
        graphs, given, first = [], operands, []
        if name == "while_loop":
            graphs, first = [attrs["body"]], self.of(operands[x.index], inside, on)
        elif name == "cond":
            graphs, given = [attrs["then"], attrs["otherwise"]], operands[1:]
        elif name == "call":
            graphs = [g for g in [getattr(attrs["body"], "graph", None)] if g is not None]
        for g in graphs:
            inner = ChainMap(dict(zip(g.inputs, given, strict=True)), dict(inside))
            first = first + self.of(g.outputs[x.index], inner, on)
        return first


class _Held:
    """All arrays and values in a structure and in what its objects and functions hold, but for
    what is in `slot`."""

    def __init__(self, tree: Any, slot: Slot) -> None:
        self.tree, self.slot = tree, slot

    def __iter__(self) -> Iterator[Any]:
        stack, seen = [self.tree], set()
        while stack:
            x = stack.pop()
            if isinstance(x, (Value, np.ndarray)):
                yield x
            elif id(x) not in seen:
                seen.add(id(x))
                stack += [held for *at, held in _items(x) if not _is(self.slot, *at)]


def _items(x: Any) -> Iterator[tuple[Any, Any, Any]]:
    """What a container, an object or a function of the user's holds: where, by which key, what."""
    match x:
        case list() | tuple() | deque():
            yield from ((x, i, held) for i, held in enumerate(x))
        case dict():
            yield from ((x, key, held) for key, held in x.items())
        case Closure():
            yield from ((None, None, held) for held in (x.defaults, x.keyword_defaults))
            names, scope = x.source.loads.keys() | x.source.captured, x.scope
            while scope is not None:
                yield from ((scope, n, scope.vars[n]) for n in names & scope.vars.keys())
                scope = scope.parent
        case functools.partial():
            yield from ((None, None, held) for held in (x.args, x.keywords))
        case types.MethodType():
            yield None, None, x.__self__
        case types.FunctionType():
            cells = map(_content, x.__closure__ or ())
            yield from ((None, None, held) for held in (x.__defaults__, x.__kwdefaults__, *cells))
        case type() | types.ModuleType():
            pass
        case _ if type(x).__module__.partition(".")[0] not in _LIBRARIES:
            yield from ((x, key, held) for key, held in getattr(x, "__dict__", {}).items())


def _holder(scope: Scope | None, name: str) -> Scope | None:
    """The scope, of these, that holds the variable which the name means here."""
    while scope is not None and name not in scope.vars:
        scope = scope.parent
    return scope


def _content(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # nothing yet
        return None


def _is(slot: Slot, container: Any, key: Any) -> bool:
    return slot[0] is container and type(slot[1]) is type(key) and bool(slot[1] == key)


def _viewed(a: Array, x: Value, f: Callable[[Array], Array]) -> Array:
    """What f makes of a, which stands for x; where sizes are free, all of it."""
    if a.shape != x.shape:
        return a
    try:
        return f(a)
    except (TypeError, ValueError, IndexError):
        return a


def _share(a: Array, b: Array) -> bool:
    try:
        return np.shares_memory(a, b, max_work=10_000)
    except np.exceptions.TooHardError:
        return True
