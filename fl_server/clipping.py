"""The clip norm of the next round, from how many updates were within that of this one."""

from __future__ import annotations

import math
from dataclasses import dataclass

_LEAST = 1e-3  # of the first norm


@dataclass(frozen=True)
class AdaptiveClip:
    """Follows a quantile of the norms of updates (Andrew 2021, "Differentially private learning
    with adaptive clipping", by geometric steps): norm * exp(-rate * (share within - quantile)).

    first, most: the norm of the first round and the largest that may come
    """

    quantile: float
    rate: float
    first: float
    most: float

    def after(self, norm: float, within: float, clients: int) -> float:
        """The next norm, where so many clients, maybe by a noisy count, were within this one."""
        share = min(max(within / clients, 0.0), 1.0)
        moved = norm * math.exp(-self.rate * (share - self.quantile))
        return min(max(moved, _LEAST * self.first), self.most)
