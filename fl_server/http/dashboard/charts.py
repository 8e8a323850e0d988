"""Small charts as SVG, without a script: lines and bars over the numbers of rounds."""

from __future__ import annotations

import math
from collections.abc import Sequence

from markupsafe import Markup

Point = tuple[int, float]

_WIDTH, _HEIGHT = 640, 220
_LEFT, _RIGHT, _TOP, _BOTTOM = 52, 12, 12, 26


def lines(points: Sequence[Point], unit: str = "", small: bool = False) -> Markup:
    """A line through (round, value); empty where there is nothing to show."""
    if len(points) < (2 if small else 1):
        return Markup("")
    return _spark(points) if small else _chart(points, unit, _line(points, unit))


def bars(points: Sequence[Point], unit: str = "") -> Markup:
    """A bar for each (round, value)."""
    if not any(value for _, value in points):
        return Markup("")
    scale, ticks = _Scale(points, floor=0.0), []
    width = min(28.0, 0.7 * (_WIDTH - _LEFT - _RIGHT) / max(len(points), 1))
    bottom = scale.y(scale.low)
    for number, value in points:
        x, y = scale.x(number) - width / 2, scale.y(value)
        title = f"<title>round {number}: {_number(value)}{unit}</title>"
        ticks.append(
            f'<rect class="bar" x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" '
            f'height="{max(bottom - y, 0):.1f}" rx="2">{title}</rect>'
        )
    return _chart(points, unit, "".join(ticks), floor=0.0, pad=width / 2)


class _Scale:
    """Where values lie; `floor` is the least value, else the least of the points."""

    def __init__(self, points: Sequence[Point], floor: float | None = None) -> None:
        values = [value for _, value in points]
        self.ticks = _ticks(min(values) if floor is None else floor, max(values))
        self.low, self.high = self.ticks[0], self.ticks[-1]
        self.first, self.last = points[0][0], points[-1][0]
        # One round stands in the middle, several keep half a step from the edges.
        self._pad = 18.0

    def x(self, number: int) -> float:
        left, right = _LEFT + self._pad, _WIDTH - _RIGHT - self._pad
        if self.first == self.last:
            return (left + right) / 2
        return left + (number - self.first) / (self.last - self.first) * (right - left)

    def y(self, value: float) -> float:
        share = (value - self.low) / (self.high - self.low)
        return _HEIGHT - _BOTTOM - share * (_HEIGHT - _TOP - _BOTTOM)


def _chart(
    points: Sequence[Point], unit: str, drawn: str, floor: float | None = None, pad: float = 0
) -> Markup:
    scale = _Scale(points, floor)
    parts = [f'<svg class="chart" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img">']
    for tick in scale.ticks:
        y = scale.y(tick)
        parts.append(
            f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
            f'<text class="tick" x="{_LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">'
            f"{_number(tick)}{unit}</text>"
        )
    for number in _rounds(scale.first, scale.last):
        parts.append(
            f'<text class="tick" x="{scale.x(number):.1f}" y="{_HEIGHT - 6}" '
            f'text-anchor="middle">{number}</text>'
        )
    return Markup("".join([*parts, drawn, "</svg>"]))


def _line(points: Sequence[Point], unit: str) -> str:
    scale = _Scale(points)
    places = [(scale.x(n), scale.y(v), n, v) for n, v in points]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y, *_ in places)
    bottom = _HEIGHT - _BOTTOM
    area = f"{places[0][0]:.1f},{bottom} {path} {places[-1][0]:.1f},{bottom}"
    dots = "".join(
        f'<circle class="dot" cx="{x:.1f}" cy="{y:.1f}" r="3">'
        f"<title>round {n}: {_number(v)}{unit}</title></circle>"
        for x, y, n, v in (places if len(places) <= 40 else places[-1:])
    )
    return f'<polygon class="area" points="{area}"/><polyline class="line" points="{path}"/>{dots}'


def _spark(points: Sequence[Point]) -> Markup:
    """The same without axes, for a card."""
    values = [value for _, value in points]
    low, span = min(values), (max(values) - min(values)) or 1.0
    step = 116 / (len(values) - 1)
    path = " ".join(
        f"{2 + i * step:.1f},{26 - 22 * (v - low) / span:.1f}" for i, v in enumerate(values)
    )
    line = f'<polyline class="line" points="{path}"/>'
    return Markup(f'<svg class="spark" viewBox="0 0 120 28" aria-hidden="true">{line}</svg>')


def _ticks(low: float, high: float) -> list[float]:
    """Round numbers that span the values, four or five of them."""
    if not high > low:
        high = low + (abs(low) or 1.0)
    step = 10 ** math.floor(math.log10((high - low) / 4))
    for factor in (1, 2, 2.5, 5, 10):
        if (high - low) / (factor * step) <= 4.5:
            step *= factor
            break
    first = math.floor(low / step + 1e-9)
    last = max(math.ceil(high / step - 1e-9), first + 1)
    return [i * step for i in range(first, last + 1)]


def _rounds(first: int, last: int) -> list[int]:
    """Up to nine numbers of rounds to write below."""
    step = max(1, math.ceil((last - first) / 8))
    return list(range(first, last + 1, step))


def _number(value: float) -> str:
    return f"{value:.4g}"
