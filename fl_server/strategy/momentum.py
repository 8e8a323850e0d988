"""Federated averaging with momentum on the server: Hsu 2019, "Measuring the effects of
non-identical data distribution for federated visual classification"."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fl_server.secagg.encode import Floats, Mean


@dataclass(frozen=True)
class FedAvgM:
    """v = momentum * v + mean(delta); w + rate * v"""

    learning_rate: float = 1.0
    momentum: float = 0.9

    def start(self, length: int) -> Floats:
        return np.zeros((1, length), np.float32)

    def apply(self, weights: Floats, mean: Mean, moments: Floats) -> tuple[Floats, Floats]:
        velocity = self.momentum * moments[0].astype(np.float64) + mean.delta
        moved = weights.astype(np.float64) + self.learning_rate * velocity
        return moved.astype(np.float32), velocity[None].astype(np.float32)
