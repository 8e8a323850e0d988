"""Graphs with loops, branches and recursion that several tests share."""

from __future__ import annotations

from collections.abc import Callable

from cloud import ops
from ir.dtype import DType
from ir.graph import Constant, Function, Graph, Value, Weight

INT, FLOAT, BOOL = ((), DType.i32), ((), DType.f32), ((), DType.bool)


def i32(name: str | None = None) -> Value:
    """A whole number that a graph is given."""
    return Value((), DType.i32, name=name)


def number(n: int) -> Constant:
    return Constant(n, dtype=DType.i32)


def doubled_until(limit: float) -> Graph:
    """x doubled until it is at least `limit`."""
    x = Value((), name="x")
    below = Graph((x,), (ops.less(x, Constant(limit, dtype=DType.f32)),))
    return Graph((x,), ops.while_loop(x, condition=below, body=Graph((x,), (x + x,))))


def power(weight: Weight | None = None) -> Function:
    """x^n by recursion (times weight^n, where there is one)."""
    f = Function("power", [INT, FLOAT], [FLOAT])
    n, x = i32("n"), Value((), name="x")
    rest = ops.call(n - number(1), x, body=f)[0] * x
    more = Graph((n, x), (rest * weight if weight else rest,))
    done = Graph((n, x), (Constant(1.0, dtype=DType.f32),))
    more_left = ops.greater(n, number(0))
    f.graph = Graph((n, x), ops.cond(more_left, n, x, then=more, otherwise=done))
    return f


def even_and_odd() -> tuple[Function, Function]:
    """Whether n is even, and whether it is odd, each by the other."""
    made = tuple(Function(name, [INT], [BOOL]) for name in ("even", "odd"))
    for f, other, at_zero in zip(made, made[::-1], (True, False), strict=True):
        n = i32("n")
        below = Graph((n,), ops.call(n - number(1), body=other))
        done = Graph((n,), (Constant(at_zero, dtype=DType.bool),))
        more = ops.greater(n, number(0))
        f.graph = Graph((n,), ops.cond(more, n, then=below, otherwise=done))
    return made  # type: ignore[return-value]


def fibonacci() -> Function:
    """The nth Fibonacci number by recursion that branches like a tree."""
    f = Function("fibonacci", [INT], [INT])
    n = i32("n")
    (a,), (b,) = (ops.call(n - number(k), body=f) for k in (1, 2))
    two = Graph((n,), (a + b,))
    more = ops.greater(n, number(1))
    f.graph = Graph((n,), ops.cond(more, n, then=two, otherwise=Graph((n,), (n,))))
    return f


def repeated(turns: int, step: Callable[[Value], Value], shape: tuple[int, ...] = ()) -> Graph:
    """A step, done that many times."""
    x, i, a = Value(shape, name="x"), i32(), Value(shape)
    below = Graph((i, a), (ops.less(i, number(turns)),))
    body = Graph((i, a), (i + number(1), step(a)))
    return Graph((x,), ops.while_loop(number(0), x, condition=below, body=body)[1:])


def power_by_loop() -> Function:
    """x^n by a loop."""
    n, x = i32("n"), Value((), name="x")
    left, y, factor = i32(), Value(()), Value(())
    state = (left, y, factor)
    more = Graph(state, (ops.greater(left, number(0)),))
    body = Graph(state, (left - number(1), y * factor, factor))
    one = Constant(1.0, dtype=DType.f32)
    return Function.of(
        "power", Graph((n, x), ops.while_loop(n, one, x, condition=more, body=body)[1:2])
    )


def square_root() -> Graph:
    """Newton's method, for as many turns as it takes."""
    x, a, y = Value((), name="x"), Value(()), Value(())
    error = ops.abs(y * y - a)
    more = Graph((a, y), (ops.greater(error, a * Constant(1e-7, dtype=DType.f32)),))
    body = Graph((a, y), (a, (y + a / y) * Constant(0.5, dtype=DType.f32)))
    return Graph((x,), ops.while_loop(x, x, condition=more, body=body)[1:])


def tree() -> Function:
    """f(n, x) = sin(f(n - 1, x)) + x f(n - 2, cos(x)), and x where n < 2."""
    f = Function("tree", [INT, FLOAT], [FLOAT])
    n, x = i32("n"), Value((), name="x")
    (a,) = ops.call(n - number(1), x, body=f)
    (b,) = ops.call(n - number(2), ops.cos(x), body=f)
    two = Graph((n, x), (ops.sin(a) + x * b,))
    more = ops.greater(n, number(1))
    f.graph = Graph((n, x), ops.cond(more, n, x, then=two, otherwise=Graph((n, x), (x,))))
    return f


def even_and_odd_steps() -> tuple[Function, Function]:
    """Functions that call each other: sin(odd(n - 1, x)) x, and exp(-even(n - 1, x))."""
    made = tuple(Function(name, [INT, FLOAT], [FLOAT]) for name in ("even", "odd"))
    steps = (lambda x, y: ops.sin(y) * x, lambda x, y: ops.exp(-y))
    for f, other, step in zip(made, made[::-1], steps, strict=True):
        n, x = i32("n"), Value((), name="x")
        (y,) = ops.call(n - number(1), x, body=other)
        more = Graph((n, x), (step(x, y),))
        left = ops.greater(n, number(0))
        f.graph = Graph((n, x), ops.cond(left, n, x, then=more, otherwise=Graph((n, x), (x,))))
    return made  # type: ignore[return-value]


def called(make: Callable[[], Function]) -> Graph:
    """A graph that calls a function of n and x."""
    n, x = i32("n"), Value((), name="x")
    return Graph((n, x), ops.call(n, x, body=make()))
