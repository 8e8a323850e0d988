"""Rules that stand hostile updates: of several means one that some of them cannot lead away.

What they compare are the sums of shards, where one hostile device spoils its shard, or, in a task
without masks, the updates of single devices.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from fl_server.errors import RoundFailed

Doubles = npt.NDArray[np.float64]


def median(updates: Doubles, hostile: int) -> Doubles:
    """Of each coordinate the median (Yin 2018, "Byzantine-robust distributed learning")"""
    return np.asarray(np.median(updates, axis=0), np.float64)


def trimmed_mean(updates: Doubles, hostile: int) -> Doubles:
    """Of each coordinate the mean without the `hostile` lowest and highest (Yin 2018)"""
    kept = np.sort(updates, axis=0)[hostile : len(updates) - hostile]
    return np.asarray(kept.mean(axis=0), np.float64)


def krum(updates: Doubles, hostile: int) -> Doubles:
    """The update nearest to its n - f - 2 nearest others (Blanchard 2017, "Machine learning with
    adversaries: Byzantine tolerant gradient descent")"""
    return np.asarray(updates[np.argmin(_scores(updates, hostile))], np.float64)


def multi_krum(updates: Doubles, hostile: int) -> Doubles:
    """The mean of the n - f updates of the best scores (Blanchard 2017, section 4)"""
    best = np.argsort(_scores(updates, hostile), kind="stable")[: len(updates) - hostile]
    return np.asarray(updates[best].mean(axis=0), np.float64)


# By the names of a task's setting `rule`: the rule, and how many updates it needs against f.
RULES: dict[str, tuple[Callable[[Doubles, int], Doubles], Callable[[int], int]]] = {
    "median": (median, lambda f: 2 * f + 1),
    "trimmed_mean": (trimmed_mean, lambda f: 2 * f + 1),
    "krum": (krum, lambda f: 2 * f + 3),
    "multi_krum": (multi_krum, lambda f: 2 * f + 3),
}


def needed(rule: str, hostile: int) -> int:
    """How many updates a rule needs where so many are hostile."""
    return RULES[rule][1](hostile)


def combine(rule: str, hostile: int, updates: Sequence[Doubles], lost: int = 0) -> Doubles:
    """One update of several, each counting alike     [d] each -> [d]; raises RoundFailed

    lost: sums that are not there. Where too few are left, each of them counts as one of the hostile
    ones, who could otherwise fail every round by losing theirs.
    """
    least = max(hostile - lost, 0)
    for among in range(hostile, least - 1, -1):
        if len(updates) >= needed(rule, among):
            return RULES[rule][0](np.stack(updates), among)
    raise RoundFailed(
        f"{len(updates)} sums are left, {rule} against {least} hostile ones needs "
        f"{needed(rule, least)}"
    )


def _scores(updates: Doubles, hostile: int) -> Doubles:
    """For each update the sum of squared distances to its n - f - 2 nearest others     -> [n]"""
    count = len(updates)
    apart = np.array([np.square(updates - update).sum(axis=1) for update in updates])
    np.fill_diagonal(apart, np.inf)
    near = np.sort(apart, axis=1)[:, : count - hostile - 2]
    return np.asarray(near.sum(axis=1), np.float64)
