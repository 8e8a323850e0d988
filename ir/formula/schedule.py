"""From nests to programs: which loop runs where, and exact bounds for each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import reduce

from ir.errors import AttrError
from ir.formula.domain import Row, Rows, bounds_in_order, minus
from ir.formula.expression import Load, apply, leaves, summands
from ir.formula.nest import Nest, gathers, reordered
from ir.formula.program import (
    MOST_LOOPS,
    MOST_PIECES,
    MOST_WORDS,
    SUM,
    Bound,
    Piece,
    Program,
    body_of,
    piece_words,
)

HEAD_WORDS = 128  # what a program may need beside its pieces
# what an element costs beside arithmetic, by how far apart those of neighbouring lanes lie
SAME, NEXT, FAR, ROW_COST = 0.25, 1.0, 6.0, 24.0


def programs(kind: int, sizes: int, shape: Rows, nests: Iterable[Nest]) -> list[Program]:
    """Programs that together, values meeting as `kind` says, compute the nests.

    There is more than one where words of one would not suffice, and one where there is no nest.
    Raises AttrError where a nest alone is too long.
    """
    parts: list[list[Piece]] = [[]]
    left = MOST_WORDS - HEAD_WORDS
    for piece in (p for n in nests for g in gathers(n) for p in _pieces(kind, g)):
        need = len(piece_words(piece))
        if parts[-1] and (need > left or len(parts[-1]) == MOST_PIECES):
            parts.append([])
            left = MOST_WORDS - HEAD_WORDS
        parts[-1].append(piece)
        left -= need
    return [Program(kind, sizes, shape, tuple(p)) for p in parts]


def _pieces(kind: int, nest: Nest) -> Iterator[Piece]:
    """A gather as loops, where its domain is not empty; a sum too long for one body as several."""
    try:
        piece = piece_of(nest)
    except AttrError:
        terms = summands(nest.body) if kind == SUM else []
        if len(terms) < 2:
            raise
        half = len(terms) // 2
        for some in (terms[:half], terms[half:]):
            body = reduce(lambda a, b: apply("add", a, b), some)
            yield from _pieces(kind, replace(nest, body=body))
    else:
        if piece is not None:
            yield piece


def piece_of(nest: Nest) -> Piece | None:
    """A gather as loops; None where its domain is empty. Raises AttrError."""
    if nest.loops > MOST_LOOPS:
        raise AttrError(f"formula: {nest.loops} loops in one nest, want at most {MOST_LOOPS}")
    order = _order(nest)
    places = tuple(i for i, loop in enumerate(order) if loop < nest.parallel)
    nest = reordered(nest, order)
    found = bounds_in_order(nest.rows, nest.sizes + 1, nest.columns)
    if found is None:
        return None
    guards, loops = found
    bounds = [_bounds(rows, nest.sizes + 1 + i) for i, rows in enumerate(loops)]
    loads, body = body_of(nest.body, nest.columns)
    return Piece(places, guards, tuple(bounds), nest.out, loads, body)


def _bounds(rows: Rows, at: int) -> tuple[tuple[Bound, ...], tuple[Bound, ...]]:
    def bound(row: Row) -> Bound:
        rest = (*row[:at], 0, *row[at + 1 :])
        return Bound(abs(row[at]), minus(rest) if row[at] > 0 else rest)

    lower = tuple(bound(r) for r in rows if r[at] > 0)
    upper = tuple(bound(r) for r in rows if r[at] < 0)
    if not (lower and upper):
        raise AttrError("formula: an index without a smallest or a largest number; give its range")
    return lower, upper


def _order(nest: Nest) -> list[int]:
    """The loops from the outside in: places, sums, short ones first, and the one with the lanes.

    Where lanes are summed over, a place whose elements share loads stands just outside of what the
    lanes may be merged with: so a load serves several sums.
    """
    lane = _lane(nest)
    places = [i for i in range(nest.parallel) if i != lane]
    sums = sorted((i for i in range(nest.parallel, nest.loops) if i != lane), key=nest.extent)
    shared: list[int] = []
    if lane is not None and lane >= nest.parallel and places:
        rows = [x.rows for x in leaves(nest.body) if isinstance(x, Load)]
        last = nest.sizes + 1 + places[-1]
        if any(_distance(r, last) == SAME for r in rows):
            shared = [places.pop()]
    order = [*places, *sums[:-1], *shared, *sums[-1:]]
    return order if lane is None else [*order, lane]


def _lane(nest: Nest) -> int | None:
    """The loop whose turns are taken many at a time: where elements lie close, and many."""
    if nest.loops == 0:
        return None
    rows = [x.rows for x in leaves(nest.body) if isinstance(x, Load)]

    def cost(loop: int) -> float:
        at = nest.sizes + 1 + loop
        steps = sum(_distance(r, at) for r in rows)
        steps += _distance(nest.out, at) if loop < nest.parallel else 2 * SAME
        return steps + ROW_COST / max(1, nest.extent(loop))

    return min(reversed(range(nest.loops)), key=cost)


def _distance(rows: Sequence[Row], at: int) -> float:
    steps = [r[at] for r in rows]
    if not any(steps):
        return SAME
    return NEXT if steps[-1] == 1 and not any(steps[:-1]) else FAR
