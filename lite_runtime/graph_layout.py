"""Places for the boxes of a graph that is drawn from top to bottom, and ways between them that run
behind no box (Sugiyama, Tagawa and Toda 1981)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

BOX_WIDTH, BOX_HEIGHT, GAP_X, GAP_Y, LANE_WIDTH = 168, 40, 24, 44, 12
SWEEPS = 4  # over all rows, down and up
Point = tuple[float, float]
Edge = tuple[int, int]  # from box, to box
Item = tuple[int, int]  # box, row: the box in its own row, the lane of its result in later ones


@dataclass(frozen=True)
class Layout:
    """The upper left corner of each box, the points that each edge runs through, and the size."""

    corners: list[Point]
    ways: dict[Edge, list[Point]]
    width: float
    height: float


def layout(count: int, edges: Sequence[Edge]) -> Layout:
    """`edges` are sorted by the box that they lead to; a box stands behind all that it reads.

    Boxes stand in rows. A result that a later row reads keeps a lane through the rows between.
    """
    row = _rows(count, edges)
    above, below, rows = _items(row, edges)
    _order(rows, above, below)
    x = _columns(row, rows, above, below)
    left = min((x[i] - _width(i, row) / 2 for i in x), default=0)
    right = max((x[i] + _width(i, row) / 2 for i in x), default=0)

    def way(a: int, b: int) -> list[Point]:
        points = []
        for r in range(row[a], row[b]):
            top = r * (BOX_HEIGHT + GAP_Y)
            at = x[a, r] - left
            points += [(at, top)] * (r > row[a]) + [(at, top + BOX_HEIGHT)]
        return [*points, (x[b, row[b]] - left, row[b] * (BOX_HEIGHT + GAP_Y))]

    corners = [
        (x[b, r] - left - BOX_WIDTH / 2, r * (BOX_HEIGHT + GAP_Y)) for b, r in enumerate(row)
    ]
    height = max(len(rows) * (BOX_HEIGHT + GAP_Y) - GAP_Y, 0)
    return Layout(corners, {(a, b): way(a, b) for a, b in edges}, right - left, height)


def _rows(count: int, edges: Sequence[Edge]) -> list[int]:
    """The row of each box: the longest way to it; one that reads nothing stands right above its
    first reader."""
    row = [0] * count
    for a, b in edges:  # sorted by b: a's row is final
        row[b] = max(row[b], row[a] + 1)
    readers: dict[int, int] = {}
    for a, b in edges:
        readers[a] = min(readers.get(a, row[b]), row[b])
    reading = {b for _, b in edges}
    for box, first in readers.items():
        if box not in reading:
            row[box] = first - 1
    return row


def _items(
    row: list[int], edges: Sequence[Edge]
) -> tuple[dict[Item, list[Item]], dict[Item, list[Item]], list[list[Item]]]:
    """What is above each item, what is below it, and the items of each row: boxes and lanes."""
    rows: list[list[Item]] = [[] for _ in range(max(row, default=-1) + 1)]
    end = list(row)
    for a, b in edges:
        end[a] = max(end[a], row[b] - 1)
    for box, first in enumerate(row):
        for r in range(first, end[box] + 1):
            rows[r].append((box, r))
    above: dict[Item, list[Item]] = {item: [] for items in rows for item in items}
    below: dict[Item, list[Item]] = {item: [] for item in above}
    links = [((a, row[b] - 1), (b, row[b])) for a, b in edges]
    links += [((box, r - 1), (box, r)) for box, r in above if r > row[box]]
    for upper, lower in links:
        above[lower].append(upper)
        below[upper].append(lower)
    return above, below, rows


def _order(
    rows: list[list[Item]], above: dict[Item, list[Item]], below: dict[Item, list[Item]]
) -> None:
    """Sort the items of each row by the mean place of their neighbours: few edges cross then."""
    place = {item: float(i) for items in rows for i, item in enumerate(items)}
    for sweep in range(SWEEPS):
        neighbours, ordered = (above, rows) if sweep % 2 == 0 else (below, rows[::-1])
        for items in ordered:
            key = {i: _mean([place[n] for n in neighbours[i]], place[i]) for i in items}
            items.sort(key=key.__getitem__)
            place |= {item: float(i) for i, item in enumerate(items)}


def _columns(
    row: list[int],
    rows: list[list[Item]],
    above: dict[Item, list[Item]],
    below: dict[Item, list[Item]],
) -> dict[Item, float]:
    """The middle of each item: near its neighbours', in the order of its row, with room between."""
    x: dict[Item, float] = {}
    for sweep in range(SWEEPS):
        neighbours, ordered = (above, rows) if sweep % 2 == 0 else (below, rows[::-1])
        for items in ordered:
            wanted = [_mean([x[n] for n in neighbours[i] if n in x], x.get(i, 0.0)) for i in items]
            half = [_width(i, row) / 2 for i in items]
            x |= dict(zip(items, _apart(wanted, half), strict=True))
    return x


def _apart(wanted: list[float], half: list[float]) -> list[float]:
    """Places near the wanted ones, in the same order, that leave each its width and the gap: the
    mean of pushing to the right and pushing to the left."""

    def push(wanted: list[float], half: list[float]) -> list[float]:
        places: list[float] = []
        for i, at in enumerate(wanted):
            least = places[-1] + half[i - 1] + half[i] + GAP_X if places else at
            places.append(max(at, least))
        return places

    right = push(wanted, half)
    left = [-p for p in push([-w for w in wanted[::-1]], half[::-1])][::-1]
    return [(a + b) / 2 for a, b in zip(left, right, strict=True)]


def _width(item: Item, row: list[int]) -> int:
    return BOX_WIDTH if row[item[0]] == item[1] else LANE_WIDTH


def _mean(numbers: list[float], otherwise: float) -> float:
    return sum(numbers) / len(numbers) if numbers else otherwise
