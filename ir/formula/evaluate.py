"""Run programs of formulas on numpy arrays, point by point of their domains; count the points."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ir.errors import ShapeError
from ir.formula.domain import Row
from ir.formula.expression import Index
from ir.formula.program import Bound, Piece, Program
from ir.graph import Array
from ir.ops import fused

CHUNK = 1 << 18  # points at a time, about
IDENTITY = (0.0, -np.inf, np.inf)  # of sum, max, min
MEET = (np.add, np.maximum, np.minimum)


def evaluate(program: Program, xs: Sequence[Array], sizes: Sequence[int]) -> Array:
    """The result in the type of the inputs. Raises ShapeError where an index leaves a tensor."""
    start = np.array([sizes], np.int64).reshape(1, -1)
    shape = tuple(_at(r, start)[0] for r in program.shape)
    y = np.full(shape, IDENTITY[program.kind], xs[0].dtype)
    for piece in program.pieces:
        for part in _points(piece, _guarded(piece, start), piece.loops):
            values = _values(piece, xs, part)
            place = np.zeros(len(part), np.int64)
            for row, size in zip(piece.out, shape, strict=True):
                place = place * size + _checked(_at(row, part), size, "the result")
            MEET[program.kind].at(y.reshape(-1), place, values)
    return y


def points(program: Program, sizes: Sequence[int]) -> int:
    """How many points the domains of a program's pieces have: how often its bodies run."""
    return sum(int(np.maximum(n, 0).sum()) for n, is_last in _counts(program, sizes) if is_last)


def turns(program: Program, sizes: Sequence[int]) -> int:
    """How often the innermost loops of a program come round; any loop that starts in vain, too."""
    empty = sum(int((n < 1).sum()) for n, _ in _counts(program, sizes))
    return points(program, sizes) + empty


def _counts(program: Program, sizes: Sequence[int]) -> Iterator[tuple[Array, bool]]:
    """How many turns a loop has, each time that it starts; and whether it is an innermost one."""
    for piece in program.pieces:
        start = _guarded(piece, np.array([sizes], np.int64).reshape(1, -1))
        if not piece.loops:
            yield np.ones(len(start), np.int64), True
        for loop in range(piece.loops):
            for outer in _points(piece, start, loop):
                low, high = _range(piece, loop, outer)
                yield high - low + 1, loop == piece.loops - 1


def _points(piece: Piece, start: Array, loops: int) -> Iterator[Array]:
    """The points of the outermost loops, columns as in rows, in parts of about CHUNK."""
    stack = [(0, start)]
    while stack:
        loop, points = stack.pop()
        if loop == loops:
            if len(points):
                yield points
            continue
        low, high = _range(piece, loop, points)
        if np.maximum(high - low + 1, 0).sum() > CHUNK and len(points) > 1:
            half = len(points) // 2
            stack += [(loop, points[half:]), (loop, points[:half])]
        else:
            stack.append((loop + 1, _expanded(piece, loop, points)))


def _guarded(piece: Piece, points: Array) -> Array:
    held = all(_at(r[: points.shape[1] + 1], points)[0] >= 0 for r in piece.guards)
    return points if held else points[:0]


def _range(piece: Piece, loop: int, points: Array) -> tuple[Array, Array]:
    def values(b: Bound) -> Any:
        return _at(b.row[: points.shape[1] + 1], points)

    lower, upper = piece.bounds[loop]
    low = np.max([-(-values(b) // b.divisor) for b in lower], axis=0)
    return low, np.min([values(b) // b.divisor for b in upper], axis=0)


def _expanded(piece: Piece, loop: int, points: Array) -> Array:
    """Every point with each number of a further loop behind it."""
    low, high = _range(piece, loop, points)
    counts = np.maximum(high - low + 1, 0)
    ends = np.cumsum(counts)
    inside = np.arange(ends[-1] if len(ends) else 0) - np.repeat(ends - counts, counts)
    column = inside + np.repeat(low, counts)
    return np.concatenate([np.repeat(points, counts, axis=0), column[:, None]], axis=1)


def _values(piece: Piece, xs: Sequence[Array], points: Array) -> Array:
    dtype = xs[0].dtype
    loads = [
        _at(x.row, points).astype(dtype)
        if isinstance(x, Index)
        else xs[x.tensor][
            tuple(
                _checked(_at(r, points), n, f"input {x.tensor}")
                for r, n in zip(x.rows, xs[x.tensor].shape, strict=True)
            )
        ]
        for x in piece.loads
    ]
    if not piece.body:
        return np.asarray(loads[0])
    program = fused.read(piece.body, len(loads))
    with np.errstate(all="ignore"):  # the side of a `where` that is not chosen
        made = program.run(loads, lambda c: c.astype(dtype))
    written = dict(zip((i.to for i in program.instructions), made, strict=True))
    return np.broadcast_to(written[program.results[0]], len(points))


def _at(row: Row, points: Array) -> Array:
    """A row at each point."""
    live = [i for i, c in enumerate(row[1:]) if c]
    y = np.full(len(points), row[0], np.int64)
    for i in live:
        y += row[1 + i] * points[:, i]
    return y


def _checked(index: Array, size: int, what: str) -> Array:
    if index.size and (index.min() < 0 or index.max() >= size):
        raise ShapeError(
            f"formula: indices {index.min()}..{index.max()} of {what}, want 0..{size - 1}"
        )
    return index
