"""Cells, solvers and branches of arrays: what differentiates a gradient again, the same bits.

Each value that a loop's turn gives is what the next turn begins with; these programs have backward
passes that read it as both, and arguments that are read inside of a gradient and beside it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from cloud import explain, grad, modes, value_and_grad
from ir.graph import Array


def tanh_of_a_product(x: Any, y: Any) -> Any:
    for _ in range(4):
        x = np.tanh(x * y)
    return (x * x).sum()


def tanh_and_a_product(x: Any, y: Any) -> Any:
    for _ in range(4):
        x = np.tanh(x * y) * x
    return (x * y).sum()


def recurrent(x: Any, y: Any) -> Any:
    h = x * 0.5
    for _ in range(4):
        h = np.tanh(h * y + x)
    return (h * h * y).sum()


def gated(x: Any, y: Any) -> Any:
    h = x * 0.5
    for _ in range(4):
        z = 1 / (1 + np.exp(-h * y))
        h = z * h + (1 - z) * np.tanh(h * x)
    return (h * h).sum()


def newton(x: Any, y: Any) -> Any:
    r = x * x + 1.0
    while (abs(r * r - y * y)).sum() > 0.01:
        r = (r + y * y / r) * 0.5
    return (r * x).sum()


def two_carried(x: Any, y: Any) -> Any:
    h, c = x * 0.5, y * 2.0
    for _ in range(4):
        h, c = np.tanh(h * c), np.sin(c + h * x) * c
    return (h * c).sum()


def the_one_before(x: Any, y: Any) -> Any:
    before, h = x, y
    for _ in range(4):
        before, h = h, np.tanh(h * before) * h
    return (h * before).sum()


def a_loop_in_a_loop(x: Any, y: Any) -> Any:
    for _ in range(3):
        for _ in range(3):
            x = np.tanh(x * y)
        y = np.sin(y + x) * y
    return (x * y).sum()


def read_before_a_loop(x: Any, y: Any) -> Any:
    t = np.sin(x) * np.tanh(x * y)
    for _ in range(3):
        x = np.tanh(x * y) * x
    return (x * t).sum()


def read_before_a_linear_loop(x: Any, y: Any) -> Any:
    t = np.sin(x) * np.tanh(x * y)
    for _ in range(3):
        x = x * 0.3 + x * x[::-1] * 0.1 + x * 0.2
    return (x * t).sum()


def branches_in_a_loop(x: Any, y: Any) -> Any:
    n = 0
    while n < 4:
        n = n + 1
        if x.sum() > 0.3:
            t = np.tanh(x * y)
            x = t * x
        else:
            x = np.sin(x) * x + y
    return (x * x).sum()


def passed_by_a_branch(x: Any, y: Any) -> Any:
    n = 0
    while n < 4:
        n = n + 1
        if x.sum() * n > 0.3:
            x = np.tanh(x * y)
        x = np.tanh(x * x * y)
    return (x * x).sum()


def a_branch(x: Any, y: Any) -> Any:
    x = np.sin(x) * x
    if x.sum() > -9:
        x = np.tanh(x * y)
    return (x * x * y).sum()


def chosen_by_a_branch(x: Any, y: Any) -> Any:
    t = np.sin(x) * np.sin(y)
    z = x if x.sum() > -9 else y
    return (np.tanh(z * t) * z * z).sum()


def left_early(x: Any, y: Any) -> Any:
    for _ in range(5):
        x = np.tanh(x * y) * x
        if x.sum() < 0.1:
            break
        y = np.sin(y * x)
    return (x * y).sum()


def a_recursion(x: Any, y: Any) -> Any:
    def r(u, d):
        if d < 1:
            return np.tanh(u * y)
        return np.tanh(r(np.tanh(u * y) * u, d - 1) * u)

    return (r(x, 3 + 0 * x[0]) * x).sum()


def a_result_handed_to_recursion(x: Any, y: Any) -> Any:
    def r(u, d):
        if d < 1:
            return u * y
        return r(np.tanh(u * y), d - 1) * u

    return (r(x, 3 + 0 * x[0]) * x).sum()


def a_loop_of_no_turns(x: Any, y: Any) -> Any:
    t = np.sin(x)
    while x.sum() > 1e9:
        x = np.tanh(x * y) * x
    return (np.tanh(x) * x * y * t).sum()


def an_operand_given_back(x: Any, y: Any) -> Any:
    def r(u, d):
        if d < 1:
            return u
        return r(np.tanh(u * y), d - 1)

    z = r(x, 2 + 0 * y[0])
    return (np.tanh(z * z) * z).sum()


def two_functions(x: Any, y: Any) -> Any:
    def even(u, d):
        if d < 1:
            return np.tanh(u * y)
        return odd(np.tanh(u * x), d - 1) * u

    def odd(u, d):
        if d < 1:
            return u
        return even(np.sin(u * u), d - 1)

    return even(y * 0.5, 4 + 0 * y[0]).sum()


def a_recursion_in_a_loop(x: Any, y: Any) -> Any:
    def r(u, d):
        if d < 1:
            return np.tanh(u * y)
        if u.sum() > 2:
            u = np.tanh(u * y) * u
        return r(np.tanh(u * y) * u, d - 1) * u

    for _ in range(3):
        x = np.tanh(r(x * 0.9, 2 + 0 * y[0])) * x
    return x.sum()


PROGRAMS = [
    tanh_of_a_product,
    tanh_and_a_product,
    recurrent,
    gated,
    newton,
    two_carried,
    the_one_before,
    a_loop_in_a_loop,
    read_before_a_loop,
    read_before_a_linear_loop,
    branches_in_a_loop,
    passed_by_a_branch,
    a_branch,
    chosen_by_a_branch,
    left_early,
    a_recursion,
    a_result_handed_to_recursion,
    a_loop_of_no_turns,
    an_operand_given_back,
    two_functions,
    a_recursion_in_a_loop,
]


def of_its_sum(f: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x, y: grad(lambda x: grad(f)(x, y).sum())(x)


def of_both(f: Callable[..., Any]) -> Callable[..., Any]:
    def slopes(x: Any, y: Any) -> Any:
        gx, gy = grad(f, (0, 1))(x, y)
        return (gx * np.float32(0.7)).sum() - (gy * np.float32(1.3) * x).sum()

    return lambda x, y: grad(slopes, (0, 1))(x, y)


def along_a_vector(f: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x, y: grad(lambda x, y: (grad(f)(x, y) * np.cos(y)).sum(), (0, 1))(x, y)


def of_value_and_gradient(f: Callable[..., Any]) -> Callable[..., Any]:
    def product(x: Any, y: Any) -> Any:
        v, (gx, gy) = value_and_grad(f, (0, 1))(x, y)
        return v * (gx * gy).sum()

    return lambda x, y: grad(product, (0, 1))(x, y)


def arguments(seed: int) -> list[Array]:
    rng = np.random.default_rng(seed)
    return [rng.uniform(0.3, 1.5, 7).astype(np.float32) for _ in range(2)]


@pytest.mark.parametrize("derive", [of_its_sum, of_both, along_a_vector, of_value_and_gradient])
@pytest.mark.parametrize("f", PROGRAMS)
def test_a_gradient_differentiated_again_is_the_same_bits_in_both_modes(
    f: Callable[..., Any], derive: Callable[..., Any]
) -> None:
    for seed in range(2):
        found = []
        for mode in modes.MODES:
            with modes.using(mode=mode, kernels="ref"):
                g = derive(f)(*arguments(seed))
            found.append([a.tobytes() for a in (g if isinstance(g, tuple) else (g,))])
        assert found[0] == found[1]


def test_a_second_derivative_has_as_many_nodes_for_few_turns_as_for_many() -> None:
    def nodes(turns: int) -> int:
        def f(x: Any, y: Any) -> Any:
            for _ in range(turns):
                x = np.tanh(x * y)
            return (x * x).sum()

        with modes.using(mode="graph"):
            return explain(of_both(f), *arguments(0)).node_count

    assert nodes(10) == nodes(1000)
