"""Robust rules: averaging breaks under devices that flip signs, the rules hold."""

from __future__ import annotations

import numpy as np
import pytest
from fl_fleet import MODEL, serving, task_settings
from fl_people import Table
from fl_world import NeverTrains

from fl_server import task_checks
from fl_server.device import Device, Policy
from fl_server.device.hostile import Flipped
from fl_server.device.linear import LinearTrainer
from fl_server.errors import EncodingMismatch, RoundFailed, SettingsError
from fl_server.secagg import client
from fl_server.secagg.cohort import Layout
from fl_server.secagg.encode import Update, encode
from fl_server.strategy.robust import RULES, combine
from fl_server.task_settings import TaskSettings

LENGTH, CLIP = 6, 4.0
START = np.zeros(LENGTH, np.float32)
HIDDEN = np.random.default_rng(0).normal(size=LENGTH)
RULE_NAMES = ["median", "trimmed_mean", "krum", "multi_krum"]


def trainer(i: int, hostile: bool = False):
    rng = np.random.default_rng([1, i])
    x = rng.normal(size=(40, LENGTH))
    y = x @ HIDDEN + 0.1 * rng.normal(size=40)
    honest = LinearTrainer(x.astype(np.float32), y.astype(np.float32), steps=10)
    return Flipped(honest, CLIP) if hostile else honest


def error(weights: np.ndarray) -> float:
    return float(np.linalg.norm(weights - HIDDEN) / np.linalg.norm(HIDDEN))


@pytest.mark.parametrize("rule", ["mean", *RULE_NAMES])
def test_averaging_breaks_under_flipped_signs_and_the_rules_hold(rule):
    trainers = [trainer(i, hostile=i in (2, 5, 7)) for i in range(9)]
    weights = START
    for _ in range(6):
        each = [t.train(weights, MODEL).delta.astype(np.float64) for t in trainers]
        step = np.mean(each, axis=0) if rule == "mean" else combine(rule, 3, each)
        weights = (weights + step).astype(np.float32)
    assert error(weights) > 0.3 if rule == "mean" else error(weights) < 0.1


def test_krum_takes_the_update_nearest_to_its_neighbours_by_hand():
    points = [np.array([x]) for x in (0.0, 1.0, 1.5, 9.0, 10.0)]
    # f = 1: two nearest others each; scores 1 + 2.25, 1 + 0.25, 0.25 + 2.25, 1 + 56.25, 1 + 72.25
    assert combine("krum", 1, points) == 1.0
    assert combine("multi_krum", 1, points) == np.mean([0.0, 1.0, 1.5, 9.0])
    assert combine("trimmed_mean", 1, points) == pytest.approx(np.mean([1.0, 1.5, 9.0]))
    assert combine("median", 1, points) == 1.5


@pytest.mark.parametrize("rule", RULES)
def test_too_few_sums_fail_the_round(rule):
    with pytest.raises(RoundFailed, match=r"2 sums are left, \w+ against 1 hostile ones needs"):
        combine(rule, 1, [START.astype(np.float64)] * 2)


@pytest.mark.parametrize("rule", RULES)
def test_what_is_lost_counts_as_hostile_where_too_few_are_left(rule):
    need = RULES[rule][1]
    honest, bad = [np.zeros(LENGTH)] * (need(2) - 2), [np.full(LENGTH, 9.0)]
    few = [*honest[: need(1) - 1], *bad]  # one of two hostile ones has lost its sum
    np.testing.assert_allclose(combine(rule, 2, few, lost=1), 0)
    with pytest.raises(RoundFailed, match=f"{need(1)} sums are left, {rule} against 2"):
        combine(rule, 2, few)
    # With enough left, the rule stands as many as before.
    np.testing.assert_allclose(combine(rule, 2, [*honest, *bad, *bad], lost=1), 0)
    assert combine(rule, 1, honest[: need(0)], lost=5).shape == (LENGTH,)
    with pytest.raises(RoundFailed, match=f"0 sums are left, {rule} against 0 hostile"):
        combine(rule, 1, [], lost=5)


@pytest.mark.parametrize("unmasked", [False, True])
def test_a_device_that_spoils_its_checksum_fails_no_round_of_a_rule(
    tmp_path, monkeypatch, unmasked
):
    def spoilt(update, params, session, seed):
        words = encode(update, params, session, seed)
        words[0] ^= update.loss == 7.0
        return words

    class Noise:
        def train(self, weights, model):
            return Update(np.ones(weights.size, np.float32), loss=7.0)

    monkeypatch.setattr(client, "encode", spoilt)
    asked = {"rule": "median", "hostile": 1, "clip_norm": CLIP}
    asked |= {"shard_size": 3, "min_cohort": 9, "clip_value": CLIP, "max_failures": 0, "rounds": 1}
    if unmasked:
        asked |= {"aggregation": "unmasked", "min_cohort": 3}
    count = 3 if unmasked else 9
    settings = task_settings(count, **asked)

    def make(i, hostile):
        return Noise() if hostile else trainer(i)

    status, _ = run(tmp_path, settings, {0}.__contains__, count, unmasked, make)
    assert status["state"] == "finished"
    assert status["rounds"][0]["survivors"] == (2 if unmasked else 6)


def run(folder, settings, hostile, count, unmasked=False, make=trainer):
    """The task's status and last weights, with these devices hostile."""
    from concurrent.futures import ThreadPoolExecutor

    with serving(folder) as server, server.operator() as operator:
        operator.create_task("t", MODEL, START, **settings)

        def part(i: int) -> int:
            arguments = server.url, folder / f"device-{i}", make(i, hostile(i)), server.authority
            policy = Policy(3, unmasked=unmasked)
            with Device(*arguments, server.enrol_token, policy=policy) as device:
                return len(list(device.run(until_idle=True)))

        with ThreadPoolExecutor(count) as pool:
            assert list(pool.map(part, range(count))) == [settings["rounds"]] * count
        return operator.status("t"), operator.weights("t")


SHARDS = {"shard_size": 3, "min_cohort": 15, "clip_norm": CLIP, "clip_value": CLIP, "rounds": 3}


def test_the_median_of_masked_shards_holds_where_their_mean_breaks(tmp_path):
    hostile = {0, 1}.__contains__
    errors = {}
    for rule in ("mean", "median"):
        settings = task_settings(15, rule=rule, hostile=2 if rule == "median" else 0) | SHARDS
        status, weights = run(tmp_path / rule, settings, hostile, 15)
        assert status["rounds"][-1]["shards"] == 5
        errors[rule] = error(weights)
    assert errors["median"] < 0.15 < 0.25 < errors["mean"]


def test_krum_over_single_updates_where_devices_allow_it(tmp_path):
    settings = task_settings(7, rule="krum", hostile=2, aggregation="unmasked", rounds=3)
    settings |= {"min_cohort": 7, "clip_norm": CLIP, "clip_value": CLIP}
    status, weights = run(tmp_path, settings, {1, 4}.__contains__, 7, unmasked=True)
    assert [entry["survivors"] for entry in status["rounds"]] == [7] * 3
    assert error(weights) < 0.1


def test_a_device_declines_to_show_its_update_unless_it_was_told_to(tmp_path):
    import threading

    said, stop = [], threading.Event()

    def tell(text):
        said.append(text)
        if "declined" in text:
            stop.set()

    with serving(tmp_path) as server, server.operator() as operator:
        operator.create_task("open", MODEL, START, **task_settings(3, aggregation="unmasked"))
        arguments = server.url, tmp_path / "careful", NeverTrains(), server.authority
        options = {"policy": Policy(3), "stop": stop, "tell": tell}
        with Device(*arguments, server.enrol_token, **options) as device:
            assert list(device.run()) == []
    assert said[-1] == (
        "round 1 of open declined: updates without masks are asked for, this device masks its own"
    )


def open_params(clients, encoding):
    return Layout(is_masked=False).params(clients, encoding)


def test_no_masks_in_a_session_of_a_masked_task_are_refused():
    table = Table(4, make_params=open_params)
    with pytest.raises(EncodingMismatch, match="not those that the update was prepared for"):
        table.share()


def test_without_masks_whoever_sends_what_no_encoder_makes_is_named_and_left_out():
    table = Table(6, make_params=open_params, policy=Policy(2, unmasked=True))
    liar = table.ids[2]
    # One bit of one word: the checksum is of another vector.
    table.tamper["vectors", liar] = lambda message: bytes([message[0] ^ 1]) + message[1:]
    table.agree()
    table.reveal()
    total = table.reveals.close()
    assert total.blamed == (liar,)
    assert total.survivors == tuple(i for i in table.ids if i != liar)
    for i, mean in zip(total.survivors, total.means(), strict=True):
        want = np.clip(table.updates[i].delta, -1, 1)
        np.testing.assert_allclose(mean.delta, want, atol=4e-5)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (
            {"rule": "median"},
            "1 shards of the smallest cohort, median against 1 hostile .* needs 3",
        ),
        ({"rule": "krum", "aggregation": "unmasked", "hostile": 9}, "20 devices, krum .* needs 21"),
        ({"rule": "median", "max_weight": 2}, "rule is median, want no noise and max_weight 1"),
        ({"aggregation": "unmasked", "graph": "sparse"}, "aggregation is unmasked, want no sparse"),
        ({"rule": "mode"}, "setting rule is 'mode', want 'mean'"),
    ],
)
def test_rules_that_cannot_hold_are_refused(given, words):
    with pytest.raises(SettingsError, match=words):
        task_checks.check(TaskSettings.checked(name="t", **given), LENGTH)
