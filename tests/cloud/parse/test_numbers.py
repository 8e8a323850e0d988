"""Numbers at the edges of their types: signs, infinities, integers that are long, in both modes."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from cloud import interpreter, jvp, modes
from cloud.differentiate import grad, value_and_grad
from cloud.jit import jit
from cloud.parse import UnsupportedSyntax
from cloud.transform import Traced
from ir.graph import Graph

INF, NAN = math.inf, math.nan
SIGNED = [0.0, -0.0, 0.5, -0.5, 2.0, -3.0, INF, -INF]
EDGES: dict[str, tuple[Callable[..., Any], list[Any]]] = {
    "arctan2": (lambda y, x: np.arctan2(y, x), [(a, b) for a in SIGNED for b in SIGNED]),
    "copysign": (lambda x, y: np.copysign(x, y), [(3.0, s) for s in SIGNED]),
    "hypot": (lambda x, y: np.hypot(x, y),
              [(0.5, 1e300), (3.0, 4.0), (0.0, 0.0), (1e-200, 1e-200), (INF, -1.0), (1e200, INF)]),
    "sinh": (lambda x: np.sinh(x), [-0.0, 1e-9, 0.3, 710.0, -710.3, 800.0, INF]),
    "cosh": (lambda x: np.cosh(x), [-0.0, 0.3, 710.0, -INF]),
    "trunc": (lambda x: np.trunc(x), [*SIGNED, -0.9, 2.7]),
    "cbrt": (lambda x: np.cbrt(x), [0.0, -0.0, 0.5, -8.0, INF]),
    "round to digits": (lambda x: round(x, 1), [2.55, 2.675, 0.25, 0.35, -2.55, -0.0, 1e300, INF]),
    "round to two": (lambda x: round(x, 2), [2.675, 1.005, -1.255, 1e-9, 123456.785]),
    "sign": (lambda x: np.sign(x), SIGNED),
    "signbit": (lambda x: np.signbit(x), SIGNED),
    "floor division": (lambda x, y: x // y, [(a, b) for a in (0.0, -0.0, 0.5, -0.5, 7.0)
                                             for b in (-0.5, 2.0, -3.0)]),
}  # fmt: skip


@pytest.mark.parametrize("name", EDGES)
def test_zeros_have_their_signs_and_what_is_large_does_not_run_over(name: str) -> None:
    f, cases = EDGES[name]
    for case in cases:
        args = case if isinstance(case, tuple) else (case,)
        data = tuple(np.float64(a) for a in args)
        traced = Traced.of(f, data, {})
        with np.errstate(all="ignore"):
            (found,) = interpreter.run(Graph(tuple(traced.values), (traced.result,)), *data)
            want = f(*map(float, args))
        np.testing.assert_allclose(float(found), want, rtol=1e-15, err_msg=f"{args}")
        assert np.signbit(found) == np.signbit(want), args


OF_ANGLES = [((0.0, 2.0), (0.5, 0.0)), ((2.0, 0.0), (0.0, -0.5)), ((0.0, -2.0), (-0.5, 0.0)),
             ((1.5, 1.5), (1 / 3, -1 / 3)), ((-1.5, 1.5), (1 / 3, 1 / 3))]  # fmt: skip


@pytest.mark.parametrize("mode", modes.MODES)
def test_angles_and_lengths_have_their_derivatives_on_the_axes(mode: str) -> None:
    with modes.using(mode=mode):
        for at, want in OF_ANGLES:
            found = grad(lambda y, x: np.arctan2(y, x), wrt=(0, 1))(*at)
            np.testing.assert_allclose(found, want, rtol=1e-12)
        found = grad(lambda x, y: np.hypot(x, y), wrt=(0, 1))(3e200, 4e200)
        np.testing.assert_allclose(found, (0.6, 0.8), rtol=1e-12)
        second = grad(grad(lambda x: np.hypot(x, 3.0)))(4.0)
        np.testing.assert_allclose(second, 9 / 125, rtol=1e-12)


@pytest.mark.parametrize("mode", modes.MODES)
@pytest.mark.parametrize("n", [0, 0.0, 1, 1.0, 2, 2.0, 3, 3.0, 5, 5.0, np.float64(2)])
def test_a_power_has_all_its_derivatives_at_0(n: Any, mode: str) -> None:
    with modes.using(mode=mode):
        f = lambda x: x**n  # noqa: E731
        for k in range(1, 4):
            f = grad(f)
            factor = math.prod(n - i for i in range(k))
            for x in (0.0, -2.0):
                want = factor * x ** (n - k) if factor else 0.0
                np.testing.assert_allclose(f(x), want, rtol=1e-12)


@pytest.mark.parametrize("mode", modes.MODES)
def test_an_array_of_exponents_holds_zeros(mode: str) -> None:
    x = np.array([0.0, 1.0, -2.0])

    def polynomial(x: Any) -> Any:
        return (x[:, None] ** np.arange(4)).sum()

    def of_exponents(x: Any, n: Any) -> Any:
        return (x**n).sum()

    with modes.using(mode=mode):
        np.testing.assert_allclose(grad(polynomial)(x), 1 + 2 * x + 3 * x**2)
        hessian = jvp(grad(polynomial), (x,), (np.ones(3),))[1]
        np.testing.assert_allclose(hessian, 2 + 6 * x)
        np.testing.assert_allclose(grad(of_exponents)(x, np.array([0.0, 0.0, 2.0])), [0, 0, -4])
        zeros = np.zeros(2)
        by_exponent = grad(of_exponents, wrt=1)(np.array([0.0, 2.0]), zeros)
        np.testing.assert_allclose(by_exponent, [0, math.log(2)], rtol=1e-12)


BYTES = np.array([200, 3, 5], np.uint8)
INTS = np.array([5, -7, 0], np.int32)
OF_INTEGERS: dict[str, tuple[Callable[..., Any], Any]] = {
    "abs of unsigned": (lambda x: np.abs(x), BYTES),
    "abs": (lambda x: abs(x), BYTES),
    "hypot of unsigned": (lambda x: np.hypot(x.astype(np.float64), np.float64(4)), BYTES),
    "sign": (lambda x: np.sign(x), INTS),
    "above all": (lambda x: x > 300, BYTES),
    "below all": (lambda x: (x > -1) | (x == 256), BYTES),
    "bits": (lambda x: (x & 3) | (x ^ 7), BYTES),
    "bits of long": (lambda x: ~x & 2**20, INTS),
    "shifts": (lambda x: (x << 1) + (x >> 2), BYTES),
    "np shifts": (lambda x: np.left_shift(x, 3) + np.right_shift(x, 1), INTS),
    "inverted": (lambda x: ~x, BYTES),
    "not": (lambda x: np.logical_not(x), INTS),
    "and": (lambda x: np.logical_and(x, [1, 0, 1]), INTS),
    "xor": (lambda x: np.logical_xor(x, x > 0), INTS),
    "steps of truths": (lambda x: np.diff(x > 0), INTS),
    "bounds outside": (lambda x: np.clip(x, -2, 4), BYTES),
    "list": (lambda x: x * [1, 2, 3], INTS),
    "list before": (lambda x: [1, 2, 3] - x, INTS),
    "compared with a list": (lambda x: x == [5, 2, 0], INTS),
    "large power": (lambda x: x**5, INTS),
    "quotient": (lambda x: x // 4, INTS),
    "sum of truths": (lambda x: (x > 0) + (x < 0), INTS),
    "product of truths": (lambda x: (x > 0) * (x < 9), INTS),
}


@pytest.mark.parametrize("mode", modes.MODES)
@pytest.mark.parametrize("name", OF_INTEGERS)
def test_integers_are_numpys(name: str, mode: str) -> None:
    f, x = OF_INTEGERS[name]
    want = f(x)
    with modes.using(mode=mode):
        found = jit(f)(x)
    np.testing.assert_array_equal(found, want)
    assert (found.dtype == np.bool_) == (want.dtype == np.bool_)


KINDS = {
    "bool": np.array([True, False]),
    "u8": np.array([3, 5], np.uint8),
    "i32": np.array([3, 5], np.int32),
    "i64": np.array([3, 5], np.int64),
    "f32": np.array([3, 5], np.float32),
    "f64": np.array([3.5, 5.0]),
}
JOINED: dict[str, Callable[[Any, Any], Any]] = {
    "+": lambda a, b: a + b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a / b,
    "//": lambda a, b: a // b,
    "**": lambda a, b: a**b,
    "maximum": lambda a, b: np.maximum(a, b),
    "where": lambda a, b: np.where(a > b, a, b),
}


@pytest.mark.parametrize("mode", modes.MODES)
@pytest.mark.parametrize("name", JOINED)
def test_types_are_promoted_as_the_table_says(name: str, mode: str) -> None:
    """As numpy does, but for what docs/differentiation.md says."""
    f = JOINED[name]
    for a in KINDS:
        for b in KINDS:
            with np.errstate(all="ignore"), modes.using(mode=mode):
                want, found = f(KINDS[a], KINDS[b]), jit(f)(KINDS[a], KINDS[b])
            kinds = {KINDS[a].dtype.kind, KINDS[b].dtype.kind}
            if kinds == {"b"} and name in ("//", "**"):
                assert found.dtype == np.int32
            elif name == "/" and "f" not in kinds:
                assert found.dtype == np.float32
            elif len(kinds) == 2 and "f32" in (a, b) and kinds & {"i", "u"}:
                assert found.dtype == np.float32, (a, b)
            else:
                assert found.dtype == want.dtype, (a, b)


@pytest.mark.parametrize("mode", modes.MODES)
def test_integers_of_floats_are_long(mode: str) -> None:
    def f(x: Any) -> Any:
        return (
            int(x) + 3 * round(x) + math.floor(x) + 5 * math.ceil(-x) + 7 * math.trunc(-x),
            int(x) * 4 + (int(x) >> 3) + (int(x) << 2),
        )

    with modes.using(mode=mode):
        assert tuple(int(y) for y in jit(f)(1e12 + 0.75)) == f(1e12 + 0.75)


@dataclass
class Pair:
    a: Any
    b: Any


class Counter:
    def __init__(self, x: Any) -> None:
        self.x, self.n = x, 0

    def __iadd__(self, other: Any) -> Counter:
        self.x, self.n = self.x + other, self.n + 1
        return self


def of_copies(x: Any) -> Any:
    pair = Pair([x, 2 * x], {"k": x})
    other, items = copy.copy(pair), copy.copy([pair, x])
    other.a[0] = 5 * x
    other.b = {"k": 7 * x}
    items[1] = 0.0
    items[0].a[1] = 3 * x
    deep = copy.deepcopy(pair)
    deep.a[0] = 100 * x
    return pair.a[0] + pair.a[1] * pair.b["k"] + other.b["k"]


def of_in_place(x: Any) -> Any:
    c = Counter(x)
    d = c
    while c.x < 9:
        c += x
    return d.x * d.n


def returned_from_inside(x: Any) -> Any:
    while True:
        x = x + 0.3
        if x > 4:
            return x * x


def of_two_returns(x: Any) -> Any:
    n = 0
    while True:
        x, n = x + 0.3, n + 1
        if x > 4:
            if n % 2:
                return x * x
            return x * 3


def broken_or_returned(x: Any) -> Any:
    while True:
        x = x * 1.5
        if x > 50:
            return -x
        if x > 10:
            break
    return x * x


PROGRAMS = [of_copies, of_in_place, returned_from_inside, of_two_returns, broken_or_returned]


@pytest.mark.parametrize("mode", modes.MODES)
@pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__)
def test_a_program_is_pythons(f: Callable[..., Any], mode: str) -> None:
    with modes.using(mode=mode):
        y, g = value_and_grad(f)(1.45)
        assert float(jit(f)(1.45)) == pytest.approx(f(1.45), rel=1e-12)
    assert float(y) == pytest.approx(f(1.45), rel=1e-12)
    assert float(g) == pytest.approx((f(1.45 + 1e-6) - f(1.45 - 1e-6)) / 2e-6, rel=1e-6)


def test_bits_of_floats_are_refused() -> None:
    for f in (lambda x: x & 1, lambda x: ~x, lambda x: x << 2):
        with pytest.raises(UnsupportedSyntax, match="integers and truth values"):
            jit(f)(np.ones(3))
