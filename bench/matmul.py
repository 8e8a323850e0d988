"""Products of square matrices beside numpy's: GFLOP/s."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np

import lite_runtime as lite
from bench.timing import Row, Turns, take_turns, timed
from cloud import ops
from ir.dtype import DType
from ir.graph import Graph, Model, Value
from ir.model_file import write

SIZES = (32, 64, 128, 256, 512, 1024)


def measure(turns: Turns, threads: int, sizes: Sequence[int] = SIZES) -> Iterator[Row]:
    """Rows by size. numpy's threads are those that it was started with."""
    for n in sizes:
        rng = np.random.default_rng(0)
        a, b = (rng.standard_normal((n, n)).astype(np.float32) for _ in range(2))
        session = lite.load(product(n), threads=threads)
        run = partial(session.run, {"a": a, "b": b})
        exact = a.astype(np.float64) @ b
        off = np.abs(run()["y"] - exact).max() / np.abs(exact).max()
        found = take_turns({"ours": timed(run), "numpy": timed(partial(np.matmul, a, b))}, turns)
        ours, theirs = (2e-6 * n**3 / t.median_ms for t in found.values())
        note = f"ours off by {off:.0e}"
        numpy = found["numpy"]
        yield Row(
            "matmul", f"{n} x {n}", threads, "numpy", ours, theirs, "GFLOP/s",
            numpy.ratio, numpy.best_ratio, note,
        )  # fmt: skip


def product(n: int) -> bytes:
    """A model file of one node."""
    a, b = (Value((n, n), DType.f32, name=name) for name in "ab")
    return write(Model({"infer": Graph((a, b), (ops.matmul(a, b),), ("y",))}))
