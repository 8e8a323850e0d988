"""SCAFFOLD through the real server: control variates in the masked vector, and who drops out."""

from __future__ import annotations

import json
import shutil
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial

import numpy as np
import pytest
from fl_fleet import MODEL, serving, task_settings

from fl_server import task_checks
from fl_server.device import Device, Policy
from fl_server.device.controls import Controls, counted
from fl_server.device.linear import LinearTrainer
from fl_server.errors import EncodingMismatch, Malformed, SettingsError
from fl_server.plan.plan import Plan
from fl_server.secagg.encode import Mean
from fl_server.secagg.run import Stage
from fl_server.simulation import simulate
from fl_server.storage.store import Store
from fl_server.storage.weights import Weights
from fl_server.strategy.scaffold import Scaffold
from fl_server.task_settings import TaskSettings

LENGTH, RATE, STEPS = 4, 0.1, 20
START = np.zeros(LENGTH, np.float32)
SETTINGS = {"clip_norm": 50.0, "clip_value": 20.0, "value_bits": 24, "control_scale": RATE * STEPS}


def unlike(devices: int) -> tuple[list[LinearTrainer], np.ndarray]:
    """Devices whose data and answers differ, and the weights that are best for all of them."""
    rng = np.random.default_rng(3)
    x = [rng.normal(size=(40, LENGTH)) * rng.uniform(0.2, 1.6, LENGTH) for _ in range(devices)]
    y = [part @ rng.normal(scale=2, size=LENGTH) for part in x]
    best = np.linalg.lstsq(np.concatenate(x), np.concatenate(y), rcond=None)[0]
    pairs = [(a.astype(np.float32), b.astype(np.float32)) for a, b in zip(x, y, strict=True)]
    return [LinearTrainer(a, b, STEPS, RATE) for a, b in pairs], best


def test_it_reaches_the_common_optimum_that_averaging_misses():
    trainers, best = unlike(3)
    averaged = START
    for _ in range(60):
        updates = [trainer.train(averaged, MODEL).delta for trainer in trainers]
        averaged = averaged + np.mean(updates, axis=0, dtype=np.float32)
    drift = np.linalg.norm(averaged - best)
    settings = SETTINGS | {"strategy": "scaffold", "devices": 3}
    found = simulate(trainers, MODEL, START, rounds=8, cohort_floor=3, settings=settings)
    assert drift > 0.7
    assert np.linalg.norm(found.weights - best) < 0.1 * drift


class Fleet:
    """Eight devices of a real server, and a task that they train."""

    def __init__(self, server, operator, folder, **settings) -> None:
        self.server, self.operator, self.folder = server, operator, folder
        self.trainers, _ = unlike(8)
        self.ids: dict[int, int] = {}
        stages = {"vector_s": 1.5, "agree_s": 1.5, "reveal_s": 1.5}
        base = task_settings(8, **stages) | SETTINGS | {"strategy": "scaffold", "devices": 8}
        operator.create_task("t", MODEL, START, **base | settings)

    def run(self, rounds: int | None, last: dict[int, Stage] | None = None) -> None:
        """All take part, some until a stage of the first round."""
        works = [partial(self._part, i, rounds, (last or {}).get(i)) for i in range(8)]
        with ThreadPoolExecutor(len(works)) as pool:
            for done in [pool.submit(work) for work in works]:
                done.result()

    def _part(self, i: int, rounds: int | None, stop_after: Stage | None) -> None:
        place = self.server.url, self.folder / f"device-{i}", self.trainers[i]
        limits = {"policy": Policy(2, clip_value=1e6, clip_norm=1e6), "stop_after": stop_after}
        with Device(*place, self.server.authority, self.server.enrol_token, **limits) as device:
            list(device.run(rounds, until_idle=True))
            self.ids[i] = device.id

    def survivors(self) -> list[int]:
        return [entry.get("survivors", 0) for entry in self.operator.status("t")["rounds"]]

    def controls(self, i: int) -> Controls:
        return Controls(self.folder / f"device-{i}" / "controls")

    def error(self) -> tuple[float, float]:
        """How large c is, and how far it is from the mean of all c_i."""
        store = Store(self.folder / "server")
        weights = Weights(store)
        newest = weights.latest("t")
        kept, generation = weights.moments(newest)[0], weights.generation("t", newest)
        store.close()
        own = []
        for i in range(8):
            controls = self.controls(i)
            controls.settle("t", self.ids[i], lambda n: self.operator.transcript("t", n))
            own.append(controls.own("t", generation, LENGTH))
        return np.linalg.norm(kept), np.linalg.norm(kept - np.mean(own, axis=0))


@contextmanager
def fleet_in(folder, **settings):
    with serving(folder) as server, server.operator() as operator:
        yield Fleet(server, operator, folder, **settings)


def test_the_servers_variate_stays_the_mean_of_the_devices_whoever_drops_out(tmp_path):
    with fleet_in(tmp_path, rounds=3, min_cohort=8) as fleet:
        # 6 is in no sum of the first round, 7 is in it
        fleet.run(1, {6: Stage.SHARE, 7: Stage.VECTOR})
        fleet.run(None)
        assert fleet.survivors() == [7, 8, 8]
        size, error = fleet.error()
    assert size > 0.01
    assert error < 1e-5


@pytest.mark.parametrize(
    "coarse",
    [
        {"value_bits": 6},
        {"value_bits": 4},
        {"value_bits": 4, "rotate": True},
        {"clip_value": 0.3},
        {"clip_norm": 0.5},
    ],
    ids=lambda coarse: "-".join(coarse),
)
def test_it_stays_so_whatever_rounding_and_clamping_make_of_an_update(tmp_path, coarse):
    with fleet_in(tmp_path, rounds=3, **coarse) as fleet:
        fleet.run(None)
        assert fleet.survivors() == [8, 8, 8]
        size, error = fleet.error()
    assert size > 0.01
    assert error < 1e-5


def test_the_error_of_a_lost_device_lasts_until_the_weights_are_rolled_back(tmp_path):
    with fleet_in(tmp_path, rounds=5) as fleet:
        fleet.run(2)
        shutil.rmtree(tmp_path / "device-0/controls")
        fleet.run(1)
        assert fleet.error()[1] > 0.01
        fleet.operator.roll_back("t", 3)  # the newest, of which no update has been sent
        fleet.run(None)
        assert fleet.survivors() == [8, 8, 8, 0, 8, 8]
        size, error = fleet.error()
    assert size > 0.01
    assert error < 1e-5


def test_a_device_goes_on_after_a_transcript_or_a_file_that_is_damaged(tmp_path, caplog):
    with fleet_in(tmp_path, rounds=3) as fleet:
        fleet.run(1)
        head = bytes(8) + (1).to_bytes(8, "little")  # of the round that counted
        for i, damage in enumerate((b"", b"short", head + b"odd", head + bytes(8))):
            for file in (tmp_path / f"device-{i}/controls").iterdir():
                file.write_bytes(damage)
        fleet.run(1)
        with sqlite3.connect(tmp_path / "server/state.sqlite") as database:
            database.execute("UPDATE transcript SET line = '{}' WHERE round = 2")
        database.close()
        fleet.run(1)
        assert fleet.survivors() == [8, 8, 8]
    assert "a transcript that does not tell who is in the sum" in caplog.text
    assert "2 values, the model has 4 weights; the control variate begins at zero" in caplog.text


def test_the_servers_step_is_the_papers():
    mean = Mean(np.array([1.0, 2.0, 4.0, 8.0]), 3, 3, 0.0, 0, 0, 3, 0)
    moments = np.array([[1.0, 1.0]], np.float32)
    weights, controls = Scaffold(0.5, 12).apply(np.zeros(2, np.float32), mean, moments)
    np.testing.assert_allclose(weights, [0.5, 1.0])
    np.testing.assert_allclose(controls, [[1 + 3 / 12 * 4, 1 + 3 / 12 * 8]])


def test_a_variate_is_kept_only_when_the_round_that_it_was_sent_in_counts(tmp_path):
    controls, sums = Controls(tmp_path), {1: [9], 2: [7, 9], 3: None}
    for number, value in ((1, 1.0), (2, 2.0), (3, 3.0)):
        controls.propose("t", 0, number, np.full(2, value, np.float32))
        controls.settle("t", 7, lambda n: transcript_of([7, 8, 9], sums[n]))
        controls.settle("t", 7, pytest.fail)  # told once, it asks no more
        want = 0.0 if number == 1 else 2.0
        np.testing.assert_array_equal(controls.own("t", 0, 2), [want, want])
    np.testing.assert_array_equal(controls.own("t", 1, 2), [0, 0])  # another generation
    with pytest.raises(Malformed, match="does not tell who is in the sum"):
        counted(['{"event": "finished"}'], 7)


def transcript_of(cohort: list[int], survivors: list[int] | None) -> list[str]:
    lines = [{"event": "advertise", "shards": [{"clients": cohort}]}]
    if survivors is not None:
        bits = sum(1 << cohort.index(i) for i in survivors)
        lines.append({"event": "finished", "clients": bytes([bits]).hex()})
    return [json.dumps(line) for line in lines]


def test_weighted_and_stale_updates_are_refused():
    with pytest.raises(SettingsError, match="max_staleness is 2, want 0 with scaffold"):
        task_checks.check(
            TaskSettings.checked(name="t", strategy="scaffold", max_staleness=2), LENGTH
        )
    with pytest.raises(SettingsError, match="max_weight is 3, want 1 with scaffold"):
        task_checks.check(TaskSettings.checked(name="t", strategy="scaffold", max_weight=3), LENGTH)


def test_what_would_part_the_servers_variate_from_the_devices_is_refused():
    for other, said in (
        ({"rule": "median"}, "rule is median, noise_multiplier is 0"),
        ({"noise_multiplier": 0.5}, "rule is mean, noise_multiplier is 0.5"),
    ):
        with pytest.raises(SettingsError, match=f"{said}; want mean and 0 with scaffold"):
            task_checks.check(TaskSettings.checked(name="t", strategy="scaffold", **other), LENGTH)
    with pytest.raises(EncodingMismatch, match="generation 3, want 0 without control variates"):
        Plan.of(Plan(generation=3).to_bytes())
