"""Where devices train: processes of Ray give what this process gives, or say what is missing."""

from __future__ import annotations

import gc
import json
import subprocess
import sys
from collections.abc import Iterator

import numpy as np
import pytest

from fl_server.cli import simulate
from fl_server.device.linear import LinearTrainer, synthetic_device
from fl_server.device.trainer import Work
from fl_server.errors import SettingsError
from fl_server.fleet.engines import Begins, begin, engine_of
from fl_server.timed import Times, simulate_time
from tests.helpers import ROOT

DEVICES, START = 6, np.zeros(16, np.float32)
SETTINGS = {"rounds": 3, "min_cohort": 3, "target_cohort": 5, "join_s": 900, "clip_value": 4.0}


def devices() -> list[LinearTrainer]:
    return [synthetic_device(i) for i in range(DEVICES)]


def course_of(trainers):
    times = Times(seed=2, drop=0.2)
    return simulate_time(trainers, b"m", START, times, settings=SETTINGS)


@pytest.fixture(scope="module")
def on_ray() -> Iterator[list]:
    ray = pytest.importorskip("ray")
    ours = processes()
    try:
        # Processors that Ray counts: two for these devices, two for those of a command beside them.
        ray.init(num_cpus=4, log_to_driver=False, logging_level="error", include_dashboard=False)
        with engine_of("ray", devices(), workers=2) as trainers:
            yield trainers
    finally:
        rays = [process for process in processes() if process not in ours]
        ray.shutdown()
        for process in rays:  # it ends them all and does not wait for each
            process.wait(60)


def processes() -> list[subprocess.Popen]:
    """Those of this process that anything still holds."""
    return [thing for thing in gc.get_objects() if isinstance(thing, subprocess.Popen)]


def test_a_simulation_on_ray_is_the_one_in_this_process_bit_for_bit(on_ray):
    here, there = course_of(devices()), course_of(on_ray)
    assert there.figures() == here.figures()
    assert np.array_equal(there.weights, here.weights)
    assert len(here.points) == 3
    assert here.gone


def test_devices_on_ray_train_at_the_same_time_and_do_all_that_trainers_do(on_ray):
    assert all(isinstance(trainer, Begins) for trainer in on_ray)
    waiting = [begin(trainer, START, b"m") for trainer in on_ray]
    work = Work(correction=np.full(16, 0.1, np.float32))
    for there, here, update in zip(on_ray, devices(), waiting, strict=True):
        assert np.array_equal(update().delta, here.train(START, b"m").delta)
        assert there.measure(START, b"m").loss == here.measure(START, b"m").loss
        trained = here.follow(START, b"m", work)
        assert np.array_equal(there.follow(START, b"m", work).update.delta, trained.update.delta)
        assert there.measure_own(START, b"m", Work()).examples == 64


def test_what_a_trainer_on_ray_raises_is_raised_here(on_ray):
    with pytest.raises(SettingsError, match="local head: a linear model names no weights"):
        on_ray[1].follow(START, b"m", Work(local=("head",)))
    with pytest.raises(ValueError, match="size 3 is different from 16"):
        on_ray[0].train(START[:3], b"m")


def test_the_command_gives_the_same_figures_on_ray(on_ray, capsys):
    given = ["--timed", "--devices", "4", "--rounds", "2", "--set", "clip_value=4", "--json"]
    found = []
    for engine in ([], ["--engine", "ray", "--workers", "2"]):
        assert simulate([*given, *engine]) == 0
        found.append(json.loads(capsys.readouterr().out))
    assert found[0] == found[1]
    assert len(found[0]["points"]) == 2


def test_more_workers_than_processors_are_refused_and_do_not_wait_for_ever(on_ray, capsys):
    given = ["--timed", "--devices", "6", "--engine", "ray", "--workers", "5"]
    assert simulate(given) == 1
    error = "engine ray: 5 workers, want 1 to 4, the cluster's processors"
    assert capsys.readouterr().err == f"ms-simulate: {error}\n"


def test_without_ray_the_command_names_the_extra():
    code = (
        "import sys; sys.modules['ray'] = None\n"
        "from fl_server.cli import simulate; sys.exit(simulate(['--timed', '--engine', 'ray']))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr.startswith("ms-simulate: engine ray: pip install 'mindspan[ray]': ")
    assert done.stderr.count("\n") == 1
