"""From the numbers that a value takes to the range that its stored ones span: four methods.

All of them see one histogram of a value over all samples and choose bounds within it. Wider bounds
cut less off and round more coarsely.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import ClassVar

import numpy as np

from ir.graph import Array
from ir.quantization import affine_scale

Range = tuple[float, float]
Step = Callable[[float, float], float]  # of the stored numbers between two bounds
BINS = 2048
SHARES = np.linspace(1.0, 0.05, 96)  # of the whole range, that are tried
TINY = 1e-12


def byte_step(low: float, high: float) -> float:
    """Of int8."""
    return affine_scale(low, high)[0]


@dataclass(frozen=True)
class Histogram:
    """How many numbers lie in each of `counts` equal bins between `low` and `high`."""

    low: float
    high: float
    counts: Array

    @property
    def centers(self) -> Array:
        edges = np.linspace(self.low, self.high, len(self.counts) + 1)
        return (edges[1:] + edges[:-1]) / 2

    def places(self, x: Array | float) -> Array:
        """The bins that numbers between the bounds, which must differ, lie in."""
        each = len(self.counts) / (self.high - self.low)
        place = ((x - np.float64(self.low)) * each).astype(np.int64)
        return np.minimum(place, len(self.counts) - 1)

    def shares(self) -> list[Range]:
        """The ranges that are tried: both bounds, where they are not 0, move towards 0."""
        return [(min(self.low, 0.0) * s, max(self.high, 0.0) * s) for s in SHARES]


class Method(ABC):
    """How a range is chosen."""

    needs_histogram: ClassVar[bool] = True
    fits_16_bits: ClassVar[bool] = False

    @abstractmethod
    def range(self, seen: Histogram, step: Step = byte_step) -> Range:
        """The bounds of what is stored."""

    def __str__(self) -> str:
        name = next(n for n, kind in METHODS.items() if kind is type(self))
        settings = ",".join(f"{f.name}={getattr(self, f.name):g}" for f in fields(self))  # type: ignore[arg-type]
        return f"{name}:{settings}" if settings else name


@dataclass(frozen=True)
class MinMax(Method):
    """The smallest and the largest number: nothing is cut off."""

    needs_histogram: ClassVar[bool] = False
    fits_16_bits: ClassVar[bool] = True

    def range(self, seen: Histogram, step: Step = byte_step) -> Range:
        return seen.low, seen.high


@dataclass(frozen=True)
class Percentile(Method):
    """As many percent of the numbers lie within, the others evenly on both sides."""

    percentile: float = 99.99

    def __post_init__(self) -> None:
        if not 50 <= self.percentile <= 100:
            raise ValueError(f"percentile is {self.percentile:g}, want 50 to 100")

    def range(self, seen: Histogram, step: Step = byte_step) -> Range:
        outside = (1 - self.percentile / 100) / 2 * seen.counts.sum()
        edges = np.linspace(seen.low, seen.high, len(seen.counts) + 1)
        below = np.cumsum(seen.counts)
        above = np.cumsum(seen.counts[::-1])
        first = int(np.argmax(below > outside))  # a bin that holds more than that is not cut
        last = len(seen.counts) - int(np.argmax(above > outside))
        return float(edges[first]), float(edges[last])


@dataclass(frozen=True)
class MeanSquare(Method):
    """The least mean square of what storing a number and reading it back changes."""

    fits_16_bits: ClassVar[bool] = True

    def range(self, seen: Histogram, step: Step = byte_step) -> Range:
        x = seen.centers
        errors = [
            float(np.dot(seen.counts, np.square(_stored(x, r, step(*r)) - x)))
            for r in seen.shares()
        ]
        return seen.shares()[int(np.argmin(errors))]


@dataclass(frozen=True)
class Divergence(Method):
    """The least Kullback-Leibler divergence of the stored numbers' distribution from the real one
    (Migacz 2017): what is cut off counts as the outermost bin, and every stored number stands for
    the bins with something in them that are read back as it. The bin with 0 in it, which is stored
    exactly however often there is one, counts as much as its neighbours."""

    def range(self, seen: Histogram, step: Step = byte_step) -> Range:
        counts = seen.counts.astype(np.float64)
        if seen.low <= 0 <= seen.high:
            zero = int(seen.places(0.0))
            beside = [i for i in (zero - 1, zero + 1) if 0 <= i < len(counts)]
            counts[zero] = min(counts[zero], counts[beside].mean())
        seen = Histogram(seen.low, seen.high, counts)
        found = [self._divergence(seen, r, step(*r)) for r in seen.shares()]
        return seen.shares()[int(np.argmin(found))]

    @staticmethod
    def _divergence(seen: Histogram, bounds: Range, step: float) -> float:
        x, counts = seen.centers, seen.counts
        inside = np.flatnonzero((x >= bounds[0]) & (x <= bounds[1]))
        if not len(inside) or not counts[inside].sum():
            return np.inf
        first, last = inside[0], inside[-1]
        kept = counts[first : last + 1]
        wanted = kept.copy()
        wanted[0] += counts[:first].sum()
        wanted[-1] += counts[last + 1 :].sum()
        level = np.round(_steps(x[first : last + 1], step)).astype(np.int64)
        level -= level.min()
        filled = (wanted > 0).astype(np.float64)
        sums, places = np.bincount(level, kept), np.bincount(level, filled)
        got = filled * (sums / np.maximum(places, 1))[level]
        p, q = wanted / wanted.sum(), got / got.sum()
        at = p > 0
        return float(np.sum(p[at] * np.log(p[at] / np.maximum(q[at], TINY))))


METHODS: dict[str, type[Method]] = {
    "min-max": MinMax, "percentile": Percentile, "mse": MeanSquare, "kl": Divergence,
}  # fmt: skip


def method_from_text(text: str, wide: bool = False) -> Method:
    """The method of `name` or `name:key=value`, such as `percentile:percentile=99.9`. `wide`: for
    16 bits, whose steps are too fine for what is cut off to pay.

    Raises ValueError.
    """
    name, _, rest = text.partition(":")
    settings = dict(part.partition("=")[::2] for part in rest.split(",") if part)
    kind = METHODS.get(name)
    try:
        if kind is None:
            raise ValueError(f"no such method; there are {', '.join(METHODS)}")
        if wide and not kind.fits_16_bits:
            fit = [n for n, k in METHODS.items() if k.fits_16_bits]
            raise ValueError(f"cuts off what 16 bits have room for, want {' or '.join(fit)}")
        known = {f.name for f in fields(kind)}  # type: ignore[arg-type]
        if unknown := settings.keys() - known:
            raise ValueError(f"no setting {sorted(unknown)}; has {sorted(known) or 'none'}")
        return kind(**{k: float(v) for k, v in settings.items()})
    except ValueError as e:
        raise ValueError(f"calibration {text!r}: {e}") from None


def _steps(x: Array, step: float) -> Array:
    """x in units of the stored numbers."""
    y: Array = x / step
    return y


def _stored(x: Array, bounds: Range, step: float) -> Array:
    """x, stored as one of the numbers that lie a step apart and read back."""
    y: Array = np.clip(np.round(_steps(x, step)) * step, *bounds)
    return y
