"""Sizes of tensors as rows over the sizes that a formula's node knows."""

from __future__ import annotations

from collections.abc import Sequence

from ir.errors import ShapeError
from ir.formula.domain import Row
from ir.symbol import Dim, Expr


def terms_of(dim: Dim) -> dict[Dim, int]:
    """A size as a sum of others, each with its factor; the constant stands beside 1."""
    if isinstance(dim, int):
        return {1: dim}
    return {Expr({m: 1}) if m else 1: c for m, c in dim.terms.items()}


def row_of(dim: Dim, sizes: Sequence[Dim], columns: int | None = None) -> Row:
    """A size as a row whose first columns are `sizes`. Raises ShapeError where it is none."""
    row = [0] * (1 + (len(sizes) if columns is None else columns))
    for part, factor in terms_of(dim).items():
        if part == 1:
            row[0] += factor
        elif part in sizes:
            row[1 + list(sizes).index(part)] += factor
        else:
            raise ShapeError(f"formula: size {dim}, want one made of {list(sizes)}")
    return tuple(row)
