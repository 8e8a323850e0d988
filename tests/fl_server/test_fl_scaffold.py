"""SCAFFOLD through the real server: control variates in the masked vector, and who drops out."""

from __future__ import annotations

import json
from functools import partial

import numpy as np
import pytest
from fl_fleet import MODEL, serving, task_settings

from fl_server.device import Device, Policy
from fl_server.device.controls import Controls, counted
from fl_server.device.linear import LinearTrainer
from fl_server.errors import Malformed, SettingsError
from fl_server.secagg.encode import Mean
from fl_server.secagg.run import Stage
from fl_server.settings import TaskSettings
from fl_server.simulation import simulate
from fl_server.storage.store import Store
from fl_server.storage.weights import Weights
from fl_server.strategy.scaffold import Scaffold

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


def test_the_servers_variate_stays_the_mean_of_the_devices_whoever_drops_out(tmp_path):
    trainers, _ = unlike(8)
    last = {6: Stage.SHARE, 7: Stage.VECTOR}  # 6 is in no sum of the first round, 7 is in it
    settings = task_settings(8, rounds=3, vector_s=1.5, agree_s=1.5, reveal_s=1.5)
    settings |= SETTINGS | {"strategy": "scaffold", "devices": 8, "min_cohort": 8}
    with serving(tmp_path) as server, server.operator() as operator:
        operator.create_task("t", MODEL, START, **settings)

        def part(i: int, rounds: int | None, stop_after: Stage | None = None) -> None:
            arguments = server.url, tmp_path / f"device-{i}", trainers[i], server.authority
            limits = {"policy": Policy(2), "stop_after": stop_after}
            with Device(*arguments, server.enrol_token, **limits) as device:
                ids[i] = (list(device.run(rounds, until_idle=True)), device.id)[1]

        ids: dict[int, int] = {}
        in_threads([partial(part, i, 1, last.get(i)) for i in range(8)])
        in_threads([partial(part, i, None) for i in range(8)])
        status = operator.status("t")
        assert [entry["survivors"] for entry in status["rounds"]] == [7, 8, 8]
        own = []
        for i in range(8):
            controls = Controls(tmp_path / f"device-{i}" / "controls")
            controls.settle("t", ids[i], lambda number: operator.transcript("t", number))
            own.append(controls.own("t", LENGTH))
    store = Store(tmp_path / "server")
    weights = Weights(store)
    kept = weights.moments(weights.latest("t"))
    store.close()
    assert np.abs(kept).max() > 0.01
    np.testing.assert_allclose(kept[0], np.mean(own, axis=0), atol=1e-4)


def in_threads(works) -> None:
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(len(works)) as pool:
        for done in [pool.submit(work) for work in works]:
            done.result()


def test_the_servers_step_is_the_papers():
    mean = Mean(np.array([1.0, 2.0, 4.0, 8.0]), 3, 3, 0.0, 0, 0, 3, 0)
    moments = np.array([[1.0, 1.0]], np.float32)
    weights, controls = Scaffold(0.5, 12).apply(np.zeros(2, np.float32), mean, moments)
    np.testing.assert_allclose(weights, [0.5, 1.0])
    np.testing.assert_allclose(controls, [[1 + 3 / 12 * 4, 1 + 3 / 12 * 8]])


def test_a_variate_is_kept_only_when_the_round_that_it_was_sent_in_counts(tmp_path):
    controls, sums = Controls(tmp_path), {1: [9], 2: [7, 9], 3: None}
    for number, value in ((1, 1.0), (2, 2.0), (3, 3.0)):
        controls.propose("t", number, np.full(2, value, np.float32))
        controls.settle("t", 7, lambda n: transcript_of([7, 8, 9], sums[n]))
        controls.settle("t", 7, pytest.fail)  # told once, it asks no more
        want = 0.0 if number == 1 else 2.0
        np.testing.assert_array_equal(controls.own("t", 2), [want, want])
    with pytest.raises(Malformed, match="2 values, the model has 3 weights"):
        controls.own("t", 3)
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
        TaskSettings.checked(name="t", strategy="scaffold", max_staleness=2).check(LENGTH)
    with pytest.raises(SettingsError, match="max_weight is 3, want 1 with scaffold"):
        TaskSettings.checked(name="t", strategy="scaffold", max_weight=3).check(LENGTH)
