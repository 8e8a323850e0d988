"""Loops that known numbers count in any way are loops of the graph, and give Python's bits."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from cloud import modes
from cloud.differentiate import grad, value_and_grad
from cloud.parse import UnsupportedSyntax, loops, remat, rolled_loop
from cloud.transform import Traced
from ir.graph import Graph
from ir.walk import walk
from tests.cloud.parse.random_programs import KnownLoops, program, same_bits_in_both_modes

COEFFICIENTS = [math.sin(i) for i in range(600)]


def float_counter(x: Any, n: int) -> Any:
    t = 0.0
    while t < n / 10:
        x = np.sin(x) + 0.01 * t
        t += 0.1
    return x


def doubling(x: Any, n: int) -> Any:
    i, s = 1, 0.0
    while i < 2**n:
        x = x * 0.99 + 1.0 / i
        s = s + x
        i *= 2
    return x + s


def fibonacci(x: Any, n: int) -> Any:
    k, a, b = 1.0, x, x * 2
    while k < n:
        a, b = b, np.sin(a + b) * 0.5
        k = k + 1.0
        tmp = a * 2
        if k > n / 2:
            a = a + tmp
    return a + b


def coefficients(x: Any, n: int) -> Any:
    s = 0.0
    for c in COEFFICIENTS[:n]:
        s = s * x + c
    return s


def numbered(x: Any, n: int) -> Any:
    names = ["a", "b", "c"]
    s = 0.0 * x
    for i, c in enumerate(COEFFICIENTS[:n]):
        s = s * x + c * len(names[0]) + 0.001 * i
    else:
        s = s * 2
    return s


def in_a_list_and_a_dict(x: Any, n: int) -> Any:
    y, d, i, turns = [x, x * 2], {"m": x * 0, "t": 0}, 1, 0
    while True:
        y[0], y[1] = y[1] * 0.5, np.sin(y[0]) + i * 0.001
        d["m"] = 0.9 * d["m"] + y[0]
        d["t"] += 1
        i = (i * 5 + 3) % 8192
        turns += 1
        if turns * 1.0 == n:
            break
    return y[0] + y[1] * d["m"] + d["t"]


def branch_of_data(x: Any, n: int) -> Any:
    t = 1.0
    while t < 2.0 ** (n / 100):
        x = x * 0.7 + 0.01 * t if x > 0.5 else x + 0.3
        t *= 2.0**0.01
    return x


def loop_inside(x: Any, n: int) -> Any:
    rate = 1.0
    while rate > 0.99**n:
        for j in range(3):
            x = x + np.sin(x * j) * 0.001
        x = x - rate * 0.01
        rate *= 0.99
    return x


def returns(x: Any, n: int) -> Any:
    t = 0.5
    while True:
        t += 0.5
        x = x * 0.99 + t
        if t > n / 2:
            return x * 3


PROGRAMS = [float_counter, doubling, fibonacci, coefficients, numbered, in_a_list_and_a_dict,
            branch_of_data, loop_inside, returns]  # fmt: skip


def nodes_of(f: Callable[..., Any], n: int) -> int:
    traced = Traced.of(f, (np.float32(0.3), n), {})
    return sum(len(g.nodes) for g in walk([Graph(tuple(traced.values), (traced.result,))]))


@pytest.mark.parametrize("f", PROGRAMS)
def test_a_long_loop_that_numbers_count_is_a_loop_of_the_graph(f: Callable[..., Any]) -> None:
    assert nodes_of(f, 300) == nodes_of(f, 500) < 60


@pytest.mark.parametrize("f", PROGRAMS)
def test_it_gives_what_python_gives_and_the_same_bits_in_both_modes(f: Callable[..., Any]) -> None:
    y, dy = value_and_grad(f)(np.float64(0.3), 300)
    assert y == pytest.approx(f(0.3, 300), rel=1e-13)
    step = 1e-6
    slope = (f(0.3 + step, 300) - f(0.3 - step, 300)) / (2 * step)
    assert dy == pytest.approx(slope, abs=1e-6 * (1 + abs(y)))
    same_bits_in_both_modes(lambda x: f(x, 300), [np.float32(0.3)], f.__name__)


@pytest.mark.parametrize("seed", range(60))
def test_random_loops_that_numbers_count_give_the_same_bits_in_both_modes(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loops, "MOST_UNROLLED", 1)
    f, text = program(seed, arrays=True, writer=KnownLoops)
    args = np.random.default_rng(seed).uniform(-1.5, 1.5, 3).astype(np.float32)
    same_bits_in_both_modes(f, list(args), text)


def test_turns_that_are_alike_for_a_while_are_several_loops() -> None:
    def f(x: Any) -> Any:
        for c in COEFFICIENTS:
            x = np.sin(x) + c if c > -2 else x
        for i in range(600):
            x = x * (1, 0.5)[i > 400] + COEFFICIENTS[i]
        return x

    traced = Traced.of(f, (0.3,), {})
    assert sum(n.op.name == "while_loop" for n in Graph((), (traced.result,)).nodes) <= 3
    assert value_and_grad(f)(0.3)[0] == pytest.approx(f(0.3), rel=1e-12)


def test_it_keeps_each_kth_state_where_it_is_asked_to() -> None:
    def f(x: Any) -> Any:
        t = 1.0
        while remat(t < 500, every=20):
            x, t = np.sin(x) * 1.01, t + 1.0
        return x

    traced = Traced.of(f, (np.float32(0.3),), {})
    (loop,) = [n for n in Graph((), (traced.result,)).nodes if n.op.name == "while_loop"]
    assert loop.attrs["every"] == 20


def test_third_derivatives_go_through_it() -> None:
    def f(x: Any) -> Any:
        t = 1.0
        while t < 400:
            x, t = x + 1e-3 * x * x * t / 400, t + 1.0
        return x

    h = 1e-3
    second = grad(grad(f))
    slope = (second(0.5 + h) - second(0.5 - h)) / (2 * h)
    assert grad(second)(0.5) == pytest.approx(slope, rel=1e-6)


TOO_LONG = {
    "recursion": "def g(n, v):\n    return g(n - 1, np.sin(v) + n) if n else v\nreturn g(5000, x)",
    "endless": "i = 1.0\nwhile i > 0:\n    x = x * 2\n    i = i * 1.0\nreturn x",
}


@pytest.mark.parametrize("name", TOO_LONG)
def test_what_is_too_long_to_be_written_out_says_where(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from cloud.parse import rolled_loop
    from tests.cloud.parse.test_syntax import function

    monkeypatch.setattr(rolled_loop, "MOST_TURNS", 1000)
    with pytest.raises(
        UnsupportedSyntax, match=r"too deep to be written out|more than 1,000 turns"
    ) as e:
        Traced.of(function(TOO_LONG[name], f"too long {name}"), (np.float32(1),), {})
    assert str(e.value).startswith(f"<snippet too long {name}>:3:")
    assert "hint: " in str(e.value)


def test_a_program_of_more_nodes_than_a_file_holds_shows_the_line_that_makes_most(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from cloud import execute
    from ir import index_writer

    monkeypatch.setattr(execute, "MAX_NODES", 300)
    monkeypatch.setattr(index_writer, "MAX_NODES", 300)

    def f(x: Any) -> Any:
        return sum([np.sin(x * i) for i in range(250)])

    refused = pytest.raises(UnsupportedSyntax, match="a program has at most 300")
    with modes.using(mode="graph"), refused as e:
        grad(f)(np.float32(0.5))
    assert "np.sin(x * i)" in e.value.place.text
    assert "hint: " in str(e.value)


def loops_in(f: Callable[..., Any]) -> list[Any]:
    traced = Traced.of(f, (np.float64(0.3),), {})
    nodes = Graph(tuple(traced.values), (traced.result,)).nodes
    return [n for n in nodes if n.op.name == "while_loop"]


def test_a_statement_becomes_so_many_loops_at_most_and_the_rest_is_written_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def f(x: Any) -> Any:
        for i in range(600):
            x = [np.sin, np.cos][i // 60 % 2](x) + COEFFICIENTS[i]
        return x

    assert len(loops_in(f)) == 10 <= rolled_loop.MOST_RUNS
    monkeypatch.setattr(rolled_loop, "MOST_RUNS", 4)
    assert len(loops_in(f)) == 4
    assert value_and_grad(f)(0.3)[0] == pytest.approx(f(0.3), rel=1e-12)


def test_turns_that_are_all_different_are_written_out_without_looking_for_likes() -> None:
    different = [np.sin, np.cos, np.tanh]

    def few(x: Any) -> Any:
        for i in range(300):
            x = different[i % 3](x) if 100 <= i < 100 + few.alone else np.sin(x) + COEFFICIENTS[i]  # type: ignore[attr-defined]
        return x

    few.alone = rolled_loop.MOST_ALONE - 1  # type: ignore[attr-defined]
    assert len(loops_in(few)) == 2
    few.alone = rolled_loop.MOST_ALONE + 2  # type: ignore[attr-defined]
    assert len(loops_in(few)) == 1
    assert value_and_grad(few)(0.3)[0] == pytest.approx(few(0.3), rel=1e-12)
