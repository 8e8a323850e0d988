"""SCAFFOLD (Karimireddy 2020, "SCAFFOLD: Stochastic controlled averaging for federated learning"),
option II of algorithm 1: what devices drift apart by is subtracted from every local step."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fl_server.secagg.encode import Floats, Mean


@dataclass(frozen=True)
class Scaffold:
    """w + rate * mean(delta);  c + |S| / devices * mean(delta of c_i)

    S are the survivors, `devices` how many there are in all; both halves of the mean are sums over
    the same S. The one moment is c.
    """

    learning_rate: float = 1.0
    devices: int = 20

    def start(self, length: int) -> Floats:
        return np.zeros((1, length), np.float32)

    def apply(self, weights: Floats, mean: Mean, moments: Floats) -> tuple[Floats, Floats]:
        delta, change = mean.delta[: weights.size], mean.delta[weights.size :]
        share = min(1.0, mean.clients / self.devices)
        moved = weights.astype(np.float64) + self.learning_rate * delta
        controls = moments.astype(np.float64) + share * change
        return moved.astype(np.float32), controls.astype(np.float32)
