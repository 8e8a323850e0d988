"""What every strategy is."""

from __future__ import annotations

from typing import Protocol

from fl_server.secagg.encode import Floats, Mean


class Strategy(Protocol):
    """Sees the sum over the survivors and nothing of any one client.

    `moments` are what a strategy keeps from round to round, a row each: the server stores them with
    the weights that they belong to.
    """

    def start(self, length: int) -> Floats:
        """The moments before the first round     -> float32 [rows, length]"""
        ...

    def apply(self, weights: Floats, mean: Mean, moments: Floats) -> tuple[Floats, Floats]:
        """The next weights and moments     float32 [d], float32 [rows, d] -> the same

        mean.delta: float64 [d], or [2 d] where devices send control variates, too.
        Computed in float64 and rounded once.
        """
        ...
