"""Reductions along axes."""

from __future__ import annotations

from typing import Any

from converter.errors import ConvertError
from converter.onnx_rules.common import (
    RULES,
    Item,
    Reader,
    Rule,
    axes_of,
    axis_of,
    compute,
    known,
    rule,
    shape_of,
)
from ir.op import OPS


def _reduction(op: str) -> Rule:
    def apply(_: Reader, attrs: dict[str, Any], x: Item, axes: Item = None) -> Item:
        rank = len(shape_of(x))
        chosen = axes_of(attrs, axes, rank)
        if not chosen and attrs.get("noop_with_empty_axes"):
            return x
        return compute(
            OPS[op], x, axes=chosen or tuple(range(rank)), keep_dims=bool(attrs.get("keepdims", 1))
        )

    return apply


RULES |= {
    f"Reduce{onnx}": _reduction(f"reduce_{ours}")
    for onnx, ours in (
        ("Sum", "sum"),
        ("Mean", "mean"),
        ("Max", "max"),
        ("Min", "min"),
        ("Prod", "prod"),
    )
}


def _index_reduction(op: str) -> Rule:
    def apply(_: Reader, attrs: dict[str, Any], x: Item) -> Item:
        if attrs.get("select_last_index"):
            raise ConvertError("select_last_index")
        axis = axis_of(attrs.get("axis", 0), len(shape_of(x)))
        return compute(OPS[op], x, axis=axis, keep_dims=bool(attrs.get("keepdims", 1)))

    return apply


RULES |= {"ArgMax": _index_reduction("argmax"), "ArgMin": _index_reduction("argmin")}


@rule("CumSum")
def cumsum(_: Reader, attrs: dict[str, Any], x: Item, axis: Item) -> Item:
    where = axis_of(int(known(axis, "axis").item()), len(shape_of(x)))
    options = {k: bool(attrs.get(k, 0)) for k in ("exclusive", "reverse")}
    return compute(OPS["cumsum"], x, axis=where, **options)
