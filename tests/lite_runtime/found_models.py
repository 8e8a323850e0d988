"""Graphs whose sizes a run finds, for the runtime's tests."""

from __future__ import annotations

import numpy as np

from ir.graph import Constant, Graph, Value
from ir.op import OPS
from ir.symbol import symbol
from tests.lite_runtime.control_models import I32, integer, less, number, trace, while_loop

BIND, AFTER, ROW = OPS["bind_sizes"], OPS["after"], OPS["put_row"]


def found_rows(x: Value, size: str = "k") -> Value:
    """The rows of x [n, m] whose first number is above 0, as many as there are."""
    first = OPS["slice"](x, begin=(0, 0), end=(x.shape[0], 1), step=(1, 1))
    indices, count = OPS["nonzero"](OPS["greater"](first, 0.0))
    k = symbol(size)
    bound = BIND(count, sizes=(k,))
    rows = OPS["slice"](AFTER(indices, bound), begin=(0, 0), end=(k, 1), step=(1, 1))
    return OPS["gather"](x, OPS["reshape"](rows, shape=(k,)), axis=0)


def rows_graph() -> Graph:
    x = Value((symbol("n"), 3), name="x")
    y = found_rows(x)
    return Graph((x,), (OPS["tanh"](y) * 2.0, OPS["reduce_sum"](y, axes=(0,))), ("y", "sum"))


def collecting_loop(turns: int) -> Graph:
    """In each turn i the sum of the rows found in x + 1 - i / 4, put into row i of a buffer."""
    x = Value((5, 3), name="x")
    state = [number(I32), Value((turns, 3)), Value((5, 3))]

    def body(i: Value, buffer: Value, rows: Value) -> tuple[Value, ...]:
        shifted = rows - OPS["cast"](i, to="f32") * 0.25 + 1.0
        total = OPS["reduce_sum"](found_rows(shifted), axes=(0,))
        return i + 1, ROW(buffer, i, total), rows

    out = while_loop(
        integer(0),
        Constant(np.zeros((turns, 3), np.float32)),
        x,
        condition=trace(lambda i, *_: less(i, turns), *state),
        body=trace(body, *state),
    )
    return Graph((x,), (out[1],), ("sums",))
