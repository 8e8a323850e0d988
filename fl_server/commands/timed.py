"""ms-simulate --timed: rounds under a seeded model of time."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

from fl_server.console import progress

if TYPE_CHECKING:
    from fl_server.secagg.encode import Floats
    from fl_server.timed import Learner, Point


def add_times(parser: argparse.ArgumentParser) -> None:
    """The options of a model of time."""
    group = parser.add_argument_group("in modelled time")
    group.add_argument(
        "--timed", action="store_true", help="no HTTP and no waiting: seconds are of a model"
    )
    group.add_argument("--train-s", type=float, default=60.0, help="of a device (%(default)s)")
    group.add_argument("--slow", type=float, default=0.1, help="share of devices (%(default)s)")
    group.add_argument(
        "--slow-factor", type=float, default=10.0, help="so much slower they are (%(default)s)"
    )
    group.add_argument("--target-loss", type=float, help="end once the loss is as low")


def run_timed(
    options: argparse.Namespace, trainers: Sequence[Learner], model: bytes, weights: Floats
) -> int:
    """Print when the weights changed, and how well they do."""
    from fl_server.timed import Times, simulate_time

    times = Times(options.seed, options.train_s, slow=options.slow, slow_factor=options.slow_factor)
    sizes = {"min_cohort": 2, "target_cohort": len(trainers), "join_s": 7 * 86400}
    lowest = -float("inf") if options.target_loss is None else options.target_loss

    def tell(point: Point) -> None:
        late = f", {point.staleness} versions behind" if point.staleness else ""
        progress(f"{point.seconds:.0f} s: round {point.round}, loss {point.loss:.4f}{late}")

    settings = {**sizes, "rounds": options.rounds, **dict(options.set)}
    course = simulate_time(
        trainers, model, weights, times, settings=settings, target_loss=lowest, progress=tell
    )
    if options.json:
        print(json.dumps(course.figures(), indent=1))
        return 0
    last = course.points[-1]
    print(f"{len(course.points)} rounds in {last.seconds:.0f} s, loss {last.loss:.4f}")
    if options.target_loss is not None:
        when = "never" if course.reached is None else f"after {course.reached:.0f} s"
        print(f"loss {options.target_loss:g}: {when}")
    return 0
