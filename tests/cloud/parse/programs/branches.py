"""Programs whose branches depend on data."""

# Plain Python of many styles is what is wanted here.
# ruff: noqa

from __future__ import annotations

import math

import numpy as np

from tests.cloud.parse.programs.table import V, program


@program(2.0, -2.0)
def if_else(x):
    if x > 0:
        y = x * x
    else:
        y = -x
    return y


@program(2.0, -2.0, 0.0)
def elif_chain(x):
    if x > 1:
        y = x * 3.0
    elif x < -1:
        y = x * x
    else:
        y = 0.5 * x
    return y + 1


@program(2.0, -2.0)
def if_without_else(x):
    y = x
    if x > 0:
        y = y * 5
    return y


@program(2.0, -2.0)
def early_return(x):
    if x < 0:
        return x * x
    return x * 7


@program(2.0, -2.0, 0.3)
def early_returns(x):
    if x < 0:
        return x * x
    if x > 1:
        return x / 3
    y = x * 2
    return y * y


@program(2.0, -2.0)
def both_return(x):
    if x > 0:
        return x + 1
    else:
        return x * x


@program(2.0, -2.0)
def else_returns(x):
    if x > 0:
        y = 2 * x
    else:
        return x
    return y * y


@program((2.0, 1.0), (2.0, -1.0), (-2.0, 1.0), (-2.0, -1.0))
def nested_if(x, y):
    if x > 0:
        if y > 0:
            z = x * y
        else:
            z = x - y
    else:
        z = y * y
    return z * x


@program((2.0, 1.0), (2.0, -1.0), (-2.0, 1.0), (-2.0, -1.0))
def nested_return(x, y):
    if x > 0:
        if y > 0:
            return x * y
        x = x + 1
    z = x * y
    if z > 1:
        return z
    return z * x - y


@program((2.0, 1.0), (2.0, -1.0), (-2.0, 1.0), (-2.0, -1.0))
def deeply_nested_return(x, y):
    if x > -10:
        if x > 0:
            if y > 0:
                return x * y
        elif y > 0:
            x = x * 2
        else:
            return x - y
        x = x + y
    return x * x


@program(2.0, -2.0)
def conditional_expression(x):
    return x * x if x > 0 else x / 2


@program(2.0, -2.0, 0.5)
def nested_conditional_expression(x):
    return 1.5 * x if x > 1 else (x * x if x > 0 else -x)


@program((2.0, 1.0), (-2.0, 1.0), (2.0, -1.0))
def and_or_not(x, y):
    if x > 0 and y > 0:
        return x * y
    if not x > 0 or y > 5:
        return x - y
    return x + y


@program((2.0, 1.0), (0.5, 0.1))
def short_circuit_guards_a_division(x, y):
    if x != 0 and y / x > 0.3:
        return x * 2
    return y


@program(0.5, 2.0, -1.0)
def chained_comparison(x):
    if 0 < x < 1:
        return x * 10
    if -2 <= x <= 0.0:
        return x - 1
    return x


@program((2.0, 1.0), (-0.5, 1.0))
def or_gives_the_operand(x, y):
    return (x or y) * 3


@program((2.0, 1.0), (-0.5, 1.0))
def and_gives_the_operand(x, y):
    return (x and y) + x


@program(2.0, -2.0)
def several_variables(x):
    a, b, c = x, 2 * x, 3.0
    if x > 0:
        a, b = b, a
        c = a * b
    return a + b * c


@program(2.0, -2.0)
def tuple_in_a_branch(x):
    if x > 0:
        p = (x, x * x)
    else:
        p = (x * 2, x)
    return p[0] * p[1]


@program(2.0, -2.0)
def dict_in_a_branch(x):
    d = {"a": x, "b": [x, x * 2]}
    if x > 0:
        d["a"] = x * x
        d["b"][1] = x * 3
    else:
        d["b"][0] = 1.0
    return d["a"] * d["b"][0] + d["b"][1]


@program(2.0, -2.0)
def same_list_length_in_both(x):
    xs = [x]
    if x > 0:
        xs.append(x * 2)
    else:
        xs.append(x * x)
    return xs[0] * xs[1]


@program(2.0, -2.0)
def unused_differences_do_not_matter(x):
    if x > 0:
        kind = "positive"
        y = x
    else:
        kind = (1, 2, 3)
        y = x * x
    return y


@program(2.0, -2.0)
def known_condition_beside_data(x):
    flag = True
    if flag and x > 0:
        return x
    if not flag or x < -100:
        return x * 9
    return x * x


@program(2.0, -2.0)
def integer_result_of_a_branch(x):
    n = 2 if x > 0 else 3
    return x * n


@program(2.0, -2.0)
def truth_value_of_a_branch(x):
    big = False
    if x > 0:
        big = True
    return x * 3 if big else x * x


@program(2.0, -2.0)
def branch_over_arrays(x):
    v = x * V
    if np.sum(v) > 0:
        v = v * v
    return np.sum(v)


@program(2.0, -2.0)
def max_min_abs(x):
    return max(x, 1.0) * min(x, 0.5) + abs(x) + max(x, x * x, 0.1)


@program(0.6, 1.5, 3.0)
def a_function_that_data_choose(x):
    f = math.sin if x > 2 else math.cos if x > 1 else (lambda v: v * v)
    y = x
    while y < 10:
        y = y * 1.5 + abs(f(y))
    return y


@program(1.5, -1.5)
def two_definitions_of_one_function(x):
    if x > 0:

        def h(a):
            return a * x
    else:

        def h(a):
            return a - x

    return h(3.0) * h(x)


@program(1.5, 2.5)
def truth_beside_a_number(x):
    return (x < 2 and x * x or x) + (x > 2 or x * 3)


@program(0.5, 1.5)
def structures_compared(x):
    return (
        x * 2 if (x > 1, [x > 0, 1]) == (True, [True, 1]) else x * 3 if [x > 1] != [False] else -x
    )
