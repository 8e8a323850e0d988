"""Metrics over whole data sets, in numpy: each takes arrays batch by batch and gives its result.

Those that are means of batches can also be graphs, beside the loss: see `nn.loss.correct`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping

import numpy as np

from ir.graph import Array


class Metric(ABC):
    """`update(results, targets)` as often as there are batches, then `result()`."""

    @abstractmethod
    def update(self, results: Array, targets: Array) -> None:
        """Take a batch into account."""

    @abstractmethod
    def result(self) -> float:
        """The metric over all batches; not a number before the first."""

    def __call__(self, results: Array, targets: Array) -> float:
        """The result once this batch is taken into account."""
        self.update(np.asarray(results), np.asarray(targets))
        return self.result()


def measure(metrics: Mapping[str, Metric], results: Array, targets: Array) -> dict[str, float]:
    """Each metric's result over these rows, such as those of `predict`."""
    return {name: m(results, targets) for name, m in metrics.items()}


class _Mean(Metric):
    """The mean of a number for each element or example."""

    def __init__(self) -> None:
        self.total, self.count = 0.0, 0

    def _add(self, numbers: Array) -> None:
        self.total += float(np.sum(numbers, dtype=np.float64))
        self.count += numbers.size

    def result(self) -> float:
        return self.total / self.count if self.count else float("nan")


class TopK(_Mean):
    """The share of examples whose label is among the k largest logits     [n,classes], [n]"""

    def __init__(self, k: int = 1) -> None:
        super().__init__()
        self.k = k

    def update(self, results: Array, targets: Array) -> None:
        own = np.take_along_axis(results, targets[..., None].astype(np.int64), -1)
        self._add(np.sum(results > own, axis=-1) < self.k)


class Accuracy(_Mean):
    """The share of examples whose largest logit, the first of equals, is at the label

    [...,classes], [...]
    """

    def update(self, results: Array, targets: Array) -> None:
        self._add(np.argmax(results, axis=-1) == targets)


class MeanAbsoluteError(_Mean):
    """The mean of |result - target|     two of one shape"""

    def update(self, results: Array, targets: Array) -> None:
        self._add(np.abs(results.astype(np.float64) - targets))


class MeanSquaredError(_Mean):
    """The mean of (result - target)^2     two of one shape"""

    def update(self, results: Array, targets: Array) -> None:
        self._add(np.square(results.astype(np.float64) - targets))


class R2(Metric):
    """1 - the mean squared error / the variance of the targets     two of one shape"""

    def __init__(self) -> None:
        self.error = self.sum = self.squares = 0.0
        self.count = 0

    def update(self, results: Array, targets: Array) -> None:
        targets = targets.astype(np.float64)
        self.error += float(np.square(results - targets).sum())
        self.sum += float(targets.sum())
        self.squares += float(np.square(targets).sum())
        self.count += targets.size

    def result(self) -> float:
        spread = self.squares - self.sum**2 / self.count if self.count else 0.0
        return 1 - self.error / spread if spread > 0 else float("nan")


class ConfusionMatrix(Metric):
    """`counts[i, j]`: how many examples of class i have their largest logit at j

    [n,classes], [n]. `precision`, `recall` and `f1` are one number a class, 0 where nothing was
    found or wanted; the result is the accuracy.
    """

    def __init__(self, classes: int) -> None:
        self.counts = np.zeros((classes, classes), np.int64)

    def update(self, results: Array, targets: Array) -> None:
        np.add.at(self.counts, (targets.astype(np.int64), np.argmax(results, axis=-1)), 1)

    def result(self) -> float:
        return _ratio(float(np.trace(self.counts)), float(self.counts.sum()), float("nan"))

    @property
    def precision(self) -> Array:
        return _ratios(np.diag(self.counts), self.counts.sum(0))

    @property
    def recall(self) -> Array:
        return _ratios(np.diag(self.counts), self.counts.sum(1))

    @property
    def f1(self) -> Array:
        """2 precision recall / (precision + recall)"""
        return _ratios(2 * np.diag(self.counts), self.counts.sum(0) + self.counts.sum(1))


class _OfClasses(Metric):
    """A number a class of a confusion matrix: that of one class, or the mean over all."""

    def __init__(self, classes: int, *, of: int | None = None) -> None:
        self.matrix, self.of = ConfusionMatrix(classes), of

    def update(self, results: Array, targets: Array) -> None:
        self.matrix.update(results, targets)

    @abstractmethod
    def numbers(self) -> Array:
        """One for each class."""

    def result(self) -> float:
        return float(self.numbers().mean() if self.of is None else self.numbers()[self.of])


class Precision(_OfClasses):
    """The share of a class among the examples that were taken for it"""

    def numbers(self) -> Array:
        return self.matrix.precision


class Recall(_OfClasses):
    """The share of a class's examples that were taken for it"""

    def numbers(self) -> Array:
        return self.matrix.recall


class F1(_OfClasses):
    """The harmonic mean of precision and recall"""

    def numbers(self) -> Array:
        return self.matrix.f1


class AUC(Metric):
    """The probability that a positive example has a larger score than a negative one, ties counting
    half: the area under the receiver operating characteristic     scores [n], labels 0 or 1 [n]

    Exact; all scores are kept (Hanley and McNeil 1982).
    """

    def __init__(self) -> None:
        self._scores: list[Array] = []
        self._labels: list[Array] = []

    def update(self, results: Array, targets: Array) -> None:
        self._scores.append(np.ravel(results).astype(np.float64))
        self._labels.append(np.ravel(targets) > 0)

    def result(self) -> float:
        if not self._scores:
            return float("nan")
        scores, labels = np.concatenate(self._scores), np.concatenate(self._labels)
        _, place, counts = np.unique(scores, return_inverse=True, return_counts=True)
        last = np.cumsum(counts)
        ranks = (last - (counts - 1) / 2)[place]  # of equal scores, their mean
        positive = int(labels.sum())
        pairs = positive * (len(labels) - positive)
        above = float(ranks[labels].sum()) - positive * (positive + 1) / 2
        return _ratio(above, float(pairs), float("nan"))


def _ratio(a: float, b: float, otherwise: float) -> float:
    return a / b if b else otherwise


def _ratios(a: Array, b: Array) -> Array:
    return np.divide(a, b, out=np.zeros(len(a)), where=b > 0)
