"""A tape of scalars: reverse mode as a list of steps, to compare with. Python runs the program."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

Step = tuple["Number", list[tuple["Number", float]]]


class Number:
    """A float that writes on a tape what was computed from it."""

    def __init__(self, value: float, tape: list[Step], *parents: tuple[Number, float]) -> None:
        self.value, self.tape, self.bar = value, tape, 0.0
        tape.append((self, list(parents)))

    def of(self, value: float, *parents: tuple[Any, float]) -> Number:
        return Number(value, self.tape, *((p, d) for p, d in parents if isinstance(p, Number)))

    def __add__(self, o: Any) -> Number:
        return self.of(self.value + number(o), (self, 1.0), (o, 1.0))

    def __sub__(self, o: Any) -> Number:
        return self.of(self.value - number(o), (self, 1.0), (o, -1.0))

    def __rsub__(self, o: Any) -> Number:
        return self.of(number(o) - self.value, (self, -1.0))

    def __mul__(self, o: Any) -> Number:
        return self.of(self.value * number(o), (self, number(o)), (o, self.value))

    def __truediv__(self, o: Any) -> Number:
        y = self.value / number(o)
        return self.of(y, (self, 1 / number(o)), (o, -y / number(o)))

    def __rtruediv__(self, o: Any) -> Number:
        y = number(o) / self.value
        return self.of(y, (self, -y / self.value))

    def __neg__(self) -> Number:
        return self.of(-self.value, (self, -1.0))

    def __abs__(self) -> Number:
        return self.of(abs(self.value), (self, math.copysign(1.0, self.value)))

    __radd__, __rmul__ = __add__, __mul__
    __lt__ = lambda self, o: self.value < number(o)  # noqa: E731
    __le__ = lambda self, o: self.value <= number(o)  # noqa: E731
    __gt__ = lambda self, o: self.value > number(o)  # noqa: E731
    __ge__ = lambda self, o: self.value >= number(o)  # noqa: E731
    sin = lambda self: self.of(math.sin(self.value), (self, math.cos(self.value)))  # noqa: E731
    cos = lambda self: self.of(math.cos(self.value), (self, -math.sin(self.value)))  # noqa: E731
    exp = lambda self: self.of(y := math.exp(self.value), (self, y))  # noqa: E731
    tanh = lambda self: self.of(y := math.tanh(self.value), (self, 1 - y * y))  # noqa: E731


def number(x: Any) -> float:
    return x.value if isinstance(x, Number) else x


def gradient(f: Callable[..., Any], *args: float) -> tuple[float, list[float]]:
    """f's value, and its derivative by each argument."""
    tape: list[Step] = []
    inputs = [Number(a, tape) for a in args]
    y = f(*inputs)
    if isinstance(y, Number):
        y.bar = 1.0
    for x, parents in reversed(tape):
        for p, d in parents:
            p.bar += d * x.bar
    return number(y), [x.bar for x in inputs]
