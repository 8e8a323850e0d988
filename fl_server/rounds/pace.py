"""When devices without work come again: all of them together at the pace that the server bears."""

from __future__ import annotations

import threading
from collections.abc import Callable

from fl_server.settings import Settings

# Devices that were told the same at one time shall not come again at one time.
_SPREAD = 0.25
_COUNTED_FOR_S = 30.0
_LONGEST_S = 3600.0


class Pace:
    """With n devices and checkins_per_s = r each comes again after n / r seconds, never before
    retry_s; a quarter more or less is drawn."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._lock = threading.Lock()
        self._counted, self._count = -_COUNTED_FOR_S, 0

    def retry_ms(self, count: Callable[[], int]) -> int:
        """`count` tells how many devices there are; it is asked now and then."""
        rate, least = self._settings.checkins_per_s, self._settings.retry_s
        if not rate:
            return int(1000 * least)
        drawn = int.from_bytes(self._settings.random(4), "little") / 2**32
        window = min(self._devices(count) / rate, _LONGEST_S)
        return int(1000 * max(least, window) * (1 + _SPREAD * (2 * drawn - 1)))

    def _devices(self, count: Callable[[], int]) -> int:
        with self._lock:
            now = self._settings.clock()
            if not 0 <= now - self._counted < _COUNTED_FOR_S:
                self._counted, self._count = now, count()
            return self._count
