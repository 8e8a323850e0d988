"""The interpreter as a whole: how a trace starts, and how Python calls back into it."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from cloud.parse.errors import Disagreement
from cloud.parse.functions import recursion_limit
from cloud.parse.statements import Statements
from cloud.parse.structure import values_in


class Machine(Statements):
    """Interprets Python: what is known is computed, values add nodes to the graph."""

    def entered(self, f: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A call from outside of interpreted code, or from a library under it."""
        floats = {v.dtype for v in values_in([list(args), kwargs]) if v.dtype.is_float}
        if floats and not self.frames:
            self.default_float = max(floats, key=lambda d: d.size_bytes)
        frames, regions = len(self.frames), len(self.regions)
        with _active(self):
            try:
                return self.call(f, args, kwargs)
            finally:
                del self.frames[frames:]
                del self.regions[regions:]

    def disagreement_with(self, what: str, hint: str, node: ast.AST) -> Disagreement:
        return Disagreement(what, self.place(node), hint)


def call(f: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """f(*args, **kwargs) where f's control flow may depend on values: it becomes part of the graph.

    Raises UnsupportedSyntax for source that cannot become a graph.
    """
    machine = _MACHINE.get() or Machine()
    return machine.entered(f, args, kwargs)


def current() -> Machine | None:
    """The interpreter that is at work, if one is."""
    return _MACHINE.get()


def is_tracing() -> bool:
    """Whether a function is being traced, so that what it calls is a part of the trace."""
    return _MACHINE.get() is not None


@contextmanager
def _active(machine: Machine) -> Iterator[None]:
    token = _MACHINE.set(machine)
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(recursion_limit())
    try:
        yield
    finally:
        sys.setrecursionlimit(limit)
        _MACHINE.reset(token)


_MACHINE: ContextVar[Machine | None] = ContextVar("machine", default=None)
