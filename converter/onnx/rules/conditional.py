"""If: one of two graphs, as a condition says (ir/ops/control.py)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Any

import numpy as np

from converter.errors import ConvertError
from converter.items import Item, Items, as_value
from converter.onnx.rules.branches import Kind, joined, single
from converter.onnx.rules.common import Reader, rule
from converter.onnx.rules.scopes import inline, trace
from converter.onnx.rules.sequences import elements
from ir.dtype import DType
from ir.graph import Value, shape_text
from ir.op import OPS


@rule("If")
def if_(reader: Reader, attrs: dict[str, Any], condition: Item) -> list[Item]:
    graphs = (attrs["then_branch"], attrs["else_branch"])
    if not isinstance(condition, Value):
        chosen = graphs[0 if np.asarray(condition).reshape(-1)[0] else 1]
        return inline(reader, chosen)
    predicate = single(condition, DType.bool)
    branches = [trace(reader, graph, []) for graph in graphs]
    lengths = [_lengths(t.items) for t in branches]
    if lengths[0] != lengths[1]:
        raise ConvertError("branches give sequences of different lengths; want one length")
    values = [_flat(t.items) for t in branches]
    types = [_either(a, b) for a, b in zip(*values, strict=True)]
    outer = list(dict.fromkeys(v for t in branches for v in t.scope.captured))
    then, otherwise = (
        t.graph(outer, [p for v, k in zip(given, types, strict=True) for p in k.packed(v)])
        for t, given in zip(branches, values, strict=True)
    )
    results = list(OPS["cond"](predicate, *outer, then=then, otherwise=otherwise))
    found = iter([k.unpacked(reader, results) for k in types])
    return [next(found) if n is None else Items(islice(found, n)) for n in lengths[0]]


def _either(then: Value, other: Value) -> Kind:
    """What a result of the one or the other is."""
    if then.dtype is not other.dtype or then.rank != other.rank:
        kinds = " or ".join(f"{v.dtype.name}{shape_text(v.shape)}" for v in (then, other))
        raise ConvertError(
            f"a result is {kinds}; want one type and number of axes, or a condition that is known, "
            "as one on sizes is where these are (--input)"
        )
    return joined(then, other)


def _lengths(items: Sequence[Any]) -> list[int | None]:
    """Of sequences among results; None: a tensor."""
    return [len(elements(i)) if isinstance(i, Items) else None for i in items]


def _flat(items: Sequence[Any]) -> list[Value]:
    """Tensors and, one by one, the elements of sequences."""
    return [as_value(v) for i in items for v in (i if isinstance(i, Items) else (i,))]
