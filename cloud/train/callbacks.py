"""Callbacks of `fit`."""

from __future__ import annotations

import math

from cloud.train.trainer import Trainer
from ir.graph import Array

Record = dict[str, float]


class Best:
    """The best value of one measurement so far, and for how many epochs it has not been beaten.

    `minimum`: smaller is better; by default, whether the name speaks of a loss or an error.
    """

    def __init__(self, monitor: str, *, minimum: bool | None = None, least: float = 0.0) -> None:
        names = ("loss", "error")
        self.monitor, self.least = monitor, least
        self.minimum = any(n in monitor for n in names) if minimum is None else minimum
        self.value = math.inf if self.minimum else -math.inf
        self.waited = 0

    def observe(self, record: Record) -> bool:
        """Whether this epoch is better, by more than `least`. Raises ValueError for a record that
        lacks the measurement."""
        if self.monitor not in record:
            raise ValueError(f"no {self.monitor!r} among {', '.join(record)}")
        now = record[self.monitor]
        gain = self.value - now if self.minimum else now - self.value
        if gain > self.least:
            self.value, self.waited = now, 0
            return True
        self.waited += 1
        return False


class EarlyStopping:
    """Ends training once `monitor` has not become better, by more than `least`, for `patience`
    epochs; with `restore`, the module gets the weights of the best epoch back (Prechelt 1998)

    A resumed run counts the epochs of the run before it, but restores only the best of its own.
    """

    def __init__(
        self,
        monitor: str = "val_loss",
        *,
        patience: int = 10,
        least: float = 0.0,
        minimum: bool | None = None,
        restore: bool = True,
    ) -> None:
        self.best = Best(monitor, minimum=minimum, least=least)
        self.patience, self.restore = patience, restore
        self._improved = False
        self._weights: dict[str, Array] | None = None

    def observe(self, record: Record) -> None:
        self._improved = self.best.observe(record)
        if self._improved:
            self._weights = None  # those that are kept are no longer the best

    def __call__(self, epoch: int, record: Record, trainer: Trainer) -> bool:
        if self._improved and self.restore:
            self._weights = trainer.module.state_dict()
        return self.best.waited >= self.patience

    def finish(self, trainer: Trainer) -> None:
        if self._weights is not None:
            trainer.pull()
            trainer.module.load_state_dict(self._weights)
            trainer.restart()
