"""Loop nests: a value for every point of a domain, gathered or scattered to a place of the result.

A nest may name the place of a point by any affine form, as the adjoint of a gather does, a scatter.
`gathers` changes its variables so that each place is met by loops of its own and what is summed
there by others: exact loops over whole numbers, in several nests by residue classes where places
meet a stride.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from ir.formula.domain import (
    Row,
    Rows,
    constant,
    echelon,
    extent,
    minus,
    plus,
    shifted,
    tidy,
    times,
    unit,
)
from ir.formula.expression import Expression, with_rows

MOST_CLASSES = 64  # nests that one may be split into
UNKNOWN_EXTENT = 1 << 12  # of a loop over sizes that are not known yet


@dataclass(frozen=True)
class Nest:
    """`body` at every point of `rows`, to the element `out` of the result.

    Columns of rows are `sizes`, known when the loops run, then `loops`. Of a gather, the first
    `parallel` loops are those of the places; the others are summed over.
    """

    sizes: int
    loops: int
    rows: Rows
    out: Rows
    body: Expression
    parallel: int = 0

    @property
    def columns(self) -> int:
        return self.sizes + self.loops

    def unit(self, loop: int) -> Row:
        """The row that is the variable of a loop."""
        return unit(self.sizes + 1 + loop, self.columns)

    def constant(self, value: int) -> Row:
        return constant(value, self.columns)

    def extent(self, loop: int) -> int:
        """How many numbers a loop runs over at most."""
        found = extent(self.rows, self.sizes + 1 + loop)
        return UNKNOWN_EXTENT if found is None else found

    def rewritten(self, change: Callable[[Row], Row], loops: int) -> Nest:
        return replace(
            self,
            loops=loops,
            rows=tuple(map(change, self.rows)),
            out=tuple(map(change, self.out)),
            body=with_rows(self.body, change),
        )

    def within(self, rows: Iterable[Row]) -> Nest | None:
        """The nest on the points for which more rows are at least 0; None: there is none."""
        left = tidy((*self.rows, *rows))
        return None if left is None else replace(self, rows=left)


def gathers(nest: Nest) -> Iterator[Nest]:
    """Gathers that together do what a nest does, each point of it once."""
    start = nest.within(())
    if start is None:
        return
    fixed = _without_fixed(replace(start, parallel=0))
    order = sorted(range(fixed.loops), key=lambda i: -fixed.extent(i))
    start = reordered(fixed, order)
    first = start.sizes + 1
    u, pivots = echelon([list(r[first:]) for r in start.out], start.loops)
    moved = start.rewritten(lambda r: times(r, first, u), start.loops)
    yield from _narrowed(replace(moved, parallel=len(pivots)), MOST_CLASSES)


def reordered(nest: Nest, order: list[int]) -> Nest:
    """The nest with its loops in another order."""
    return nest.rewritten(_permutation(nest, order), nest.loops)


def _permutation(nest: Nest, order: list[int]) -> Callable[[Row], Row]:
    first = nest.sizes + 1
    return lambda r: (*r[:first], *(r[first + i] for i in order))


def _without_fixed(nest: Nest) -> Nest:
    """Loops that others determine are left out."""
    while (found := _fixed(nest)) is not None:
        loop, value = found
        at = nest.sizes + 1 + loop

        def change(r: Row, at: int = at, value: Row = value) -> Row:
            r = plus(r, value, r[at]) if r[at] else r
            return (*r[:at], *r[at + 1 :])

        nest = nest.rewritten(change, nest.loops - 1)
        rows = tidy(nest.rows)
        if rows is None:
            return replace(nest, rows=(nest.constant(-1),))
        nest = replace(nest, rows=rows, parallel=nest.parallel - (loop < nest.parallel))
    return nest


def _fixed(nest: Nest) -> tuple[int, Row] | None:
    """The last loop that two opposite rows determine, and its value less the loop itself."""
    known = set(nest.rows)
    for row in nest.rows:
        if minus(row) not in known:
            continue
        for loop in range(nest.loops - 1, -1, -1):
            c = row[nest.sizes + 1 + loop]
            if abs(c) == 1:  # c v + rest = 0, so v = -c rest and the row less c v is the rest
                rest = plus(row, nest.unit(loop), -c)
                return loop, plus(minus(rest) if c > 0 else rest, nest.unit(loop), -1)
    return None


def _narrowed(nest: Nest, most: int) -> Iterator[Nest]:
    """The nest with sums that run over what a place sees, not over all that could reach it.

    A sum over v with 0 <= d v + e <= w, where e is a form of the places, has at most w / d + 1
    terms. By residue classes of the places e becomes d f; then v + f is summed over instead of v.
    """
    nest = _without_fixed(nest)
    if any(r[0] < 0 and not any(r[1:]) for r in nest.rows):
        return
    if any(any(r[nest.sizes + 1 + nest.parallel :]) for r in nest.out):  # of a place that was fixed
        yield from gathers(nest)
        return
    found = _window(nest)
    if found is None:
        yield nest
        return
    loop, scale, form = found
    for i, c in enumerate(form[nest.sizes + 1 :]):
        if c % scale:
            if scale > most:
                yield nest
                return
            for rest in range(scale):
                part = _residue(nest, i, scale, rest)
                if part is not None:
                    yield from _narrowed(part, most // scale)
            return
    at = nest.sizes + 1 + loop
    whole = (0, *(c // scale for c in form[1:]))

    def change(r: Row) -> Row:  # v = w - form / scale
        return plus(r, whole, -r[at]) if r[at] else r

    moved = nest.rewritten(change, nest.loops).within(())
    if moved is not None:
        yield from _narrowed(moved, most)


def _window(nest: Nest) -> tuple[int, int, Row] | None:
    """A summed loop v that a row and its opposite, d v + e, hold closer than its own bounds do:
    the loop, d, and e without its constant."""
    forms = {r[1:]: r[0] for r in nest.rows}
    for loop in range(nest.parallel, nest.loops):
        at = nest.sizes + 1 + loop
        for row in nest.rows:
            scale = row[at]
            if scale < 1 or minus(row)[1:] not in forms or any(row[1 : nest.sizes + 1]):
                continue
            others = [c for i, c in enumerate(row) if i and i != at and c]
            width = (row[0] + forms[minus(row)[1:]]) // scale + 1
            if others and width < nest.extent(loop):
                return loop, scale, (0, *row[1:at], 0, *row[at + 1 :])
    return None


def _residue(nest: Nest, loop: int, scale: int, rest: int) -> Nest | None:
    """The points at which a loop's variable is scale w + rest; w takes its place."""
    at = nest.sizes + 1 + loop

    def change(r: Row) -> Row:
        r = shifted(r, r[at] * rest)
        return (*r[:at], r[at] * scale, *r[at + 1 :])

    return nest.rewritten(change, nest.loops).within(())
