"""Programs that call, define, pass and return functions."""

# Plain Python of many styles is what is wanted here.
# ruff: noqa

from __future__ import annotations

import functools
import math

import numpy as np

from tests.cloud.parse.programs.table import program


def square(x):
    return x * x


def scaled(x, k=2.0, *, add=0.0):
    return x * k + add


def pair(x):
    return x, x * x


@program(1.5)
def calls_a_function(x):
    return square(x) + square(square(x))


@program(1.5)
def keywords_and_defaults(x):
    return scaled(x) + scaled(x, 3.0) + scaled(k=0.5, x=x, add=x)


@program(1.5)
def star_arguments(x):
    def total(*xs, **named):
        return sum(xs) + named["a"] * named.get("b", 2.0)

    args = [x, x * x]
    return total(*args, 1.0, a=x) + total(a=x, b=x)


@program(1.5)
def unpacks_results(x):
    a, b = pair(x)
    first, *rest = [a, b, a * b]
    (c, d), e = pair(b), rest[1]
    return a * b + first + rest[0] * c + d * e


@program(1.5)
def lambdas(x):
    f = lambda a, b=2.0: a * b
    return f(x) + f(x, x) + (lambda: x * 3)()


@program(1.5)
def closures(x):
    k = x * 2

    def inner(y):
        return y * k + x

    k = k + 1
    return inner(x) * inner(2.0)


@program(1.5)
def functions_that_return_functions(x):
    def power(n):
        def raised(v):
            y = v
            for _ in range(n - 1):
                y = y * v
            return y

        return raised

    return power(3)(x) + power(2)(x)


@program(1.5)
def nonlocal_counter(x):
    total = 0.0

    def add(v):
        nonlocal total
        total = total + v

    add(x)
    add(x * x)
    for i in range(3):
        add(x * i)
    return total


@program(2.0, -2.0)
def nonlocal_in_a_branch(x):
    total = 1.0

    def add(v):
        nonlocal total
        total += v

    if x > 0:
        add(x * x)
    else:
        add(x)
        add(x)
    return total


@program(1.5)
def composition(x):
    def compose(*fs):
        def composed(v):
            for f in fs:
                v = f(v)
            return v

        return composed

    return compose(square, math.sin, scaled)(x)


@program(1.5)
def twice_of_twice(x):
    def twice(f):
        return lambda v: f(f(v))

    return twice(twice(lambda v: v * 1.1 + 0.1))(x)


@program(1.5)
def partials(x):
    return functools.partial(scaled, k=3.0)(x) + functools.reduce(
        lambda a, b: a * b + x, [x, 2.0, x]
    )


@program(1.5)
def comprehensions(x):
    a = [x * i for i in range(4) if i != 2]
    b = {k: x * k for k in (1, 2)}
    c = sum(x * i * j for i in range(3) for j in range(i))
    return sum(a) + b[1] * b[2] + c + len({i % 2 for i in range(5)})


@program(1.5)
def map_filter_sorted(x):
    xs = list(map(lambda k: k * x, filter(lambda k: k > 1, [3, 1, 2])))
    ks = sorted([3, 1, 2], key=lambda k: -k)
    return xs[0] * xs[1] + ks[0] * x


@program(2.0, -2.0)
def branch_in_a_called_function(x):
    def safe_sqrt(v):
        if v <= 0:
            return v * 0.0
        return math.sqrt(v)

    return safe_sqrt(x) + safe_sqrt(-x) + x


@program(2.0, -2.0)
def function_chosen_by_data_through_values(x):
    y = square(x) if x > 0 else scaled(x)
    return y * x


@program(1.5)
def strings_choose_at_trace_time(x):
    def activation(name, v):
        if name == "square":
            return v * v
        elif name in ("sin", "cos"):
            return getattr(math, name)(v)
        raise ValueError(f"no activation {name!r}")

    return activation("square", x) + activation("sin", x) + activation("cos", x)


@program(1.5)
def with_and_try(x):
    from contextlib import nullcontext

    with nullcontext(2.0) as k, nullcontext():
        x = x * k
    try:
        x = x * {"a": 1.0}["b"]
    except KeyError as e:
        assert e.args == ("b",), "the other key"
        x = x + 1
    else:
        x = x + 100
    finally:
        x = x * 2
    return x


@program(1.5)
def delete_and_annotations(x):
    y: float = x * x
    z = [x, y, 1.0]
    del z[0]
    w = x
    del w
    return z[0] + z[1]


@program(1.5)
def formatted(x):
    n = 3
    label = f"{n:03d}-{'a'!r}"
    return x * len(label)


@program(1.3)
def a_decorator_that_keeps_the_name_of_what_it_wraps(x):
    def doubled(f):
        @functools.wraps(f)
        def twice(*args, **kwargs):
            return 2 * f(*args, **kwargs)

        return twice

    @doubled
    def squared(y):
        return y * y

    return squared(x)


@program((1.0, 2.0), (2.0, 1.0), (-1.5, 0.5), (0.5, -1.5), (-2.0, -1.0), (-1.0, -2.0))
def angles(y, x):
    return (
        math.atan2(y, x) + np.arctan2(x, y) * 2 + math.atan(x) + np.arcsin(y / 3) * np.arccos(x / 3)
    )


@program((0.7, 2.0), (-3.7, 0.5), (3.7, -0.9))
def lengths_and_rests(a, b):
    y = math.hypot(a, b, 2.0) + math.dist((a, b), (1.0, 3.0)) + math.fmod(a, b) + np.fmod(b, a)
    return y + math.copysign(a, b) * math.cbrt(a) + np.fabs(b) + math.exp2(a) + np.arcsinh(a * b)


@program(1.3)
def the_next_of_a_generator_expression(x):
    parts = (x * k for k in range(1, 4))
    first = next(parts)
    return first * next(parts) + sum(parts) + next((y for y in [x] if y is None), x)
