"""How far indices run: the sizes that they meet, or as far as every element still exists."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from cloud.formula.affine import Affine, Element
from ir.symbol import Dim, minimum

OPEN = -1  # the end of an index that is not known yet


class RangeError(ValueError):
    """An index without a range, or with two."""


def solve(
    runs: dict[str, tuple[Dim, Dim]],
    elements: Sequence[Element],
    shapes: Mapping[str, Sequence[Dim]],
) -> None:
    """Give every index in `runs` whose end is open its end, counted from 0.

    First those that stand alone wherever they stand: they run over the size of that axis, which
    must be one. Then, one after the other, those beside known ones, as far as all indices stay
    inside. Raises RangeError.
    """
    meets = [
        (a, shapes[e.tensor][axis])
        for e in elements
        if e.tensor in shapes
        for axis, a in enumerate(e.index)
        if not e.is_padded or a.index is not None
    ]
    left = [k for k in runs if _is_open(runs, k)]
    for k in left:
        own = [(a, n) for a, n in meets if any(i == k for i, _ in a.factors)]
        if own and all(a.index == k for a, _ in own):
            runs[k] = (0, _one_size(k, [n for _, n in own]))
    while open_ := [k for k in left if _is_open(runs, k)]:
        ready = [k for k in open_ if _reaches(runs, k, meets)]
        if not ready:
            raise RangeError(f"nothing tells how far {open_[0].split()[0]} runs, want a range")
        for k in ready:
            end: Dim | None = None
            for e in _reaches(runs, k, meets):
                end = e if end is None else minimum(end, e)
            assert end is not None
            runs[k] = (0, end if not isinstance(end, int) else max(end, 0))


def _is_open(runs: Mapping[str, tuple[Dim, Dim]], k: str) -> bool:
    return runs[k][1] == OPEN


def _one_size(k: str, sizes: Iterable[Dim]) -> Dim:
    found = list(dict.fromkeys(sizes))
    if len(found) > 1:
        raise RangeError(f"{k.split()[0]} runs over {found[0]} and over {found[1]}")
    return found[0]


def _reaches(
    runs: Mapping[str, tuple[Dim, Dim]], k: str, meets: Iterable[tuple[Affine, Dim]]
) -> list[Dim]:
    """The ends of k up to which elements exist, the other indices of theirs known. Raises
    RangeError for an index that falls and is below 0 from the start on."""
    ends: list[Dim] = []
    for a, size in meets:
        factors = dict(a.factors)
        step = factors.pop(k, 0)
        if not step or any(_is_open(runs, i) for i in factors):
            continue
        room = size + a.base * -1 + -1 if step > 0 else a.base  # of |step| k
        for i, c in factors.items():
            first, end = runs[i]
            same_side = (c > 0) == (step > 0)
            room = room + ((end + -1) * -abs(c) if same_side else first * abs(c))
        if step < 0 and isinstance(room, int) and room < 0 and size != 0:
            raise RangeError(
                f"an index starts at {room} and falls with {k.split()[0]}, want one from 0 on: the "
                "last element is at its size less 1"
            )
        ends.append(room // abs(step) + 1)
    return ends
