"""A device that works against the others, for trying out rules that stand it."""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol

import numpy as np

from fl_server.device.trainer import Measures, Trainer
from fl_server.secagg.encode import Floats, Update


class _Learner(Trainer, Measures, Protocol):
    pass


class Flipped:
    """Sends the opposite of what it learnt, as long as an update may be, and measures honestly.

    norm: the clip norm of its task
    """

    def __init__(self, trainer: _Learner, norm: float) -> None:
        self._trainer = trainer
        self._norm = norm

    def train(self, weights: Floats, model: bytes) -> Update:
        update = self._trainer.train(weights, model)
        length = float(np.linalg.norm(update.delta))
        scale = -self._norm / length if length else 0.0
        return replace(update, delta=np.asarray(scale * update.delta, np.float32))

    def measure(self, weights: Floats, model: bytes) -> Update:
        return self._trainer.measure(weights, model)
