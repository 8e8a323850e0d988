"""What is set inside of something: items of arrays, lists and dicts, attributes of objects."""

from __future__ import annotations

import ast
from typing import Any

import numpy as np

from cloud.parse.aliases import Aliases
from cloud.parse.faults import refusing
from cloud.parse.functions import interpretable
from cloud.parse.matching import Matching
from cloud.parse.state import Scope
from cloud.parse.structure import values_in
from ir.graph import Value


class Items(Aliases, Matching):
    def set_attribute(self, x: Any, name: str, value: Any) -> None:
        self.touch(self._owner(x, "set"))
        setattr(x, name, value)

    def _owner(self, x: Any, verb: str) -> Any:
        """x, of which an attribute is set or deleted."""
        if isinstance(x, Value):
            raise self.refused(f"an attribute of a value is {verb}", "values never change")
        return x

    @refusing("an index is a number or a slice, and the new items fit where they go")
    def _set_item(self, target: ast.Subscript, x: Any, key: Any, value: Any) -> None:
        """x[key] = value: a tensor never changes, so the name gets another one."""
        if isinstance(x, Value):
            self._rebind(target, x, self.updated(x, key, value))
        elif isinstance(x, np.ndarray):
            if values_in([key, value]):
                self._rebind(target, x, self.updated(self.as_value(x), key, value))
            else:
                new = x.copy()
                new[key] = value
                self._rebind(target, x, new)
        elif isinstance(key, Value):
            hint = "use a tensor, or a known number"
            raise self.not_known(f"a {type(x).__name__} set at a value", hint, target)
        else:
            method = getattr(type(x), "__setitem__", None)
            if interpretable(method):
                self.call(method, (x, key, value), {})
                return
            self.touch(x)
            x[key] = list(self.iterated(value)) if isinstance(key, slice) else value

    @refusing("a number, or one row for each of the places that the mask chooses")
    def _update_chosen(
        self, target: ast.Subscript, x: Any, key: Any, kind: type, value: Any
    ) -> None:
        """x[key] `kind`= value, where a mask in the key is a value."""
        if not isinstance(x, (Value, np.ndarray)):
            hint = "use a tensor, or a known number"
            raise self.not_known(f"a {type(x).__name__} set at a value", hint, target)
        change = lambda new: self.operated(kind, x, new)  # noqa: E731
        self._rebind(target, x, self.updated(self.as_value(x), key, value, change))

    def _rebind(self, target: ast.Subscript, old: Any, new: Any) -> None:
        base = target.value
        if not isinstance(base, (ast.Name, ast.Attribute, ast.Subscript)):
            hint = "give the tensor a name first"
            raise self.refused("an item of a tensor without a name is set", hint, target)
        if (slot := self._slot_of(base)) is not None:
            self.check_alone(old, slot, target)
        if isinstance(base, ast.Name):
            self._store_where_it_is(base.id, new, target)
        else:
            self.assign(base, new)

    def _slot_of(self, target: ast.expr) -> tuple[Any, Any] | None:
        """What holds the array that the target means, and by which name or key; None for an item of
        an array: that is a view, and the array itself is asked about."""
        match target:
            case ast.Attribute(value=owner, attr=attr):
                return self.expr(owner), self.mangled(attr)
            case ast.Subscript(value=owner, slice=key):
                return self._slot_in(self.expr(owner), self.expr(key))
            case ast.Name(id=name):
                return self._holder(name), name
        return None

    def _slot_in(self, holder: Any, key: Any) -> tuple[Any, Any] | None:
        if isinstance(holder, (Value, np.ndarray)):
            return None
        from_end = isinstance(holder, list) and isinstance(key, int) and key < 0
        return holder, key + len(holder) if from_end else key

    def _store_where_it_is(self, name: str, new: Any, target: ast.AST) -> None:
        """Give the variable that `name` means here, which may be of a function around, a value."""
        if (scope := self._holder(name)) is not None:
            self.touch(scope)
            scope.vars[name] = new
            return
        raise self.refused(
            f"{name}, an array from outside of what is traced, is changed",
            "pass it in and return it, or change a copy",
            target,
        )

    def _holder(self, name: str | None) -> Scope | None:
        """The scope that holds the variable which the name means here."""
        scope: Scope | None = self.scope
        while scope is not None and name not in scope.vars:
            scope = scope.parent
        return scope
