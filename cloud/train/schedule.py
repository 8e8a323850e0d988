"""Learning rates: a schedule is a function of the step, counted from 0."""

from __future__ import annotations

import math
from collections.abc import Callable

Schedule = Callable[[int], float]


def constant(lr: float) -> Schedule:
    return lambda step: lr


def stepwise(lr: float, *, every: int, factor: float = 0.1) -> Schedule:
    """lr * factor^(step // every)"""
    return lambda step: lr * factor ** (step // every)


def cosine(lr: float, *, steps: int, warmup: int = 0, final: float = 0.0) -> Schedule:
    """Up in a line over `warmup` steps, then down half a cosine to `final` at `steps`

    (Loshchilov and Hutter 2017; Goyal et al. 2017)
    """
    if not 0 <= warmup < steps:
        raise ValueError(f"cosine: warmup of {warmup} in {steps} steps, want 0 or more, and fewer")

    def at(step: int) -> float:
        if step < warmup:
            return lr * (step + 1) / warmup
        done = min((step - warmup) / (steps - warmup), 1.0)
        return final + (lr - final) * (1 + math.cos(math.pi * done)) / 2

    return at
