"""A table of a module's layers, for people."""

from __future__ import annotations

import math
from collections.abc import Sequence

from cloud.nn.module import Module
from cloud.tracing import tracing
from ir.graph import Value, shape_text
from ir.symbol import Dim, symbol


def summary(module: Module, *inputs: Value | Sequence[Dim | str]) -> str:
    """Every layer with its result's shape and its number of parameters, and their sum.

    `inputs`: values, or shapes of float32 inputs; a string names a free dimension.
    """
    values = [
        v if isinstance(v, Value) else Value([symbol(d) if isinstance(d, str) else d for d in v])
        for v in inputs
    ]
    with tracing() as t:
        module(*values)
    names = {m: path or "(all)" for path, m in module.modules().items()}
    rows = [("layer", "kind", "result", "parameters")]
    for called, y in t.calls:
        if not list(called.children()):
            parameters = sum(
                math.prod(w.data.shape) for w in called.own_weights().values() if not w.state
            )
            shape = shape_text(y.shape) if isinstance(y, Value) else ""
            rows.append((names[called], type(called).__name__, shape, f"{parameters:,}"))
    return "\n".join([*_aligned(rows), _total(module)])


def _total(module: Module) -> str:
    weights = module.weights().values()
    total = sum(w.data.size for w in weights if not w.state)
    trained = sum(w.data.size for w in weights if w.trainable)
    size_kb = sum(w.data.nbytes for w in weights) / 1024
    return f"{total:,} parameters, {trained:,} trainable, {size_kb:,.1f} KiB with state"


def _aligned(rows: Sequence[tuple[str, ...]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            [
                *(c.ljust(w) for c, w in zip(row[:-1], widths, strict=False)),
                row[-1].rjust(widths[-1]),
            ]
        )
        for row in rows
    ]
