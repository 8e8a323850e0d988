"""Federated averaging on Fashion-MNIST as NIID-Bench has it (Li et al. 2022).

    python -m bench.fashion --split dirichlet:0.5 --data FOLDER [--rounds 50] [--quick] [--secure]

Ten clients, all in every round, train their net for ten epochs a round: two convolutions of 5 x 5
with 6 and 16 channels, three dense layers, batches of 64, SGD with rate 0.01, momentum 0.9 and
weight decay 1e-5, momentum beginning anew in each round. Clients train by the device's own trainer
on the runtime; the mean, weighted by examples, is taken in float64, or with --secure by the
protocol, and made into weights by a strategy of the server, plain averaging unless --strategy
names another. Accuracy is that on the 10,000 test images, with --secure beside that of the other
mean of the same updates. Every round is kept in --output as it ends, and a run that was stopped
goes on from there.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from bench.secagg import NOW, Seeded, member
from cloud.models.classic import lenet
from cloud.nn.loss import softmax_cross_entropy
from cloud.train.graphs import training_model
from cloud.train.optim import Momentum
from fl_server.device import LiteTrainer, initial_weights
from fl_server.fleet.datasets import Arrays, idx_images
from fl_server.fleet.splits import Labels, split_of
from fl_server.secagg.certificate import revoke
from fl_server.secagg.encode import Floats, Mean, Update
from fl_server.secagg.keys import Identity
from fl_server.secagg.messages import Context
from fl_server.secagg.params import Encoding
from fl_server.secagg.policy import Policy
from fl_server.secagg.run import run_round
from fl_server.strategy import STRATEGIES
from ir import model_file
from ir.files import write_whole

CLIENTS, EPOCHS, BATCH, RATE, MOMENTUM, DECAY = 10, 10, 64, 0.01, 0.9, 1e-5
PLAIN = sorted(STRATEGIES.keys() - {"scaffold"})  # what needs no control variates
# Of FedAvg after 50 rounds.
PUBLISHED = {"iid": 89.2, "dirichlet:0.5": 88.1, "labels:2": 78.1}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--split", default="iid", help="%(default)s, dirichlet:ALPHA or labels:K")
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--epochs", type=int, default=EPOCHS)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--strategy", default="fedavg", choices=PLAIN, help="(%(default)s)")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=NUMBER", help="of it")
    parser.add_argument("--secure", action="store_true", help="means by secure aggregation")
    parser.add_argument("--quick", action="store_true", help="3 rounds of one epoch")
    parser.add_argument("--data", type=Path, default=Path("out/fashion-mnist"), help="idx files")
    parser.add_argument("--output", type=Path, help="JSON; else in out/fashion")
    parser.add_argument("--model", type=Path, help="write the net as a .ms file and end")
    options = parser.parse_args()
    if options.model:
        write_whole(options.model, model_of(options.seed))
        return
    if options.quick:
        options.rounds, options.epochs = 3, 1
    found = run(options)
    course = found["accuracy"]
    print(
        f"{options.split}: {course[-1]:.2f} % after {len(course)} rounds, "
        f"best {max(course):.2f} %, published {PUBLISHED.get(options.split, float('nan'))} %"
    )


def run(options: argparse.Namespace) -> dict[str, Any]:
    """Accuracy in percent after each round, and what it was measured with."""
    data = idx_images(options.data)
    rng = np.random.default_rng([options.seed, 1])
    rows = split_of(options.split)(Labels(data.train["label"]), CLIENTS, rng)
    model = model_of(options.seed)
    numbers = dict(text.split("=") for text in options.set)
    strategy = STRATEGIES[options.strategy](**{name: float(x) for name, x in numbers.items()})
    test = LiteTrainer(data.test)
    place = options.output or Path(f"out/fashion/{_name(options)}.json")
    found, state = _kept(place, options, [len(part) for part in rows])
    weights = initial_weights(model)
    moments = strategy.start(weights.size)
    if state is not None:
        weights, moments = state[: weights.size], state[weights.size :].reshape(moments.shape)
    aggregate = Secure(weights.size).mean if options.secure else plain_mean
    for number in range(len(found["accuracy"]), options.rounds):
        start = time.process_time()
        updates = {
            i + 1: trained(_rows(data.train, part), weights, model, options, (number, i))
            for i, part in enumerate(rows)
        }
        if options.secure:
            beside, _ = strategy.apply(weights, plain_mean(updates, number), moments)
            found["plain"].append(_percent(test.measure(beside, model)))
        weights, moments = strategy.apply(weights, aggregate(updates, number), moments)
        scored = test.measure(weights, model)
        found["accuracy"].append(_percent(scored))
        found["loss"].append(round(scored.loss, 4))
        found["cpu_s"].append(round(time.process_time() - start, 1))
        write_whole(place.with_suffix(".f32"), weights.tobytes() + moments.tobytes())
        write_whole(place, json.dumps(found, indent=1).encode())
        plain = f", by the plain mean {found['plain'][-1]:.2f} %" if options.secure else ""
        print(f"round {number + 1}: {found['accuracy'][-1]:.2f} %{plain}", flush=True)
    return found


def trained(
    data: Arrays, weights: Floats, model: bytes, options: argparse.Namespace, turn: tuple[int, int]
) -> Update:
    """The update of one client in one round, the order of its examples its own."""
    seed = int(np.random.SeedSequence([options.seed, *turn]).generate_state(1)[0])
    trainer = LiteTrainer(data, options.epochs, BATCH, seed, weight="examples")
    return trainer.train(weights, model)


def plain_mean(updates: Mapping[int, Update], number: int) -> Mean:
    """The mean in float64, weighted by examples."""
    weights = [update.weight for update in updates.values()]
    deltas = [update.delta for update in updates.values()]
    delta = np.average(np.stack(deltas).astype(np.float64), axis=0, weights=weights)
    return Mean(delta, len(updates), sum(weights), 0.0, 0, sum(weights), len(updates), 0)


class Secure:
    """The protocol in memory, with a session for each round, 16 bits, and weights to 2^16."""

    def __init__(self, length: int) -> None:
        self._encoding = Encoding(length, 16, 2**16, 50.0, 1.0, 10.0)

    def mean(self, updates: Mapping[int, Update], number: int) -> Mean:
        authority, draw = Identity(bytes(32)), Seeded()
        people = [member(i, authority) for i in range(CLIENTS)]
        context = Context("bench", "default", "fashion", number, bytes(32))
        nobody = revoke(authority, 1, set())
        arguments = context, self._encoding, nobody, draw, Policy(2), NOW
        mean = run_round(people, updates, *arguments).mean()
        if mean.within_clip < CLIENTS or mean.saturated:
            raise SystemExit(f"round {number}: an update was clipped, which the plain mean is not")
        return mean


def model_of(seed: int) -> bytes:
    """SimpleCNN of NIID-Bench     image: [n, 28, 28, 1]"""
    rng = np.random.default_rng(seed)
    net = lenet(padding=0, rng=rng)
    optimizer = Momentum(RATE, momentum=MOMENTUM, weight_decay=DECAY)
    inputs = {"image": ("batch", 28, 28, 1)}
    return model_file.write(training_model(net, softmax_cross_entropy, optimizer, inputs))


def _percent(scored: Update) -> float:
    return 100 * scored.correct / scored.examples


def _rows(data: Arrays, rows: np.ndarray) -> Arrays:
    return {name: array[rows] for name, array in data.items()}


def _name(options: argparse.Namespace) -> str:
    kind = "-secure" if options.secure else ""
    words = options.split.replace(":", "-"), options.strategy, *options.set
    return f"{'-'.join(words)}{kind}-{options.epochs}-{options.seed}"


def _kept(
    place: Path, options: argparse.Namespace, sizes: list[int]
) -> tuple[dict[str, Any], Floats | None]:
    """What an earlier run has left, if it was of the same settings."""
    setting = {
        "split": options.split,
        "epochs": options.epochs,
        "seed": options.seed,
        "secure": options.secure,
        "strategy": [options.strategy, *options.set],
        "examples": sizes,
    }
    place.parent.mkdir(parents=True, exist_ok=True)
    state = place.with_suffix(".f32")
    if place.exists() and state.exists():
        found = json.loads(place.read_text())
        if {name: found.get(name) for name in setting} == setting:
            return found, np.frombuffer(state.read_bytes(), np.float32)
    return setting | {"accuracy": [], "plain": [], "loss": [], "cpu_s": []}, None


if __name__ == "__main__":
    main()
