"""What to keep for the backward pass: a minimum cut between what is there and what is needed."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence

from ir.graph import Constant, Value, Weight, order
from ir.symbol import evaluate, symbols

CHEAP = ("elementwise", "compare")  # families whose results are rather computed again
CHEAP_OPS = {"reshape", "broadcast_to", "transpose", "slice", "cast", "count", "empty_tape"}
KEEP = (96, 4)  # what keeping a value costs: for the push and the pop, and for each byte
AGAIN = (32, 1)  # what computing it again costs: for the node, and for each byte
FREE_SIZE = 64  # what a free dimension is taken to be
_NEVER = 1 << 60
_SOURCE, _SINK = "source", "sink"
_End = tuple[Value, bool] | str  # a value to be computed (False) or to be had (True)


def kept(
    needed: Iterable[Value],
    *,
    free: Collection[Value],
    handed: Collection[Value],
    as_computed: bool = False,
) -> list[Value]:
    """The values to keep so that all `needed` ones can be had later, at the least cost.

    `as_computed`: floats that depend on data are kept themselves, see `differentiated_again`.

    `free` values are there later anyhow, like weights and constants; `handed` ones can be had at
    half the price. Each value is kept, or computed again from values that are had: which ones is a
    minimum cut (Jain et al. 2020 choose so among checkpoints; this cut has costs of both kinds).
    """
    needed = [v for v in needed if not _is_free(v, free)]
    first = _varying(needed) if as_computed else []
    free = {*free, *first}
    net = _Net()
    seen: dict[Value, None] = {}
    stack = [v for v in needed if v not in free]
    for v in stack:
        net.edge((v, True), _SINK, _NEVER)
    while stack:
        v = stack.pop()
        if v in seen:
            continue
        seen[v] = None
        price = _price(v, KEEP)
        net.edge((v, False), (v, True), price // 2 if v in handed else price)
        if not _is_cheap(v):
            net.edge(_SOURCE, (v, False), _NEVER)
            continue
        net.edge(_SOURCE, (v, False), _price(v, AGAIN))
        for x in v.node.present_inputs if v.node else ():
            if not _is_free(x, free):
                net.edge((x, True), (v, False), _NEVER)
                stack.append(x)
    reached = net.cut()
    rest = [v for v in reversed(seen) if (v, False) in reached and (v, True) not in reached]
    return [*first, *rest]


def _varying(needed: Sequence[Value]) -> list[Value]:
    """The floats among the values that depend on more than constants and weights."""
    varying: set[Value] = set()
    for node in order(needed):
        varying.update(v for v in node.present_inputs if v.node is None and not _is_free(v, ()))
        if not varying.isdisjoint(node.present_inputs):
            varying.update(node.results)
    return [v for v in needed if v.dtype.is_float and (v in varying or v.node is None)]


def _is_free(v: Value, free: Collection[Value]) -> bool:
    return v in free or isinstance(v, (Constant, Weight))


def _is_cheap(v: Value) -> bool:
    if v.node is None or len(v.node.results) > 1:
        return False
    return v.node.op.family in CHEAP or v.node.op.name in CHEAP_OPS


def _price(v: Value, prices: tuple[int, int]) -> int:
    sizes = [evaluate(d, dict.fromkeys(symbols(d), FREE_SIZE)) for d in v.shape]
    return prices[0] + prices[1] * v.dtype.size_bytes * math.prod(sizes)


class _Net:
    """A flow network; the largest flow by shortest paths (Edmonds and Karp 1972)."""

    def __init__(self) -> None:
        self.left: dict[_End, dict[_End, int]] = {_SOURCE: {}, _SINK: {}}

    def edge(self, a: _End, b: _End, capacity: int) -> None:
        self.left.setdefault(a, {})[b] = capacity
        self.left.setdefault(b, {}).setdefault(a, 0)

    def cut(self) -> set[_End]:
        """What the source still reaches when no more can flow."""
        while True:
            before = self._search()
            if _SINK not in before:
                return set(before)
            path = _path(before)
            flow = min(self.left[a][b] for a, b in path)
            for a, b in path:
                self.left[a][b] -= flow
                self.left[b][a] += flow

    def _search(self) -> dict[_End, _End]:
        before: dict[_End, _End] = {_SOURCE: _SOURCE}
        queue: deque[_End] = deque([_SOURCE])
        while queue and _SINK not in before:
            a = queue.popleft()
            for b, capacity in self.left[a].items():
                if capacity and b not in before:
                    before[b] = a
                    queue.append(b)
        return before


def _path(before: Mapping[_End, _End]) -> Sequence[tuple[_End, _End]]:
    path, b = [], _SINK
    while b != _SOURCE:
        path.append((before[b], b))
        b = before[b]  # type: ignore[assignment]
    return path
