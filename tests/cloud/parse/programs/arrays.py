"""Programs on arrays, by indices, methods and numpy."""

# Plain Python of many styles is what is wanted here.
# ruff: noqa

from __future__ import annotations

import math

import numpy as np

from cloud import ops
from tests.cloud.parse.programs.table import PROGRAMS, M, V, program


@program((M,))
def indexing(m):
    a = m[0, 1] * m[-1, -1] + m[1][0]
    b = m[:, 1:] * m[:, :-1]
    c = m[::-1, ::2]
    d = m[..., 0] + m[:, None, 1][:, 0]
    return a + np.sum(b) + np.sum(c * c) + np.sum(d * d)


@program((M,))
def integer_array_index(m):
    return np.sum(m[:, [2, 0]] * m[[1, 0]][:, :2])


@program((V,))
def index_that_is_a_value(v):
    i = np.argmax(v)
    return v[i] * 3 + v[-1 - i] * v[i - 3]


@program((M,))
def methods_of_arrays(m):
    return (
        m.sum() * m.mean()
        + (m.T @ m).sum(axis=0).max()
        + m.reshape(3, 2).sum(1)[0]
        + m.min() * m.size
        + m.ndim
        + m.shape[1]
    )


@program((M, V))
def numpy_functions(m, v):
    a = np.exp(np.sin(v) * 0.3) + np.sqrt(np.abs(v)) + np.tanh(v) * np.cos(v)
    b = np.maximum(m, 0.1) * np.minimum(m, 0.2) + np.where(m > 0, m * m, -m)
    c = np.concatenate([v, v * v]) * np.arange(8)
    d = np.stack([v, 2 * v], axis=1)
    e = np.clip(m, -0.9, 1.9) + np.square(m) + np.power(np.abs(m), 1.5)
    return np.sum(a) + np.mean(b) + np.sum(c) + np.dot(d[:, 0], d[:, 1]) + np.sum(e)


@program((M, V))
def matrix_products(m, v):
    w = v[:3]
    return np.dot(m, w) @ v[:2] + (w @ w) * (w @ m.T)[1] + np.sum(np.outer(v, w))


@program((M,))
def reductions(m):
    return (
        np.sum(np.mean(m, axis=0))
        + np.max(m)
        + np.sum(np.min(m, axis=1, keepdims=True) * m)
        + np.prod(m)
        + np.sum(np.cumsum(m, axis=1))
    )


@program((M,))
def all_and_any(m):
    if np.any(m > 1.9) and not np.all(m > 0):
        return np.sum(m * m)
    return np.sum(m)


@program(2.0, 3.7)
def division_and_remainder(x):
    return x // 0.7 * x + x % 0.7 + divmod(x, 1.3)[1] + 7 // 2 * x


@program(1.7, -0.4)
def powers(x):
    return x**2 + x**3 - 2.0**x + abs(x) ** 1.5 + pow(x, 4) + x**-1


@program(0.7)
def math_functions(x):
    return (
        math.sin(x) * math.cos(x)
        + math.tan(x)
        + math.exp(x)
        + math.log(x)
        + math.sqrt(x)
        + math.tanh(x)
        + math.sinh(x)
        + math.cosh(x)
        + math.log1p(x)
        + math.expm1(x)
        + math.hypot(x, 2.0)
        + math.erf(x)
        + math.fabs(-x)
        + math.pow(x, 2.5)
        + math.pi * x
    )


@program(2.6, -2.6)
def roundings(x):
    return x * math.floor(x) + x * math.ceil(x) + x * int(x) + x * round(x)


@program((V,))
def operators_of_the_table(v):
    y = ops.softmax(v, axis=0)
    z = ops.relu(v) * ops.sigmoid(v)
    return ops.reduce_sum(y * z, axes=(0,))


@program((M,))
def numpy_arrays_of_values(m):
    a = np.array([m[0, 0], 2.0, m[1, 1]])
    return np.sum(a * np.array([1.0, m[0, 2], 3.0]))


@program((V,))
def inner_product_loop(v):
    s = 0.0
    for i in range(v.shape[0]):
        for j in range(v.shape[0]):
            if i != j:
                s = s + v[i] * v[j]
    return s


@program((np.eye(3) * 2 + 0.3,))
def gaussian_elimination(m):
    a = m * 1.0
    det = 1.0
    for i in range(3):
        det = det * a[i, i]
        for j in range(i + 1, 3):
            a[j] = a[j] - a[i] * (a[j, i] / a[i, i])
    return det


@program((V, 0.1))
def gradient_descent(v, rate):
    w = v
    steps = 0
    while np.sum(w * w) > 0.5:
        w = w - rate * 2 * w * (1 + 0.1 * w * w)
        steps += 1
    return np.sum(w) * steps


@program((1.0, 0.5))
def runge_kutta(y, t):
    def slope(y, t):
        return -y * t + math.sin(t)

    h = 0.1
    for _ in range(20):
        k1 = slope(y, t)
        k2 = slope(y + h / 2 * k1, t + h / 2)
        k3 = slope(y + h / 2 * k2, t + h / 2)
        k4 = slope(y + h * k3, t + h)
        y = y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        t = t + h
    return y


@program(0.4)
def bisection(c):
    low, high = 0.0, 2.0
    for _ in range(5):
        middle = (low + high) / 2
        if middle * middle * middle - c > 0:
            high = middle
        else:
            low = middle
    return low * c


@program((0.3, 0.2))
def mandelbrot_escape(a, b):
    x, y, n = 0.0, 0.0, 0
    while x * x + y * y < 4 and n < 12:
        x, y = x * x - y * y + a, 2 * x * y + b
        n += 1
    return x * x + y * y


@program(1.5)
def global_constants(x):
    return x * V[2] + np.sum(M) * x + len(PROGRAMS) * 0.0


@program(1.5, 3.0)
def match_by_ifs_with_many_returns(x):
    for i in range(3):
        for j in range(3):
            if x * i + j > 4.1:
                return x * j
            if i == 2 and x > 2:
                return x - i
            if i * j == 3:
                break
    else:
        x = x * 11
    return x


@program((V,))
def rearranged(v):
    m = np.outer(v, v)
    return (
        np.roll(v, 1)[0] * np.flip(v)[0] * np.tile(v, 2)[5] * np.repeat(v, 2)[3]
        + np.diagonal(m)[1] * np.rot90(m)[0, 2]
        + np.swapaxes(m, 0, 1)[0, 1] * np.moveaxis(m[None], 0, -1)[0, 2, 0]
        + np.squeeze(m[None])[1, 2] * np.expand_dims(v, 1)[2, 0] * np.ravel(m)[7]
        + np.split(v, 2)[1][0] * np.take(v, 2) * np.take(m, [0, 2], axis=1)[1, 1]
    )


@program((V,))
def padded_and_joined(v):
    return (
        np.pad(v, (1, 2), mode="edge").sum()
        + np.pad(v, 2, mode="reflect")[0]
        + np.pad(v, 1, constant_values=3.0).prod()
        + np.hstack([v, v[:2]])[5] * np.vstack([v, v * 2])[1, 0]
        + np.column_stack([v, v * v])[2, 1]
        + np.diag(v)[1, 1] * np.trace(np.triu(np.outer(v, v)) + np.tril(np.outer(v, v), -1))
    )


@program((V,))
def statistics(v):
    m = np.outer(v, v) + 1
    return (
        v.std() * v.var()
        + np.var(m, axis=0, ddof=1)[2]
        + np.std(m)
        + np.ptp(v)
        + np.linalg.norm(v)
        + np.linalg.norm(m, axis=1)[0]
        + np.linalg.norm(v, 1)
        + np.trapezoid(v, dx=0.5)
        + np.diff(v, 2)[1] * np.logaddexp(v[0], v[1])
    )


@program((V,))
def sums_by_labels(v):
    m = np.outer(v, v) + np.arange(16.0).reshape(4, 4)
    b = v.reshape(2, 2, 1)
    return (
        np.einsum("i,j,ij->", v, v, m)
        + np.einsum("i,i->i", v, v)[1]
        + np.einsum("ij,jk", m, m)[0, 1]
        + np.einsum("bij,bjk->bik", b, b.reshape(2, 1, 2))[1, 0, 1]
        + np.einsum("ij->j", m)[0]
        + np.einsum("ij->ji", m)[2, 1] * np.inner(v, v)
    )


@program((V,))
def small_numbers_keep_their_digits(v):
    return (
        1e9
        * (np.log1p(v * 1e-9).sum() + 2 * np.expm1(v * 1e-9).sum() + 3 * np.sinh(v * 1e-9).sum())
        + np.log1p(np.abs(v) * 5).sum()
        + np.expm1(v * 2).prod()
    )


@program((V,))
def nested_lists_of_values(v):
    m = np.array([[v[0], 1.0], [2.0, v[1] * v[2]]])
    return np.sum(m @ m) + math.log(v[2], 2) * np.log10(v[2]) + round(v[1] * 1.1, 1) * v[0]


@program((V,))
def a_helper_that_changes_what_it_is_given(v):
    def squared(a, i):
        a[i] = a[i] * a[i]
        return a

    v = squared(v.copy(), 0)
    w = np.array(v)
    w[1] = 3.0
    return squared(w, 2).sum() * v.sum()


@program(1.3)
def an_inner_function_that_sets_an_item_outside(x):
    v = np.array([x, x, 2.0])

    def double(i):
        v[i] = v[i] * 2 * x

    double(0)
    double(2)
    return v.sum() * v[0]


@program((V, M))
def any_and_all(v, m):
    return v.sum() if (v > 1).any() and not (m > 0).all() else v.prod()
