"""Indices of arrays, read and written, mean what numpy means, and their gradients are slopes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cloud import modes
from cloud.differentiate import grad, value_and_grad
from cloud.parse import UnsupportedSyntax
from tests.cloud.parse.test_syntax import function

# x is an array of 3 x 4 x 5, l holds 4 integers, m is a mask of x, p one of its first axis, i and j
# are numbers; k counts the turns of a loop around the line, or is 1
READS = """
x[1, -1]
x[..., -1, None]
x[[0, -1]]
x[:, [3, 1, 1]]
x[np.arange(3), [1, 0, -1]]
x[np.arange(3), :, [1, 0, -1]]
x[:, np.arange(4), l]
x[:, [0, 1], l[:2]]
x[0, :, l]
x[0, l]
x[l % 3, 0]
x[l % 3, :, 0]
x[l % 3, ..., 0]
x[l % 3, l, ..., l]
x[l % 3, l, l]
x[None, l % 3, l]
x[l % 3, None, l]
x[:, None, l, l]
x[:, l[:2], None, l[:2]]
x[i, l]
x[i, :, l]
x[:, i, l]
x[l, i] if False else x[i, l, j]
x[l[:, None] % 3, l[None, :]]
x[l[:, None] % 3, :, l]
x[np.ix_([0, 2], [1, 3])]
x[np.ix_([0, 2], [1, 3], [0, 1, 4])]
x[1:, l, l]
x[::2, ::-1, l]
x[np.triu_indices(3)]
x[:, np.triu_indices(4)[0], np.triu_indices(4)[1]]
x[np.diag_indices(3)]
x[np.array([True, False, True])]
x[np.array([True, False, True]), [0, 1]]
x[np.array([True, False, True]), :, l[:2]]
x[np.eye(3, 4) > 0]
x[np.eye(3, 4) > 0, l[:3]]
x[0, np.eye(4, 5) > 0]
x[[i, j], [j, i]]
x[k, :, l]
x[k, np.arange(4), l]
x[l % 3, k]
x[l % 3, :, k]
x[k, -1]
x[-1, k]
x[i % 3, -1]
np.take(x, l, axis=1)
x[l[0] % 3][np.arange(4), l]
"""
WRITES = """
y[0, -1] = x[1, 0]
y[1:1] = x[2:2]
y[:, l[:0]] = x[:, :0]
y[np.arange(3), [1, 0, -1]] = x[0, 0]
y[np.ix_([0, 2], [1, 3])] = 2.0
y[x > 0] = 0.5
y[m] = x[0, 0, 0]
y[m] = x[0, 0, 0:1]
y[~m] *= 2.0
y[m] -= x[0, 0, 0] * x[0, 0, 0]
y[p] /= x[0] * x[0] + 1.0
y[:, m[0]] += x[0, 0, 0]
y[0] = [[i + x[0, 0, 0]] * 5] * 4
y[p] = x[0]
y[p] = x[0, 0]
y[p] = 1.5
y[:, m[0]] = x[0, 0, 0]
y[:, p[0] & m[0, :, 0]] = x[:, :1]
y[x[0, 0, 0] > 0] = x[0]
y[x[0, 0, 0] < 0] = x[0]
y[l % 3] = 1.5
y[l % 3] = x[0]
y[l % 3] = x[1, 0]
y[l % 3] = np.stack([x[0], x[1] * 2, x[2], x[0] * 3])
y[l % 3, l] = x[0]
y[l % 3, :, l] = x[1, :, :4]
y[:, l] = x[:, ::-1]
y[:, l, l] = x[:, :, 0]
y[:, np.arange(4), l] = 1.0
y[:, np.arange(4), l] += x[:, :, 0]
y[i, l] = x[0]
y[i, :, l] = x[0, :, :4]
y[..., l] = 3.0
y[:, l, ..., l] = x[:, :, 0].T
y[l[:, None] % 3, l] = x[0, 0, 0]
y[i, -1] = x[0, 0]
y[-1, i] += 1.0
y[i % 3, -1, -2] = 5.0
y[k, -1] = x[0, 0]
y[-1, k] += x[k, 0]
y[k, l] = x[0]
y[l % 3, k] = x[0, :, :]
y[[i, j], [j, i]] = x[:2, 0]
"""
REFUSED = [
    ("x[m]", "np.where"),
    ("x[:, m[0]]", "np.where"),
    ("x[x > 0]", "np.where"),
    ("x[True]", "np.where"),
    ("x[np.arange(3), l]", "go together"),
    ("x[[0, 1], [1, 2, 3]]", "go together"),
    ("x[np.ones(4) > 0]", "mask"),
    ("x[:, [4]]", "axis of 4"),
    ("y[m] = x", "mask"),
    ("y[m] = x[0, 0]", "mask"),
    ("y[p, 0] = 1.0", "beside"),
    ("y[i, 1:3] = 1.0", "slice"),
    ("y[l] = x[:, 0]", "wanted"),
    ("y[i, 4] = 1.0", "axis of 4"),
    ("y[i, -5] = 1.0", "axis of 4"),
    ("y[np.arange(3), l] = 1.0", "go together"),
    ("x.reshape(4, 15, order='F')", "order='F'"),
    ("x.ravel('F')", "order='F'"),
    ("x.flatten('F')", "order='F'"),
    ("np.ravel(x, 'F')", "order='F'"),
    ("np.reshape(x, (4, 15), order='F')", "order='F'"),
    ("x.copy('F')", "order='F'"),
    ("x.reshape(4, 15, foo=1)", "foo"),
    ("x.astype(np.float32, foo=1)", "foo"),
    ("x.transpose(0, 1, 2, foo=1)", "foo"),
    ("x.clip(0.1, max=0.2)", "one of these names"),
    ("x.clip(foo=1)", "foo"),
    ("np.clip(x, 0, 1, foo=1)", "foo"),
    ("x.sum(foo=1)", "foo"),
    ("y[m] += x", "mask"),
]
SAME = """
x.reshape(4, 15, order='C')
x.reshape((4, 15), order='A')
x.ravel('C')
x.ravel(order='A')
x.flatten('C')
np.ravel(x, 'C')
np.reshape(x, (4, -1), order='C')
x.transpose()
x.transpose(-1, 0, 1)
x.clip()
x.clip(max=0.2)
x.clip(min=0.2)
x.clip(-0.1, 0.3)
np.clip(x, None, 0.2)
np.clip(x, a_min=-0.2, a_max=None)
x.astype(np.float64, copy=False)
"""
WEIGHED = """
s = s + (y * y * np.cos(np.arange(y.size)).reshape(y.shape)).sum()
s = s + sum([(n + 1.0) * size for n, size in enumerate(y.shape)])
"""


def program(line: str, loop: bool, weighed: str = WEIGHED) -> Any:
    line = line if line.startswith("y[") else f"y = {line}"
    body = "\n".join(["y = x * 1.0", line, weighed.strip()]).split("\n")
    body = ["for k in range(3):", *("    " + b for b in body)] if loop else ["k = 1", *body]
    text = "\n".join(["s = 0.0", *body, "return s"])
    return function(text, f"indices {line} {loop} {len(weighed)}", "x, l, m, p, i, j")


def arguments(kind: Any = np.float64) -> tuple[Any, ...]:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((3, 4, 5)).astype(kind)
    l = np.array([1, -2, 3, 1], np.int32)  # noqa: E741  (as it is in the lines)
    m, p = rng.random(x.shape) < 0.4, np.array([True, False, True])
    return x, l, m, p, np.int32(2), np.int32(0)


LINES = [line for table in (READS, WRITES, SAME) for line in table.strip().split("\n")]


@pytest.mark.parametrize("mode", modes.MODES)
@pytest.mark.parametrize("loop", [False, True], ids=["straight", "loop"])
@pytest.mark.parametrize("line", LINES)
def test_an_index_means_what_numpy_means(line: str, loop: bool, mode: str) -> None:
    f, (x, *others) = program(line, loop), arguments()
    with modes.using(mode=mode):
        value, slope = value_and_grad(f)(x, *others)
    np.testing.assert_allclose(value, f(x, *others), rtol=1e-12)
    along, step = np.random.default_rng(1).standard_normal(x.shape), 1e-6
    want = (f(x + step * along, *others) - f(x - step * along, *others)) / (2 * step)
    np.testing.assert_allclose(np.vdot(slope, along), want, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("mode", modes.MODES)
@pytest.mark.parametrize(
    "line",
    ["x[l % 3, :, l]", "x[np.ix_([0, 2], [1, 3])]", "y[l % 3, l] = x[0]", "y[m] *= x[0, 0, 0]"],
)
def test_the_slope_of_the_slope_is_right_too(line: str, mode: str) -> None:
    f, (x, *others) = program(line, False), arguments()
    along, step = np.random.default_rng(1).standard_normal(x.shape), 1e-6

    def slope(x: Any, *others: Any) -> Any:
        return (grad(f)(x, *others) * along).sum()

    with modes.using(mode=mode):
        found = grad(slope)(x, *others)
        ends = [grad(f)(x + s * along, *others) for s in (step, -step)]
    np.testing.assert_allclose(found, (ends[0] - ends[1]) / (2 * step), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("mode", modes.MODES)
@pytest.mark.parametrize(("line", "words"), REFUSED, ids=[line for line, _ in REFUSED])
def test_what_has_no_meaning_without_the_numbers_is_refused(
    line: str, words: str, mode: str
) -> None:
    f, args = program(line, False, "s = s + y.sum()"), arguments()
    with modes.using(mode=mode), pytest.raises(UnsupportedSyntax) as caught:
        grad(f)(*args)
    assert words in str(caught.value)
    assert "Values" not in str(caught.value)


@pytest.mark.parametrize("line", ["y = x[:, np.arange(4), l]", "y[l % 3, l] = x[0]", "y[m] = 0.5"])
def test_the_runtime_has_kernels_for_indices(line: str) -> None:
    f, args = program(line.removeprefix("y = "), True), arguments(np.float32)
    np.testing.assert_allclose(value_and_grad(f)(*args)[0], f(*args), rtol=1e-4)


def test_an_index_outside_of_one_of_several_axes_is_an_error_not_the_next_row() -> None:
    x, l, *others = arguments()  # noqa: E741
    f = program("x[0, np.arange(4), l]", False)
    for outside in (5, -6):
        with pytest.raises(IndexError):
            grad(f)(x, np.where(l == 3, outside, l).astype(np.int32), *others)
