"""What `for` runs over: ranges and tensors have an item for a counter that is a value."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from cloud.parse.structure import described
from cloud.parse.values import Values
from ir.graph import Value


@dataclass(frozen=True)
class Sequence:
    """`item(k)` for a number k, or a value; `size` is a number or a value.

    `known`: items are numbers of Python for a number k, as those of `range(3)` are.
    """

    size: Any
    item: Callable[[Any], Any]
    known: bool = False


class Items:
    """Anything Python runs over, by number: a list that grows meanwhile is seen to grow."""

    def __init__(self, source: Any) -> None:
        self._list = source if isinstance(source, list) else []
        self._more: Iterator[Any] | None = None if isinstance(source, list) else iter(source)

    @staticmethod
    def of(sequence: Sequence) -> Items:
        return Items(map(sequence.item, range(sequence.size)))

    def has(self, k: int) -> bool:
        while self._more is not None and k >= len(self._list):
            try:
                self._list.append(next(self._more))
            except StopIteration:
                self._more = None
        return k < len(self._list)

    def get(self, k: int) -> Any:
        return self._list[k]


class Sequences(Values):
    def sequence(self, x: Any) -> Sequence | None:
        """x as something a loop of the graph can run over; None: only Python can."""
        if isinstance(x, Sequence):
            return x
        if isinstance(x, range):
            return Sequence(len(x), lambda k: self._of_range(x.start, x.step, k), known=True)
        if isinstance(x, Value):
            if x.rank == 0:
                raise self.not_known(f"a loop over {described(x)}", "run over an axis, or a range")
            return Sequence(self.size_value(x.shape[0]), lambda k: self.index(x, k))
        return None

    def ranged(self, *bounds: Any) -> Any:
        """range(…): one of values where a bound is a value."""
        if not any(isinstance(b, Value) for b in bounds):
            return range(*bounds)
        start, stop, step = (
            (0, bounds[0], 1) if len(bounds) == 1 else (*bounds, 1) if len(bounds) == 2 else bounds
        )
        if not isinstance(step, int) or step == 0:
            raise self.not_known("a range whose step is a value", "use a step that is a number")
        for bound in (start, stop):
            if self.as_value(bound).rank or self.as_value(bound).dtype.is_float:
                raise self.not_known(f"range of {described(bound)}", "write range(int(…))")
        reach = self.binary(ast.Sub, stop, start) if step > 0 else self.binary(ast.Sub, start, stop)
        size = reach
        if abs(step) != 1:
            size = self.binary(ast.FloorDiv, self.binary(ast.Add, reach, abs(step) - 1), abs(step))
        return Sequence(size, lambda k: self._of_range(start, step, k))

    def enumerated(self, x: Any, start: int = 0) -> Any:
        s = self.sequence(x)
        if s is None:
            return enumerate(self.iterated(x), start)
        number = Sequence(s.size, lambda k: self._of_range(start, 1, k), known=True)
        return self._side_by_side([number, s])

    def zipped(self, *parts: Any, strict: bool = False) -> Any:
        found = [self.sequence(p) for p in parts]
        if not parts or any(s is None for s in found):
            return zip(*(self.iterated(p) for p in parts), strict=strict)
        sequences = [s for s in found if s is not None]
        if strict and len({str(s.size) for s in sequences}) > 1:
            raise ValueError(f"zip: sizes {[s.size for s in sequences]}, want equal ones")
        return self._side_by_side(sequences)

    def backwards(self, x: Any) -> Any:
        s = self.sequence(x)
        if s is None or isinstance(x, range):
            return self.sequence(x[::-1]) if isinstance(x, range) else reversed(x)
        return Sequence(s.size, lambda k: s.item(self._from_end(s.size, k)), s.known)

    def iterated(self, x: Any) -> Any:
        """Something that Python runs over: the rows of a tensor are written out."""
        s = self.sequence(x) if isinstance(x, (Value, Sequence)) else None
        if isinstance(x, Iterator):
            self.move(x)
        if s is None:
            return x
        if not isinstance(s.size, int):
            raise self.not_known("items of which the number is a value", "use a `for` statement")
        return [s.item(k) for k in range(s.size)]

    def _side_by_side(self, parts: list[Sequence]) -> Sequence:
        sizes = [p.size for p in parts]
        size = sizes[0]
        if all(isinstance(s, int) for s in sizes):
            size = min(sizes)
        elif any(s is not size for s in sizes):
            raise self.not_known("a zip of things of unequal or free sizes", "use one range")
        return Sequence(
            size, lambda k: tuple(p.item(k) for p in parts), all(p.known for p in parts)
        )

    def _of_range(self, start: Any, step: int, k: Any) -> Any:
        y = k if step == 1 else self.binary(ast.Mult, k, step)
        if isinstance(start, int) and start == 0:
            return self._counted(y, k, step > 0)
        y = self.binary(ast.Add, y, start)
        return self._counted(y, k, step > 0 and isinstance(start, int) and start > 0)

    def _counted(self, y: Any, k: Any, upward: bool) -> Any:
        if isinstance(y, Value) and upward and k in self.not_negative:
            self.not_negative.add(y)
        return y

    def _from_end(self, size: Any, k: Any) -> Any:
        return self._counted(self.binary(ast.Sub, self.binary(ast.Sub, size, 1), k), k, True)
