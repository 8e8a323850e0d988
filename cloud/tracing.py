"""The context in which modules are traced: the mode, and the state that layers hand on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from cloud import ops
from ir.errors import GraphError
from ir.graph import Value, Weight, shape_text
from ir.op import PART


@dataclass
class Tracing:
    """One trace of modules into a graph.

    Layers stay functions: one with memory (a running mean, the key of a random generator) reads
    its state here and hands the next one on. Whoever traces puts `updates` into the graph, so that
    the weight holds the last state once the graph has run; a second use of the same layer in one
    trace continues where the first one left off.
    """

    training: bool = False
    updates: dict[Weight, Value] = field(default_factory=dict)  # results of update operators
    calls: list[tuple[Any, Any]] = field(default_factory=list)  # what each module gave
    _paths: dict[int, str] = field(default_factory=dict)  # of modules, while one is called
    _states: dict[Weight, Value] = field(default_factory=dict)  # the same, without overwriting
    _drawn: dict[Weight, int] = field(default_factory=dict)  # how many keys were taken

    @contextmanager
    def inside(self, module: Any) -> Iterator[None]:
        """Nodes that are made in the block say in their source which module makes them: by its
        path from the outermost one that is being called."""
        outermost = not self._paths
        if outermost:
            self._paths = {id(m): path for path, m in module.modules().items()}
        token = PART.set(self._paths.get(id(module), PART.get()))
        try:
            yield
        finally:
            PART.reset(token)
            if outermost:
                self._paths = {}

    def state(self, weight: Weight) -> Value:
        """The weight's value at this point of the trace."""
        return self._states.get(weight, weight)

    def update(self, weight: Weight, value: Value) -> None:
        """From here on, and once the graph has run, `weight` is `value`. Raises GraphError."""
        _check(weight, value)
        self._states[weight] = value
        self.updates[weight] = ops.ema_step(weight, value, momentum=1.0)

    def average(self, running: Weight, x: Value, momentum: float) -> None:
        """running += momentum * (x - running)"""
        _check(running, x)
        first, old = running not in self._states, self.state(running)
        self.update(running, old + (x - old) * momentum)
        if (
            first
        ):  # one node in place of four; a second use cannot overwrite what the first one reads
            self.updates[running] = ops.ema_step(running, x, momentum=momentum)

    def next_key(self, key: Weight) -> Value:
        """A key for one random tensor; no two calls give the same one, nor do two runs."""
        _check(key, key)
        n = self._drawn.get(key, 0)
        self._drawn[key] = n + 1
        self.updates[key] = ops.increment(key, by=n + 1)
        return key + n if n else key


def is_training() -> bool:
    """Whether the innermost trace is one for training."""
    trace = _CURRENT.get()
    return trace is not None and trace.training


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


def _check(weight: Weight, value: Value) -> None:
    if not weight.state:
        raise GraphError(f"weight {weight.name}: a layer updates it, want one with state=True")
    if value.shape != weight.shape or value.dtype is not weight.dtype:
        raise GraphError(
            f"weight {weight.name}: its update is {value.dtype!r}{shape_text(value.shape)}, "
            f"want {weight.dtype!r}{shape_text(weight.shape)}"
        )
