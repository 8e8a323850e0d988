"""What a formula's text is made of while sizes and ranges are not settled yet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ir.symbol import Dim


@dataclass(frozen=True)
class Affine:
    """A whole number that indices move: a size, and a factor for each index."""

    base: Dim = 0
    factors: tuple[tuple[str, int], ...] = ()
    is_truth = False

    @staticmethod
    def of(base: Dim, factors: Mapping[str, int]) -> Affine:
        return Affine(base, tuple(sorted((k, c) for k, c in factors.items() if c)))

    def __add__(self, other: Affine) -> Affine:
        factors = dict(self.factors)
        for k, c in other.factors:
            factors[k] = factors.get(k, 0) + c
        return Affine.of(self.base + other.base, factors)

    def __mul__(self, factor: int) -> Affine:
        return Affine.of(self.base * factor, {k: c * factor for k, c in self.factors})

    def __sub__(self, other: Affine) -> Affine:
        return self + other * -1

    @property
    def index(self) -> str | None:
        """The one index that this is, alone."""
        bare = self.base == 0 and len(self.factors) == 1 and self.factors[0][1] == 1
        return self.factors[0][0] if bare else None


@dataclass(frozen=True)
class Element:
    """An element of a tensor by name; `is_padded`: it may lie beyond the edge."""

    tensor: str
    index: tuple[Affine, ...]
    is_padded: bool = False
    is_truth = False


@dataclass(frozen=True)
class Within:
    """Whether all of some numbers are at least 0, or an element's index is inside its tensor."""

    rows: tuple[Affine | Element, ...]
    is_truth = True


@dataclass(frozen=True)
class Term:
    """A value at every number of some indices, for a place of a result."""

    body: Any  # an expression with leaves of this module
    place: tuple[Affine, ...]
    indices: tuple[str, ...]


@dataclass
class Statement:
    """One result, of terms that meet by a sum, a maximum or a minimum.

    `product`: the last axes of the result, whose product is the result proper.
    """

    name: str
    kind: int
    shape: tuple[Dim, ...]
    terms: list[Term]
    product: int = 0


@dataclass(frozen=True)
class Gathered:
    """A result that is `table` at the numbers of a tensor along an axis."""

    name: str
    table: str
    indices: str
    axis: int


def affines(x: Any) -> tuple[Affine, ...]:
    """The index forms of a leaf."""
    if isinstance(x, Element):
        return x.index
    if isinstance(x, Within):
        return tuple(a for r in x.rows for a in affines(r))
    return (x,) if isinstance(x, Affine) else ()
