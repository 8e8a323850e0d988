"""ms-simulate: many devices on one machine, over HTTP or in modelled time."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fl_server.commands.operator import add_settings, local_of, show
from fl_server.commands.timed import add_times, check_times, run_timed
from fl_server.console import parser_of, progress
from fl_server.errors import SettingsError
from fl_server.secagg.policy import COHORT_FLOOR
from fl_server.secagg.run import Stage

if TYPE_CHECKING:
    from fl_server.commands.timed import Fleet
    from fl_server.fleet.engines import Learner
    from fl_server.simulation import Simulated

_EXAMPLES = """\
  ms-simulate --devices 24 --rounds 3         a linear model over made-up data
  ms-simulate --model model.ms --data devices/ --drop share --drop vector --json
  ms-simulate --timed --slow 0.1 --rounds 50 --set target_cohort=4 --set max_staleness=20
  ms-simulate --timed --model model.ms --data fashion-mnist/ --split dirichlet:0.5 \\
              --devices 1000 --drop-out 0.05 --engine ray --plot course.png"""
_MOST_OVER_HTTP = 256


def parser() -> argparse.ArgumentParser:
    made = parser_of("ms-simulate", "Many devices on one machine.", _EXAMPLES)
    made.add_argument(
        "--devices", type=int, default=24, help="for made-up and divided data (%(default)s)"
    )
    made.add_argument("--rounds", type=int, default=3, help="(%(default)s)")
    made.add_argument("--model", type=Path, metavar="M.ms", help="train this model on --data")
    made.add_argument(
        "--data",
        type=Path,
        metavar="PLACE",
        help="a folder with one .npz for each device; with --split, an .npz, or a folder with the "
        "files of MNIST or Fashion-MNIST",
    )
    made.add_argument(
        "--split",
        metavar="HOW",
        help="divide --data: iid, dirichlet:ALPHA, labels:K (classes a device), or user",
    )
    made.add_argument("--epochs", type=int, default=1, help="of a device (%(default)s)")
    made.add_argument("--batch-size", type=int, default=16, help="(%(default)s)")
    made.add_argument("--seed", type=int, default=0, help="of data and order (%(default)s)")
    made.add_argument(
        "--engine",
        choices=["process", "ray"],
        default="process",
        help="where devices train: here, or in processes of Ray (%(default)s)",
    )
    made.add_argument("--workers", type=int, help="processes of Ray (one for each processor)")
    made.add_argument(
        "--drop",
        action="append",
        default=[],
        choices=[stage.name.lower() for stage in Stage if stage != Stage.REVEAL],
        help="one more device vanishes after this stage; may be repeated",
    )
    made.add_argument(
        "--hostile",
        type=int,
        default=0,
        metavar="N",
        help="devices that send opposites (%(default)s)",
    )
    add_settings(made)
    add_times(made)
    made.add_argument("--json", action="store_true", help="all figures")
    made.add_argument("--plot", type=Path, metavar="FILE", help="a picture, .png or .svg")
    return made


def run(arguments: Sequence[str] | None) -> int:
    made = parser()
    options = made.parse_args(arguments)
    _check(made, options)
    from fl_server.fleet.engines import engine_of
    from fl_server.fleet.plots import check_plot

    if options.plot:
        check_plot(options.plot)
    fleet = _fleet(options)
    with engine_of(options.engine, fleet.trainers, options.workers) as trainers:
        fleet = fleet.at(_players(trainers, options))
        return run_timed(options, fleet) if options.timed else _run_over_http(options, fleet)


def _check(made: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    """Options that no simulation has are wrong usage."""
    from fl_server.secagg.messages import MOST_CLIENTS

    most = MOST_CLIENTS if options.timed else _MOST_OVER_HTTP
    if not 2 <= options.devices <= most or options.rounds < 1:
        given = f"{options.devices} devices and {options.rounds} rounds"
        more = "" if options.timed else "; more devices with --timed"
        made.error(f"{given}, want 2 to {most} and 1 or more{more}")
    if not 0 <= options.hostile <= options.devices:
        made.error(f"--hostile {options.hostile}: want 0 to {options.devices}, the devices")
    if options.seed < 0:
        made.error(f"--seed {options.seed}: want 0 or more")
    if options.workers is not None and (options.workers < 1 or options.engine != "ray"):
        made.error(f"--workers {options.workers}: want 1 or more, with --engine ray")
    if options.model and not options.data:
        made.error("--model needs --data, a folder with a .npz file for each device")
    if options.split and not (options.model and options.data):
        made.error("--split divides --data among devices that train --model")
    check_times(made, options)
    try:
        from fl_server.task_settings import TaskSettings

        TaskSettings.checked(name="simulated", **dict(options.set))
    except ImportError:
        return  # said where the server is started
    except SettingsError as error:
        made.error(f"--set: {error}")


def _fleet(options: argparse.Namespace) -> Fleet:
    """The devices with their data, before it is said where they train."""
    from fl_server.commands.timed import Fleet
    from fl_server.device.linear import synthetic_device
    from fl_server.device.trainer import LiteTrainer, load_examples
    from fl_server.device.weights import initial_weights

    if not options.model:
        made = [synthetic_device(i, seed=options.seed) for i in range(options.devices)]
        return Fleet(made, b"linear", np.zeros(16, np.float32))
    model = options.model.read_bytes()
    weights, test = initial_weights(model, local_of(options.set)), None
    if options.split:
        parts, test = _divided(options)
    else:
        parts = [load_examples(f) for f in sorted(options.data.glob("*.npz"))]
        if not parts:
            raise SettingsError(f"{options.data}: holds no .npz file; want one for each device")
    trainers = [
        LiteTrainer(part, options.epochs, options.batch_size, options.seed + i)
        for i, part in enumerate(parts)
    ]
    return Fleet(trainers, model, weights, LiteTrainer(test) if test else None)


def _divided(options: argparse.Namespace) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """The examples of each device, and those that are held out."""
    from fl_server.device.trainer import load_examples
    from fl_server.fleet.datasets import LABEL, from_arrays, idx_images
    from fl_server.fleet.splits import Labels, split_of

    split = split_of(options.split)
    if options.data.is_dir():
        data = idx_images(options.data)
    else:
        data = from_arrays(load_examples(options.data), str(options.data))
    rng = np.random.default_rng([options.seed, 1])
    rows = split(Labels(data.train[LABEL], data.user), options.devices, rng)
    parts = [{name: array[part] for name, array in data.train.items()} for part in rows]
    sizes = sorted(len(part) for part in rows)
    middle = sizes[len(sizes) // 2]
    progress(f"{len(rows)} devices of {sizes[0]} to {sizes[-1]} examples, half of them {middle}")
    return parts, data.test


def _players(trainers: Sequence[Learner], options: argparse.Namespace) -> list[Learner]:
    from fl_server.device.hostile import Flipped

    norm = float(dict(options.set).get("clip_norm", 10.0))
    honest = len(trainers) - options.hostile
    return [*trainers[:honest], *(Flipped(trainer, norm) for trainer in trainers[honest:])]


def _run_over_http(options: argparse.Namespace, fleet: Fleet) -> int:
    from fl_server.simulation import simulate

    stages = [Stage[name.upper()] for name in options.drop]
    # Nobody waits for who has vanished; where nobody does, a busy machine has the time it needs.
    settings = {"join_s": 60}
    if stages:
        settings = {"join_s": 4, "share_s": 4, "vector_s": 4, "agree_s": 4, "reveal_s": 4}
    most = len(fleet.trainers)
    fewest = min(COHORT_FLOOR, most - len(stages))
    settings |= {"min_cohort": fewest, "target_cohort": most, **dict(options.set)}
    floor = _floor(settings, fewest)
    if floor < COHORT_FLOOR:
        progress(f"warning: a cohort of {floor} hides nobody; {COHORT_FLOOR} is the floor")
    result = simulate(
        fleet.trainers,
        fleet.model,
        fleet.weights,
        rounds=options.rounds,
        cohort_floor=floor,
        stop_after=dict(enumerate(stages)),
        settings=settings,
        progress=progress,
    )
    if options.plot:
        _plot(options.plot, result)
    if options.json:
        print(json.dumps(result.figures(), indent=1))
    else:
        show(result.status, False)
        print(f"{len(fleet.trainers)} devices, {result.seconds:.1f} s")
    return 0


def _floor(settings: Mapping[str, Any], fewest: int) -> int:
    """The fewest that devices are summed with: no more than the task may ask for, which they all
    decline else.     raises SettingsError"""
    from fl_server.task_settings import TaskSettings

    task = TaskSettings.checked(name="simulated", **settings)
    return min(fewest, task.layout.least_shard(task.min_cohort, task.selected))


def _plot(path: Path, result: Simulated) -> None:
    """Of what the devices measured of the weights that a round began from."""
    from fl_server.fleet.plots import Step, write_plot

    steps = [
        Step(
            entry["number"],
            entry.get("loss"),
            entry["correct"] / entry["examples"] if entry.get("correct") else None,
            entry["survivors"],
            entry["clients"],
        )
        for entry in result.status["rounds"]
        if entry["stage"] == "finished"
    ]
    write_plot(path, steps, "round", f"{len(result.reports)} devices")
