"""The context in which modules are traced: the mode, and the state that layers hand on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ir.errors import GraphError
from ir.graph import Value, Weight, shape_text

if TYPE_CHECKING:
    from cloud.nn.module import Module


@dataclass
class Tracing:
    """One trace of modules into a graph.

    Layers stay functions: one with memory (a running mean, the key of a random generator) reads it
    with `state` and hands the next value on with `update`. Whoever traces puts `updates` into
    the graph, so a second use of the same layer continues where the first one left off.
    """

    training: bool = False
    updates: dict[Weight, Value] = field(default_factory=dict)
    calls: list[tuple[Module, Any]] = field(default_factory=list)  # what each module gave

    def state(self, weight: Weight) -> Value:
        """The weight's value at this point of the trace."""
        return self.updates.get(weight, weight)

    def update(self, weight: Weight, value: Value) -> None:
        """From here on, and once the graph has run, `weight` is `value`. Raises GraphError."""
        if not weight.state:
            raise GraphError(f"weight {weight.name}: a layer updates it, want one with state=True")
        if value.shape != weight.shape or value.dtype is not weight.dtype:
            raise GraphError(
                f"weight {weight.name}: its update is {value.dtype!r}{shape_text(value.shape)}, "
                f"want {weight.dtype!r}{shape_text(weight.shape)}"
            )
        self.updates[weight] = value


def current() -> Tracing:
    """The innermost trace; outside any, one for inference whose updates are forgotten."""
    return _CURRENT.get() or Tracing()


@contextmanager
def tracing(*, training: bool = False) -> Iterator[Tracing]:
    """`with tracing(training=True) as t: y = module(x)`; then `t.updates` holds the new states."""
    t = Tracing(training)
    token = _CURRENT.set(t)
    try:
        yield t
    finally:
        _CURRENT.reset(token)


_CURRENT: ContextVar[Tracing | None] = ContextVar("tracing", default=None)
