"""Graphs with control flow, for the runtime's tests."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ir.dtype import DType
from ir.graph import Constant, Function, Graph, Value
from ir.op import OPS
from ir.ops.control import new_tape

I32 = DType.i32
cond, while_loop, call = OPS["cond"], OPS["while_loop"], OPS["call"]
push, pop, less = OPS["push"], OPS["pop"], OPS["less"]


def number(dtype: DType = DType.f32, name: str | None = None) -> Value:
    return Value((), dtype, name=name)


def integer(n: int) -> Constant:
    return Constant(np.int32(n))


def trace(fn: Callable[..., object], *inputs: Value) -> Graph:
    return Graph.trace(fn, *(Value(v.shape, v.dtype) for v in inputs))


def newton() -> Graph:
    """The square root of a, until x x is as near to a as it gets or 100 steps have gone."""

    def goes_on(i, x, a):
        far = OPS["greater"](OPS["abs"](x * x - a), a * 1e-6)
        return OPS["logical_and"](less(i, 100), far)

    i, x, a = number(I32), number(), number(name="a")
    out = while_loop(
        integer(0),
        Constant(np.float32(1)),
        a,
        condition=trace(goes_on, i, x, a),
        body=trace(lambda i, x, a: (i + 1, (x + a / x) * 0.5, a), i, x, a),
    )
    return Graph((a,), (out[1], out[0]), ("root", "steps"))


def counted(state: list[Value], body: Callable[..., tuple[Value, ...]], turns: int) -> Graph:
    """`turns` turns of a body that does not see the counter."""
    i = number(I32)
    out = while_loop(
        integer(0),
        *state,
        condition=trace(lambda i, *_: less(i, turns), i, *state),
        body=trace(lambda i, *xs: (i + 1, *body(*xs)), i, *state),
    )
    return Graph(tuple(state), tuple(out[1:]))


def factorial() -> Graph:
    """n! by recursion, in floats."""
    f = Function("factorial", (((), I32),), (((), DType.f32),))

    def further(n):
        (below,) = call(n - 1, body=f)
        return (OPS["cast"](n, to="f32") * below,)

    def body(n):
        one = trace(lambda n: (Constant(np.float32(1)),), n)
        return cond(less(n, 1), n, then=one, otherwise=trace(further, n))

    n = number(I32, "n")
    f.graph = trace(body, n)
    return Graph((n,), call(n, body=f), ("y",))


def reversed_sum(turns: int) -> Graph:
    """Pushes x, sin x, sin sin x ... and then adds them up from the last one, each weighed more."""
    tape, x = Value((), DType.tape), Value((3,), name="x")
    i, total = number(I32), Value((3,))

    def forward(i, tape, x):
        return i + 1, push(push(tape, x), i), OPS["sin"](x)

    def backward(i, tape, total):
        tape, k = pop(tape, shape=(), dtype="i32")
        tape, x = pop(tape, shape=(3,), dtype="f32")
        return i - 1, tape, total * 0.5 + x * OPS["cast"](k + 1, to="f32")

    _, tape_, y = while_loop(
        integer(0),
        new_tape(),
        x,
        condition=trace(lambda i, t, x: less(i, turns), i, tape, x),
        body=trace(forward, i, tape, x),
    )
    _, rest, total_ = while_loop(
        integer(turns),
        tape_,
        y,
        condition=trace(lambda i, t, s: less(0, i), i, tape, total),
        body=trace(backward, i, tape, total),
    )
    _, nothing = pop(rest, shape=(2,), dtype="f32")
    return Graph((x,), (total_, y, nothing))
