"""Federated averaging (McMahan 2017)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fl_server.secagg.encode import Floats, Mean


@dataclass(frozen=True)
class FedAvg:
    """w + rate * mean(delta); a rate of 1 is the plain average of the survivors' weights."""

    learning_rate: float = 1.0

    def start(self, length: int) -> Floats:
        return np.zeros((0, length), np.float32)

    def apply(self, weights: Floats, mean: Mean, moments: Floats) -> tuple[Floats, Floats]:
        moved = weights.astype(np.float64) + self.learning_rate * mean.delta
        return moved.astype(np.float32), moments
