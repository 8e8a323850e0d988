"""Sets of integer points between affine bounds: projection, emptiness, changes of variables.

A row is an affine form of some columns: its constant, then one coefficient a column. The first
columns are sizes that are known when the loops run, the others are the variables of loops. A domain
is a list of rows, each at least 0 for the points that belong to it. Projection is that of Fourier
and Motzkin (Dantzig and Eaves 1973), the rows tightened to whole numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import gcd

Row = tuple[int, ...]
Rows = tuple[Row, ...]
Matrix = list[list[int]]


def plus(a: Row, b: Row, scale: int = 1) -> Row:
    """a + scale b"""
    return tuple(x + scale * y for x, y in zip(a, b, strict=True))


def minus(a: Row) -> Row:
    return tuple(-x for x in a)


def shifted(row: Row, by: int) -> Row:
    """The row plus a number."""
    return (row[0] + by, *row[1:])


def constant(value: int, columns: int) -> Row:
    return (value, *(0,) * columns)


def unit(column: int, columns: int) -> Row:
    """The row that is the variable of a column, counted from 1."""
    return tuple(int(i == column) for i in range(columns + 1))


def is_constant(row: Row) -> bool:
    return not any(row[1:])


def tidy(rows: Iterable[Row]) -> Rows | None:
    """The same integer points by fewer rows; None where two rows show that there is none."""
    best: dict[Row, int] = {}
    for row in rows:
        factor = gcd(*row[1:])
        if factor == 0:
            if row[0] < 0:
                return None
            continue
        key = tuple(c // factor for c in row[1:]) if factor > 1 else row[1:]
        value = row[0] // factor
        if key not in best or value < best[key]:
            best[key] = value
    for key, value in best.items():
        if value + best.get(minus(key), -value) < 0:
            return None
    low, high = _box(best)
    kept = [(v, *k) for k, v in best.items() if not _implied(k, v, low, high)]
    return tuple(kept)


def eliminated(rows: Rows, column: int) -> Rows | None:
    """The projection along a column: rows that the others' points keep. None: there is none."""
    above = [r for r in rows if r[column] > 0]
    below = [r for r in rows if r[column] < 0]
    new = [r for r in rows if r[column] == 0]
    for a in above:
        for b in below:
            p, q = a[column], -b[column]
            new.append(tuple(x * q + y * p for x, y in zip(a, b, strict=True)))
    return tidy(new)


def is_empty(rows: Iterable[Row]) -> bool:
    """Whether no point is between the bounds; some sets without whole points may pass as full."""
    left = tidy(rows)
    while left:
        columns = {i for r in left for i, c in enumerate(r) if i and c}
        if not columns:
            break
        left = eliminated(left, min(columns, key=lambda i: _fill(left or (), i)))
    return left is None


def contains(rows: Rows, row: Row) -> bool:
    """Whether a row is at least 0 at every point of the domain."""
    return is_empty((*rows, shifted(minus(row), -1)))


def bounds_in_order(rows: Rows, first: int, columns: int) -> tuple[Rows, list[Rows]] | None:
    """Rows for loops over the columns from `first` on, outermost first.

    The rows of one loop bound its own column by the columns before it; beside them, the rows of
    columns before `first` alone. Each point of the domain is met once, and no other: the innermost
    bounds are exact. None: there is no point.
    """
    loops: list[Rows] = []
    left: Rows | None = tidy(rows)
    for column in range(columns, first - 1, -1):
        if left is None:
            return None
        loops.append(tuple(r for r in left if r[column]))
        left = eliminated(left, column)
    return None if left is None else (left, loops[::-1])


def extent(rows: Rows, column: int) -> int | None:
    """How many numbers a column takes between its own constant bounds; None: not known."""
    low = [-(r[0] // r[column]) for r in rows if r[column] > 0 and _alone(r, column)]
    high = [r[0] // -r[column] for r in rows if r[column] < 0 and _alone(r, column)]
    return max(0, min(high) - max(low) + 1) if low and high else None


def first_value(rows: Rows, column: int) -> int:
    """The largest constant lower bound of a column."""
    return max(-(r[0] // r[column]) for r in rows if r[column] > 0 and _alone(r, column))


def echelon(matrix: Matrix, columns: int) -> tuple[Matrix, list[int]]:
    """Column operations that bring a matrix of index rows to echelon form (Hermite's).

    Gives U, unimodular, and the rows with a pivot: matrix U has row i's pivot in column
    pivots.index(i), positive, with zeros to its right; entries to its left are smaller.
    """
    work = [list(r) for r in matrix]
    u = [[int(i == j) for j in range(columns)] for i in range(columns)]
    pivots: list[int] = []

    def add(to: int, source: int, scale: int) -> None:
        for m in (work, u):
            for r in m:
                r[to] += scale * r[source]

    for i, row in enumerate(work):
        at = len(pivots)
        while live := [j for j in range(at, columns) if row[j]]:
            best = min(live, key=lambda j: abs(row[j]))
            for j in live:
                if j != best:
                    add(j, best, -(row[j] // row[best]))
            if [j for j in live if row[j]] == [best]:
                for m in (work, u):
                    for r in m:
                        r[at], r[best] = r[best], r[at]
                if row[at] < 0:
                    add(at, at, -2)
                for j in range(at):
                    add(j, at, -(row[j] // row[at]))
                pivots.append(i)
                break
    return u, pivots


def times(row: Row, first: int, u: Matrix) -> Row:
    """The row in new variables w, where the columns from `first` on are U w."""
    head, tail = row[:first], row[first:]
    n = len(u[0]) if u else 0
    return (*head, *(sum(t * u[i][j] for i, t in enumerate(tail) if t) for j in range(n)))


def _alone(row: Row, column: int) -> bool:
    return all(not c or i == column for i, c in enumerate(row) if i)


def _box(rows: dict[Row, int]) -> tuple[dict[int, int], dict[int, int]]:
    """Constant bounds of single columns."""
    low: dict[int, int] = {}
    high: dict[int, int] = {}
    for key, value in rows.items():
        live = [i for i, c in enumerate(key) if c]
        if len(live) == 1:
            (low if key[live[0]] > 0 else high)[live[0]] = value  # v >= -value, v <= value
    return low, high


def _implied(key: Row, value: int, low: dict[int, int], high: dict[int, int]) -> bool:
    """Whether the constant bounds of single columns already say as much as a row of several."""
    live = [i for i, c in enumerate(key) if c]
    if len(live) < 2:
        return False
    least = value
    for i in live:
        bound = low if key[i] > 0 else high
        if i not in bound:
            return False
        least -= abs(key[i]) * bound[i]
    return least >= 0


def _fill(rows: Sequence[Row], column: int) -> int:
    """How many rows an elimination makes, beyond those that it takes away."""
    above = sum(r[column] > 0 for r in rows)
    below = sum(r[column] < 0 for r in rows)
    return above * below - above - below
