"""How much work a program may be: what the sizes of its tensors explain, as the runtime has it."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ir.errors import ShapeError
from ir.formula.domain import Row
from ir.formula.expression import Load
from ir.formula.program import Piece, Program

LARGEST_NUMBER = 1 << 31  # of a loop
POINTS_AN_ELEMENT = 1 << 20  # for which there need be no other reason
MOST_POINTS = 1 << 50


def check_work(
    program: Program, shapes: Sequence[Sequence[int]], result: Sequence[int], sizes: Sequence[int]
) -> None:
    """Raise ShapeError where loops lead beyond 2^31, or to more points than the product of the
    sizes of what they read and write, or a million for each element of the largest of those."""
    for piece in program.pieces:
        tensors = [result, *(shapes[x.tensor] for x in piece.loads if isinstance(x, Load))]
        elements = [prod(max(n, 1) for n in t) for t in tensors]
        most = max(prod(elements), POINTS_AN_ELEMENT * max(elements))
        found = _turns(piece, sizes)
        if found > min(most, MOST_POINTS):
            raise ShapeError(f"formula: loops of {found} points, want at most {most}")


def _turns(piece: Piece, sizes: Sequence[int]) -> int:
    """The product of how far each loop can run; at least 1 for each."""
    low, high = list(sizes), list(sizes)

    def end(row: Row, lows: list[int], highs: list[int]) -> int:
        ends = zip(row[1:], lows, highs, strict=False)
        return row[0] + sum(c * (a if c > 0 else b) for c, a, b in ends)

    total = 1
    for lower, upper in piece.bounds:
        first = max(-(-end(b.row, low, high) // b.divisor) for b in lower)
        last = min(end(b.row, high, low) // b.divisor for b in upper)
        if first < -LARGEST_NUMBER or last > LARGEST_NUMBER:
            raise ShapeError(f"formula: a loop from {first} to {last}, want it within 2^31")
        low.append(first)
        high.append(max(first, last))
        total *= max(last - first + 1, 1)
    return total
