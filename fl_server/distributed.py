"""Differential privacy that needs no trust in the server: devices add the noise before they mask.

The server sees no sum without noise, and each device counts on that of all survivors but the
hostile ones. Neighbours are as in privacy.py.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from fl_server.errors import MissingExtra, SettingsError
from fl_server.privacy import Privacy
from fl_server.secagg.encode import Mean
from fl_server.secagg.keys import RandomBytes
from fl_server.secagg.noise import most_norm, multiplier
from fl_server.secagg.params import LEAST_NOISE, MOST_NOISE, MOST_NOISY_BITS, Encoding, Params

# Of Renyi divergences, from where budgets are large to where they are tiny.
_ORDERS = tuple(1 + 1.1**k for k in range(-50, 150))


@dataclass(frozen=True)
class Distributed(Privacy):
    """noise_multiplier: what the noise of the fewest survivors, less the hostile ones, has over the
    sensitivity of the sum · hostile: how many devices of a sum may tell the server their noise"""

    hostile: int = 1

    def spent(self, noises: Sequence[float]) -> float:
        """The epsilon at `delta` of releases with these multipliers.     raises MissingExtra

        A release is concentrated (Bun 2016, "Concentrated differential privacy") as a Gaussian's
        is, but has not its exact profile: what is composed are Renyi divergences.
        """
        if not noises:
            return 0.0
        try:
            from dp_accounting import ZCDpEvent
            from dp_accounting.rdp import RdpAccountant
        except ImportError as error:
            raise MissingExtra(f"pip install 'mindspan[server]': {error}") from None
        event = ZCDpEvent(sum(0.5 / noise**2 for noise in noises))
        epsilon: float = RdpAccountant(_ORDERS).compose(event).get_epsilon(self.delta)
        return epsilon

    def share(self, encoding: Encoding, fewest: int) -> int:
        """The deviation of each device's noise, in steps, if so few survive."""
        shares = max(fewest - self.hostile, 1)
        norm = most_norm(replace(encoding, noise=LEAST_NOISE))
        return min(math.ceil(self.noise_multiplier * norm / math.sqrt(shares)), MOST_NOISE + 1)

    def check(self, encoding: Encoding, fewest: int) -> None:
        if fewest <= self.hostile:
            raise SettingsError(
                f"hostile is {self.hostile}, want less than the {fewest} devices whose sum may be "
                "released"
            )
        if encoding.value_bits > MOST_NOISY_BITS:
            raise SettingsError(
                f"value_bits is {encoding.value_bits}, want at most {MOST_NOISY_BITS} with noise "
                "that devices add"
            )
        self._check_common(encoding)
        share = self.share(encoding, fewest)
        if not LEAST_NOISE <= share <= MOST_NOISE:
            many = "more" if share < LEAST_NOISE else "fewer"
            raise SettingsError(
                f"value_bits is {encoding.value_bits}, for which each device's noise has a "
                f"deviation of {share} steps; want {many}, for {LEAST_NOISE} to {MOST_NOISE}"
            )

    def released(self, encoding: Encoding, survivors: int) -> float:
        """The noise multiplier of a sum over so many."""
        return multiplier(encoding, survivors - self.hostile)

    def noisy(self, mean: Mean, params: Params, random: RandomBytes) -> Mean:
        """The mean as it is: its noise was in it before the server saw it."""
        return mean
