"""Noise that devices add: what it costs, and rounds in which some of them are gone."""

from __future__ import annotations

import math
import shutil
from concurrent.futures import ThreadPoolExecutor

import dp_accounting
import numpy as np
import pytest
from fl_fleet import LENGTH, MODEL, fleet_of, serving, task_settings
from fl_people import seeded
from fl_world import START, NeverTrains, World

from fl_server import task_checks
from fl_server.device import Device, Policy
from fl_server.distributed import Distributed
from fl_server.errors import SettingsError
from fl_server.rounds import record
from fl_server.secagg.encode import Update
from fl_server.secagg.noise import most_norm, multiplier
from fl_server.secagg.run import Stage
from fl_server.storage.ledger import Ledger
from fl_server.task_settings import TaskSettings

NOISY = {
    "noise": "distributed",
    "noise_multiplier": 4.0,
    "value_bits": 12,
    "clip_norm": 0.5,
    "clip_value": 0.25,
}
ACCOUNT = Distributed(4.0, 1e-5)


def settings_of(**changes: object) -> TaskSettings:
    return TaskSettings.checked(name="t", **(NOISY | changes))


def sum_of_shares(deviation: int, shares: int) -> np.ndarray:
    """The chances of a sum of discrete Gaussians, by convolution."""
    x = np.arange(-16 * deviation, 16 * deviation + 1)
    one = np.exp(-(x**2) / (2 * deviation**2))
    total = one = one / one.sum()
    for _ in range(shares - 1):
        total = np.convolve(total, one)
    return total


def exact_delta(epsilon: float, chances: np.ndarray, moved: int, rounds: int) -> float:
    """sum of max(0, P - e^epsilon Q) over what `rounds` rounds can give, P and Q being the chances
    with a device in them and without."""
    near = np.flatnonzero(chances > 1e-18)
    chances = chances[near[0] : near[-1] + 1]
    one = np.pad(chances, (moved, 0)), np.pad(chances, (0, moved))
    p, q = one
    for _ in range(rounds - 1):
        p, q = np.outer(p, one[0]).ravel(), np.outer(q, one[1]).ravel()
    return float(np.maximum(0, p - math.exp(epsilon) * q).sum())


@pytest.mark.parametrize(
    ("deviation", "shares", "moved", "rounds"),
    [(4, 3, 2, 1), (4, 3, 7, 1), (6, 2, 9, 1), (20, 5, 11, 1), (4, 4, 3, 2), (5, 2, 2, 3)],
)
def test_epsilon_is_no_less_than_the_exact_one_and_near_it(deviation, shares, moved, rounds):
    """By brute force over every value of every round."""
    privacy = Distributed(1.0, 1e-5)
    spent = privacy.spent([deviation * math.sqrt(shares) / moved] * rounds)
    chances = sum_of_shares(deviation, shares)
    assert exact_delta(spent, chances, moved, rounds) <= 1e-5
    assert exact_delta(0.8 * spent, chances, moved, rounds) > 1e-5


@pytest.mark.parametrize(("noise", "rounds"), [(0.5, 1), (4.0, 10), (8.0, 300), (1000.0, 2)])
def test_the_account_is_that_of_gaussian_noise_in_renyi_divergences(noise, rounds):
    event = dp_accounting.GaussianDpEvent(noise)
    renyi = dp_accounting.rdp.RdpAccountant().compose(event, rounds).get_epsilon(1e-5)
    exact = dp_accounting.pld.PLDAccountant().compose(event, rounds).get_epsilon(1e-5)
    spent = ACCOUNT.spent([noise] * rounds)
    assert exact <= spent <= 1.001 * renyi
    assert ACCOUNT.spent([]) == 0


@pytest.mark.parametrize("changes", [
    {}, {"min_cohort": 40, "target_cohort": 40}, {"value_bits": 8, "hostile": 5},
    {"target_cohort": 300, "shard_size": 50}, {"graph": "sparse", "target_cohort": 400},
    {"min_cohort": 300, "target_cohort": 300, "graph": "sparse"}, {"kept": 0.5, "rotate": True},
])  # fmt: skip
def test_the_fewest_survivors_have_the_noise_that_was_asked_for(changes):
    task = settings_of(**({"target_cohort": 20} | changes))
    task_checks.check(task, 5000)
    encoding = task.encoding(5000)
    smallest = task.layout.least_shard(task.min_cohort, task.selected)
    survivors = task.layout.params(smallest, encoding).quorum
    found = task.privacy.released(encoding, survivors)
    assert 4.0 <= found <= 4.0 * (1 + 1 / encoding.noise)
    assert task.privacy.released(encoding, survivors + 5) > found
    # A device that wants as much takes part.
    Policy(noise_multiplier=4.0, hostile=task.hostile).check_offer(smallest, encoding)


class Still:
    """A trainer whose update is zero, so that what comes out of a round is noise."""

    def train(self, weights: np.ndarray, model: bytes) -> Update:
        return Update(np.zeros_like(weights))


def test_what_a_round_with_drop_outs_releases_has_the_noise_of_its_survivors(tmp_path):
    length, gone = 6000, {3: Stage.SHARE, 4: Stage.ADVERTISE}
    settings = task_settings(9, min_cohort=9, share_s=5, vector_s=5, **NOISY)
    task = TaskSettings.checked(name="t", **settings)
    with serving(tmp_path) as server, server.operator() as operator:
        operator.create_task("t", MODEL, np.zeros(length, np.float32), **settings)

        def part(i: int) -> list[str]:
            place = server.url, tmp_path / f"d{i}", Still(), server.authority, server.enrol_token
            policy = Policy(2, noise_multiplier=4.0)
            options = {"policy": policy, "stop_after": gone.get(i), "random": seeded(i)}
            with Device(*place, **options) as device:
                return [report.error for report in device.run(until_idle=True)]

        with ThreadPoolExecutor(9) as pool:
            assert {error for errors in pool.map(part, range(9)) for error in errors} == {""}
        status, after = operator.status("t"), operator.weights("t").astype(np.float64)
    encoding, (entry,) = task.encoding(length), status["rounds"]
    assert (entry["stage"], entry["survivors"]) == ("finished", 7)
    assert not {"loss", "correct", "examples", "within_clip"} & set(entry)
    step = 2 * encoding.clip_value / encoding.top
    noise = after * 7 / step  # in the sum, in steps
    np.testing.assert_allclose(noise, np.round(noise), atol=0.05)
    promised = 4.0 * most_norm(encoding)  # of the seven that must survive, less one
    assert promised <= noise.std() * (1 + 4 / math.sqrt(2 * length))
    assert noise.std() == pytest.approx(encoding.noise * math.sqrt(7), rel=0.04)
    released = multiplier(encoding, 6)
    assert released >= 4.0
    spent = {"epsilon": ACCOUNT.spent([released]), "delta": 1e-5, "rounds": 1}
    assert status["privacy"] == spent


def test_a_device_that_wants_more_noise_declines_before_it_trains(tmp_path):
    said = []
    with serving(tmp_path) as server, server.operator() as operator:
        operator.create_task("t", MODEL, START, **task_settings(3, **NOISY))
        operator.create_task("plain", MODEL, START, **task_settings(3))

        def tell(text: str) -> None:
            said.append(text)
            if "declined" in text:  # the server would go on offering it
                operator.stop(text.split()[3])

        place = server.url, tmp_path / "d", NeverTrains(), server.authority, server.enrol_token
        with Device(*place, policy=Policy(2, noise_multiplier=9.0), tell=tell) as device:
            assert list(device.run(until_idle=True)) == []
    declined = sorted(line for line in said if "declined" in line)
    assert "round 1 of plain declined: a noise multiplier of 0 in the sum of 3" in declined[0]
    assert "round 1 of t declined: a noise multiplier of 4 in the sum of 3" in declined[1]


def world_of(folder, **changes: object) -> World:
    world = World(folder, min_cohort=3, target_cohort=3, join_s=60, rounds=9, **(NOISY | changes))
    for i in range(3):
        world.join(i)
    return world


class Spoils:
    """A client's states whose masked vector is noise, in the place of one that plays fair."""

    def __init__(self, state: object) -> None:
        self._state = state
        self.message = state.message

    def receive_cohort(self, *arguments: object) -> Spoils:
        return Spoils(self._state.receive_cohort(*arguments))

    def receive_shares(self, *arguments: object) -> object:
        masked = self._state.receive_shares(*arguments)
        masked.message = bytes([masked.message[0] ^ 1]) + masked.message[1:]
        return masked


def test_a_round_that_fails_after_the_masks_came_off_has_cost_what_the_server_saw(tmp_path):
    world = world_of(tmp_path)
    first = next(iter(world.joined))
    world.joined[first] = Spoils(world.joined[first])
    world.play()
    entry = record.of_task(world.store, "t")[0]
    assert (entry["stage"], entry["kind"]) == ("failed", "ChecksumMismatch")
    encoding = settings_of(min_cohort=3, target_cohort=3).encoding(LENGTH)
    noises = Ledger(world.store.ledger_path("t")).noises()
    assert noises == [multiplier(encoding, 2)]
    world.restart()
    assert world.rounds.spent(world.rounds.tasks.get("t"))["rounds"] == 1
    world.close()


def test_a_round_that_fails_before_that_has_cost_nothing(tmp_path):
    world = world_of(tmp_path)
    world.now += 1000
    world.rounds.tick()  # nobody shares
    assert record.of_task(world.store, "t")[0]["stage"] == "failed"
    assert Ledger(world.store.ledger_path("t")).noises() == []
    world.close()


def test_a_server_that_ends_between_the_account_and_its_transaction_counts_once(
    tmp_path, monkeypatch
):
    world = world_of(tmp_path)
    kept, cut = record.keep_stage, []

    def once(db, live, *arguments: object) -> None:
        if live.stage == "reveal" and not cut:
            cut.append(live.stage)
            raise OSError("power cut")
        kept(db, live, *arguments)

    def call(work):
        try:
            return work()
        except OSError:
            assert len(Ledger(world.store.ledger_path("t")).noises()) == 1
            world.restart()
            return work()

    monkeypatch.setattr(record, "keep_stage", once)
    world.play(call)
    assert cut
    assert world.stages()[0] == "finished"
    assert len(Ledger(world.store.ledger_path("t")).noises()) == 1
    assert world.rounds.spent(world.rounds.tasks.get("t"))["rounds"] == 1
    world.close()


def budget(rounds: float) -> float:
    """An epsilon for so many rounds of three survivors, of which one is hostile."""
    encoding = settings_of(min_cohort=3, target_cohort=3).encoding(LENGTH)
    least, most = (
        ACCOUNT.spent([multiplier(encoding, 2)] * math.floor(rounds)),
        ACCOUNT.spent([multiplier(encoding, 2)] * math.ceil(rounds)),
    )
    return (least + most) / 2


def test_a_budget_that_is_spent_ends_the_task_also_of_a_database_that_is_put_back(tmp_path):
    folder, private = tmp_path / "server", NOISY | {"epsilon": budget(1.5)}
    with serving(tmp_path) as server, server.operator() as operator:
        operator.create_task("t", MODEL, START, **task_settings(3, rounds=9, **private))
    saved = shutil.copytree(folder, tmp_path / "again/server")
    with serving(tmp_path) as server, server.operator() as operator:
        fleet_of(server, tmp_path / "first", 3).run()
        status = operator.status("t")
    assert status["state"] == "finished"
    assert "another round would spend more than epsilon" in status["error"]
    assert [entry["stage"] for entry in status["rounds"]] == ["finished"]
    shutil.copytree(folder / "privacy", saved / "privacy")  # which lies apart from the database
    with serving(tmp_path / "again") as server, server.operator() as operator:
        fleet_of(server, tmp_path / "second", 3).run()
        status = operator.status("t")
    # The round ends before a device reveals anything: no masks came off.
    (entry,) = status["rounds"]
    assert "another round would spend more" in entry["error"]
    assert "reveal" not in entry["counts"] or entry["counts"]["reveal"] == 0
    assert (status["state"], status["version"]) == ("finished", 0)
    assert status["privacy"]["rounds"] == 1


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"noise_multiplier": 0}, "noise is set, want a noise_multiplier above 0 with it"),
        ({"noise": "shared"}, "setting noise is 'shared', want"),
        ({"value_bits": 2, "clip_value": 10.0, "noise_multiplier": 0.5}, "value_bits is 2, for wh"),
        ({"value_bits": 24, "noise_multiplier": 1000.0}, "value_bits is 24, .* want fewer"),
        ({"value_bits": 25}, "value_bits is 25, want at most 24"),
        ({"hostile": 14}, "hostile is 14, want less than the 14 devices"),
        ({"max_weight": 3}, "max_weight is 3, want 1 where there is noise"),
        ({"clip_quantile": 0.5}, "clip_quantile is set, want none with noise that devices add"),
        ({"epsilon": 0.5}, "epsilon is 0.5, and one round spends 1"),
        ({"aggregation": "unmasked"}, "aggregation is unmasked, want no sparse graph and no noise"),
        ({"rule": "median"}, "rule is median, want no noise"),
        ({"strategy": "scaffold"}, "want mean and 0 with scaffold"),
        ({"kind": "evaluate"}, "want noise_multiplier 0"),
    ],
)
def test_settings_that_do_not_go_with_the_noise_of_devices_are_refused(given, words):
    with pytest.raises(SettingsError, match=words):
        task_checks.check(settings_of(**given), LENGTH)
