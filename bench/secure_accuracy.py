"""Does secure aggregation cost accuracy? One training twice: summed in the ring, and in float32.

    python -m bench.secure_accuracy [--rounds 30] [--seeds 3]

24 devices of the watch data (fetched once with pip) train a small net, all in every round; their
updates are averaged by the protocol with b = 16, or by numpy. Nothing else differs: not the first
weights, not the order of examples. Accuracy is the mean over the devices' own later windows.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bench.secagg import NOW, Seeded, member
from examples.watch.data import EXERCISES, DeviceData, Floats, fetch, load, split
from fl_server.secagg.certificate import revoke
from fl_server.secagg.encode import Update
from fl_server.secagg.keys import Identity
from fl_server.secagg.messages import Context
from fl_server.secagg.params import Encoding
from fl_server.secagg.policy import Policy
from fl_server.secagg.run import run_round

HIDDEN, RATE, BATCH = 32, 0.05, 16
INPUTS = 600
LENGTH = INPUTS * HIDDEN + HIDDEN + HIDDEN * len(EXERCISES) + len(EXERCISES)

Mean = Callable[[Mapping[int, Update], int], Floats]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    recordings = load(fetch(Path("out/watch")))
    for seed in range(options.seeds):
        devices = split(recordings, seed).devices
        plain = accuracy(devices, seed, options.rounds, plain_mean)
        secure = accuracy(devices, seed, options.rounds, Secure(len(devices)).mean)
        difference = 100 * (secure - plain)
        print(
            f"seed {seed}: plain {100 * plain:.2f} %, secure {100 * secure:.2f} %, "
            f"{difference:+.2f} points"
        )


def accuracy(devices: tuple[DeviceData, ...], seed: int, rounds: int, mean: Mean) -> float:
    """After so many rounds of federated averaging."""
    weights = np.random.default_rng(seed).normal(0, 0.05, LENGTH).astype(np.float32)
    for number in range(rounds):
        updates = {
            i + 1: Update(trained(weights, device, np.random.default_rng([seed, number, i])))
            for i, device in enumerate(devices)
        }
        weights = (weights + mean(updates, number)).astype(np.float32)
    scores = [np.mean(scored(weights, d.test.x).argmax(1) == d.test.y) for d in devices]
    return float(np.mean(scores))


def plain_mean(updates: Mapping[int, Update], number: int) -> Floats:
    return np.mean([update.delta for update in updates.values()], axis=0, dtype=np.float32)


@dataclass
class Secure:
    """The protocol in memory, with a fresh session for each round."""

    clients: int

    def mean(self, updates: Mapping[int, Update], number: int) -> Floats:
        authority, draw = Identity(bytes(32)), Seeded()
        people = [member(i, authority) for i in range(self.clients)]
        context = Context("bench", "default", "watch", number, bytes(32))
        encoding = Encoding(LENGTH, 16, 1, 10.0, 1.0, 10.0)
        nobody = revoke(authority, 1, set())
        arguments = context, encoding, nobody, draw, Policy(2), NOW
        return run_round(people, updates, *arguments).mean().delta.astype(np.float32)


def trained(weights: Floats, device: DeviceData, rng: np.random.Generator) -> Floats:
    """What one epoch on a device's windows adds to the weights."""
    after = weights.copy()
    order = rng.permutation(len(device.train))
    for start in range(0, len(order), BATCH):
        rows = order[start : start + BATCH]
        after -= RATE * gradient(after, device.train.x[rows], device.train.y[rows])
    return after - weights


def gradient(weights: Floats, x: Floats, y: np.ndarray) -> Floats:
    """Of the mean cross-entropy, by hand: the engine is not what is measured here."""
    first, first_bias, second, _ = layers(weights)
    x = x.reshape(len(x), INPUTS)
    hidden = np.maximum(x @ first + first_bias, 0)
    scores = scored(weights, x)
    chance = np.exp(scores - scores.max(1, keepdims=True))
    chance /= chance.sum(1, keepdims=True)
    chance[np.arange(len(y)), y] -= 1
    chance /= len(y)
    back = (chance @ second.T) * (hidden > 0)
    parts = x.T @ back, back.sum(0), hidden.T @ chance, chance.sum(0)
    return np.concatenate([part.ravel() for part in parts]).astype(np.float32)


def scored(weights: Floats, x: Floats) -> Floats:
    first, first_bias, second, second_bias = layers(weights)
    hidden = np.maximum(x.reshape(len(x), INPUTS) @ first + first_bias, 0)
    return hidden @ second + second_bias


def layers(weights: Floats) -> tuple[Floats, Floats, Floats, Floats]:
    classes = len(EXERCISES)
    shapes = (INPUTS, HIDDEN), (HIDDEN,), (HIDDEN, classes), (classes,)
    ends = np.cumsum([int(np.prod(shape)) for shape in shapes])[:-1]
    parts = np.split(weights, ends)
    first, first_bias, second, second_bias = (
        part.reshape(shape) for part, shape in zip(parts, shapes, strict=True)
    )
    return first, first_bias, second, second_bias


if __name__ == "__main__":
    main()
