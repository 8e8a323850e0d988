"""Integers of Python that a graph carries: 64 bits where they may need them, in both modes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from cloud import modes
from cloud.differentiate import value_and_grad
from cloud.jit import jit
from cloud.parse import UnsupportedSyntax


def a_power(x: Any) -> Any:
    n = 1
    while x < 30:
        n, x = n * 3, x + 1
    return n


def squares(x: Any) -> Any:
    s = k = 0
    while x < 3000:
        s, k, x = s + k**2 + k * k, k + 1, x + 1
    return s


def large_steps(x: Any) -> Any:
    n = 0
    while x < 10:
        n += 500_000_000
        x = x + 1
    return n


def large_at_first(x: Any) -> Any:
    n = 2**31 - 3
    while x < 10:
        n += 1
        x = x + 1
    return n - 2**40


def of_a_counter(x: Any) -> Any:
    s = 0
    for k in range(50_000):
        s = s + k * k
        x = x + 0.0
    return s + x


def quotients(x: Any) -> Any:
    n = 1
    while x < 35:
        n, x = n * 3 + 1, x + 1
    return n // 7 + n % 1_000_003 - n // -5 + n % -7


def a_generator(x: Any) -> Any:
    n = 1
    while x < 45:
        n, x = (n * 1103515245 + 12345) % 2**31, x + 1
    return n


def of_two_branches(x: Any) -> Any:
    n = 2**31 - 1
    if x > -1:
        n = n + 1
    return n


def of_truths(x: Any) -> Any:
    n = 2**40
    while x < 9:
        n, x = n * (x < 30) + (x > 2) + n * 2, x + 1
    return n


PROGRAMS = [a_power, squares, large_steps, large_at_first, of_a_counter, quotients, a_generator,
            of_two_branches, of_truths]  # fmt: skip


@pytest.mark.parametrize("mode", modes.MODES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__)
def test_an_integer_does_not_overflow(f: Callable[..., Any], dtype: Any, mode: str) -> None:
    with modes.using(mode=mode):
        found = jit(f)(dtype(0))
        y, _ = value_and_grad(lambda x: (f(x), x)[1] + 0 * f(x))(dtype(0))
    assert float(found) == pytest.approx(f(0.0), rel=1e-6)
    assert y == 0
    if f is not of_a_counter:
        assert int(found) == f(0)


@pytest.mark.parametrize("mode", modes.MODES)
def test_an_integer_takes_the_type_of_the_array_beside_it(mode: str) -> None:
    def f(x: Any, a: Any) -> Any:
        n = 1
        while x < 3:
            n, x = n * 5, x + 1
        return a * n

    with modes.using(mode=mode):
        for dtype in (np.int32, np.int64, np.float32):
            y = jit(f)(np.float32(0), np.ones(2, dtype))
            np.testing.assert_array_equal(y, np.full(2, 125))
            assert y.dtype == dtype


def test_one_branch_may_give_an_integer_and_the_other_a_float() -> None:
    def f(x: Any) -> Any:
        return 1 if x > 0 else 2.5

    with modes.using(mode="graph"):
        assert [float(jit(f)(np.float64(x))) for x in (1, -1)] == [1, 2.5]


def test_a_number_beyond_64_bits_is_refused() -> None:
    def f(x: Any) -> Any:
        n = 0
        while x < 3:
            n, x = n + 1, x + 1
        return n + 2**70

    with modes.using(mode="graph"), pytest.raises(UnsupportedSyntax, match=r"as i64"):
        jit(f)(np.float64(0))
