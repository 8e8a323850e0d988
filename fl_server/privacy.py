"""Central differential privacy of whole devices: noise in the sum, and an account of its cost.

The server is trusted to add the noise, and what it releases is private: Gaussian noise on the sum
of clipped updates (McMahan 2018, "Learning differentially private recurrent language models").
Neighbours are two populations of which one lacks a device. Nothing is gained from sampling: a
device may be in every round, and who takes part is not secret.
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

from fl_server.errors import MissingExtra
from fl_server.secagg.encode import Mean
from fl_server.secagg.keys import RandomBytes
from fl_server.secagg.mask import KEY_SIZE, expand
from fl_server.secagg.params import Encoding


@dataclass(frozen=True)
class Privacy:
    """The noise of a task, and how much may be spent.

    noise_multiplier: the noise's standard deviation over the sensitivity of the sum · delta: the
    chance with which more may be told · epsilon: the budget, infinite without one
    """

    noise_multiplier: float
    delta: float
    epsilon: float = math.inf

    def spent(self, rounds: int) -> float:
        """The epsilon of so many rounds at `delta`.     raises MissingExtra

        The rounds of one noise are one round of less (Dong 2019, "Gaussian differential privacy",
        corollary 3.3); the library's bounds of its Renyi and its loss distribution both hold.
        """
        if not rounds:
            return 0.0
        return _epsilon(self.noise_multiplier / math.sqrt(rounds), self.delta)

    def allows(self, rounds: int) -> bool:
        """Whether so many rounds are within the budget."""
        return self.epsilon == math.inf or self.spent(rounds) <= self.epsilon

    def noisy(self, mean: Mean, encoding: Encoding, random: RandomBytes) -> Mean:
        """The mean of the sum with noise."""
        deviation = self.noise_multiplier * sensitivity(encoding) / mean.weight
        noise = gaussian(random(KEY_SIZE), len(mean.delta))
        return replace(mean, delta=mean.delta + deviation * noise)


@cache
def _epsilon(noise_multiplier: float, delta: float) -> float:
    """Of one release."""
    try:
        import dp_accounting as dp
    except ImportError as error:
        raise MissingExtra(f"pip install 'mindspan[server]': {error}") from None
    release = dp.GaussianDpEvent(noise_multiplier)
    accountants = dp.rdp.RdpAccountant(), dp.pld.PLDAccountant()
    epsilon: float = min(a.compose(release).get_epsilon(delta) for a in accountants)
    return epsilon


def sensitivity(encoding: Encoding) -> float:
    """The largest L2 norm of what one device adds to the sum: clipped, then rounded to the grid,
    which moves every coordinate by less than a step."""
    step = 2 * encoding.clip_value / ((1 << encoding.value_bits) - 1)
    return encoding.clip_norm + step * math.sqrt(encoding.length)


def gaussian(key: bytes, count: int) -> npt.NDArray[np.float64]:
    """Standard normal numbers from a key of 16 random bytes, by Box and Muller     -> [count]"""
    half = (count + 1) // 2
    words = expand(key, 2 * half, 64)
    uniform = ((words >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53
    radius, angle = np.sqrt(-2 * np.log(uniform[:half])), 2 * np.pi * uniform[half:]
    return np.concatenate([radius * np.cos(angle), radius * np.sin(angle)])[:count]


class Ledger:
    """The releases of a task, a line each, in a file beside the database: one that is put back to
    an earlier state does not get back what was spent."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def count(self) -> int:
        return self._path.read_bytes().count(b"\n") if self._path.exists() else 0

    def add(self, line: str) -> None:
        """Have a line on the disk when this returns."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with open(self._path, "ab") as file:
            file.write(f"{line}\n".encode())
            file.flush()
            os.fsync(file.fileno())
