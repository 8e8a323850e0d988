"""What every strategy is."""

from __future__ import annotations

from typing import Protocol

from fl_server.secagg.encode import Floats, Mean


class Strategy(Protocol):
    """Sees the sum over the survivors and nothing of any one client."""

    def apply(self, weights: Floats, mean: Mean) -> Floats:
        """The next global weights     float32 [d] -> float32 [d]"""
        ...
