"""Programs with objects of classes, and functions that call themselves."""

# Plain Python of many styles is what is wanted here.
# ruff: noqa

from __future__ import annotations

import dataclasses
import math
from collections import namedtuple
from dataclasses import dataclass
from typing import Any

import numpy as np

from tests.cloud.parse.programs.table import program

Point = namedtuple("Point", "x y")


@dataclass
class Box:
    low: Any
    high: Any

    def size(self):
        return self.high - self.low

    @property
    def middle(self):
        if self.low > 0:
            return (self.low + self.high) / 2
        return self.high * 0.5

    def __add__(self, other):
        return Box(self.low + other.low, self.high + other.high)


class Counter:
    def __init__(self, start):
        self.value = start
        self.__calls = 0

    def add(self, v):
        if v > 0:
            self.value = self.value + v
        self.__calls += 1
        return self

    def __call__(self, v):
        return self.value * v

    @property
    def calls(self):
        return self.__calls


class Doubling(Counter):
    def __init__(self, start):
        super().__init__(start * 2)

    def add(self, v):
        return super().add(v * 2)


@program(1.5)
def named_tuples(x):
    p = Point(x, x * x)
    q = p._replace(y=x)
    a, b = p
    return p.x * q.y + a * b


@program(1.5, -1.5)
def objects(x):
    c = Counter(x)
    c.add(x * 2).add(-x).add(0.5)
    return c.value * c.calls + c(x)


@program(1.5, -1.5)
def inheritance(x):
    return Doubling(x).add(x).value


@program(1.5, -1.5)
def data_classes(x):
    b = Box(x, x + 2) + Box(0.5, 1.0)
    return b.size() * b.middle + Box(-1.0, x).middle


@program(2.0, -2.0)
def object_in_a_loop(x):
    c = Counter(0.0)
    for i in range(5):
        c.add(x * i)
    return c.value + x


@program(5.3, 0.5)
def factorial(x):
    if x <= 1:
        return x * 1.0
    return x * factorial(x - 1)


@program(5.3, 0.5)
def factorial_with_a_known_base(x):
    if x <= 1:
        return 1.0
    return x * factorial_with_a_known_base(x - 1)


@program((0.7, 3.5), (0.7, 0.5))
def fibonacci(x, n):
    if n < 2:
        return x
    return fibonacci(x, n - 1) * 0.6 + fibonacci(x, n - 2) * x


@program((1.3, 6), (1.3, 1))
def known_depth(x, n):
    if n == 0:
        return x
    return known_depth(x * x * 0.5 + 0.3, n - 1) * 0.9


@program((1.3, 0), (5.0, 0))
def counts_its_depth(x, depth):
    if x > 20:
        return x * depth
    return counts_its_depth(x * 1.5, depth + 1)


@program((47.3, 36.1))
def euclid(a, b):
    if b < 3.0:
        return a
    return euclid(b, a - b * math.floor(a / b))


def is_even(n):
    if n < 1:
        return True
    return is_odd(n - 1)


def is_odd(n):
    if n < 1:
        return False
    return is_even(n - 1)


@program((1.5, 4.5), (1.5, 5.5))
def mutual_recursion(x, n):
    return x * x if is_even(n) else -x


@program((1.2, 5.5))
def recursion_in_a_closure(x, n):
    def go(y, k):
        if k < 1:
            return y
        return go(y * x + 0.1, k - 1)

    return go(x, n)


@program((1.2, 3.5))
def recursion_with_a_tuple(x, n):
    def go(state, k):
        a, b = state
        if k < 1:
            return a, b * x
        a, b = go((b, a + b), k - 1)
        return a * 0.5, b

    a, b = go((x, 1.0), n)
    return a * b


@program((1.2, 4.5))
def recursion_over_a_loop(x, n):
    if n < 1:
        return x
    s = 0.0
    for i in range(3):
        s = s + x * i * 0.3
    return recursion_over_a_loop(s, n - 1) + x


@program((1.2, 3.5))
def recursion_inside_a_loop(x, n):
    if n < 1:
        return x
    s = 0.0
    for i in range(2):
        s = s + recursion_inside_a_loop(x * 0.5 + i, n - 1)
    return s * x


@program(2.7)
def ackermann_like(x):
    def a(m, n):
        if m < 1:
            return n + 1.0
        if n < 1:
            return a(m - 1, 1.0)
        return a(m - 1, a(m, n - 1))

    return a(1.5, 1.2) * x


@program((1.5,))
def tree_of_lists(x):
    def total(t):
        if isinstance(t, list):
            s = 0.0
            for c in t:
                s = s + total(c)
            return s
        return t * x if t > 2 else x * x

    return total([1, [2, 3, [4.0]], 5])


@program(3.0)
def collatz(x):
    def steps(n, k):
        if n < 1.5:
            return k
        if n - 2 * math.floor(n / 2) < 0.5:
            return steps(n / 2, k + 1)
        return steps(3 * n + 1, k + 1)

    return x * steps(7.0 + 0 * x, 0.0)


@dataclasses.dataclass
class Body:
    place: object
    speed: object = 0.0
    turns: int = 0

    def after(self, dt):
        return Body(self.place + dt * self.speed, self.speed - dt * self.place, self.turns + 1)

    def kick(self, by):
        self.speed = self.speed + by


@dataclasses.dataclass(frozen=True, slots=True)
class Pair:
    a: object
    b: object


@program(1.3, -0.4)
def a_dataclass_that_each_turn_makes_anew(x):
    body = Body(x, 1.0)
    for _ in range(10):
        body = body.after(0.1)
    return body.place * body.speed * body.turns


@program(1.3)
def a_dataclass_made_anew_and_changed_in_one_turn(x):
    body = Body(x, 1.0)
    while body.place < 3:
        body = body.after(0.1)
        body.kick(0.5)
    return body.place * body.speed * body.turns


@program(1.3, 0.2)
def a_frozen_dataclass_in_a_loop(x):
    pair = Pair(x, x * 2)
    while pair.a < 5:
        pair = Pair(pair.a * 1.2, pair.b + pair.a)
    return pair.a * pair.b


@program(1.3)
def a_recursion_that_carries_a_dataclass(x):
    def run(body):
        return body if body.place > 3 else run(body.after(0.1))

    end = run(Body(x, 2.0))
    return end.place + end.speed


@program(1.3, -1.3)
def one_of_two_dataclasses(x):
    body = Body(x) if x > 0 else Body(-x, 1.0)
    return dataclasses.replace(body, place=body.place * 2).place + body.speed


@program(1.3)
def dataclasses_in_a_list(x):
    bodies = [Body(x, 1.0), Body(x * 2, 0.5)]
    for _ in range(5):
        bodies = [b.after(0.1) for b in bodies]
    return bodies[0].place * bodies[1].speed


@program(1.3, 5.0)
def patterns_of_classes(x):
    match Body(x, 2.0):
        case Body(place=p) if p > 4:
            return p
        case Body(p, v):
            return p * v


@program(1.3, -1.0)
def patterns_in_a_loop(x):
    y = 0.0
    for i in range(6):
        match i % 3, bool(x > 1):
            case 0, True:
                y = y + x
            case (1 | 2) as k, _:
                y = y * x + k
            case _:
                y = y - 1
    return y


@program(1.3)
def patterns_of_dicts_and_lists(x):
    match {"kind": "mul", "a": x, "more": [x, 2.0, 3.0]}:
        case {"kind": "add", "a": a}:
            return a + 1
        case {"kind": "mul", "a": a, "more": [b, *rest], **others}:
            return a * b * sum(rest) * (len(others) + 1)


@dataclasses.dataclass
class Grid:
    cells: object

    def put(self, i, x):
        self.cells[i] = x


@program(1.3)
def a_method_that_sets_an_item_of_its_object(x):
    grid = Grid(np.zeros(3) + x)
    same, rows = grid, [np.zeros(2), np.ones(2) * x]

    def fill(rows):
        rows[1][0] = x * 3

    grid.put(1, x * x)
    fill(rows)
    return same.cells.sum() + rows[1].prod()
