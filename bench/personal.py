"""Do layers that stay on devices help people who never took part? The watch data, person by person.

    python -m bench.personal [--rounds 20] [--seeds 2]

Of the ten people (fetched once with pip) one is left out at a time; the devices of all others train
a small net together, by federated averaging (FedAvg) and with the last layer local (FedPer,
Arivazhagan 2019). The devices of the person who was left out then get what was federated, train on
the earlier part of their own recordings, and are measured on the later part. Means over the
updates are taken in float64: bench.secure_accuracy says that masks change nothing.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from cloud import nn
from cloud.nn.loss import softmax_cross_entropy
from cloud.train.graphs import training_model
from cloud.train.optim import SGD
from examples.watch.data import EXERCISES, DeviceData, Floats, fetch, load, split
from fl_server.device import LiteTrainer, initial_weights
from fl_server.device.trainer import Work
from ir import model_file

INPUTS, HIDDEN, RATE, BATCH = 600, 32, 0.05, 16
LOCAL = ("2.*",)
LOCAL_EPOCHS, OWN_EPOCHS = 2, 10
COLUMNS = ("as it comes", "tuned", "local head", "alone")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--seeds", type=int, default=2)
    options = parser.parse_args()
    recordings = load(fetch(Path("out/watch")))
    found = []
    print("seed  person  " + "  ".join(f"{name:>11}" for name in COLUMNS))
    for seed in range(options.seeds):
        devices = split(recordings, seed, cloud_people=1, validation_people=1).devices
        for person in sorted({device.person for device in devices}):
            found.append(left_out(devices, person, seed, options.rounds))
            print(f"{seed:4}  {person:6}  " + _row(found[-1]), flush=True)
    print("mean          " + _row(np.mean(found, axis=0)))
    gain = np.array(found)[:, 2] - np.array(found)[:, 1]
    print(
        f"local head over tuned: {gain.mean():+.3f}, {int((gain > 0).sum())} of {len(gain)} times"
    )


def left_out(
    devices: Sequence[DeviceData], person: int, seed: int, rounds: int
) -> tuple[float, ...]:
    """Accuracy of the person's devices on their later windows, by column."""
    model = _model(seed)
    others = [d for d in devices if d.person != person]
    common = federated(model, others, (), seed, rounds)
    body = federated(model, others, LOCAL, seed, rounds)
    scores = []
    for i, device in enumerate(d for d in devices if d.person == person):
        own, later = _trainer(device, OWN_EPOCHS, seed + i), _trainer(device, 1, 0, later=True)
        tuned = common + own.train(common, model).delta
        trained = _trainer(device, OWN_EPOCHS, seed + i).follow(body, model, Work(local=LOCAL))
        personal = later.evaluate(
            body + trained.update.delta, model, Work(local=LOCAL, own=trained.own)
        )
        alone = initial_weights(model)
        alone = alone + _trainer(device, rounds * LOCAL_EPOCHS, seed + i).train(alone, model).delta
        scores.append(
            (
                later.evaluate(common, model),
                later.evaluate(tuned, model),
                personal,
                later.evaluate(alone, model),
            )
        )
    return tuple(float(score) for score in np.mean(scores, axis=0))


def federated(
    model: bytes, devices: Sequence[DeviceData], local: Sequence[str], seed: int, rounds: int
) -> Floats:
    """The shared weights after so many rounds."""
    weights = initial_weights(model, local)
    trainers = [_trainer(d, LOCAL_EPOCHS, 100 * seed + i) for i, d in enumerate(devices)]
    owns: list[Floats | None] = [None] * len(devices)
    for _ in range(rounds):
        deltas = []
        for i, trainer in enumerate(trainers):
            trained = trainer.follow(weights, model, Work(local=local, own=owns[i]))
            owns[i] = trained.own if local else None
            deltas.append(trained.update.delta)
        weights = (weights + np.mean(deltas, axis=0, dtype=np.float64)).astype(np.float32)
    return weights


def _model(seed: int) -> bytes:
    rng = np.random.default_rng(seed)
    layers = (
        nn.Linear(INPUTS, HIDDEN, rng=rng),
        nn.ReLU(),
        nn.Linear(HIDDEN, len(EXERCISES), rng=rng),
    )
    net = nn.Sequential(*layers)
    made = training_model(net, softmax_cross_entropy, SGD(RATE), {"x": ("batch", INPUTS)})
    return model_file.write(made)


def _trainer(device: DeviceData, epochs: int, seed: int, later: bool = False) -> LiteTrainer:
    windows = device.test if later else device.train
    data = {"x": windows.x.reshape(len(windows), -1), "label": windows.y}
    return LiteTrainer(data, epochs, BATCH, seed)


def _row(scores: Sequence[float] | np.ndarray) -> str:
    return "  ".join(f"{score:11.3f}" for score in scores)


if __name__ == "__main__":
    main()
