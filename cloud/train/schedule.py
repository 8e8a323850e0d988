"""Learning rates: a schedule is a function of the step, counted from 0."""

from __future__ import annotations

import math
from collections.abc import Callable

from cloud.train.callbacks import Best

Schedule = Callable[[int], float]


def constant(lr: float) -> Schedule:
    return lambda step: lr


def stepwise(lr: float, *, every: int, factor: float = 0.1) -> Schedule:
    """lr * factor^(step // every)"""
    return lambda step: lr * factor ** (step // every)


def exponential(lr: float, *, factor: float) -> Schedule:
    """lr * factor^step"""
    return lambda step: lr * factor**step


def cosine(lr: float, *, steps: int, warmup: int = 0, final: float = 0.0) -> Schedule:
    """Up in a line over `warmup` steps, then down half a cosine to `final` at `steps`

    (Loshchilov and Hutter 2017; Goyal et al. 2017)
    """
    _check("cosine", steps, warmup)

    def down(step: int) -> float:
        return final + (lr - final) * (1 + math.cos(math.pi * _done(step, steps - warmup))) / 2

    return with_warmup(down, lr, warmup)


def polynomial(
    lr: float, *, steps: int, power: float = 1.0, warmup: int = 0, final: float = 0.0
) -> Schedule:
    """Up in a line over `warmup` steps, then final + (lr - final) (the part that is left)^power"""
    _check("polynomial", steps, warmup)

    def down(step: int) -> float:
        return final + (lr - final) * (1 - _done(step, steps - warmup)) ** power

    return with_warmup(down, lr, warmup)


def inverse_root(lr: float, *, warmup: int) -> Schedule:
    """Up in a line over `warmup` steps, then lr sqrt(warmup / step) (Vaswani et al. 2017)"""
    return with_warmup(lambda step: lr * math.sqrt(warmup / (step + warmup)), lr, warmup)


def one_cycle(
    lr: float, *, steps: int, rise: float = 0.3, start: float = 0.04, final: float = 4e-6
) -> Schedule:
    """From start * lr up half a cosine to lr over the part `rise` of the steps, then down another
    to final * lr (Smith and Topin 2018)"""
    top = max(round(rise * steps), 1)
    up = cosine(start * lr, steps=top, final=lr)
    return chain((up, top), (cosine(lr, steps=max(steps - top, 1), final=final * lr), None))


def with_warmup(schedule: Schedule, lr: float, warmup: int) -> Schedule:
    """Up in a line to `lr` over `warmup` steps, then `schedule`, which counts from there."""

    def at(step: int) -> float:
        return lr * (step + 1) / warmup if step < warmup else schedule(step - warmup)

    return at


def chain(*parts: tuple[Schedule, int | None]) -> Schedule:
    """Schedules one after the other, each for so many steps and counting from 0; the last for ever.

    `chain((warm, 100), (cosine(0.1, steps=900), 900), (constant(1e-4), None))`
    """
    if not parts or any(n is None for _, n in parts[:-1]):
        raise ValueError("chain: want (schedule, steps) pairs; only the last may be without end")

    def at(step: int) -> float:
        for schedule, n in parts[:-1]:
            assert n is not None
            if step < n:
                return schedule(step)
            step -= n
        return parts[-1][0](step)

    return at


class Plateau:
    """`schedule` times a factor that shrinks by `factor` whenever `monitor` has not become better,
    by more than a share `threshold` of its best, for more than `patience` epochs

    After that it waits for `cooldown` epochs. The rate does not fall below `final`. `fit` shows it
    the record of each epoch, also those of the run that it resumes.
    """

    def __init__(
        self,
        schedule: Schedule,
        *,
        monitor: str = "val_loss",
        factor: float = 0.1,
        patience: int = 10,
        threshold: float = 1e-4,
        cooldown: int = 0,
        final: float = 0.0,
        minimum: bool | None = None,
    ) -> None:
        if not 0 < factor < 1:
            raise ValueError(f"Plateau: factor {factor}, want above 0 and below 1")
        self.schedule, self.factor, self.final = schedule, factor, final
        self.patience, self.threshold, self.cooldown = patience, threshold, cooldown
        self.best = Best(monitor, minimum=minimum)
        self.scale, self._cooling = 1.0, 0

    def __call__(self, step: int) -> float:
        return max(self.schedule(step) * self.scale, self.final)

    def observe(self, record: dict[str, float]) -> None:
        """Take an epoch's measurement into account."""
        if math.isfinite(self.best.value):
            self.best.least = abs(self.best.value) * self.threshold
        self.best.observe(record)
        if self._cooling:
            self._cooling -= 1
            self.best.waited = 0
        if self.best.waited > self.patience:
            self.scale *= self.factor
            self._cooling, self.best.waited = self.cooldown, 0


def _check(name: str, steps: int, warmup: int) -> None:
    if not 0 <= warmup < steps:
        raise ValueError(f"{name}: warmup of {warmup} in {steps} steps, want 0 or more, and fewer")


def _done(step: int, steps: int) -> float:
    return min(step / steps, 1.0)
