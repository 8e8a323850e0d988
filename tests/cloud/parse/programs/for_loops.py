"""Programs with `for`."""

# Plain Python of many styles is what is wanted here.
# ruff: noqa

from __future__ import annotations

import math

import numpy as np

from tests.cloud.parse.programs.table import M, V, program


@program(1.5)
def for_range(x):
    s = 0.0
    for i in range(5):
        s = s + x * i
    return s


@program(1.5)
def for_range_with_bounds(x):
    s = x
    for i in range(10, 1, -3):
        s = s * 0.5 + i
    return s * x


@program(1.5)
def for_uses_its_variable_afterwards(x):
    for i in range(4):
        x = x * 1.1
    return x * i


@program(1.5)
def for_local_afterwards(x):
    for i in range(4):
        y = x * (i + 1)
        x = x + 0.1
    return y


@program(1.5, 3.0)
def for_break(x):
    for i in range(10):
        if x > 20:
            break
        x = x * 1.7
    return x * i


@program(1.5, 3.0)
def for_else(x):
    for _ in range(3):
        x = x * 1.7
        if x > 10:
            break
    else:
        x = -x
    return x


@program(1.5, 30.0)
def for_return(x):
    for i in range(6):
        if x * i > 21:
            return x * i
        x = x + 0.5
    return x


@program(1.5)
def for_continue(x):
    s = 0.0
    for i in range(8):
        if i % 2 == 0:
            continue
        s = s + x * i
    return s


@program(1.5)
def nested_for(x):
    s = 0.0
    for i in range(4):
        for j in range(i):
            s = s + x * i * j
    return s


@program(1.5, 2.5)
def nested_for_with_break(x):
    s = 0.0
    for i in range(5):
        for j in range(5):
            if s > 12:
                break
            s = s + x * j
        s = s + x
    return s + i


@program((V,))
def for_over_a_tensor(v):
    s = 0.0
    for e in v:
        s = s + e * e
    return s


@program((M,))
def for_over_rows(m):
    s = 0
    for row in m:
        s = s + row * row
    return np.sum(s)


@program((V, M))
def for_over_zip_and_enumerate(v, m):
    s = 0.0
    for i, (a, b) in enumerate(zip(v, m.T)):
        s = s + a * np.sum(b) * (i + 1)
    return s


@program((V,))
def for_over_reversed(v):
    s = 0.0
    for e in reversed(v):
        s = s * 0.5 + e
    return s


@program((V,))
def horner(v):
    y = 0.0
    for i in range(len(v)):
        y = y * 0.7 + v[len(v) - 1 - i]
    return y


@program(1.5)
def for_over_a_list(x):
    s = 0.0
    for k in [1.0, 2.5, -3]:
        s = s + k * x * x
    return s


@program(1.5)
def for_over_functions(x):
    for f in (math.sin, math.exp, lambda v: v * v):
        x = f(x)
    return x


@program(1.5, 0.1)
def for_over_a_list_with_break(x):
    for k in (1.0, 2.0, 3.0):
        x = x * k
        if x > 2:
            break
    else:
        x = x + 100
    return x


@program(1.5, 0.1)
def for_over_a_list_with_return(x):
    for k in (1.0, 2.0, 3.0):
        x = x * k
        if x > 2:
            return x * x
    return x


@program(1.5)
def for_over_a_dict(x):
    s = 0.0
    for name, k in {"a": 1.0, "b": 2.0}.items():
        s += k * x if name == "a" else k * x * x
    return s


@program(1.5)
def loop_that_builds_a_list(x):
    ys = []
    for i in range(4):
        ys.append(x * i)
    return sum(ys) + ys[2] * ys[-1]


@program(1.5)
def loop_over_shapes_is_python(x):
    n = 0
    for i in range(3):
        n += i
    return x * n


@program(1.5)
def a_list_picked_by_the_loop_variable(x):
    fs = [math.sin, math.cos, math.exp]
    for i in range(3):
        x = fs[i](x)
    return x


@program(3.2, 5.7)
def range_of_data(x):
    n = int(x)
    s = 0.5
    for i in range(n):
        s = s * x + i
    return s * 1e-2


@program((V,))
def loop_carries_an_array(v):
    for _ in range(3):
        v = v * 0.5 + np.sum(v) * 0.1
    return np.sum(v * v)


@program((V,))
def bubble(v):
    best = v[0]
    for e in v:
        if e > best:
            best = e * 1.0
    return best


@program((V,))
def cumulative_condition(v):
    s = 0.0
    n = 0
    for e in v:
        if e > 0:
            s += e * e
            n += 1
    return s / n


@program((V,))
def item_assignment(v):
    w = np.zeros(4)
    for i in range(4):
        w[i] = v[i] * v[3 - i] + i
    return np.sum(w * w)


@program((V,))
def in_place_like_updates(v):
    w = v * 1.0
    w[1] = w[0] * w[2]
    w[2:] = w[:2] * 2
    w[-1] += 3.0
    return np.sum(w * w)


@program((V,))
def fibonacci_of_values(v):
    a, b = v[0], v[1]
    for _ in range(6):
        a, b = b, a + b * 0.5
    return b


@program(1.3)
def lists_copied_in_a_turn(x):
    base, rows, total = [1.0, 2.0], {"a": [0.5, x]}, 0.0
    while total < 20:
        mine = base.copy()
        mine[0] = x * 2
        largest = max(rows.values(), key=len)
        total = total + mine[0] * mine[1] + largest[1]
    return total


@program(1.3, -1.3)
def a_list_that_is_found_in_a_dict(x):
    held = {"a": [1.0], "b": [2.0]}
    if x > 0:
        found = held.get("a")
        found[0] = x * 2
    else:
        held["b"][0] = x
    return held["a"][0] * held["b"][0]


@program(1.3)
def a_variable_that_only_the_first_turn_finds_unset(x):
    s, before = x, None
    for i in range(5):
        s = s * 1.5 if before is None else s * before
        before = s
    return s


@program(1.3)
def a_function_of_a_loop_is_called_after_it(x):
    s = x
    for i in range(5):
        f = lambda v: v * s
        s = f(2.0) * 0.6
    return f(1.0) + s
