"""The clip norm of the next round, from how many updates were within that of this one."""

from __future__ import annotations

import math
from dataclasses import dataclass

from fl_server.privacy import DEVIATIONS

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

    def after(self, norm: float, within: float, clients: int, noise: float = 0.0) -> float:
        """The norm that follows on this one, where so many clients were within theirs

        noise: the standard deviation of that in the count. A count that is none, noise allowed for,
        is of a client that does not play fair, and moves nothing, as that of no clients does.
        """
        slack = DEVIATIONS * noise
        if not clients or not -slack <= within <= clients + slack:
            return norm
        share = min(max(within / clients, 0.0), 1.0)
        moved = norm * math.exp(-self.rate * (share - self.quantile))
        return min(max(moved, _LEAST * self.first), self.most)
