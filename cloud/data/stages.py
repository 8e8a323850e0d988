"""The stages of a pipeline: functions of (item's index, seed, epoch), so that any process may
compute any item, in any order, with the same result."""

from __future__ import annotations

import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import numpy as np

Array = np.ndarray
Item = Any


class DataError(Exception):
    """An item that could not be made. `index` is its place in the stage that failed."""

    def __init__(self, message: str, index: int) -> None:
        super().__init__(message, index)
        self.message, self.index = message, index

    def __str__(self) -> str:
        return self.message


@dataclass(frozen=True)
class Run:
    """Which pass over the data: all that its random draws depend on, beside places in it."""

    seed: int = 0
    epoch: int = 0

    def rng(self, *place: int | str) -> np.random.Generator:
        """A generator of its own for a place, such as a stage's name and an item's index."""
        words = [zlib.crc32(p.encode()) if isinstance(p, str) else p for p in place]
        return np.random.default_rng((self.seed, self.epoch, *words))


class Stage(ABC):
    """What gives items. One with a `count` gives any of them by `get`; one without, a stream, only
    gives them in order."""

    count: int | None
    depth = 0  # how many stages are below: tells random stages of one pipeline apart

    @abstractmethod
    def get(self, index: int, run: Run) -> Item:
        """The item at `index`, of 0 … count - 1. Raises DataError."""

    def get_batch(self, indices: Sequence[int], run: Run) -> Item:
        """The items at `indices`, collated."""
        return collate([self.get(i, run) for i in indices])

    def stream(self, run: Run, start: int = 0) -> Iterator[Item]:
        """The items from `start` on, in order."""
        assert self.count is not None
        return (self.get(i, run) for i in range(start, self.count))


class Columns(Stage):
    """The rows of named arrays, as dicts."""

    def __init__(self, columns: dict[str, Array]) -> None:
        lengths = {name: len(a) for name, a in columns.items()}
        if len(set(lengths.values())) != 1:
            raise ValueError(f"arrays of length {lengths}: want at least one, and one length")
        self.columns, self.count = columns, next(iter(lengths.values()))

    def get(self, index: int, run: Run) -> Item:
        return {name: a[index] for name, a in self.columns.items()}

    def get_batch(self, indices: Sequence[int], run: Run) -> Item:
        return {name: a[list(indices)] for name, a in self.columns.items()}


class Items(Stage):
    """The items of a list, or of anything with a length and items by index."""

    def __init__(self, items: Sequence[Any]) -> None:
        self.items, self.count = items, len(items)

    def get(self, index: int, run: Run) -> Item:
        return _guarded("sequence", index, lambda: self.items[index])


class Generated(Stage):
    """A stream: what `make()` gives, which is called once a pass."""

    def __init__(self, make: Callable[[], Iterable[Item]], count: int | None) -> None:
        self.make, self.count = make, None
        self.known = count

    def get(self, index: int, run: Run) -> Item:
        """The item at `index`, for which all before it are made."""
        for item in self.stream(run, index):
            return item
        raise DataError(f"item {index}: the generator gives fewer", index)

    def stream(self, run: Run, start: int = 0) -> Iterator[Item]:
        index = start
        try:
            for item in islice(iter(self.make()), start, self.known):
                yield item
                index += 1
        except DataError:
            raise
        except Exception as e:
            raise _failed("generator", index, e) from e


class _On(Stage):
    """A stage on another one."""

    def __init__(self, source: Stage) -> None:
        self.source, self.count, self.depth = source, source.count, source.depth + 1


class Map(_On):
    """f(item), or f(item, rng) with a generator that is the item's own."""

    def __init__(self, source: Stage, f: Callable[..., Item], random: bool) -> None:
        super().__init__(source)
        self.f, self.random = f, random

    def get(self, index: int, run: Run) -> Item:
        return self._apply(self.source.get(index, run), index, run)

    def stream(self, run: Run, start: int = 0) -> Iterator[Item]:
        if self.count is not None:
            return super().stream(run, start)
        items = enumerate(self.source.stream(run, start), start)
        return (self._apply(item, i, run) for i, item in items)

    def _apply(self, item: Item, index: int, run: Run) -> Item:
        name = getattr(self.f, "__name__", type(self.f).__name__)
        if self.random:
            rng = run.rng("map", self.depth, index)
            return _guarded(name, index, lambda: self.f(item, rng))
        return _guarded(name, index, lambda: self.f(item))


class Shuffle(_On):
    """All items in an order that (seed, epoch) makes; of a stream, within a window."""

    def __init__(self, source: Stage, window: int) -> None:
        super().__init__(source)
        self.window = window
        self._order: tuple[Run, Array] | None = None

    def get(self, index: int, run: Run) -> Item:
        return self.source.get(int(self._places(run)[index]), run)

    def get_batch(self, indices: Sequence[int], run: Run) -> Item:
        return self.source.get_batch(self._places(run)[list(indices)].tolist(), run)

    def stream(self, run: Run, start: int = 0) -> Iterator[Item]:
        if self.count is not None:
            return super().stream(run, start)
        return islice(self._windowed(run), start, None)

    def _places(self, run: Run) -> Array:
        if self._order is None or self._order[0] != run:
            assert self.count is not None
            self._order = run, run.rng("shuffle", self.depth).permutation(self.count)
        return self._order[1]

    def _windowed(self, run: Run) -> Iterator[Item]:
        rng, held = run.rng("shuffle", self.depth), []
        for item in self.source.stream(run):
            if len(held) < self.window:
                held.append(item)
                continue
            i = int(rng.integers(self.window))
            held[i], item = item, held[i]
            yield item
        yield from (held[i] for i in rng.permutation(len(held)))


class Batch(_On):
    """Items in groups, collated."""

    def __init__(self, source: Stage, size: int, drop_last: bool) -> None:
        super().__init__(source)
        if size < 1:
            raise ValueError(f"batch size {size}: want at least 1")
        self.size, self.drop_last = size, drop_last
        if source.count is not None:
            self.count = source.count // size if drop_last else -(-source.count // size)

    def get(self, index: int, run: Run) -> Item:
        assert self.source.count is not None
        end = min((index + 1) * self.size, self.source.count)
        return self.source.get_batch(range(index * self.size, end), run)

    def stream(self, run: Run, start: int = 0) -> Iterator[Item]:
        if self.count is not None:
            yield from super().stream(run, start)
            return
        items = self.source.stream(run, start * self.size)
        while group := list(islice(items, self.size)):
            if len(group) == self.size or not self.drop_last:
                yield collate(group)


class Repeat(_On):
    """Several passes over the items, each an epoch of its own."""

    def __init__(self, source: Stage, times: int) -> None:
        super().__init__(source)
        if times < 1:
            raise ValueError(f"repeat {times} times: want at least 1")
        self.times = times
        self.count = None if source.count is None else source.count * times

    def get(self, index: int, run: Run) -> Item:
        assert self.source.count is not None
        passes, at = divmod(index, self.source.count)
        return self.source.get(at, self._pass(run, passes))

    def get_batch(self, indices: Sequence[int], run: Run) -> Item:
        assert self.source.count is not None
        passes = {i // self.source.count for i in indices}
        if len(passes) > 1:
            return super().get_batch(indices, run)
        places = [i % self.source.count for i in indices]
        return self.source.get_batch(places, self._pass(run, passes.pop()))

    def stream(self, run: Run, start: int = 0) -> Iterator[Item]:
        if self.count is not None:
            return super().stream(run, start)
        passes = (self.source.stream(self._pass(run, i)) for i in range(self.times))
        return islice((item for items in passes for item in items), start, None)

    def _pass(self, run: Run, i: int) -> Run:
        return replace(run, epoch=run.epoch * self.times + i)


class Part(_On):
    """Every `step`th item of those from `begin` to before `end`."""

    def __init__(self, source: Stage, begin: int, end: int | None, step: int = 1) -> None:
        super().__init__(source)
        if begin < 0 or step < 1 or (end is not None and end < begin):
            raise ValueError(f"items {begin} to {end} by {step}: want 0 <= begin <= end, step >= 1")
        self.places = slice(begin, end, step)
        if source.count is not None:
            self.chosen = range(source.count)[self.places]
            self.count = len(self.chosen)

    def get(self, index: int, run: Run) -> Item:
        return self.source.get(self.chosen[index], run)

    def get_batch(self, indices: Sequence[int], run: Run) -> Item:
        return self.source.get_batch([self.chosen[i] for i in indices], run)

    def stream(self, run: Run, start: int = 0) -> Iterator[Item]:
        if self.count is not None:
            return super().stream(run, start)
        p = self.places
        return islice(self.source.stream(run), p.start + start * p.step, p.stop, p.step)


def collate(items: Sequence[Item]) -> Item:
    """One item of all: dicts and tuples of stacked arrays; words and other objects as a list."""
    first = items[0]
    if isinstance(first, dict):
        if odd := next((i for i in items if i.keys() != first.keys()), None):
            raise ValueError(f"batch: items with {sorted(first)} and {sorted(odd)}; want the same")
        return {name: collate([item[name] for item in items]) for name in first}
    if isinstance(first, tuple):
        return tuple(collate(part) for part in zip(*items, strict=True))
    if isinstance(first, (np.ndarray, np.generic, int, float, bool)):
        arrays = [np.asarray(item) for item in items]
        if len({a.shape for a in arrays}) > 1:
            shapes = " and ".join(sorted({str(list(a.shape)) for a in arrays}))
            raise ValueError(f"batch: items of {shapes}; want one shape (see map)")
        return np.stack(arrays)
    return list(items)


def _guarded(what: str, index: int, f: Callable[[], Item]) -> Item:
    try:
        return f()
    except DataError:
        raise
    except Exception as e:
        raise _failed(what, index, e) from e


def _failed(what: str, index: int, e: Exception) -> DataError:
    return DataError(f"item {index}: {what}: {type(e).__name__}: {e}", index)
