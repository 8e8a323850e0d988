"""The language of formulas: what it means, how far indices run, and what it says of mistakes."""

from __future__ import annotations

import re

import numpy as np
import pytest

from cloud.formula import FormulaError, formula
from ir.graph import Value
from ir.op import OPS
from ir.ops.fused import operand_types

X = np.arange(12, dtype=np.float32).reshape(3, 4) - 5


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("y[i, j] = -x[i, j]", -X),
        ("y[j] = reduce_sum(i, x[i, j])", X.sum(0)),
        ("y[j] = 2 * reduce_sum(i, x[i, j]) / 4 + 1", X.sum(0) / 2 + 1),
        ("y[j] = reduce_sum(i, x[i, j]) - reduce_sum(i, abs(x[i, j])) - 1 + j",
         X.sum(0) - np.abs(X).sum(0) - 1 + np.arange(4)),
        ("y[j] = reduce_max(i, x[i, j]) - reduce_min(i, x[i, j])", X.max(0) - X.min(0)),
        ("m[i] = reduce_sum(j, x[i, j])\ny[i, j] = x[i, j] / m[i]", X / X.sum(1, keepdims=True)),
        ("n = x.shape[1] // 2\nj = range(n)\ny[i, j] = x[i, 2 * j]", X[:, ::2]),
        ("n = x.shape[-1]\ny[i, j] = n * x[i, j]", 4 * X),
        ("j = range(1, 3)\ny[i] = reduce_sum(j, x[i, j])", X[:, 1:3].sum(1)),
        ("i = range(max(x.shape[0], x.shape[1]))\ny[i] = padded(x[i, 0], 9)",
         np.float32([*X[:, 0], 9])),
        ("y[i, j] = x[i, j] if i <= j else 0", np.triu(X)),
        ("y[i, j] = where(i != j and not i > 1, x[i, j], 0)",
         X * (np.arange(3)[:, None] != np.arange(4)) * (np.arange(3) <= 1)[:, None]),
        ("y[i, j] = where(i == 1 or x[i, j] > 2, x[i, j], 0)",
         np.where((np.arange(3) == 1)[:, None] | (X > 2), X, 0)),
        ("y[i, j] = where(-3 <= x[i, j] < 2, 1, 0)", ((X >= -3) & (X < 2)).astype(np.float32)),
        ("y[i, j] = clip(x[i, j], low=-1.5, high=2)", X.clip(-1.5, 2)),
        ("y[i, j] = maximum(x[i, j], minimum(x[i, 0], 0.5)) ** 2",
         np.maximum(X, np.minimum(X[:, :1], 0.5)) ** 2),
        ("y[i] = reduce_sum((j, k), x[i, j] * x[i, k])", X.sum(1) ** 2),
        ("y[i] = reduce_sum(j, x[i, j] * reduce_sum(k, x[k, j]))", X @ X.sum(0)),
        ("y[i] = reduce_sum(j, reduce_prod(k, x[i, k] + j * 0) * 0 + x[i, j])", X.sum(1)),
        ("y = zeros(5, 4)\ny[i + 1, j] += x[i, j]\ny[0, j] += 2 * x[i, j]",
         np.concatenate([2 * X.sum(0, keepdims=True), X, 0 * X[:1]])),
    ],
)  # fmt: skip
def test_a_formula_means_what_numpy_does(text: str, want) -> None:
    np.testing.assert_allclose(formula(text)(X), want, rtol=1e-5)


@pytest.mark.parametrize("name", [n for n, op in OPS.items() if operand_types(op)])
def test_every_operator_of_one_element_is_a_function(name: str) -> None:
    op = OPS[name]
    types, result = operand_types(op)
    rng = np.random.default_rng(0)
    xs = [rng.uniform(0.2, 2, 5).astype(np.float32) for _ in types]
    truths = [repr(t) == "bool" for t in types]
    texts = [f"x{i}[n]" + " > 1" * truth for i, truth in enumerate(truths)]
    options = ', to="f32"' if name == "cast" else ""
    call = f"{name}({', '.join(texts)}{options})"
    is_truth = repr(result) == "bool"
    got = formula(f"y[n] = {f'where({call}, 1, 0)' if is_truth else call}")(*xs)
    given = [x > 1 if truth else x for x, truth in zip(xs, truths, strict=True)]
    want = op(*given, to="f32") if name == "cast" else op(*given)
    np.testing.assert_allclose(got, want.astype(np.float32), rtol=2e-5, atol=1e-6)


def test_indices_run_as_far_as_every_element_exists() -> None:
    valid = formula("y[n, i] = reduce_sum(k, x[n, 3 * i + 2 * k] * w[k])")
    assert valid(Value((2, 12)), Value((3,))).shape == (2, 3)
    backwards = formula("y[i] = x[9 - 2 * i] + x[i]")
    assert backwards(Value((10,))).shape == (5,)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("y[i] = x[i] +", "line 1: invalid syntax"),
        ("y[i] = x[i, j]", "line 1: j is no index of the result or of a reduction"),
        ("y[i] = x[i]", "1 indices of x, want 2, in `y[i] = x[i]`"),
        ("y[i, j] = x[i * j, j]", "want indices that are sums of indices times whole numbers"),
        ("y[i, i] = x[i, i]", "want different plain indices of the result, or `+=`"),
        ("y[i + 1, j] = x[i, j]", "want different plain indices of the result, or `+=`"),
        ("y[i + 1, j] += x[i, j]", "want `y = zeros(sizes)` before, and `+=`"),
        ("y = zeros(2)\ny[i, j] += x[i, j]", "2 indices of y, want 1"),
        ("y = zeros(3, 4)\ny[i, j] += x[i, j]\ny[i, 4] += x[i, 0]",
         "an index of y, [3,4], leaves axis 1"),
        ("y[i] = reduce_sum(i, x[i, i])", "i is an index outside of the reduction already"),
        ("y[i] = reduce_sum(2, x[i, 0])", "want names of indices to reduce over"),
        ("y[i] = reduce_sum(x[i, 0])", "want reduce_sum(indices, value)"),
        ("y[i, k] = x[i, 0]", "nothing tells how far k runs, want a range"),
        ("y[i] = x[i, 0] * x[0, i]", "i runs over 3 and over 4"),
        ("i = range(5)\ny[i] = x[i, 0]", "an index of x, [3,4], leaves axis 0; want padded"),
        ("y[i, j] = x[i, j + 1] + x[i, j]\ny[i, j] = x[i, j]", "y is known already"),
        ("y[i, j] = x[-1 - i, j]", "an index starts at -1 and falls with i, want one from 0 on"),
        ("j = range(1, 3)\ny[j] = x[0, j]", "j starts at 1, want 0 in a result"),
        ("y[i, j] = sinus(x[i, j])", "no function sinus"),
        ("y[i, j] = matmul(x[i, j], 2)", "no function matmul"),
        ("y[i, j] = exp(x[i, j], 2)", "exp of 2 values, want 1"),
        ("y[i, j] = x[i, j] % 2", "want + - * / ** between numbers"),
        ("y[i, j] = where(x[i, j], 1, 2)", "want a condition"),
        ("y[i, j] = x[i, j] > 2", "a condition, want a number"),
        ("n = x.shape[5]\ny[i, j] = x[i, j]", "no size 5 of x"),
        ("n = x.shape[0] // 0\ny[i, j] = x[i, j]", "a size divided by 0"),
        ("n = x[0, 0]\ny[i, j] = x[i, j]", "want a size"),
        ("x[i, j]", "want a result"),
        ("for i in x:\n    pass", "want at least one input and one result"),
        ("y[i, j] = lambda: x[i, j]", "want numbers, elements, operators and functions"),
        ("n = 3\nn = x.shape[0]", "want a result"),
        ("x = 3", "want at least one input"),
    ],
)  # fmt: skip
def test_a_mistake_is_one_line_that_says_where(text: str, message: str) -> None:
    with pytest.raises(FormulaError, match=re.escape(message)) as error:
        formula(text)(Value((3, 4)))
    assert "\n" not in str(error.value)
    assert str(error.value).startswith("formula")


def test_a_part_of_what_zeros_made_may_be_added_to() -> None:
    f = formula("y = zeros(5, 4)\ny[i, j] += x[i, j]")
    np.testing.assert_array_equal(f(X)[:3], X)
    np.testing.assert_array_equal(f(X)[3:], 0)


def test_wrong_calls_are_named() -> None:
    f = formula("y[i] = x[i] * z[i]", stride=1)
    with pytest.raises(FormulaError, match="1 inputs, want x, z"):
        f(Value((3,)))
    with pytest.raises(FormulaError, match=r"no attribute .'step'"):
        f(Value((3,)), Value((3,)), step=1)


def test_a_body_that_is_too_long_becomes_several_nests() -> None:
    taps = " + ".join(f"{k} * x[i + {k}] ** 2" for k in range(40))
    x = np.random.default_rng(0).standard_normal(50).astype(np.float32)
    want = sum(k * x[k : k + 11] ** 2 for k in range(40))
    np.testing.assert_allclose(formula(f"y[i] = {taps}")(x), want, rtol=1e-4)
