"""What a file promises of the memory that its entries take, so that a device can decide before."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

SIZES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128)  # of a free dimension, to plan for
STRAIGHT = 0.01  # how far a plan may be from a line that it is said to be on
Line = tuple[int, int]  # (a, b): a + b * size


def promises(data: bytes) -> dict[str, str]:
    """Bytes for results and scratch of each entry of a model file, as its metadata says them:
    `memory.train` -> "4096", or "max(65536, 4096 + 1024*batch)" where a dimension is free. With two
    of those, or one that only a run finds, nothing is promised. Of kernels as the machine has that
    converts.
    """
    import lite_runtime as lite

    session = lite.load(data, threads=1)
    if not session.symbols:
        return {f"memory.{e}": str(session.planned_bytes(e)) for e in session.entries}
    if len(session.symbols) > 1:
        return {}
    ((name, (low, high)),) = session.symbols.items()
    if low == 0:  # as those are that a run finds
        return {}
    planned: dict[str, list[tuple[int, int]]] = {e: [] for e in session.entries}
    for n in sorted({min(max(n, low), high) for n in SIZES}):
        try:
            session.resize({name: n})
        except lite.LiteError:  # too large for the model
            break
        for e in session.entries:
            planned[e].append((n, session.planned_bytes(e)))
    return {f"memory.{e}": _text(lines(points), name) for e, points in planned.items() if points}


def lines(points: Sequence[tuple[int, int]]) -> list[Line]:
    """Lines whose largest value at each size is the plan. A plan is as large as what one node
    wants, which grows linearly; so it is convex, a straight line as long as one node wants most."""
    found: list[Line] = []
    first = 0
    while first < len(points) - 1:
        last = first + 1
        while last + 1 < len(points) and _straight(points[first : last + 2]):
            last += 1
        if last > first + 1 or len(points) == 2:  # else a change of lines lies between the two
            found.append(_through(points[first], points[last]))
        first = last
    return found or [(max(y for _, y in points), 0)]


def _through(p: tuple[int, int], q: tuple[int, int]) -> Line:
    slope = ceil((q[1] - p[1]) / (q[0] - p[0]))
    return q[1] - slope * q[0], slope


def _straight(points: Sequence[tuple[int, int]]) -> bool:
    a, b = _through(points[0], points[-1])
    return all(abs(a + b * n - y) <= STRAIGHT * y for n, y in points)


def _text(found: Sequence[Line], name: str) -> str:
    def term(line: Line) -> str:
        return " + ".join([str(line[0])] * (line[0] != 0) + [f"{line[1]}*{name}"] * (line[1] != 0))

    terms = list(dict.fromkeys(term(line) or "0" for line in found))
    return terms[0] if len(terms) == 1 else f"max({', '.join(terms)})"
