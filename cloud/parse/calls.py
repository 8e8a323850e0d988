"""Calls: of the user's functions, which are interpreted, and of everything else."""

from __future__ import annotations

import ast
import functools
import inspect
import types
from collections import Counter, deque
from collections.abc import Iterator
from typing import Any

import numpy as np

from cloud.parse import (  # noqa: F401  (they fill the table)
    array_table,
    numeric_table,
    python_table,
    real_table,
    reduction_table,
    special_table,
)
from cloud.parse.base import OFF_THE_END, Frame
from cloud.parse.errors import UnsupportedSyntax, too_deep
from cloud.parse.faults import FAULTS, add_hint, is_fault, refusing, worded
from cloud.parse.functions import (
    Closure,
    bound,
    interpretable,
    is_generator,
    is_users,
    scope_of,
)
from cloud.parse.nearest import arguments, nearest
from cloud.parse.recursion import Recursion
from cloud.parse.source import FunctionSource, source_of
from cloud.parse.state import Scope
from cloud.parse.stateful import changes_built_in, receiver, tracked
from cloud.parse.structure import described, values_in
from cloud.parse.table import CALLS, TABLE
from ir.errors import IrError
from ir.graph import Value, Weight
from ir.op import Op


class Calls(Recursion):
    def call(self, f: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """f(*args, **kwargs), interpreted where f is the user's."""
        handler = TABLE.get(f) if _is_hashable(f) else None
        if handler is not None:
            return self._handled(f, handler, args, kwargs)
        if isinstance(f, Closure):
            return self._call_closure(f, args, kwargs)
        if isinstance(f, types.MethodType):
            if isinstance(f.__func__, (types.FunctionType, Closure)):
                if not interpretable(f.__func__):
                    self.touch_called(f, args, kwargs)
                    if isinstance(f.__self__, Counter):
                        self.key(args)
                return self.call(f.__func__, (f.__self__, *args), kwargs)
            return self.call_python(f, args, kwargs)
        if isinstance(f, types.FunctionType):
            source = interpretable(f)
            if source is None:
                return self.call_python(f, args, kwargs)
            return self._call_function(f, source, args, kwargs)
        if isinstance(f, functools.partial):
            return self.call(f.func, (*f.args, *args), {**f.keywords, **kwargs})
        if isinstance(f, Op):
            return self._call_operator(f, args, kwargs)
        if (called := next((CALLS[k] for k in type(f).__mro__ if k in CALLS), None)) is not None:
            return called(self, f, args, kwargs)
        if isinstance(f, type):
            return self._make(f, args, kwargs)
        method = getattr(type(f), "__call__", None)  # noqa: B004  (it is to be read)
        if interpretable(method):
            return self.call(method, (f, *args), kwargs)
        return self.call_python(f, args, kwargs)

    def call_python(self, f: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Let Python call it; what cannot take values says so with the place."""
        if not callable(f) and values_in([f, args, kwargs]):
            hint = "only functions are called; a product is written x * (…)"
            raise self.not_known(f"a call of {described(f)}, which is no function", hint)
        owner = getattr(f, "__self__", None)
        given = values_in([list(args), kwargs, owner if isinstance(owner, list) else None])
        self.touch_called(f, args, kwargs)
        if given and isinstance(owner, np.ndarray):
            return self.method_of_value(self.as_value(owner), f.__name__, *args, **kwargs)
        if values_in([given, owner]) and _looks_at_values(f, owner):
            raise self._takes_no_values(f, "its numbers are known when the graph runs")
        keyed, name, rest = receiver(f, args)
        if isinstance(keyed, (dict, set, frozenset)) and rest and name in _BY_KEY:
            self.key(rest[0])
        if isinstance(keyed, set) and changes_built_in(keyed, name):
            self.key(rest)
        try:
            y = f(*args, **kwargs)
        except (TypeError, AttributeError) as e:
            if not given or not _is_foreign(f) or isinstance(e, IrError):
                if given and isinstance(f, types.FunctionType) and source_of(f.__code__) is None:
                    raise self._has_no_source(f, e) from None
                raise
            raise self._takes_no_values(f, str(e)) from None
        if isinstance(y, Value) and y.node is not None and isinstance(f, types.FunctionType):
            self.mark(y.node)
        return self.made(y) if _is_new(y, f, owner, args) else y

    def _handled(self, f: Any, handler: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """What the table has in place of f; where that cannot be, it says so with the place."""
        try:
            y = handler(self, *args, **kwargs)
            return self.made(y) if isinstance(y, Iterator) and not any(y is a for a in args) else y
        except FAULTS as e:
            if not is_fault(e) or not values_in([list(args), kwargs]):
                raise
            if (unknown := _misfit(handler, self, args, kwargs)) is not None:
                raise self._takes_no_values(f, unknown, arguments(f, handler)) from None
            if isinstance(e, TypeError):
                raise self._takes_no_values(f, worded(e), arguments(f, handler)) from None
            hint = "give arguments that fit the shapes of its arrays"
            raise self.not_known(f"{_full_name(f)}: {worded(e)}", hint) from None

    def key(self, x: Any, node: ast.AST | None = None) -> Any:
        """x as a key of a dict or a member of a set. Raises NotKnown for a value: Python would look
        for its number. Weights are kept by what they are."""
        if any(not isinstance(v, Weight) for v in values_in(x)):
            hint = "its number is known when the graph runs; use a known number or a text"
            raise self.not_known(
                f"{described(x)} as a key of a dict or a member of a set", hint, node
            )
        return x

    def mapping(self, x: Any, node: ast.AST) -> Any:
        """x as what `**` opens."""
        if isinstance(x, Value):
            raise self.not_known(f"** of {described(x)}", "give a dict", node)
        return x

    def _note_place(self, e: Exception) -> None:
        """Let an error say which of the user's lines it comes from: Python's traceback shows those
        of this interpreter. Raises NotKnown for one about a value that Python came upon."""
        if isinstance(e, FAULTS) and is_fault(e) and "'Value'" in str(e):
            hint = "compute it from known numbers, or use an operator of cloud.ops"
            raise self.not_known(worded(e), hint) from None
        if isinstance(e, RecursionError):
            raise too_deep(self.place()) from None
        if not isinstance(e, UnsupportedSyntax) and not hasattr(e, "__notes__"):
            place = self.place()
            e.add_note(f"{place}: in {self.frames[-1].source.name}\n{place.caret()}")
            add_hint(e)

    def _has_no_source(self, f: types.FunctionType, e: Exception) -> Exception:
        return self.not_known(
            f"the source of {f.__qualname__} cannot be read, and without it {e}",
            "define it in a file or a notebook, or run it in eager mode",
        )

    def _takes_no_values(self, f: Any, why: str, hint: str = "") -> Exception:
        return self.not_known(
            f"{_full_name(f)} does not take values of a graph ({why})", hint or nearest(f)
        )

    def run_function(self, source: FunctionSource, scope: Scope, arguments: dict[str, Any]) -> Any:
        """The body, once the arguments are bound."""
        first = next(iter(arguments.values()), None)
        scope.vars.update(arguments)
        self.frames.append(Frame(source, scope, source.body[0], first))
        flow = OFF_THE_END
        try:
            flow = self.block(source.body)
        except Exception as e:
            self._note_place(e)
            raise
        finally:
            self.frames.pop()
        return flow.value

    def _call_function(
        self,
        f: types.FunctionType,
        source: FunctionSource,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Any:
        self._check_kind(source)
        defaults, by_name = f.__defaults__ or (), f.__kwdefaults__ or {}
        self.defaults[source] = (defaults, by_name)
        arguments = self._arguments(source, defaults, by_name, args, kwargs)
        identity = (source, tuple(map(id, f.__closure__ or ())))
        return self.activate(
            identity,
            source.name,
            arguments,
            lambda a: self.run_function(source, scope_of(f, source), a),
        )

    def _call_closure(self, f: Closure, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        self._check_kind(f.source)
        self.defaults[f.source] = (f.defaults, f.keyword_defaults)
        arguments = self._arguments(f.source, f.defaults, f.keyword_defaults, args, kwargs)

        def run(a: dict[str, Any]) -> Any:
            scope = Scope(f.source, f.scope.globals, f.scope)
            return self.run_function(f.source, scope, a)

        return self.activate((f.source, id(f.scope)), f.source.name, arguments, run)

    @refusing("give the arguments that it is defined with")
    def _arguments(self, *call: Any) -> dict[str, Any]:
        return bound(*call)

    def _check_kind(self, source: FunctionSource) -> None:
        if (node := is_generator(source)) is None:
            return
        self.frames.append(Frame(source, Scope(source, {}), node))
        try:
            raise self.refused(
                f"{source.name} is a generator or a coroutine",
                "build a list and return it",
                node,
            )
        finally:
            self.frames.pop()

    @refusing("see the operator's entry in docs/operators.md")
    def _call_operator(self, f: Op, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """An operator of the table; numbers and arrays take the type of the values beside them."""
        if not any(isinstance(x, Value) for x in args):
            return f(*args, **kwargs)
        y = f(*args, **kwargs)
        one = y if isinstance(y, Value) else y[0] if y else None
        if one is not None and one.node is not None:
            self.mark(one.node)
        return y

    def _make(self, kind: type, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A new object: the user's `__init__` is interpreted."""
        init = kind.__init__
        plain = kind.__new__ is object.__new__ and type(kind).__call__ is type.__call__
        if not plain or not interpretable(init) or not is_users(init.__code__.co_filename):
            return self.call_python(kind, args, kwargs)
        made = kind.__new__(kind)
        if self.regions:
            self.regions[-1].own[id(made)] = made
        self.call(init, (made, *args), kwargs)
        return made

    def expr_Call(self, node: ast.Call) -> Any:
        if isinstance(node.func, ast.Name) and node.func.id == "super" and not node.args:
            return self._super(node)
        f = self.expr(node.func)
        args = self._elements(node.args)
        kwargs: dict[str, Any] = {}
        with self.in_use((args, kwargs)):
            for k in node.keywords:
                given = self.expr(k.value)
                kwargs.update({k.arg: given} if k.arg else self.mapping(given, k.value))
        self.frames[-1].node = node
        return self.call(f, tuple(args), kwargs)

    def _super(self, node: ast.Call) -> Any:
        frame = self.frames[-1]
        cell = frame.scope.function().cells.get("__class__")
        if cell is None:
            raise self.refused("super() outside of a method", "name the class", node)
        return super(cell.cell_contents, frame.first_argument)


_TAKING_OUT = ("get", "pop", "popleft", "setdefault", "popitem")
_COMPARING = ("index", "count", "remove")
_BY_KEY = ("get", "pop", "setdefault", "add", "discard", "remove", "__getitem__", "__setitem__",
           "__delitem__", "__contains__")  # fmt: skip


def _is_new(y: Any, f: Any, owner: Any, args: tuple[Any, ...]) -> bool:
    """Whether a call made y, rather than found it in what it was given."""
    if f is next or (isinstance(owner, (list, dict, deque)) and f.__name__ in _TAKING_OUT):
        return False
    given = [owner, *args]
    for x in tuple(given):
        if isinstance(x, (list, tuple)):
            given.extend(x)
        elif isinstance(x, dict):
            given.extend(x.values())
    return not any(_share(x, y) for x in given)


def _share(x: Any, y: Any) -> bool:
    """Whether these are one object, have one state, or are arrays in the same memory."""
    if tracked(x) is tracked(y):
        return True
    return isinstance(x, np.ndarray) and isinstance(y, np.ndarray) and np.may_share_memory(x, y)


def _looks_at_values(f: Any, owner: Any) -> bool:
    """Whether it would take a value for an object like any other: numpy, text, a search."""
    if isinstance(owner, (list, tuple)):
        return f.__name__ in _COMPARING
    if isinstance(owner, str):
        return True
    module = getattr(f, "__module__", None) or ""
    return isinstance(f, np.ufunc) or module.split(".")[0] == "numpy"


def _misfit(handler: Any, *call: Any) -> str | None:
    """What is wrong with the arguments of a call of a handler, if the call cannot be made."""
    machine, args, kwargs = call
    try:
        inspect.signature(handler.of_values).bind(machine, *args, **kwargs)
    except TypeError as e:
        return str(e)
    return None


def _full_name(f: Any) -> str:
    name = getattr(f, "__qualname__", getattr(f, "__name__", repr(f)))
    module = getattr(f, "__module__", None)
    return f"{module}.{name}" if module and module != "builtins" else name


def _is_foreign(f: Any) -> bool:
    """Whether an error in it is about values, not one of the user's own code."""
    code = getattr(f, "__code__", None)
    return code is None or not is_users(code.co_filename)


def _is_hashable(f: Any) -> bool:
    try:
        hash(f)
    except TypeError:
        return False
    return True
