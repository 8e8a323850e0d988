"""Data sets in memory, batches of them in a seeded order, and simple augmentation."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice, pairwise
from typing import Any

import numpy as np

from cloud.data import Pipeline
from ir.graph import Array

Batch = dict[str, Array]
Augment = Callable[[Batch, "np.random.Generator"], Batch]


class ArrayDataset:
    """Named arrays of one length: `ArrayDataset(image=x, label=y)`.

    Floats are kept as float32, integers as int32, as models read them.
    """

    def __init__(self, **columns: Array) -> None:
        self.columns = {name: as_model_type(np.asarray(a)) for name, a in columns.items()}
        lengths = {name: len(a) for name, a in self.columns.items()}
        if len(set(lengths.values())) != 1:
            raise ValueError(f"data set: columns of length {lengths}, want columns of one length")

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    def __getitem__(self, rows: slice | Sequence[int] | Array) -> ArrayDataset:
        """The data set of some rows."""
        return ArrayDataset(**{name: a[rows] for name, a in self.columns.items()})

    def with_columns(self, **columns: Array) -> ArrayDataset:
        """The data set with more (or other) columns, such as a teacher's logits."""
        return ArrayDataset(**{**self.columns, **columns})

    def split(self, fraction: float, rng: np.random.Generator) -> tuple[ArrayDataset, ArrayDataset]:
        """Two data sets at random, the second with `fraction` of the rows."""
        order = rng.permutation(len(self))
        first = len(self) - round(len(self) * fraction)
        return self[order[:first]], self[order[first:]]


def batches(
    data: ArrayDataset,
    batch_size: int,
    *,
    rng: np.random.Generator | None = None,
    drop_last: bool = False,
    augment: Sequence[Augment] = (),
) -> Iterator[Batch]:
    """The rows in batches: in order, or shuffled by `rng`, which augmentation draws from too."""
    check_count("batch size", batch_size)
    if augment and rng is None:
        raise ValueError("batches: augmentation draws at random; want an rng")
    order = np.arange(len(data)) if rng is None else rng.permutation(len(data))
    for at in range(
        0, batch_count(len(data), batch_size, drop_last=drop_last) * batch_size, batch_size
    ):
        rows = order[at : at + batch_size]
        batch = {name: a[rows] for name, a in data.columns.items()}
        for change in augment:
            assert rng is not None
            batch = change(batch, rng)
        yield batch


Source = ArrayDataset | Pipeline


def check_source(what: str, data: Any) -> None:
    """Raises TypeError for what gives no batches, ValueError for a data set without rows."""
    if not isinstance(data, ArrayDataset | Pipeline):
        raise TypeError(
            f"{what} is {type(data).__name__}; want an ArrayDataset, as of "
            "ArrayDataset(image=x, label=y), or a Pipeline of batches"
        )
    if isinstance(data, ArrayDataset) and not len(data):
        raise ValueError(f"{what} has 0 examples, want at least 1")


def epoch_of(
    data: Source,
    batch_size: int,
    *,
    seed: int,
    epoch: int,
    start: int = 0,
    augment: Sequence[Augment] = (),
) -> Iterator[Batch]:
    """The batches of one epoch from number `start` on: those of a pipeline as it makes them, the
    rows of a data set shuffled and augmented by a generator of (seed, epoch)."""
    if isinstance(data, Pipeline):
        if augment:
            raise ValueError("a pipeline augments with `map`; want no augment=")
        return map(_model_batch, data.epoch(epoch, seed=seed, start=start))
    rng = np.random.default_rng((seed, epoch))
    return islice(batches(data, batch_size, rng=rng, augment=augment), start, None)


def in_order(data: Source, batch_size: int) -> Iterator[Batch]:
    """All batches once, for evaluation: the rows of a data set in order, a pipeline's epoch 0."""
    check_source("the data", data)
    if isinstance(data, Pipeline):
        return map(_model_batch, data.epoch(0))
    return batches(data, batch_size)


def count_of(data: Source, batch_size: int) -> int | None:
    """How many batches an epoch has; None for a stream that does not say."""
    if isinstance(data, Pipeline):
        return data.count
    return batch_count(len(data), batch_size)


def columns_of(data: Source) -> Batch:
    """Columns by name, of any number of rows: what tells shapes and types."""
    check_source("the data", data)
    if isinstance(data, ArrayDataset):
        return data.columns
    first = next(iter(data.epoch(0, workers=0)), None)
    if first is None:
        raise ValueError("the pipeline gives no batch; want at least one")
    return _model_batch(first)


def split_batch(batch: Batch, parts: int) -> list[Batch]:
    """Up to `parts` batches of nearly equal numbers of rows."""
    rows = len(next(iter(batch.values())))
    bounds = np.linspace(0, rows, min(parts, rows) + 1).astype(int)
    return [{name: a[i:j] for name, a in batch.items()} for i, j in pairwise(bounds)]


def _model_batch(batch: Batch) -> Batch:
    if not isinstance(batch, dict):
        raise TypeError(f"a batch is {type(batch).__name__}; want a dict of arrays by name")
    return {name: as_model_type(np.asarray(a)) for name, a in batch.items()}


def batch_count(rows: int, batch_size: int, *, drop_last: bool = False) -> int:
    """How many batches an epoch over so many rows has."""
    check_count("batch size", batch_size)
    return rows // batch_size if drop_last else -(-rows // batch_size)


def check_count(what: str, n: Any, least: int = 1) -> None:
    """Raises ValueError for what is no whole number of at least so many."""
    if not isinstance(n, (int, np.integer)) or isinstance(n, bool) or n < least:
        raise ValueError(f"{what} {n!r}: want a whole number, at least {least}")


def add_noise(column: str, std: float) -> Augment:
    """x + N(0, std^2)"""

    def change(batch: Batch, rng: np.random.Generator) -> Batch:
        x = batch[column]
        return {**batch, column: x + rng.normal(0, std, x.shape).astype(x.dtype)}

    return change


def flip_horizontal(column: str) -> Augment:
    """Each image [n,h,w,c] mirrored left to right, or not, by the toss of a coin"""

    def change(batch: Batch, rng: np.random.Generator) -> Batch:
        x = batch[column]
        flipped = rng.random(len(x)) < 0.5
        return {**batch, column: np.where(flipped[:, None, None, None], x[:, :, ::-1], x)}

    return change


def random_shift(column: str, most: int) -> Augment:
    """Each image [n,h,w,c] moved by up to `most` rows and columns; what comes in is 0"""

    def change(batch: Batch, rng: np.random.Generator) -> Batch:
        x = batch[column]
        _, h, w, _ = x.shape
        padded = np.pad(x, ((0, 0), (most, most), (most, most), (0, 0)))
        offsets = rng.integers(0, 2 * most + 1, (len(x), 2))
        moved = [image[i : i + h, j : j + w] for image, (i, j) in zip(padded, offsets, strict=True)]
        return {**batch, column: np.stack(moved)}

    return change


def as_model_type(a: Array) -> Array:
    """Floats as float32, integers as int32, as models read them; bytes and truths as they are.

    What is of that type already is not copied.
    """
    if a.dtype.kind == "f":
        return a.astype(np.float32, copy=False)
    is_wide = a.dtype.kind in "iu" and a.dtype.itemsize > 1
    return a.astype(np.int32, copy=False) if is_wide else a
