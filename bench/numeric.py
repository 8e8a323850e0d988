"""Derivatives of small programs beside PyTorch, and JAX where it is installed.

The gradient of a loop that the data end, and the product of a Hessian with a vector.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from importlib.util import find_spec
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from bench.timing import Row, Turns, rows, take_turns, timed
from cloud import grad, jit, jvp, modes, ops
from cloud.nn.loss import softmax_cross_entropy
from ir.graph import Array, Value

STEPS, SQUARE = 100, 7.3
BATCH, SIZES = 32, (784, 128, 10)
Run = Callable[[], Any]  # one call, which has ended when it returns
Case = Callable[[], tuple[dict[str, Run], Callable[[Any], float]]]  # contenders; how far off


def measure(turns: Turns, threads: Sequence[int]) -> Iterator[Row]:
    """Rows of every case by number of threads, in microseconds a call."""
    for name, case in CASES.items():
        for n in threads:
            torch.set_num_threads(n)
            with modes.using(threads=n):
                contenders, off = case()
                errors = {who: off(run()) for who, run in contenders.items()}
                found = take_turns({who: timed(run) for who, run in contenders.items()}, turns)
            note = ", ".join(f"{who} off by {e:.0e}" for who, e in errors.items())
            for row in rows("numeric", name, n, found, note):
                us = {"ours": 1e3 * row.ours, "theirs": 1e3 * row.theirs, "unit": "us"}
                yield Row(**{**row.as_dict(), **us})  # type: ignore[arg-type]


def newton() -> tuple[dict[str, Run], Callable[[Any], float]]:
    """d sqrt(a) / da through so many steps of Newton's method."""
    ours = jit(grad(root))
    a, turns = np.float32(SQUARE), np.int32(STEPS)

    def theirs() -> torch.Tensor:
        x = torch.tensor(SQUARE, requires_grad=True)
        return torch.autograd.grad(root(x, STEPS), x)[0]

    contenders: dict[str, Run] = {"ours": lambda: ours(a, turns), "torch": theirs}
    if find_spec("jax"):
        contenders["jax"] = _jax_newton()
    exact = 0.5 / np.sqrt(SQUARE)
    return contenders, lambda found: abs(float(found) / exact - 1)


def root(a: Any, turns: Any) -> Any:
    """The square root of a, by Newton's method: the number of steps is data."""
    x = a
    while turns > 0:
        x = (x + a / x) / 2
        turns = turns - 1
    return x


def hessian(ours: Run, theirs: Run) -> tuple[dict[str, Run], Callable[[Any], float]]:
    """H v of the mean cross-entropy of a net of two layers with tanh; by its weights."""
    contenders = {"ours": ours, "torch": theirs}
    if find_spec("jax"):
        contenders["jax"] = _jax_hessian()
    exact = exact_product()
    size = sum(np.sum(a**2) for a in exact.values())

    def off(found: Mapping[str, Any]) -> float:
        error = sum(np.sum((np.asarray(found[k]) - exact[k]) ** 2) for k in exact)
        return float(np.sqrt(error / size))

    return contenders, off


def problem() -> tuple[dict[str, Array], dict[str, Array], Array, Array]:
    """Weights, a vector of their form, inputs and labels."""
    rng = np.random.default_rng(5)
    a, b, c = SIZES
    shapes = {"w1": (a, b), "b1": (b,), "w2": (b, c), "b2": (c,)}
    weights = {k: 0.05 * rng.standard_normal(s) for k, s in shapes.items()}
    vector = {k: rng.standard_normal(s) for k, s in shapes.items()}
    return weights, vector, rng.standard_normal((BATCH, a)), rng.integers(0, c, BATCH)


def exact_product() -> dict[str, Array]:
    """H v as a central difference of the gradient in float64."""
    weights, vector, x, label = problem()

    def gradient(p: Mapping[str, Array]) -> dict[str, Array]:
        h = np.tanh(x @ p["w1"] + p["b1"])
        e = np.exp(h @ p["w2"] + p["b2"])
        g = (e / e.sum(1, keepdims=True) - np.eye(SIZES[-1])[label]) / BATCH
        gh = (g @ p["w2"].T) * (1 - h * h)
        return {"w1": x.T @ gh, "b1": gh.sum(0), "w2": h.T @ g, "b2": g.sum(0)}

    step = 1e-5
    up, down = (
        gradient({k: w + s * step * vector[k] for k, w in weights.items()}) for s in (1, -1)
    )
    return {k: (up[k] - down[k]) / (2 * step) for k in weights}


def _ours(product: Callable[..., Any]) -> Run:
    weights, vector, x, label = problem()
    x32, label32 = x.astype(np.float32), label.astype(np.int32)

    def loss(p: Mapping[str, Value]) -> Value:
        h = ops.tanh(x32 @ p["w1"] + p["b1"])
        return softmax_cross_entropy(h @ p["w2"] + p["b2"], label32)

    compiled = jit(partial(product, loss))
    return partial(compiled, _floats(weights), _floats(vector))


def forward_over_reverse(loss: Callable[..., Value], p: Any, v: Any) -> Any:
    """H v, the derivative of the gradient along v."""
    return jvp(grad(loss), (p,), (v,))[1]


def reverse_over_reverse(loss: Callable[..., Value], p: Any, v: Any) -> Any:
    """H v, the gradient of <gradient, v>."""

    def along(p: Any) -> Value:
        g = grad(loss)(p)
        return sum(ops.reduce_sum(g[k] * v[k], axes=tuple(range(g[k].rank))) for k in g)

    return grad(along)(p)


def _theirs(forward: bool) -> Run:
    weights, vector, x, label = problem()
    p, v = ({k: torch.tensor(a) for k, a in _floats(d).items()} for d in (weights, vector))
    x32, label64 = torch.tensor(x.astype(np.float32)), torch.tensor(label)

    def loss(p: Mapping[str, torch.Tensor]) -> torch.Tensor:
        h = torch.tanh(x32 @ p["w1"] + p["b1"])
        return F.cross_entropy(h @ p["w2"] + p["b2"], label64)

    def twice() -> dict[str, Array]:
        leaves = {k: t.requires_grad_() for k, t in p.items()}
        g = torch.autograd.grad(loss(leaves), list(leaves.values()), create_graph=True)
        along = sum((a * v[k]).sum() for k, a in zip(leaves, g, strict=True))
        found = torch.autograd.grad(along, list(leaves.values()))  # type: ignore[arg-type]
        return dict(zip(leaves, found, strict=True))

    return (lambda: torch.func.jvp(torch.func.grad(loss), (p,), (v,))[1]) if forward else twice


def _jax_newton() -> Run:
    import jax

    def fixed(a: Any) -> Any:
        return jax.lax.fori_loop(0, STEPS, lambda _, x: (x + a / x) / 2, a)

    slope, a = jax.jit(jax.grad(fixed)), np.float32(SQUARE)
    return lambda: slope(a).block_until_ready()


def _jax_hessian() -> Run:
    import jax

    weights, vector, x, label = problem()
    x32 = x.astype(np.float32)

    def loss(p: Mapping[str, Any]) -> Any:
        z = jax.numpy.tanh(x32 @ p["w1"] + p["b1"]) @ p["w2"] + p["b2"]
        chosen = jax.numpy.take_along_axis(jax.nn.log_softmax(z), label[:, None], 1)
        return -jax.numpy.mean(chosen)

    product = jax.jit(lambda p, v: jax.jvp(jax.grad(loss), (p,), (v,))[1])
    p, v = (jax.device_put(_floats(d)) for d in (weights, vector))
    return lambda: jax.block_until_ready(product(p, v))


def _floats(arrays: Mapping[str, Array]) -> dict[str, Array]:
    return {k: a.astype(np.float32) for k, a in arrays.items()}


CASES: dict[str, Case] = {
    "gradient of 100 Newton steps": newton,
    "Hessian times vector, forward over reverse": lambda: hessian(
        _ours(forward_over_reverse), _theirs(True)
    ),
    "Hessian times vector, reverse over reverse": lambda: hessian(
        _ours(reverse_over_reverse), _theirs(False)
    ),
}
