"""Functions with edge cases of their own: numbers, edges and derivatives are those of Python."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from cloud import interpreter, jit, modes
from cloud.differentiate import grad, value_and_grad
from cloud.parse import UnsupportedSyntax
from cloud.transform import Traced
from ir.graph import Graph

INF, NAN = math.inf, math.nan
ONES = [0.0, -0.0, 0.3, -0.45, 0.5, -0.5, 1.25, -2.5, 3.75, -6.0, 9.1, 26.0, 1e-9, INF, -INF, NAN]
PAIRS = [(a, b) for a in (0.0, 0.5, -1.5, 3.5, 7.25, -20.0, INF, -INF, NAN)
         for b in (1.0, -2.0, 0.7, INF, NAN)]  # fmt: skip
CASES: dict[str, tuple[Callable[..., Any], list[Any]]] = {
    "erfc": (lambda x: math.erfc(x), ONES),
    "modf": (lambda x: math.modf(x), ONES),
    "np.modf": (lambda x: np.modf(x), ONES),
    "sinc": (lambda x: np.sinc(x), ONES[:-3]),
    "nan_to_num": (lambda x: np.nan_to_num(x), ONES),
    "nan_to_num of others": (lambda x: np.nan_to_num(x, nan=2.0, posinf=9.0, neginf=-7.0), ONES),
    "remainder": (lambda x, y: math.remainder(x, y), [p for p in PAIRS if abs(p[0]) != INF]),
    "isclose": (lambda x, y: math.isclose(x, y), [*PAIRS, (1.0, 1 + 1e-10), (1e-9, 0.0), (2, 2.1)]),
    "isclose by more": (lambda x, y: math.isclose(x, y, rel_tol=0.2, abs_tol=0.1),
                        [*PAIRS, (1.0, 1.1), (0.05, 0.0), (2.0, 2.9)]),
    "np.isclose": (lambda x, y: np.isclose(x, y), [*PAIRS, (1.0, 1 + 1e-6), (1e-9, 0.0)]),
    "np.isclose of nan": (lambda x, y: np.isclose(x, y, equal_nan=True), PAIRS),
    "heaviside": (lambda x, y: np.heaviside(x, y), PAIRS),
    "logaddexp": (lambda x, y: np.logaddexp(x, y), [*PAIRS, (1.0, 1.0), (-800.0, -801.0)]),
    "logaddexp2": (lambda x, y: np.logaddexp2(x, y), [*PAIRS, (1.0, 1.0), (-800.0, -801.0)]),
    "float_power": (lambda x, y: np.float_power(x, y), [(2.0, 0.5), (0.5, -3.0), (3.0, 2.0)]),
    "fmax": (lambda x, y: np.fmax(x, y), PAIRS),
    "fmin": (lambda x, y: np.fmin(x, y), PAIRS),
    "ldexp": (lambda x: [math.ldexp(x, i) for i in (0, 3, -4, 900, -1000)], [0.75, -3.0, 1e-200]),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_a_function_gives_pythons_numbers_also_at_its_edges(name: str) -> None:
    f, cases = CASES[name]
    for case in cases:
        args = tuple(np.float64(a) for a in (case if isinstance(case, tuple) else (case,)))
        traced = Traced.of(f, args, {})
        result = traced.result if isinstance(traced.result, (tuple, list)) else [traced.result]
        with np.errstate(all="ignore"):
            found = interpreter.run(Graph(tuple(traced.values), tuple(result)), *args)
            want = f(*map(float, args))
        np.testing.assert_allclose(
            [float(v) for v in found], np.ravel(want), rtol=3e-15, err_msg=f"{args}"
        )


FAR = [(a, b) for a in (1e17, -1e300, 12345.678, -1.0, 6.0, -9.0, 10.0, 5e-324, 0.0)
       for b in (0.1, -3.0, 2.5, 4.0, -1e-3, 7e-310, 1e301)]  # fmt: skip
REMAINDERS: dict[str, Callable[..., Any]] = {
    "%": lambda x, y: x % y,
    "//": lambda x, y: x // y,
    "divmod": lambda x, y: divmod(x, y),
    "math.fmod": lambda x, y: math.fmod(x, y),
    "math.remainder": lambda x, y: math.remainder(x, y),
    "np.fmod": lambda x, y: np.fmod(x, y),
    "np.mod": lambda x, y: np.mod(x, y),
    "np.floor_divide": lambda x, y: np.floor_divide(x, y),
}


@pytest.mark.parametrize("mode", modes.MODES)
@pytest.mark.parametrize("name", REMAINDERS)
def test_remainders_are_exact_however_large_the_quotient(name: str, mode: str) -> None:
    f = REMAINDERS[name]
    for x, y in FAR:
        with modes.using(mode=mode), np.errstate(all="ignore"):
            found = jit(f)(np.float64(x), np.float64(y))
            want = f(x, y)
        assert np.all(np.equal(found, want)), (x, y, found, want)


@pytest.mark.parametrize("name", ["%", "np.fmod", "//"])
def test_remainders_of_integers_are_integers(name: str) -> None:
    f = REMAINDERS[name]
    x, y = np.array([7, -7, 7, -7, 2**31 - 1], np.int32), np.array([3, 3, -3, -3, 2], np.int32)
    found = jit(f)(x, y)
    assert found.dtype == np.int32
    np.testing.assert_array_equal(found, f(x, y))


@pytest.mark.parametrize("args", [(7.3, 2.0), (-7.3, 2.0), (7.3, -2.0), (-7.3, -2.0), (8.4, 2.5)])
@pytest.mark.parametrize("name", [n for n in REMAINDERS if n != "divmod"])
def test_slopes_of_remainders(name: str, args: tuple[float, float]) -> None:
    f, h = REMAINDERS[name], 1e-6
    x, y = args
    slopes = [(f(x + h, y) - f(x - h, y)) / (2 * h), (f(x, y + h) - f(x, y - h)) / (2 * h)]
    np.testing.assert_allclose(grad(f, (0, 1))(x, y), slopes, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("erfc", (0.2,)), ("erfc", (0.6,)), ("erfc", (-1.4,)), ("erfc", (5.0,)),
        ("sinc", (0.0,)), ("sinc", (0.1,)), ("sinc", (0.9,)), ("nan_to_num", (1.5,)),
        ("remainder", (7.3, 2.0)), ("heaviside", (0.0, 0.4)), ("logaddexp", (0.3, 1.2)),
        ("logaddexp", (1.0, 1.0)), ("logaddexp2", (0.3, -1.2)), ("logaddexp2", (2.0, 2.0)),
        ("float_power", (1.7, 2.4)), ("fmax", (0.3, 1.2)), ("fmin", (0.3, 1.2)),
    ],
)  # fmt: skip
def test_its_derivatives_are_its_slopes_to_second_order(name: str, args: tuple[float, ...]) -> None:
    f = CASES[name][0]
    for i in range(len(args)):
        if name == "heaviside" and i == 0:
            continue

        def along(v: float, f: Callable[..., Any] = f, i: int = i) -> Any:
            return f(*args[:i], v, *args[i + 1 :])

        h = 1e-5
        first, second = grad(along), grad(grad(along))
        slope = (along(args[i] + h) - along(args[i] - h)) / (2 * h)
        assert first(args[i]) == pytest.approx(slope, rel=2e-6, abs=1e-9)
        bend = (first(args[i] + h) - first(args[i] - h)) / (2 * h)
        assert second(args[i]) == pytest.approx(bend, rel=2e-6, abs=1e-6)


def test_nan_among_the_operands_of_fmax_leaves_the_gradient_to_the_other() -> None:
    assert grad(lambda x, y: np.fmax(x, y), (0, 1))(NAN, 2.0) == (0.0, 1.0)


def test_erfc_and_sinc_are_as_exact_as_float32_is_on_the_runtime() -> None:
    x = np.linspace(-3, 9, 97, dtype=np.float32)

    def f(v: Any) -> Any:
        return np.sum(math.erfc(v)), math.erfc(v), np.sinc(v)

    with modes.using(mode="graph"):
        traced = Traced.of(f, (x,), {})
        from cloud.execute import run

        _, erfc, sinc = run(Graph(tuple(traced.values), traced.result), x)
    np.testing.assert_allclose(erfc, [math.erfc(float(v)) for v in x], rtol=2e-6)
    np.testing.assert_allclose(sinc, np.sinc(x.astype(np.float64)), atol=2e-7)


def test_ldexp_by_a_value_doubles_so_often() -> None:
    def f(x: Any, k: Any) -> Any:
        s = 0.0
        for i in range(k):
            s = s + math.ldexp(x, i)
        return s

    y, dy = value_and_grad(f)(1.5, 8)
    assert (y, dy) == (1.5 * 255, 255.0)
    tiny = grad(lambda x: np.ldexp(x, 200) * np.float32(1))(np.float32(1e-30))
    assert np.isinf(tiny)  # 2^200 is none of float32, the result is
    assert value_and_grad(lambda x: np.ldexp(x, 200))(np.float32(1e-30))[0] == np.float32(
        2.0**200 * 1e-30
    )


@pytest.mark.parametrize("call", ["math.gamma(x)", "math.lgamma(x)", "np.nextafter(x, 2.0)"])
def test_what_no_operators_make_is_refused_with_its_place(call: str) -> None:
    from tests.cloud.parse.test_syntax import function

    with pytest.raises(UnsupportedSyntax, match="does not take values of a graph") as e:
        Traced.of(function(f"return {call}", call), (1.5,), {})
    assert "hint: " in str(e.value)
    assert e.value.place.column == 12
