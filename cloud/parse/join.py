"""One result of two ways: where they differ, a pair of values of which data choose one."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from cloud.autodiff import zeros_like
from cloud.parse.arithmetic import Arithmetic
from cloud.parse.base import Flow
from cloud.parse.errors import Mismatch
from cloud.parse.state import MISSING, Poison
from cloud.parse.structure import NUMBER, NUMERIC, described, like, rebuilt, same_known
from ir.dtype import DType
from ir.graph import Value


class Chosen:
    """Stands in a joined structure for the result that is to come."""

    def __init__(self, index: int) -> None:
        self.index = index


class Choice:
    """One of two functions, as data decide: a call of it is a branch."""

    def __init__(self, predicate: Value, a: Any, b: Any) -> None:
        self.predicate, self.a, self.b = predicate, a, b

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise TypeError("a function that data choose is called by traced code alone")


class Joiner:
    """Joins structures of two branches and collects the pairs of values in which they differ."""

    def __init__(
        self, machine: Arithmetic, predicate: Value, held: tuple[dict[int, Any], dict[int, Any]]
    ) -> None:
        self.machine = machine
        self.predicate = predicate
        self.held = held  # for each branch, by id: what containers held at its end
        self.pairs: list[tuple[Value, Value]] = []
        self._seen: dict[tuple[Value, Value], Chosen] = {}

    def join(self, a: Any, b: Any) -> Any:
        """a and b as one, with `Chosen` where they differ. Raises Mismatch."""
        if a is b:
            return a
        if isinstance(a, Poison) or isinstance(b, Poison):
            return a if isinstance(a, Poison) else b
        if a is MISSING or b is MISSING:
            raise Mismatch("it is set in only one of two branches")
        if isinstance(a, Flow) and isinstance(b, Flow):
            return self.flows(a, b)
        if same_known(a, b) and not isinstance(a, (list, dict)):
            return a
        if isinstance(a, NUMERIC) and isinstance(b, NUMERIC):
            return self.pair(*self.unified(a, b))
        if callable(a) and callable(b):
            return Choice(self.predicate, a, b)
        return self._structures(a, b)

    def flows(self, a: Flow, b: Flow) -> Flow:
        """How a block is left whose two ways are left so; the returned values must agree."""
        code = self.join(a.code, b.code)
        in_a, in_b = 1 in a.possible, 1 in b.possible
        value = None
        if in_a and in_b:
            value = self.join(a.value, b.value)
        elif in_a:
            value = self.join(a.value, self.blank(a.value))
        elif in_b:
            value = self.join(self.blank(b.value), b.value)
        return Flow(code, value, a.possible | b.possible)

    def blank(self, tree: Any) -> Any:
        """The same structure with zeros for values: a result that nobody reads."""
        return rebuilt(tree, lambda x: zeros_like(x) if isinstance(x, Value) else x)

    def pair(self, a: Value, b: Value) -> Any:
        if a is b:
            return a
        if (a, b) not in self._seen:
            self._seen[a, b] = Chosen(len(self.pairs))
            self.pairs.append((a, b))
        return self._seen[a, b]

    def unified(self, a: Any, b: Any) -> tuple[Value, Value]:
        """Both as values of one shape and type. Raises Mismatch, which names both."""
        machine = self.machine
        if shape_of(a) != shape_of(b):
            raise Mismatch(f"one is {described(a)}, the other {described(b)}")
        dtype = machine.common_dtype(a, b)
        for x in (a, b):
            fixed = not isinstance(x, NUMBER) and not machine.is_weak(x)
            known = machine.as_value(x).dtype
            if dtype is not known and (fixed or (known is DType.i64 and not dtype.is_float)):
                raise Mismatch(f"one is {described(a)}, the other {described(b)}")
        return machine.as_value(a, dtype), machine.as_value(b, dtype)

    def _structures(self, a: Any, b: Any) -> Any:
        if type(a) is not type(b):
            raise Mismatch(f"one is {described(a)}, the other {described(b)}")
        x, y = self._items(a, 0), self._items(b, 1)
        if x is None or y is None:
            raise Mismatch(f"one is {described(a)}, the other {described(b)}")
        if list(x) != list(y):
            raise Mismatch(f"one holds {list(x)}, the other {list(y)}")
        joined = {k: self.join(x[k], y[k]) for k in x}
        if isinstance(a, tuple):
            return like(a, list(joined.values()))
        if isinstance(a, list):
            return self.machine.made(list(joined.values()))
        if isinstance(a, dict):
            return self.machine.made(joined)
        new = copy.copy(a)
        vars(new).update(joined)
        return new

    def _items(self, x: Any, side: int) -> dict[Any, Any] | None:
        """What a structure holds at the end of its branch; None for what has no parts."""
        if id(x) in self.held[side]:
            return dict(self.held[side][id(x)])
        if isinstance(x, (tuple, list)):
            return dict(enumerate(x))
        if isinstance(x, dict):
            return dict(x)
        if hasattr(x, "__dict__") and not callable(x) and not isinstance(x, type):
            return dict(vars(x))
        return None


def shape_of(x: Any) -> Any:
    return x.shape if isinstance(x, Value) else np.shape(x)


def filled(tree: Any, results: list[Value]) -> Any:
    """A joined structure once the results are there."""
    if isinstance(tree, Chosen):
        return results[tree.index]
    if isinstance(tree, Flow):
        return Flow(filled(tree.code, results), filled(tree.value, results), tree.possible)
    if isinstance(tree, tuple):
        return like(tree, [filled(x, results) for x in tree])
    if isinstance(tree, list):
        tree[:] = [filled(x, results) for x in tree]
        return tree
    if isinstance(tree, dict):
        tree.update({k: filled(x, results) for k, x in tree.items()})
        return tree
    if any(isinstance(x, Chosen) for x in getattr(tree, "__dict__", {}).values()):
        vars(tree).update({k: filled(x, results) for k, x in vars(tree).items()})
    return tree
