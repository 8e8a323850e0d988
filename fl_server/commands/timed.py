"""ms-simulate --timed: rounds under a seeded model of time."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from fl_server.commands.operator import show_spent
from fl_server.console import progress
from fl_server.secagg.policy import COHORT_FLOOR

if TYPE_CHECKING:
    from fl_server.device.trainer import Measures
    from fl_server.fleet.engines import Learner
    from fl_server.secagg.encode import Floats
    from fl_server.timed import Course, Point


@dataclass(frozen=True)
class Fleet:
    """The devices of a simulation, what they train, and what measures it (none: they do)."""

    trainers: Sequence[Learner]
    model: bytes
    weights: Floats
    test: Measures | None = None

    def at(self, trainers: Sequence[Learner]) -> Fleet:
        """The same devices where these stand for them."""
        return replace(self, trainers=trainers)


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
    group.add_argument(
        "--drop-out",
        type=float,
        default=0.0,
        metavar="CHANCE",
        help="with which a device goes away in a round, at a stage by chance (%(default)s)",
    )
    group.add_argument(
        "--away-s", type=float, default=600.0, help="until it comes back (%(default)s)"
    )
    group.add_argument("--target-loss", type=float, help="end once the loss is as low")


def check_times(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    """What only one kind of simulation has is wrong usage in the other."""
    if options.timed and options.drop:
        parser.error("--timed has no --drop, which is of one device; --drop-out is of all")
    if options.drop_out and not options.timed:
        parser.error(f"--drop-out {options.drop_out:g} needs --timed; without it there is --drop")


def run_timed(options: argparse.Namespace, fleet: Fleet) -> int:
    """Print when the weights changed, and how well they do."""
    from fl_server.timed import Times, simulate_time

    times = Times(
        options.seed,
        options.train_s,
        slow=options.slow,
        slow_factor=options.slow_factor,
        drop=options.drop_out,
        away_s=options.away_s,
    )
    # Where devices go away, a round waits for the slow ones and no longer.
    longest = 2 * options.train_s * options.slow_factor if options.drop_out else 7 * 86400
    target = dict(options.set).get("target_cohort", len(fleet.trainers))
    least = min(max(target // 2, 2), COHORT_FLOOR)
    sizes = {"min_cohort": least, "target_cohort": target, "join_s": longest}
    lowest = -float("inf") if options.target_loss is None else options.target_loss
    course = simulate_time(
        fleet.trainers,
        fleet.model,
        fleet.weights,
        times,
        settings={**sizes, "rounds": options.rounds, **dict(options.set)},
        target_loss=lowest,
        test=fleet.test,
        progress=_tell,
    )
    if options.plot:
        _plot(options.plot, course, f"{len(fleet.trainers)} devices in modelled time")
    if options.json:
        print(json.dumps(course.figures(), indent=1))
        return 0
    last = course.points[-1]
    right = "" if last.accuracy is None else f", accuracy {last.accuracy:.4f}"
    print(f"{len(course.points)} rounds in {last.seconds:.0f} s, loss {last.loss:.4f}{right}")
    if course.ended:
        print(f"ended before round {options.rounds}: {course.ended}")
    if course.privacy:
        show_spent(course.privacy)
    if course.gone:
        went = ", ".join(f"{count} after {what}" for what, count in course.gone.items())
        print(f"went away: {went}; {course.failed_rounds} rounds failed")
    if options.target_loss is not None:
        when = "never" if course.reached is None else f"after {course.reached:.0f} s"
        print(f"loss {options.target_loss:g}: {when}")
    return 0


def _tell(point: Point) -> None:
    late = f", {point.staleness} versions behind" if point.staleness else ""
    right = "" if point.accuracy is None else f", accuracy {point.accuracy:.4f}"
    who = f", {point.clients} of {point.joined} devices"
    progress(f"{point.seconds:.0f} s: round {point.round}, loss {point.loss:.4f}{right}{who}{late}")


def _plot(path: Path, course: Course, title: str) -> None:
    from fl_server.fleet.plots import Step, write_plot

    steps = [Step(p.seconds, p.loss, p.accuracy, p.clients, p.joined) for p in course.points]
    write_plot(path, steps, "modelled seconds", title)
