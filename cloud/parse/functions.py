"""Which functions are interpreted, and how arguments find their parameters."""

from __future__ import annotations

import ast
import functools
import sys
import sysconfig
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cloud.parse.source import FunctionSource, source_of
from cloud.parse.state import MISSING, Scope

OURS = tuple(f"{Path(__file__).parents[2] / name}/" for name in ("ir", "cloud"))
LIBRARIES = tuple(
    f"{path}/" for key, path in sysconfig.get_paths().items() if key.endswith(("lib", "stdlib"))
)


class Closure:
    """A function that was defined in interpreted code. Python may call it as well."""

    # apart from what `functools.wraps` copies from one function to another
    __slots__ = (
        "__dict__", "__weakref__", "defaults", "keyword_defaults", "machine", "scope", "source",
    )  # fmt: skip

    def __init__(
        self,
        machine: Any,
        source: FunctionSource,
        scope: Scope,
        defaults: tuple[Any, ...],
        keyword_defaults: dict[str, Any],
    ) -> None:
        self.machine, self.source, self.scope = machine, source, scope
        self.defaults, self.keyword_defaults = defaults, keyword_defaults
        self.__name__ = source.name
        self.__qualname__ = source.qualname or source.name
        self.__doc__ = None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.machine.entered(self, args, kwargs)

    def __get__(self, obj: Any, kind: Any = None) -> Any:
        return self if obj is None else functools.partial(self, obj)

    @property
    def __signature__(self) -> Any:
        import inspect

        a = self.source.node.args
        kinds = inspect.Parameter
        names = [(p.arg, kinds.POSITIONAL_OR_KEYWORD) for p in (*a.posonlyargs, *a.args)]
        if a.vararg:
            names.append((a.vararg.arg, kinds.VAR_POSITIONAL))
        names += [(p.arg, kinds.KEYWORD_ONLY) for p in a.kwonlyargs]
        if a.kwarg:
            names.append((a.kwarg.arg, kinds.VAR_KEYWORD))
        return inspect.Signature([kinds(n, k) for n, k in names])


def is_users(filename: str) -> bool:
    """Whether a file is the user's, not of this project's front ends nor of a library."""
    return not filename.startswith((*OURS, *LIBRARIES)) and "site-packages" not in filename


def interpretable(f: Any) -> FunctionSource | None:
    """The source of a function that is to be interpreted; None: Python calls it."""
    if not isinstance(f, types.FunctionType) or getattr(f, "__opaque__", False):
        return None
    return source_of(f.__code__) if is_users(f.__code__.co_filename) else None


def opaque(f: Callable[..., Any]) -> Callable[..., Any]:
    """Mark a function as one that Python calls while a function that uses it is traced."""
    f.__opaque__ = True  # type: ignore[attr-defined]
    return f


def scope_of(f: types.FunctionType, source: FunctionSource) -> Scope:
    """A new scope for a call of a function of Python."""
    cells = dict(zip(f.__code__.co_freevars, f.__closure__ or (), strict=True))
    return Scope(source, f.__globals__, None, cells)


def bound(
    source: FunctionSource,
    defaults: tuple[Any, ...],
    keyword_defaults: dict[str, Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> dict[str, Any]:
    """The variables with which a call starts. Raises TypeError, as Python does."""
    a = source.node.args
    positional = [*a.posonlyargs, *a.args]
    names = [p.arg for p in positional]
    found: dict[str, Any] = dict(zip(names, args, strict=False))
    extra = args[len(names) :]
    rest = dict(kwargs)
    by_name = {p.arg for p in (*a.args, *a.kwonlyargs)}
    for name in [n for n in rest if n in by_name]:
        if name in found:
            raise TypeError(f"{source.name}() got multiple values for argument {name!r}")
        found[name] = rest.pop(name)
    given = dict(zip(names[len(names) - len(defaults) :], defaults, strict=True))
    for name in names:
        if name not in found:
            found[name] = given.get(name, MISSING)
    for p in a.kwonlyargs:
        if p.arg not in found:
            found[p.arg] = keyword_defaults.get(p.arg, MISSING)
    missing = [n for n, v in found.items() if v is MISSING]
    if missing:
        raise TypeError(f"{source.name}() misses arguments: {', '.join(missing)}")
    if extra and not a.vararg:
        raise TypeError(f"{source.name}() takes {len(names)} arguments, {len(args)} given")
    if rest and not a.kwarg:
        raise TypeError(f"{source.name}() got unexpected arguments: {', '.join(rest)}")
    if a.vararg:
        found[a.vararg.arg] = tuple(extra)
    if a.kwarg:
        found[a.kwarg.arg] = rest
    return found


def is_generator(source: FunctionSource) -> ast.AST | None:
    """What makes a generator or a coroutine of the function, if something does."""
    if isinstance(source.node, ast.AsyncFunctionDef):
        return source.node
    return source.first_yield


def recursion_limit() -> int:
    """How deep Python may go while it interprets: each interpreted call takes several of its."""
    return max(sys.getrecursionlimit(), 20_000)
