"""A device that works against the others, for trying out rules that stand it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fl_server.device.trainer import Trainer
from fl_server.secagg.encode import Floats, Update


class Flipped:
    """Sends the opposite of what it learnt, as long as an update may be.

    norm: the clip norm of its task
    """

    def __init__(self, trainer: Trainer, norm: float) -> None:
        self._trainer = trainer
        self._norm = norm

    def train(self, weights: Floats, model: bytes) -> Update:
        update = self._trainer.train(weights, model)
        length = float(np.linalg.norm(update.delta))
        scale = -self._norm / length if length else 0.0
        return replace(update, delta=np.asarray(scale * update.delta, np.float32))
