"""Central differential privacy of whole devices: noise in the sum, and an account of its cost.

The server is trusted to add the noise, and what it releases is private: Gaussian noise on the sum
of clipped updates (McMahan 2018, "Learning differentially private recurrent language models").
Neighbours are two runs of which one has zero in place of a device's update; who takes part is
public. Nothing is gained from sampling: a device may be in every round.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from fl_server.errors import MissingExtra, SettingsError
from fl_server.secagg.encode import Mean
from fl_server.secagg.keys import RandomBytes
from fl_server.secagg.mask import KEY_SIZE, expand
from fl_server.secagg.params import Encoding, Params

LEAST_NOISE = 1e-3  # whose epsilon, half a million, promises nothing
DEVIATIONS = 6  # of noise, which stays within that: a coordinate's range must hold so much


@dataclass(frozen=True)
class Privacy:
    """The noise of a task, and how much may be spent.

    noise_multiplier: the noise's standard deviation over the sensitivity of the sum · delta: the
    chance with which more may be told · epsilon: the budget, infinite without one · count_noise:
    the deviation of the noise in the number of updates within the clip norm, infinite where that
    number is not used
    """

    noise_multiplier: float
    delta: float
    epsilon: float = math.inf
    count_noise: float = math.inf

    @property
    def release(self) -> float:
        """The noise multiplier of all that one round releases: the sum, and the count, which one
        device changes by 1 at the most."""
        return 1 / math.sqrt(self.noise_multiplier**-2 + self.count_noise**-2)

    def spent(self, noises: Sequence[float]) -> float:
        """The epsilon at `delta` of releases with these noise multipliers.     raises MissingExtra

        Gaussian releases are together one of less noise (Dong 2019, "Gaussian differential
        privacy", corollary 3.3), whose epsilon is known exactly (Balle 2018, "Improving the
        Gaussian mechanism").
        """
        if not noises:
            return 0.0
        try:
            from dp_accounting import get_epsilon_gaussian
        except ImportError as error:
            raise MissingExtra(f"pip install 'mindspan[server]': {error}") from None
        whole = 1 / math.sqrt(sum(1 / noise**2 for noise in noises))
        epsilon: float = get_epsilon_gaussian(whole, self.delta)
        return epsilon * (1 + 1e-9)  # the root is found from either side

    def check(self, encoding: Encoding, fewest: int) -> None:
        """Nothing, if a round of at least `fewest` survivors can be released.

        raises SettingsError, MissingExtra
        """
        self._check_common(encoding)
        wanted = DEVIATIONS * self.deviation(encoding, fewest)
        if encoding.clip_value < wanted:
            given = f"clip_value is {encoding.clip_value}"
            raise SettingsError(f"{given}, want {wanted:.3g} for that noise")

    def _check_common(self, encoding: Encoding) -> None:
        if encoding.max_weight != 1:
            raise SettingsError(f"max_weight is {encoding.max_weight}, want 1 where there is noise")
        if self.noise_multiplier < LEAST_NOISE:
            given = f"noise_multiplier is {self.noise_multiplier}"
            raise SettingsError(f"{given}, want 0 or at least {LEAST_NOISE}")
        spent = self.spent([self.release])
        if spent > self.epsilon:
            raise SettingsError(f"epsilon is {self.epsilon}, and one round spends {spent:.3g}")

    def allows_after(self, noises: Sequence[float]) -> bool:
        """Whether one more release is within the budget."""
        spent = self.spent([*noises, self.release])
        return spent <= self.epsilon

    def deviation(self, encoding: Encoding, survivors: int) -> float:
        """Of the noise in each coordinate of the mean."""
        return self.noise_multiplier * sensitivity(encoding) / survivors

    def noisy(self, mean: Mean, params: Params, random: RandomBytes) -> Mean:
        """The mean of the sum with noise.

        A client that does not play fair may have moved the sum to where it wraps around, which
        would show what others sent in spite of any noise: the noisy mean wraps around as well, so
        that it is the noisy sum's.
        """
        normal = gaussian(random(KEY_SIZE), params.encoding.length)
        return self.with_noise(mean, params, normal)

    def with_noise(self, mean: Mean, params: Params, normal: npt.NDArray[np.float64]) -> Mean:
        """The same with this noise, whose deviation is 1     [d]"""
        encoding = params.encoding
        noise = self.deviation(encoding, mean.weight) * normal
        period = 2 * encoding.clip_value * 2.0**params.ring_bits / (encoding.top * mean.weight)
        delta = np.mod(mean.delta + noise + period / 2, period) - period / 2
        return replace(mean, delta=delta)

    def noisy_count(self, mean: Mean, params: Params, random: RandomBytes) -> float:
        """How many updates were within the clip norm, with noise; it wraps around as the sum does,
        and what is read of it is near the middle of what it can be."""
        noise = self.count_noise * float(gaussian(random(KEY_SIZE), 1)[0])
        half, middle = 2 ** (params.ring_bits - 1), mean.clients // 2
        count = (mean.within_clip - middle + half) % (2 * half) - half
        return float(middle + (count + noise + half) % (2 * half) - half)


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
