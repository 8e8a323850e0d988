"""Pipelines: what a user writes, a chain of stages and how to run them."""

from __future__ import annotations

import glob
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from cloud.data import stages
from cloud.data.stages import Item, Run, Stage


class Pipeline:
    """Items, and what is done to them. Each method gives a new pipeline; nothing runs before it is
    iterated. An item depends on (seed, epoch, its index) alone: not on the processes that make it,
    nor on what came before it.

    `count`: how many items an epoch has; None for a stream (made by `generator`), which is resumed
    by making its first items once more.
    """

    def __init__(self, stage: Stage, workers: int = 0, method: str | None = None) -> None:
        self._stage, self._workers, self._method = stage, workers, method

    @property
    def count(self) -> int | None:
        return self._stage.count

    def __len__(self) -> int:
        if self.count is None:
            raise TypeError(
                "a stream has no length; want a pipeline of arrays, files or a sequence"
            )
        return self.count

    def __getitem__(self, index: int) -> Item:
        """One item of epoch 0 with seed 0."""
        if not -len(self) <= index < len(self):
            raise IndexError(f"item {index}: want 0 to {len(self) - 1}")
        return self._stage.get(index % len(self), Run())

    def __iter__(self) -> Iterator[Item]:
        return self.epoch(0)

    def epoch(
        self, epoch: int, *, seed: int = 0, start: int = 0, workers: int | None = None
    ) -> Iterator[Item]:
        """The items of one pass from number `start` on; `workers` in place of the pipeline's own.

        Raises DataError, with the item's index, where a source or a function fails.
        """
        run = Run(seed, epoch)
        n = self._workers if workers is None else workers
        if not n:
            return self._stage.stream(run, start)
        from cloud.data.workers import in_processes  # multiprocessing, for those who want it

        return in_processes(self._stage, run, start, n, self._method)

    def map(self, f: Callable[..., Item], *, random: bool = False) -> Pipeline:
        """f(item); with `random`, f(item, rng), where rng is the item's own generator."""
        return self._with(stages.Map(self._stage, f, random))

    def shuffle(self, window: int = 1000) -> Pipeline:
        """The items in another order each epoch; those of a stream within a window of so many."""
        if window < 1:
            raise ValueError(f"shuffle: window {window}, want at least 1")
        return self._with(stages.Shuffle(self._stage, window))

    def batch(self, size: int, *, drop_last: bool = False) -> Pipeline:
        """`size` items as one: dicts and tuples of stacked arrays. The last may be smaller."""
        return self._with(stages.Batch(self._stage, size, drop_last))

    def repeat(self, times: int) -> Pipeline:
        """Several passes as one; each is shuffled and augmented in its own way."""
        return self._with(stages.Repeat(self._stage, times))

    def take(self, n: int) -> Pipeline:
        """The first n items."""
        return self._with(stages.Part(self._stage, 0, n))

    def skip(self, n: int) -> Pipeline:
        """All but the first n items."""
        return self._with(stages.Part(self._stage, n, None))

    def shard(self, index: int, of: int) -> Pipeline:
        """Items index, index + of, index + 2 of …: the share of one of several machines."""
        if not 0 <= index < of:
            raise ValueError(f"shard {index} of {of}: want 0 to {of - 1}")
        return self._with(stages.Part(self._stage, index, None, of))

    def prefetch(self, workers: int = 1, *, method: str | None = None) -> Pipeline:
        """The same items, all stages run ahead by so many processes.

        `method`: "fork" (the default on Linux: any function will do) or "spawn" (elsewhere:
        functions and items must be ones that pickle knows).
        """
        if workers < 0:
            raise ValueError(f"prefetch: {workers} workers, want 0 or more")
        return Pipeline(self._stage, workers, method)

    def _with(self, stage: Stage) -> Pipeline:
        return Pipeline(stage, self._workers, self._method)


def arrays(**columns: Any) -> Pipeline:
    """The rows of named arrays of one length, as dicts."""
    return Pipeline(stages.Columns({name: np.asarray(a) for name, a in columns.items()}))


def sequence(items: Sequence[Any]) -> Pipeline:
    """The items of a list, or of anything that has a length and gives items by index."""
    return Pipeline(stages.Items(items))


def files(paths: str | Path | Iterable[str | Path]) -> Pipeline:
    """Paths, for `map` to read: those given, or those that match a pattern, sorted.

    Raises FileNotFoundError where a pattern matches nothing.
    """
    if not isinstance(paths, (str, Path)):
        return sequence([Path(p) for p in paths])
    found = sorted(glob.glob(str(paths), recursive=True))
    if not found:
        raise FileNotFoundError(f"{paths}: no such files")
    return sequence([Path(p) for p in found])


def generator(make: Callable[[], Iterable[Any]], *, limit: int | None = None) -> Pipeline:
    """A stream of what `make()` gives, called once an epoch; at most `limit` items."""
    return Pipeline(stages.Generated(make, limit))
