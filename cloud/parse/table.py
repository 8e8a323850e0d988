"""The table of functions that mean something else on values, and how they enter it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cloud.parse.structure import leaves
from ir.graph import Value

Handler = Callable[..., Any]
TABLE: dict[Any, Handler] = {}
CALLS: dict[type, Handler] = {}


def handles(*functions: Any) -> Callable[[Handler], Handler]:
    """Register what to do in place of these functions: called with the machine first."""

    def register(handler: Handler) -> Handler:
        handler.of_values = handler  # type: ignore[attr-defined]
        TABLE.update(dict.fromkeys(functions, handler))
        return handler

    return register


def calls_of(kind: type) -> Callable[[Handler], Handler]:
    """Register what a call of an object of this type does: called with the machine, the object, its
    positional and its named arguments."""

    def register(handler: Handler) -> Handler:
        CALLS[kind] = handler
        return handler

    return register


def on_values(*functions: Any) -> Callable[[Handler], Handler]:
    """Like `handles`, for calls in which an argument is a value; the first one is called else."""

    def register(handler: Handler) -> Handler:
        for f in functions:
            TABLE[f] = _choice(f, handler)
        return handler

    return register


def _choice(f: Any, handler: Handler) -> Handler:
    def choose(m: Any, *args: Any, **kwargs: Any) -> Any:
        if any(isinstance(x, Value) for x in leaves((args, kwargs))):
            return handler(m, *args, **kwargs)
        return m.call_python(f, args, kwargs)

    choose.of_values = handler  # type: ignore[attr-defined]
    return choose
