"""Synchronous rounds and buffers (FedBuff) beside each other, where some devices are slow.

    python -m bench.asynchrony [--devices 60] [--buffer 12] [--slow 0.2] [--slow-factor 10]

Every way trains the same linear model from the same start until its loss on all devices' data is
as low, under one seeded model of time (fl_server/timed.py): a device trains for about a minute, the
slow ones for ten. Seconds are modelled; what happens in them is the real server and protocol.
"""

from __future__ import annotations

import argparse
import json
from typing import Any

import numpy as np

from fl_server.device.linear import LinearTrainer
from fl_server.timed import Times, simulate_time

LENGTH, EXAMPLES = 16, 32


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--devices", type=int, default=60)
    parser.add_argument("--buffer", type=int, default=12)
    parser.add_argument("--slow", type=float, default=0.2)
    parser.add_argument("--slow-factor", type=float, default=10.0)
    parser.add_argument("--target-loss", type=float, default=0.05)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    figures = {name: measure(options, settings) for name, settings in ways(options).items()}
    if options.json:
        print(json.dumps(figures, indent=1))
        return
    fastest = figures["buffers"]["seconds"]
    for name, row in figures.items():
        ratio = row["seconds"] / fastest
        print(f"{name:34} {row['seconds']:9,.0f} s {row['rounds']:5} rounds {ratio:7.2f}")


def ways(options: argparse.Namespace) -> dict[str, dict[str, Any]]:
    """The settings of each way."""
    few = {"min_cohort": options.buffer, "target_cohort": options.buffer}
    return {
        "rounds that wait for all": dict.fromkeys(few, options.devices),
        "rounds of those who come first": few,
        "buffers": few | {"max_staleness": 50},
    }


def measure(options: argparse.Namespace, settings: dict[str, Any]) -> dict[str, Any]:
    times = Times(options.seed, slow=options.slow, slow_factor=options.slow_factor)
    common = {"rounds": 1000, "join_s": 86400, "clip_value": 4.0}
    course = simulate_time(
        devices(options.devices, options.seed),
        b"a linear model",
        np.zeros(LENGTH, np.float32),
        times,
        settings=common | settings,
        target_loss=options.target_loss,
    )
    if course.reached is None:
        raise SystemExit(f"loss {options.target_loss} was never reached")
    late = [point.staleness for point in course.points]
    return {"seconds": course.reached, "rounds": len(late), "most versions behind": max(late)}


def devices(count: int, seed: int) -> list[LinearTrainer]:
    """Two steps at a time, so that the hidden line takes some rounds."""
    hidden, made = np.random.default_rng(seed).normal(size=LENGTH), []
    for i in range(count):
        rng = np.random.default_rng([seed, i + 1])
        x = rng.normal(size=(EXAMPLES, LENGTH)) + 0.3 * rng.normal(size=LENGTH)
        y = x @ hidden + 0.1 * rng.normal(size=EXAMPLES)
        made.append(LinearTrainer(x.astype(np.float32), y.astype(np.float32), steps=2, rate=0.05))
    return made


if __name__ == "__main__":
    main()
