"""Reductions along axes, softmax, and normalisation by sums of squares."""

from __future__ import annotations

import numpy as np

from converter.errors import ConvertError
from converter.items import Item, axis_of, known, number, shape_of, static
from converter.tflite.rules.common import (
    MOVES,
    PLAIN,
    Call,
    Reader,
    Rule,
    activated,
    compute,
    rank_of,
    rule,
    sizes,
)
from ir.op import OPS


def axes_of(axes: Item, rank: int) -> tuple[int, ...]:
    return tuple(sorted({axis_of(a, rank) for a in sizes(axes, "axes")}))


def _reduction(op: str) -> Rule:
    def apply(_: Reader, call: Call, x: Item, axes: Item) -> Item:
        where = axes_of(axes, rank_of(x))
        if isinstance(x, np.ndarray) and x.dtype == object:
            return _of_sizes(op, x)
        if not where:
            return x
        return compute(OPS[op], x, axes=where, keep_dims=call.attrs["keep_dims"])

    return apply


def _of_sizes(op: str, x: np.ndarray) -> Item:
    """A reduction of sizes, symbolic ones among them, to one number: how shapes are multiplied."""
    if op != "reduce_prod" or x.ndim != 1:
        raise ConvertError(f"{op} of sizes that are free")
    return np.array(np.prod(x), dtype=object)


PLAIN |= {
    "MEAN": _reduction("reduce_mean"),
    "SUM": _reduction("reduce_sum"),
    "REDUCE_MAX": _reduction("reduce_max"),
    "REDUCE_MIN": _reduction("reduce_min"),
    "REDUCE_PROD": _reduction("reduce_prod"),
}


@rule(PLAIN, "REDUCE_ANY", "REDUCE_ALL")
def reduce_truth(_: Reader, call: Call, x: Item, axes: Item) -> Item:
    op = "reduce_max" if call.name == "REDUCE_ANY" else "reduce_min"
    y = compute(
        OPS[op], compute(OPS["cast"], x, to="f32"),
        axes=axes_of(axes, rank_of(x)), keep_dims=call.attrs["keep_dims"],
    )  # fmt: skip
    return compute(OPS["cast"], y, to="bool")


def _index(op: str) -> Rule:
    def apply(_: Reader, call: Call, x: Item, axis: Item) -> Item:
        return compute(OPS[op], x, axis=axis_of(int(number(axis, "axis")), rank_of(x)))

    return apply


PLAIN |= {"ARG_MAX": _index("argmax"), "ARG_MIN": _index("argmin")}


@rule(PLAIN, "CUMSUM")
def cumsum(_: Reader, call: Call, x: Item, axis: Item) -> Item:
    where = axis_of(int(known(axis, "axis").item()), rank_of(x))
    options = {k: call.attrs[k] for k in ("exclusive", "reverse")}
    return compute(OPS["cumsum"], x, axis=where, **options)


@rule(PLAIN, "SOFTMAX")
def softmax(_: Reader, call: Call, x: Item) -> Item:
    beta = call.attrs["beta"]
    x = x if beta == 1 else compute(OPS["mul"], x, np.float32(beta))
    return compute(OPS["softmax"], x, axis=rank_of(x) - 1)


@rule(PLAIN, "LOG_SOFTMAX")
def log_softmax(_: Reader, call: Call, x: Item) -> Item:
    return compute(OPS["log_softmax"], x, axis=rank_of(x) - 1)


@rule(PLAIN, "L2_NORMALIZATION")
def l2_normalization(_: Reader, call: Call, x: Item) -> Item:
    """x over the root of the sum of its squares along the last axis, at least 1e-6."""
    squares = compute(OPS["mul"], x, x)
    total = compute(OPS["reduce_sum"], squares, axes=(rank_of(x) - 1,), keep_dims=True)
    root = compute(OPS["maximum"], compute(OPS["sqrt"], total), np.float32(1e-6))
    return activated(call, compute(OPS["div"], x, root))


@rule(PLAIN, "LOCAL_RESPONSE_NORMALIZATION")
def local_response(_: Reader, call: Call, x: Item) -> Item:
    """x / (bias + alpha * the sum of squares of the channels around)^beta     Krizhevsky 2012"""
    radius, last = call.attrs["radius"], rank_of(x) - 1
    (channels,) = static(shape_of(x)[last:], "channels")
    if not 0 <= radius <= channels:
        raise ConvertError(f"a radius of {radius} in {channels} channels")
    ahead = np.subtract.outer(np.arange(channels), np.arange(channels))  # of [out, in]
    near = (-radius < ahead) & (ahead <= radius)  # the last of 2 radius + 1 is left out
    squares = compute(OPS["mul"], x, x)
    total = compute(
        OPS["linear"], squares, near.astype(np.float32) * np.float32(call.attrs["alpha"])
    )
    grown = compute(OPS["add"], total, np.float32(call.attrs["bias"]))
    return compute(OPS["div"], x, compute(OPS["pow"], grown, np.float32(call.attrs["beta"])))


@rule(MOVES, "WHERE")
def where(_: Reader, call: Call, condition: Item) -> Item:
    """The places of truth values; how many depends on data, which must be known."""
    return np.argwhere(known(condition, "condition"))
