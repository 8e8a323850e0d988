"""How often one caller may ask: buckets of tokens, one for each caller, that fill up over time."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable

from fl_server.errors import TooMany

# Callers who have not been heard of for longest are forgotten first: their buckets are full.
_MOST_CALLERS = 100_000


class Buckets:
    """rate_per_s: how many requests a second are let through in the long run, 0 for any number ·
    burst: how many at once"""

    def __init__(self, rate_per_s: float, burst: float, clock: Callable[[], float]) -> None:
        self._rate, self._burst, self._clock = rate_per_s, burst, clock
        self._lock = threading.Lock()
        # What is left in a bucket, and when that was so.
        self._buckets: OrderedDict[Hashable, tuple[float, float]] = OrderedDict()

    def take(self, caller: Hashable) -> None:
        """raises TooMany"""
        if not self._rate:
            return
        with self._lock:
            now = self._clock()
            left, then = self._buckets.pop(caller, (self._burst, now))
            left = min(self._burst, left + max(now - then, 0) * self._rate)
            self._buckets[caller] = (left - 1 if left >= 1 else left), now
            if len(self._buckets) > _MOST_CALLERS:
                self._buckets.popitem(last=False)
        if left < 1:
            raise TooMany(f"above {self._rate:g} requests a second", (1 - left) / self._rate)
