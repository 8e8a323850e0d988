"""A linear model fitted by gradient descent: a real learner that needs no model file."""

from __future__ import annotations

import numpy as np

from fl_server.device.trainer import Trained, Work
from fl_server.errors import SettingsError
from fl_server.secagg.encode import Floats, Update


class LinearTrainer:
    """Least squares on the device's own examples     x: float32 [n, d], y: float32 [n]"""

    def __init__(self, x: Floats, y: Floats, steps: int = 20, rate: float = 0.1) -> None:
        self._x = x.astype(np.float64)
        self._y = y.astype(np.float64)
        self._steps = steps
        self._rate = rate

    def train(self, weights: Floats, model: bytes) -> Update:
        """Some steps from the global weights; the model's bytes carry nothing here."""
        return self.follow(weights, model, Work()).update

    def follow(self, weights: Floats, model: bytes, work: Work) -> Trained:
        """Steps whose gradients are corrected.     raises SettingsError: no weight has a name"""
        _check_unnamed(work)
        correction = 0.0 if work.correction is None else work.correction
        w = weights.astype(np.float64)
        loss = self.loss(w)
        for _ in range(self._steps):
            gradient = self._x.T @ (self._x @ w - self._y) / len(self._y)
            w -= self._rate * (gradient + correction)
        delta = (w - weights).astype(np.float32)
        update = Update(delta=delta, loss=loss, examples=len(self._y))
        return Trained(update, self._steps * self._rate)

    def measure(self, weights: Floats, model: bytes) -> Update:
        """How well the global weights do; no coordinate of an update."""
        return Update(np.zeros(0, np.float32), loss=self.loss(weights), examples=len(self._y))

    def measure_own(self, weights: Floats, model: bytes, work: Work) -> Update:
        """As `measure`.     raises SettingsError: no weight has a name"""
        _check_unnamed(work)
        return self.measure(weights, model)

    def loss(self, w: np.ndarray[tuple[int], np.dtype[np.float64]] | Floats) -> float:
        """The mean squared error, halved."""
        return float(np.mean((self._x @ w - self._y) ** 2) / 2)


def _check_unnamed(work: Work) -> None:
    """raises SettingsError"""
    if work.local:
        raise SettingsError(f"local {', '.join(work.local)}: a linear model names no weights")


def synthetic_device(
    device: int, length: int = 16, examples: int = 64, seed: int = 0
) -> LinearTrainer:
    """A device whose examples follow one hidden line, with noise and a shift of its own."""
    hidden = np.random.default_rng(seed).normal(size=length)
    rng = np.random.default_rng([seed, device + 1])
    x = rng.normal(size=(examples, length)) + 0.3 * rng.normal(size=length)
    y = x @ hidden + 0.1 * rng.normal(size=examples)
    return LinearTrainer(x.astype(np.float32), y.astype(np.float32))
