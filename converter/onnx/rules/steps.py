"""A step again and again along the first axis: written out where there are few, else a loop."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from converter.items import as_value, length
from ir.graph import Constant, Graph, Value
from ir.ops.compare import less
from ir.ops.control import while_loop
from ir.ops.index import gather
from ir.ops.shaping import broadcast_to, concat, reshape, slice_axis
from ir.ops.sizes import put_row

MOST_WRITTEN_OUT = 16
Values = tuple[Value, ...]
# (the rows of this step, the state, what stays the same) -> (the state, what the step gives)
Step = Callable[[Values, Values, Values], tuple[Values, Values]]


def stepped(
    step: Step, rows: Sequence[Value], state: Sequence[Value], fixed: Sequence[Value] = ()
) -> tuple[Values, Values]:
    """(the last state, what all steps give, each with an axis of steps in front); rows: [t,*a]"""
    count = rows[0].shape[0]
    if not isinstance(count, int) or count > MOST_WRITTEN_OUT:
        return _looped(step, tuple(rows), tuple(state), tuple(fixed))
    last, given = tuple(state), []
    for i in range(count):
        now = tuple(_row(v, slice_axis(v, i, i + 1, axis=0)) for v in rows)
        last, out = step(now, last, tuple(fixed))
        given.append([reshape(v, shape=(1, *v.shape)) for v in out])
    return last, tuple(concat(*column, axis=0) for column in zip(*given, strict=True))


def _row(v: Value, row: Value) -> Value:
    return reshape(row, shape=v.shape[1:])  # type: ignore[no-any-return]


def _looped(step: Step, rows: Values, state: Values, fixed: Values) -> tuple[Values, Values]:
    count = rows[0].shape[0]
    total = as_value(np.asarray(count, np.int32) if isinstance(count, int) else length(count))
    firsts = tuple(Value(v.shape[1:], v.dtype) for v in rows)
    _, out = step(firsts, _leaves(state), _leaves(fixed))  # what it gives, to make room for that
    room = tuple(
        broadcast_to(Constant(np.zeros((), v.dtype.numpy)), shape=(count, *v.shape)) for v in out
    )
    given = (Constant(np.int32(0)), total, *rows, *fixed, *state, *room)
    inputs = _leaves(given)
    at, end, *rest = inputs
    own, rest = tuple(rest[: len(rows)]), rest[len(rows) :]
    same, rest = tuple(rest[: len(fixed)]), rest[len(fixed) :]
    now = tuple(gather(v, at, axis=0) for v in own)
    last, made = step(now, tuple(rest[: len(state)]), same)
    written = [put_row(v, at, row) for v, row in zip(rest[len(state) :], made, strict=True)]
    body = Graph(inputs, (at + 1, end, *own, *same, *last, *written))
    asked = _leaves(given)
    results = while_loop(*given, condition=Graph(asked, (less(asked[0], asked[1]),)), body=body)
    tail = results[len(given) - len(state) - len(room) :]
    return tuple(tail[: len(state)]), tuple(tail[len(state) :])


def _leaves(values: Values) -> Values:
    return tuple(Value(v.shape, v.dtype) for v in values)
