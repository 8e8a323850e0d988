"""Noise of the server for training whose rounds nobody samples: DP-FTRL (Kairouz 2021, "Practical
and private deep learning without sampling or shuffling").

What is private are the sums of all updates up to each round, by a binary tree whose leaves are
rounds: the sum up to round t has the noise of the few nodes that make up 1 to t, so that errors of
rounds cancel in the weights. A device is in one leaf of each tree at the most.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fl_server.privacy import Privacy, gaussian
from fl_server.secagg.params import Encoding


@dataclass(frozen=True)
class Tree(Privacy):
    """noise_multiplier: of each node · rounds: leaves of a tree, after which another is begun ·
    participations: in how many trees a device may be at the most, 0 for any number"""

    rounds: int = 64
    participations: int = 0

    def spent(self, noises: Sequence[float]) -> float:
        """The epsilon at `delta` of these leaves, in their order.     raises MissingExtra

        A device changes its leaf and the nodes above it, of each tree that it is in: Gaussian
        releases, chosen one after the other, which together are one of less noise.
        """
        trees = [noises[at : at + self.rounds] for at in range(0, len(noises), self.rounds)]
        costs = sorted((depth(len(tree)) / min(tree) ** 2 for tree in trees), reverse=True)
        worst = costs[: self.participations or None]
        return super().spent([1 / math.sqrt(cost) for cost in worst])

    def deviation(self, encoding: Encoding, survivors: int) -> float:
        """Of the noise that one round adds to each coordinate of the mean, at the most."""
        return super().deviation(encoding, survivors) * math.sqrt(depth(self.rounds))

    @property
    def unit(self) -> float:
        """The share of `deviation` that a node's noise has."""
        return 1 / math.sqrt(depth(self.rounds))


def depth(leaves: int) -> int:
    """How many nodes are above a leaf of a tree of so many, itself included."""
    return leaves.bit_length()


def last_leaves(leaves: int) -> list[int]:
    """Of the nodes whose leaves are together the first ones, the last leaf of each, from 0: a leaf
    ends one such node at the most, which has its noise."""
    found, end = [], 0
    for level in reversed(range(leaves.bit_length())):
        if leaves >> level & 1:
            end += 1 << level
            found.append(end - 1)
    return found


def leaf_noise(keys: Sequence[bytes], count: int) -> npt.NDArray[np.float64]:
    """What the last of these leaves adds to the noise of the sum up to it, in deviations of a node

    keys: 16 secret bytes of each leaf up to it, for the node that it ends     -> [count]
    """
    after, before = set(last_leaves(len(keys))), set(last_leaves(len(keys) - 1))
    noise = np.zeros(count)
    for leaf in sorted(after - before):
        noise += gaussian(keys[leaf], count)
    for leaf in sorted(before - after):
        noise -= gaussian(keys[leaf], count)
    return noise
