"""Reductions: axes and types by place and by name are numpy's, in both modes."""

from __future__ import annotations

import builtins
import inspect
import math
from typing import Any

import numpy as np
import pytest

from cloud import modes
from cloud.differentiate import grad
from cloud.jit import jit
from cloud.parse import UnsupportedSyntax
from cloud.parse.table import TABLE
from cloud.tensor import ArrayLike, Tensor

FLOATS = np.random.default_rng(3).normal(size=(3, 4))
INTS = np.array([[2**30, 2**30, 7, 2], [3, -4, 2**31 - 1, 9]], np.int32)
BYTES = np.array([[200, 100, 3], [255, 255, 0]], np.uint8)
TRUTHS = np.array([[True, False, True], [True, True, True]])
EVERYWHERE = {
    "max(0)": lambda m: m.max(0),
    "np.max(m, 1)": lambda m: np.max(m, 1),
    "np.amin(m, -1)": lambda m: np.amin(m, -1),
    "min(1, None, True)": lambda m: m.min(1, None, True),
    "max of tuple": lambda m: np.max(m, (0, 1)),
    "np.min(m)": lambda m: np.min(m),
    "sum(0)": lambda m: m.sum(0),
    "np.sum(m, 1, None, None, True)": lambda m: np.sum(m, 1, None, None, True),
    "np.sum of type": lambda m: np.sum(m, -1, np.float64),
    "mean(1)": lambda m: m.mean(1),
    "np.prod(m, 0)": lambda m: np.prod(m, 0),
    "var(0, None, None, 1)": lambda m: m.var(0, None, None, 1),
    "np.std(m, 1, None, None, 1, True)": lambda m: np.std(m, 1, None, None, 1, True),
    "np.ptp(m, 1)": lambda m: np.ptp(m, 1),
    "cumsum(1)": lambda m: m.cumsum(1),
    "np.cumsum(m)": lambda m: np.cumsum(m),
    "argmax(0)": lambda m: m.argmax(0),
    "np.argmin(m, axis=1, keepdims=True)": lambda m: np.argmin(m, axis=1, keepdims=True),
    "np.argmax(m, keepdims=True)": lambda m: np.argmax(m, keepdims=True),
    "all(0)": lambda m: m.all(0),
    "np.any(m > 2, 1, None, True)": lambda m: np.any(m > 2, 1, None, True),
    "np.trace(m, 1)": lambda m: np.trace(m, 1),
    "np.trace(m, 0, 1, 0)": lambda m: np.trace(m, 0, 1, 0),
    "places times a large number": lambda m: np.argmax(m) * 2**40 + (m > 0).sum() * 2**40,
    "concatenate all": lambda m: np.concatenate((m, m * m), axis=None),
    "concatenate lists": lambda m: np.concatenate([[m[0, 0], m[0, 1]], m[1]]),
    "of a list": lambda m: np.sum([[m[0, 0], m[1, 0]], [m[0, 1], m[1, 1]]], 0),
    "math.prod": lambda m: math.prod(m[0, :2] * 1.0, start=2),
    "max of a list": lambda m: max([m[0, 0], m[1, 1]], default=0),
    "max of none": lambda m: max(list(m[:0]), default=m[0, 0]),
    "einsum of numbers": lambda m: np.einsum(m, [0, 1], m, [0, 2]) + 0 * m[0, 0],
    "einsum to a place": lambda m: np.einsum(m * 1.0, [0, 1], m * 1.0, [2, 1], [2, 0]),
    "np.round(m, 1)": lambda m: np.around(m / 3, 1),
}  # fmt: skip
NOT_OF_TRUTHS = ("ptp", "np.concatenate", "concatenate all", "of a list", "einsum of")


@pytest.mark.parametrize("mode", modes.MODES)
@pytest.mark.parametrize("data", [FLOATS, INTS, BYTES, TRUTHS], ids=lambda a: a.dtype.name)
@pytest.mark.parametrize("name", EVERYWHERE)
def test_a_reduction_is_numpys(name: str, data: Any, mode: str) -> None:
    if data.dtype == np.bool_ and any(part in name for part in NOT_OF_TRUTHS):
        return
    with np.errstate(all="ignore"):
        want = np.asarray(EVERYWHERE[name](data))
    with modes.using(mode=mode):
        found = np.asarray(jit(EVERYWHERE[name])(data))
    assert found.shape == want.shape
    assert (found.dtype.kind in "iu") == (want.dtype.kind in "iu")
    np.testing.assert_allclose(found, want, rtol=1e-6 if data.dtype != np.float64 else 1e-14)


@pytest.mark.parametrize("mode", modes.MODES)
@pytest.mark.parametrize("name", ["max(0)", "np.max(m, 1)", "np.amin(m, -1)"])
def test_the_gradient_of_an_extremum_goes_to_the_extreme_elements(name: str, mode: str) -> None:
    f = EVERYWHERE[name]
    axis = 0 if name == "max(0)" else 1
    sign = -1 if "amin" in name else 1
    largest = (sign * FLOATS).max(axis, keepdims=True)
    with modes.using(mode=mode):
        found = grad(lambda m: (f(m) ** 2).sum())(FLOATS)
    np.testing.assert_allclose(found, np.where(sign * FLOATS == largest, 2 * FLOATS, 0))


def test_arguments_by_place_mean_what_they_mean_to_numpy() -> None:
    """Of each rule: what is given by place stands where it does in numpy's function."""
    renamed = {"x", "y", "a", "b", "shape"}  # operands, of where(c, x, y) and its like
    checked = 0
    for f, handler in TABLE.items():
        if isinstance(f, type) or "numpy" not in str(getattr(f, "__module__", "")):
            continue
        rule = list(inspect.signature(handler.of_values).parameters.values())[1:]
        if any(p.kind is p.VAR_POSITIONAL for p in rule):
            continue
        ours = [p.name for p in rule if p.kind is p.POSITIONAL_OR_KEYWORD]
        if isinstance(f, np.ufunc):
            assert len(ours) == f.nin, f
            continue
        theirs = [
            p.name for p in inspect.signature(f).parameters.values() if p.kind is not p.KEYWORD_ONLY
        ]
        pairs = zip(ours[1:], theirs[1:], strict=False)
        assert len(ours) <= len(theirs), f
        assert all(a == b or a in renamed for a, b in pairs), f
        checked += 1
    assert checked > 30


@pytest.mark.parametrize("mode", modes.MODES)
def test_what_python_refuses_of_many_numbers_is_refused(mode: str) -> None:
    for f, hint in (
        (lambda m: builtins.max(m), "np.max|truth value of an array"),
        (lambda m: np.sum(m, 0, None, np.zeros(4)), "assign the result"),
    ):
        with modes.using(mode=mode), pytest.raises((UnsupportedSyntax, ValueError), match=hint):
            grad(lambda m, f=f: np.sum(f(m)))(FLOATS)


def test_a_tensor_reduces_along_an_axis_by_place() -> None:
    t = Tensor(FLOATS)
    assert isinstance(t, ArrayLike)
    np.testing.assert_array_equal(t.max(0).numpy(), FLOATS.max(0))
    np.testing.assert_array_equal(np.min(t, 1).numpy(), FLOATS.min(1))
