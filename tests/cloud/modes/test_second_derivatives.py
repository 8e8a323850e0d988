"""Second derivatives of loops, branches and recursion are the same bits in both modes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from cloud.autodiff.fixed import fixed_inputs
from cloud.differentiate import grad
from cloud.transform import Traced
from ir.graph import Function, Graph
from ir.walk import functions
from tests.cloud.parse.random_programs import same_bits_in_both_modes


def one_loop(x: Any, y: Any, z: Any) -> Any:
    for _i in range(4):
        x = np.sin(x * y) + z * 0.5
    return x * y


def a_branch(x: Any, y: Any, z: Any) -> Any:
    if x > -9:
        t = np.sin(x * y)
        x = t * z + t
    return x * y


def a_recursion(x: Any, y: Any, z: Any) -> Any:
    def r(u, d):
        if d < 1:
            return u * y
        return r(np.sin(u + z) * 1.5, d - 1) * 0.7 + u

    return r(x, abs(x) + 3) * z


def a_branch_in_a_loop(x: Any, y: Any, z: Any) -> Any:
    n = 0
    while n < 4 and y > -9:
        n += 1
        x = np.sin(x * y) * z if x > 0.1 else np.cos(x + z) * y
    return x * y + z


def loops_in_loops(x: Any, y: Any, z: Any) -> Any:
    for _i in range(3):
        for _j in range(3):
            x = np.tanh(x * y + z) * x
        y = np.sin(y + x)
    return x * y


def left_early(x: Any, y: Any, z: Any) -> Any:
    for _i in range(4):
        if x > 0.3:
            x = x * y
            if y > 0.2:
                break
        x = x + np.sin(z) * y
    return x


def a_closure_in_a_loop(x: Any, y: Any, z: Any) -> Any:
    def gg(u):
        if u > x:
            return u * x
        return np.cos(u) + y

    for _i in range(3):
        x = np.sin(gg(x + z))
        z = z * x
    return x * z


def two_calls(x: Any, y: Any, z: Any) -> Any:
    def r(u, d):
        if d < 1 or u > 2:
            return u * y
        return r(np.sin(u + z) * 1.5, d - 0.9) * r(u * 0.5, d - 1.5) * 0.7 + u

    return r(x, abs(x) + 2.5) * z


def a_loop_of_data(x: Any, y: Any, z: Any) -> Any:
    while abs(x) > 0.05:
        x = x * 0.5 * np.cos(y)
        y = y + x
    return y * x * z


def returned_from_a_loop(x: Any, y: Any, z: Any) -> Any:
    for _q in range(5):
        if x > y:
            return x * y
        x = np.sin(x) * y + z
    return x * z


def read_behind_a_loop(x: Any, y: Any, z: Any) -> Any:
    n3 = 0
    while n3 < 5 and (np.tanh(z + z) <= np.tanh(x + z) and y > -9):
        n3 += 1
        z = np.tanh(z + x)
    v4 = np.tanh(y + x)
    return x * 0.88 + y * 1.39 + z * 0.34 + v4 * 0.39


def read_behind_a_branch(x: Any, y: Any, z: Any) -> Any:
    if np.cos(x) * y > 2:
        return x * 0.5 - z
    n3 = 0
    while n3 < 5 and (np.tanh(z + z) <= np.tanh(x + z) and y > -9):
        n3 += 1
        z = np.tanh(z + x)
    v4 = np.tanh(y + x)
    return x * 0.88 + y * 1.39 + z * 0.34 + v4 * 0.39


def read_behind_a_recursion(x: Any, y: Any, z: Any) -> Any:
    def r2(u, d):
        if d < 1 or u > 2.79:
            return u * x
        return r2(np.sin(u + x) * 1.5, d - 1.08) * 0.7 + u

    return np.tanh(r2(y, abs(z) + 3.09)) + np.tanh(x * y)


PROGRAMS = [
    one_loop,
    a_branch,
    a_recursion,
    a_branch_in_a_loop,
    loops_in_loops,
    left_early,
    a_closure_in_a_loop,
    two_calls,
    a_loop_of_data,
    returned_from_a_loop,
    read_behind_a_loop,
    read_behind_a_branch,
    read_behind_a_recursion,
]


@pytest.mark.parametrize("f", PROGRAMS)
def test_a_second_derivative_is_the_same_bits_in_both_modes(f: Callable[..., Any]) -> None:
    def slopes(x: Any, y: Any, z: Any) -> Any:
        gx, gy, gz = grad(f, (0, 1, 2))(x, y, z)
        return gx * np.float32(0.7) + gy * np.float32(1.3) - gz * np.float32(0.4)

    for seed in range(4):
        args = np.random.default_rng(seed).uniform(-1.5, 1.5, 3).astype(np.float32)
        same_bits_in_both_modes(slopes, list(args), f.__name__)


def test_what_all_calls_of_a_function_hand_on_is_found() -> None:
    traced = Traced.of(a_recursion, (np.float32(0.5), np.float32(2), np.float32(3)), {})
    (f,) = functions(Graph(tuple(traced.values), (traced.result,)))
    assert isinstance(f, Function)
    still = [f.graph.inputs[i] for i in fixed_inputs(f)]
    assert len(still) == len(f.inputs) - 2 >= 2  # all but u and d
