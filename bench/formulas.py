"""Operators from formulas, and their derivatives, beside hand-written ones of the same runtime."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

import lite_runtime as lite
from bench.operators import kernel
from bench.timing import Row, Turns, rows, take_turns
from cloud import ops
from cloud.autodiff import vjp
from cloud.formula import formula
from ir.graph import Graph, Model, Value
from ir.model_file import write

CONV = formula(
    """
    i = range((x.shape[1] + 2 * pad - w.shape[1]) // stride + 1)
    j = range((x.shape[2] + 2 * pad - w.shape[2]) // stride + 1)
    row = 0 - pad
    y[n, i, j, o] = reduce_sum(
        (p, q, c), padded(x[n, i * stride + p + row, j * stride + q + row, c], 0) * w[o, p, q, c]
    )
    """,
    stride=1,
    pad=1,
)
MAX_POOL = formula(
    """
    p = range(2)
    q = range(2)
    i = range(x.shape[1] // 2)
    j = range(x.shape[2] // 2)
    y[n, i, j, c] = reduce_max((p, q), x[n, 2 * i + p, 2 * j + q, c])
    """
)


@dataclass(frozen=True)
class Case:
    """The same function twice; `wrt`: the gradient by that input instead."""

    formula: Callable[..., Value]
    operator: Callable[..., Value]
    shapes: tuple[tuple[int, ...], ...]
    wrt: int | None = None

    def by(self, wrt: int) -> Case:
        return replace(self, wrt=wrt)


IMAGES = (8, 32, 32, 16)
_CONV = Case(CONV, partial(ops.conv2d, pads=(1, 1, 1, 1)), ((8, 16, 16, 16), (16, 3, 3, 16)))
_STRIDED = Case(
    partial(CONV, stride=2),
    partial(ops.conv2d, pads=(1, 1, 1, 1), strides=(2, 2)),
    ((8, 16, 16, 16), (16, 3, 3, 16)),
)
_POOL = Case(MAX_POOL, ops.max_pool2d, (IMAGES,))
CASES = {
    "product 128": Case(
        formula("y[i, j] = reduce_sum(k, a[i, k] * b[k, j])"), ops.matmul, ((128, 128),) * 2
    ),
    "conv 3 x 3": _CONV,
    "conv 3 x 3 by x": _CONV.by(0),
    "conv 3 x 3 by w": _CONV.by(1),
    "conv, stride 2": _STRIDED,
    "conv, stride 2 by x": _STRIDED.by(0),
    "max pool": _POOL,
    "max pool by x": _POOL.by(0),
    "elementwise": Case(
        formula("y[i] = x[i] * sigmoid(x[i]) + z[i]"),
        lambda x, z: ops.silu(x) + z,
        ((1 << 16,),) * 2,
    ),
    "sum of rows": Case(
        formula("y[i] = reduce_sum(j, x[i, j])"), partial(ops.reduce_sum, axes=(1,)), ((512, 256),)
    ),
    "transpose": Case(
        formula("y[j, i] = x[i, j]"), partial(ops.transpose, perm=(1, 0)), ((512, 256),)
    ),
    "pad": Case(
        formula("i = range(x.shape[0] + 8)\ny[i, j] = padded(x[i - 4, j], 0)"),
        partial(ops.pad, before=(4, 0), after=(4, 0)),
        ((512, 64),),
    ),
}
QUICK_CASES = ("product 128", "conv, stride 2 by x", "max pool")


def measure(
    turns: Turns, threads: Sequence[int], cases: Sequence[str] = tuple(CASES)
) -> Iterator[Row]:
    """Rows of every case by number of threads: time in kernels."""
    for name in cases:
        case = CASES[name]
        models = {"formula": case.formula, "operator": case.operator}
        data = {who: model(f, case) for who, f in models.items()}
        for n in threads:
            sessions = {who: lite.load(d, threads=n) for who, d in data.items()}
            rng = np.random.default_rng(0)
            shapes = sessions["formula"].inputs()
            feed = {i.name: rng.standard_normal(i.shape).astype(np.float32) for i in shapes}
            ours, exact = (s.run(feed)["y"] for s in sessions.values())
            off = np.abs(ours - exact).max() / np.abs(exact).max()
            found = take_turns({who: kernel(s, feed) for who, s in sessions.items()}, turns)
            yield from rows("formulas", name, n, found, f"ours off by {off:.0e}")


def model(f: Callable[..., Value], case: Case) -> bytes:
    """A model file of the function, or of its gradient, alone."""
    values = tuple(Value(s, name=f"x{i}") for i, s in enumerate(case.shapes))
    graph = Graph(values, (f(*values),), ("y",))
    if case.wrt is not None:
        back = vjp(graph)
        graph = Graph(back.inputs, (back.outputs[case.wrt],), ("y",))
    return write(Model({"infer": graph}))
