"""Rounds under a model of time: buffers do not wait for the slow, and lose nothing by it."""

from __future__ import annotations

import json

import numpy as np
import pytest

from fl_server.cli import simulate
from fl_server.device.linear import LinearTrainer
from fl_server.errors import RoundFailed, SettingsError
from fl_server.timed import Times, simulate_time

DEVICES, BUFFER, LENGTH = 12, 3, 8
TIMES = Times(seed=3, slow=0.25)


def devices() -> list[LinearTrainer]:
    """Few steps at a time, so that it takes some rounds to get to the hidden line."""
    hidden, made = np.random.default_rng(0).normal(size=LENGTH), []
    for i in range(DEVICES):
        rng = np.random.default_rng([0, i + 1])
        x = rng.normal(size=(32, LENGTH))
        y = x @ hidden + 0.1 * rng.normal(size=32)
        made.append(LinearTrainer(x.astype(np.float32), y.astype(np.float32), steps=2))
    return made


def course_of(target_loss: float = 0.6, times: Times = TIMES, **settings):
    sizes = {"min_cohort": BUFFER, "target_cohort": BUFFER, "join_s": 86400, "clip_value": 4.0}
    start = np.zeros(LENGTH, np.float32)
    return simulate_time(
        devices(), b"m", start, times,
        settings=sizes | {"rounds": 100} | settings, target_loss=target_loss,
    )  # fmt: skip


def test_buffers_reach_the_same_loss_in_less_than_half_the_time_of_rounds_that_wait_for_all():
    everybody = course_of(min_cohort=DEVICES, target_cohort=DEVICES)
    buffered = course_of(max_staleness=20)
    assert max(p.loss for p in (everybody.points[-1], buffered.points[-1])) <= 0.6
    assert 2 * buffered.reached < everybody.reached
    # Rounds that wait for all wait for the slow, who take 600 s each time; buffers do not.
    assert everybody.points[0].seconds > 400
    assert buffered.points[0].seconds < 100


def test_the_slow_take_part_with_updates_that_are_behind():
    times = Times(seed=3, slow=0.25, slow_factor=4.0)
    course = course_of(target_loss=-np.inf, times=times, max_staleness=40, rounds=14)
    assert [point.round for point in course.points if point.staleness > 6]
    assert len(course.points) == 14


def test_a_seed_gives_the_same_seconds_and_weights_and_another_seed_others():
    first, again = (course_of(rounds=2, target_loss=-np.inf, max_staleness=9) for _ in range(2))
    assert first.figures() == again.figures()
    assert Times(seed=1).of_devices(9) != Times(seed=2).of_devices(9)
    assert sorted(Times(spread=0.0, slow=0.2).of_devices(10)) == [60.0] * 8 + [600.0] * 2


def test_devices_that_cannot_go_on_end_the_simulation_with_an_error():
    with pytest.raises(RoundFailed, match="no device moves any more after 0 rounds"):
        course_of(min_cohort=DEVICES + 1, target_cohort=DEVICES + 1)
    with pytest.raises(SettingsError, match="slow is 2, want a share from 0 to 1"):
        Times(slow=2)


def test_the_command_tells_when_a_loss_is_reached(capsys):
    given = ["--timed", "--devices", "6", "--rounds", "4", "--target-loss", "50"]
    more = ["--set", "target_cohort=3", "--set", "max_staleness=9", "--set", "clip_value=4"]
    assert simulate([*given, *more]) == 0
    told = capsys.readouterr()
    assert told.out.startswith("1 rounds in ")
    assert "loss 50: after " in told.out
    assert "s: round 1, loss " in told.err
    assert simulate([*given, *more, "--json"]) == 0
    figures = json.loads(capsys.readouterr().out)
    assert figures["reached"] == figures["points"][0]["seconds"]
    with pytest.raises(SystemExit):
        simulate(["--timed", "--drop", "share"])
    assert "--timed has no --drop" in capsys.readouterr().err
