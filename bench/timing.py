"""Times of contenders that take turns, so that a slow moment of the machine slows all of them."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass

Contender = Callable[[int], float]  # the seconds that so many calls take


@dataclass(frozen=True)
class Turns:
    """How long to measure: rounds in which every contender has a burst of calls."""

    rounds: int
    burst_s: float
    rest_s: float = 0.01  # before a burst: threads of the one before stop to wait for more work


QUICK = Turns(rounds=5, burst_s=0.03)
FULL = Turns(rounds=9, burst_s=0.08)


@dataclass(frozen=True)
class Timing:
    """A contender's time for one call, and how many times longer than the first contender's."""

    median_ms: float
    best_ms: float
    ratio: float  # the median of the rounds' ratios
    best_ratio: float  # of the best bursts: what is left of the ratio on a busy machine


@dataclass(frozen=True)
class Row:
    """One line of the report: the same work done by us and by a peer."""

    part: str
    case: str
    threads: int
    peer: str
    ours: float
    theirs: float
    unit: str  # of both
    ratio: float  # above 1: we are faster
    best_ratio: float
    note: str = ""

    def as_dict(self) -> dict[str, object]:
        return asdict(self)


def timed(work: Callable[[], object]) -> Contender:
    """A contender that is a Python call, all it costs included."""

    def run(calls: int) -> float:
        start = time.perf_counter()
        for _ in range(calls):
            work()
        return time.perf_counter() - start

    return run


def take_turns(
    contenders: Mapping[str, Contender],
    turns: Turns,
    rest: Callable[[float], object] = time.sleep,
) -> dict[str, Timing]:
    """Times by contender. A burst is as many calls as fill `burst_s`, found before the rounds."""
    calls = {name: _calls(run, turns.burst_s) for name, run in contenders.items()}
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(turns.rounds):
        for name, run in contenders.items():
            rest(turns.rest_s)
            run(1)  # wakes the threads
            times[name].append(run(calls[name]) / calls[name])
    first = next(iter(times.values()))
    return {name: _timing(t, first) for name, t in times.items()}


def rows(part: str, case: str, threads: int, found: Mapping[str, Timing], note: str) -> list[Row]:
    """A row for each peer; the first contender is us."""
    ours, *peers = found.items()
    return [
        Row(
            part,
            case,
            threads,
            name,
            ours[1].median_ms,
            t.median_ms,
            "ms",
            t.ratio,
            t.best_ratio,
            note,
        )
        for name, t in peers
    ]


def _calls(run: Contender, burst_s: float) -> int:
    run(1)
    once_s = run(1)
    return max(1, round(burst_s / once_s)) if once_s > 0 else 1


def _timing(times_s: list[float], first_s: list[float]) -> Timing:
    ratios = [t / f for t, f in zip(times_s, first_s, strict=True)]
    best = min(times_s)
    return Timing(
        median_ms=1e3 * statistics.median(times_s),
        best_ms=1e3 * best,
        ratio=statistics.median(ratios),
        best_ratio=best / min(first_s),
    )
