"""Programs with `while`."""

# Plain Python of many styles is what is wanted here.
# ruff: noqa

from __future__ import annotations

from tests.cloud.parse.programs.table import program


@program(1.5, 20.0)
def while_loop(x):
    while x < 10:
        x = x * x
    return x


@program(1.5, 3.0)
def while_counts(x):
    n = 0
    while x < 50:
        x = x * 1.5
        n += 1
    return x * n


@program(1.5, 9.0)
def while_break(x):
    while True:
        x = x * 1.7
        if x > 10:
            break
    return x


@program(1.5, 9.0)
def while_break_in_the_middle(x):
    s = 0.0
    while x < 100:
        s = s + x
        if s > 30:
            break
        x = x * 2
    return s * x


@program(1.5, 3.0)
def while_continue(x):
    n = 0
    s = x
    while n < 6:
        n += 1
        if s > 10:
            continue
        s = s * 1.9
    return s


@program(1.5, 3.0)
def while_return(x):
    while x < 1000:
        x = x * x
        if x > 50:
            return x * 2
    return x


@program(1.5, 200.0)
def while_else(x):
    y = x
    while y < 100:
        y = y * 3
        if y > 90 and y < 95:
            break
    else:
        y = y + 1
    return y


@program(1.5, 30.0)
def while_break_skips_else(x):
    while x < 100:
        x = x * 3
        if x > 50:
            break
    else:
        return x * x
    return x


@program(2.2, 6.9)
def newton(a):
    x = a
    while abs(x * x - a) > 1e-9:
        x = 0.5 * (x + a / x)
    return x


@program((1.5, 0.3), (3.0, 0.1))
def two_variables_in_a_loop(x, y):
    while x < 20:
        x, y = x + y * y, x * 0.5 + y
    return x * y


@program(1.5)
def nested_while(x):
    s = 0.0
    while x < 20:
        y = x
        while y > 1:
            y = y / 2
            s = s + y * x
        x = x * 2
    return s


@program(1.5, 4.0)
def tuple_state(x):
    state = (x, x * 2)
    while state[0] < 10:
        state = (state[0] * 2, state[1] + state[0])
    return state[1]


@program(1.5, 4.0)
def dict_state(x):
    s = {"x": x, "path": [x, 0.0]}
    while s["x"] < 10:
        s["path"][1] += s["x"]
        s["x"] = s["x"] * 1.6
    return s["x"] * s["path"][1] + s["path"][0]


@program(1.5, 4.0)
def while_with_walrus(x):
    while (y := x * 2) < 20:
        x = y
    return x + y


@program(1.5)
def known_while(x):
    n = 0
    while n < 3:
        x = x * x
        n += 1
    return x


@program(1.5)
def known_while_with_break_on_data(x):
    n = 0
    while n < 5:
        x = x * 1.4
        n += 1
        if x > 3:
            break
    return x * n


@program(3.7, 0.2)
def loop_that_may_not_run(x):
    y = 1.0
    while x > 1:
        x = x - 1
        y = y * 2 * x
    return x + y


@program(1.3)
def a_condition_that_assigns_and_a_count(x):
    n = 0
    while (y := x * 2**n) < 10:
        n += 1
    return y + n


@program(0.3)
def accumulated_pairs(x):
    small, large = 0.0, 1.0
    while (gap := large - small) > 0.2:
        middle = small + gap / 2
        if middle * middle > x:
            large = middle
        else:
            small = middle
    return gap * x + small


@program(0.7, 3.0)
def a_recursive_function_of_a_loop_that_data_leave(x):
    s = x
    n = 0
    while n < 3:
        n += 1

        def r(u, d):
            if d < 1:
                return u * x
            return r(u + x, d - 0.64) * 0.7 + u

        s = r(s * 0.5, abs(s) + 0.74)
        if s < 0.9:
            break
        s = s * 0.4
    return s


@program(1.3, 20.0)
def a_word_that_each_turn_sets_before_it_reads_it(x):
    mode = "none"
    while x < 10:
        mode = "double"
        x = x * 2 if mode == "double" else x + 100
    return x


@program(1.3)
def many_turns_whose_body_needs_the_number(x):
    parts = [x * k for k in range(300)]
    i, s = 0, x
    while i < 300:
        s = s + parts[i] * 1e-3
        i += 1
    return s


@program(1.3)
def many_turns_with_numbers_of_more_than_32_bits(x):
    i, seed, s = 0, 1, x
    while i < 300:
        seed = (seed * 1103515245 + 12345) % 2**31
        s = s + x * seed * 1e-12
        i += 1
    return s


@program(1.3)
def many_turns_inside_of_many(x):
    i, s = 0, x
    while i < 260:
        j = 300
        while j > 0:
            s = s * 0.99 + x
            j = j - 1
        i = i + 1
    return s


@program(1.3)
def many_turns_of_which_data_choose_the_last(x):
    i, s = 5000, x
    while i > 0:
        i -= 1
        if s > 3.0:
            return s * i
        s = s * 1.001
    else:
        s = 0.0 * s
    return s


@program(1.3)
def many_turns_that_make_nothing(x):
    i = 0
    while i < 5000:
        i += 1
    return x * i


@program(2.2, 6.9)
def a_whole_number_in_a_tuple_of_numbers(x):
    return x * 3 if round(x) in (1, 2) else x * 5


@program(0.8, 2.1, 5.5)
def else_of_an_inner_loop_that_continues_the_outer_one(x):
    s = x
    for i in range(10):
        for j in range(i):
            if s > 5.0:
                break
            s = s * 1.1
        else:
            s = s + 0.1
            continue
        s = s - 0.7
    return s


@program(0.8, 2.1, 5.5)
def else_of_an_inner_loop_that_breaks_the_outer_one(x):
    s = x
    for i in range(10):
        for j in range(4):
            if s > i:
                break
            s = s * 1.1
        else:
            s = s + 1
            break
        s = s * 0.7 + 0.3
    return s


@program(0.8, 2.1, 5.5)
def break_of_both_loops_by_else(x):
    s = x
    for i in range(10):
        for j in range(4):
            if s > 5.0:
                break
            s = s * 1.1
        else:
            continue
        break
    return s + i


@program(0.8, 2.1, 31.0)
def inner_loop_with_else_break_and_return(x):
    s = x
    for i in range(10):
        k = 0
        while k < i:
            k += 1
            if s > 30:
                return -s
            if s > k * 2:
                break
            s = s * 1.2
        else:
            if s > 10:
                break
            s = s + 0.5
            continue
        s = s * 0.9 + 1
    return s
