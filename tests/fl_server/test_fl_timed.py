"""Rounds under a model of time: buffers do not wait for the slow, and lose nothing by it."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from fl_server.cli import simulate
from fl_server.device.linear import LinearTrainer
from fl_server.errors import RoundFailed, SettingsError
from fl_server.secagg.encode import Update
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


def test_the_command_tells_what_privacy_has_cost_and_why_a_task_ended_early(capsys):
    given = ["--timed", "--devices", "6", "--rounds", "9", "--set", "noise_multiplier=2"]
    assert simulate([*given, "--set", "epsilon=3", "--set", "clip_norm=0.1"]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[0].startswith("2 rounds in ")
    assert said[1] == "ended before round 9: another round would spend more than epsilon 3"
    assert said[2].startswith("  spent: epsilon 2.9")
    assert simulate([*given[:4], "2", *given[5:], "--set", "clip_norm=0.1", "--json"]) == 0
    figures = json.loads(capsys.readouterr().out)
    assert (figures["ended"], figures["privacy"]["rounds"]) == ("", 2)


def test_a_loss_that_is_no_number_is_no_target():
    with pytest.raises(SettingsError, match="target_loss is nan"):
        course_of(math.nan)


def test_devices_that_go_away_are_left_out_of_the_sums_and_come_back():
    everybody = {"min_cohort": 4, "target_cohort": DEVICES, "join_s": 300, "rounds": 8}
    course = course_of(-np.inf, Times(seed=1, slow=0.0, drop=0.2), **everybody)
    assert len(course.points) == 8
    assert course.gone.keys() == {"training", "advertise", "share", "vector", "agree"}
    assert any(point.clients < point.joined for point in course.points)
    assert any(point.joined < DEVICES for point in course.points)
    assert sum(course.gone.values()) > DEVICES  # so some came back, and went once more
    with pytest.raises(RoundFailed, match="after 3 rounds; of a round that failed late, who has"):
        course_of(-np.inf, Times(seed=8, slow=0.0, drop=0.2), **everybody)
    whole = course_of(target_loss=-np.inf, rounds=2, min_cohort=DEVICES, target_cohort=DEVICES)
    assert whole.gone == {}
    assert [(p.clients, p.joined) for p in whole.points] == [(DEVICES, DEVICES)] * 2


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"drop": 1.0}, "drop is 1.0, want a chance"),
        ({"away_s": 0.0}, "away_s is 0.0, want above 0"),
        ({"away_s": math.nan}, "away_s is nan, want above 0"),
        ({"train_s": math.inf}, "train_s is inf, want above 0"),
        ({"slow_factor": math.nan}, "slow_factor is nan, want 1 to 1000"),
        ({"spread": -1.0}, "spread is -1.0, want 0 to 10"),
    ],
)
def test_times_that_no_device_has_are_refused(setting, message):
    with pytest.raises(SettingsError, match=message):
        Times(**setting)


@pytest.mark.parametrize("setting", [{"strategy": "scaffold"}, {"local": "head.*"}])
def test_what_needs_more_than_an_update_is_refused_in_modelled_time(setting):
    with pytest.raises(SettingsError, match="modelled time has neither strategy scaffold nor"):
        course_of(**setting)


def test_fewer_bytes_are_sent_in_modelled_time_as_a_task_says():
    some = course_of(target_loss=-np.inf, rounds=2, kept=0.5, rotate=True)
    every = course_of(target_loss=-np.inf, rounds=2)
    assert len(some.points) == len(every.points) == 2
    assert not np.array_equal(some.weights, every.weights)


def test_a_held_out_set_measures_in_the_devices_stead():
    class Told:
        def measure(self, weights, model):
            return Update(np.zeros(0, np.float32), loss=float(weights[0]), correct=3, examples=4)

    sizes = {"min_cohort": 3, "target_cohort": 3, "clip_value": 4.0, "rounds": 2, "join_s": 900}
    start = np.zeros(LENGTH, np.float32)
    course = simulate_time(devices(), b"m", start, TIMES, settings=sizes, test=Told())
    assert [point.accuracy for point in course.points] == [0.75, 0.75]
    assert course.points[-1].loss == float(course.weights[0])
