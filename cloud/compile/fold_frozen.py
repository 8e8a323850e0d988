"""Batch norm of frozen layers disappears into the layers before it, in all entries of a model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ir.graph import Constant, Model, Node, Value, Weight
from ir.passes.fold_batch_norm import fold_where, merged


def fold_frozen(model: Model) -> Model:
    """The model, which nobody will differentiate or give other weights, with fewer nodes.

    What no entry updates never changes. New weights are constants, so that the model has no weight
    that the module lacks, and entries that folded the same layer share them.
    """
    updated = {w for graph in model.entries.values() for w, _ in graph.updates}
    made: dict[tuple[Value | float | None, ...], tuple[Value, Value]] = {}

    def never_change(*leaves: Value | None) -> bool:
        return all(
            isinstance(v, Constant) or (isinstance(v, Weight) and v not in updated) for v in leaves
        )

    def merge(layer: Node, norm: Node, inputs: Sequence[Value | None]) -> tuple[Value, Value]:
        key = (*layer.inputs[1:], *inputs[1:], norm.attrs["epsilon"])
        if key not in made:
            w, b = merged(layer, norm, inputs)
            made[key] = Constant(w.data), Constant(b.data)  # type: ignore[attr-defined]
        return made[key]

    entries = {n: fold_where(g, never_change, merge) for n, g in model.entries.items()}
    return replace(model, entries=entries)
