"""Adaptive optimisers on the server: Reddi 2021, "Adaptive federated optimization", algorithm 2."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from fl_server.secagg.encode import Floats, Mean

_Doubles: TypeAlias = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Adaptive(ABC):
    """m = momentum * m + (1 - momentum) * mean(delta); w + rate * m / (sqrt(v) + tau)

    v begins at tau^2; how it follows the squares of mean(delta) is each optimiser's own. A small
    tau adapts more: coordinates whose updates are below it move as with a fixed rate.
    """

    learning_rate: float = 0.1
    momentum: float = 0.9
    tau: float = 1e-3

    def start(self, length: int) -> Floats:
        return np.stack([np.zeros(length), np.full(length, self.tau**2)]).astype(np.float32)

    def apply(self, weights: Floats, mean: Mean, moments: Floats) -> tuple[Floats, Floats]:
        m, v = moments.astype(np.float64)
        m = self.momentum * m + (1 - self.momentum) * mean.delta
        v = self.second_moment(v, np.square(mean.delta))
        moved = weights.astype(np.float64) + self.learning_rate * m / (np.sqrt(v) + self.tau)
        return moved.astype(np.float32), np.stack([m, v]).astype(np.float32)

    @abstractmethod
    def second_moment(self, v: _Doubles, squares: _Doubles) -> _Doubles:
        """The next v     float64 [d], float64 [d] -> float64 [d]"""


@dataclass(frozen=True)
class FedAdagrad(Adaptive):
    """v + delta^2"""

    def second_moment(self, v: _Doubles, squares: _Doubles) -> _Doubles:
        return v + squares


@dataclass(frozen=True)
class FedAdam(Adaptive):
    """beta2 * v + (1 - beta2) * delta^2"""

    beta2: float = 0.99

    def second_moment(self, v: _Doubles, squares: _Doubles) -> _Doubles:
        return self.beta2 * v + (1 - self.beta2) * squares


@dataclass(frozen=True)
class FedYogi(Adaptive):
    """v - (1 - beta2) * delta^2 * sign(v - delta^2): falls more slowly than Adam's"""

    beta2: float = 0.99

    def second_moment(self, v: _Doubles, squares: _Doubles) -> _Doubles:
        return v - (1 - self.beta2) * squares * np.sign(v - squares)
