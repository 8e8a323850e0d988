"""Noise, what it costs, and a budget that nothing gives back."""

from __future__ import annotations

import math
import shutil

import numpy as np
import pytest
from fl_fleet import LENGTH, MODEL, fleet_of, serving, task_settings
from fl_people import seeded
from scipy import stats

from fl_server.cli import serve
from fl_server.errors import SettingsError
from fl_server.privacy import Ledger, Privacy, gaussian, sensitivity
from fl_server.secagg.encode import Mean, Update, decode, encode
from fl_server.secagg.params import complete_graph
from fl_server.settings import TaskSettings

START = np.zeros(LENGTH, np.float32)


def exact_delta(epsilon: float, noise: float) -> float:
    """Of one Gaussian release (Balle and Wang 2018, theorem 8)."""
    a, b = 1 / (2 * noise), epsilon * noise
    return stats.norm.cdf(a - b) - math.exp(epsilon) * stats.norm.cdf(-a - b)


@pytest.mark.parametrize(("noise", "rounds"), [(1.0, 1), (4.0, 10), (2.0, 50), (20.0, 400)])
def test_the_account_is_the_exact_one_and_never_below_it(noise, rounds):
    spent = Privacy(noise, 1e-5).spent(rounds)
    at = exact_delta(spent, noise / math.sqrt(rounds))
    assert at <= 1e-5  # it holds
    assert exact_delta(0.99 * spent - 0.01, noise / math.sqrt(rounds)) > 1e-5  # and is tight


def test_noise_is_normal_and_never_the_same_twice():
    numbers = gaussian(bytes(16), 200_001)
    assert stats.kstest(numbers, "norm").pvalue > 0.01
    assert abs(np.corrcoef(numbers[:-1], numbers[1:])[0, 1]) < 0.01
    assert len(gaussian(bytes(16), 7)) == 7
    assert not np.array_equal(gaussian(b"a" * 16, 8), gaussian(b"b" * 16, 8))


def test_noise_has_the_deviation_that_the_account_is_for():
    length, clients = 20_000, 5
    encoding = TaskSettings(name="t", clip_norm=3.0, clip_value=0.5).encoding(length)
    mean = Mean(np.zeros(length), clients, clients, 0.0, 0, 0, clients, 0)
    found = Privacy(0.7, 1e-5).noisy(mean, encoding, seeded("noise")).delta
    assert found.std() == pytest.approx(0.7 * sensitivity(encoding) / clients, rel=0.02)


@pytest.mark.parametrize("bits", [2, 6, 16])
def test_no_update_moves_the_sum_by_more_than_the_sensitivity(bits):
    encoding = TaskSettings(name="t", clip_norm=2.0, clip_value=0.3, value_bits=bits).encoding(50)
    params, rng = complete_graph(3, encoding), np.random.default_rng(bits)
    for scale in (0.01, 0.2, 5.0):
        update = Update(scale * rng.standard_normal(50).astype(np.float32), 1, 0.0, 0, 0)
        words = encode(update, params, bytes(32), rng.bytes(32))
        moved = decode(words, 1, params, bytes(32)).delta
        assert np.linalg.norm(moved) <= sensitivity(encoding)


def test_a_task_ends_when_its_budget_is_spent_and_shows_no_metric(tmp_path, capsys):
    noise = Privacy(8.0, 1e-5)
    budget = (noise.spent(2) + noise.spent(3)) / 2  # two rounds, and not a third
    privacy = {"noise_multiplier": 8.0, "epsilon": budget}
    with serving(tmp_path) as server, server.operator() as operator:
        operator.create_task("private", MODEL, START, **task_settings(3, rounds=9, **privacy))
        fleet_of(server, tmp_path, 3).run()
        status, weights = operator.status("private"), operator.weights("private")
        place = ["--server", server.url, "--folder", str(tmp_path / "server")]
        assert serve(["status", "private", *place]) == 0
    told = capsys.readouterr().out
    assert status["state"] == "finished"
    assert "another round would spend more than epsilon" in status["error"]
    assert [entry["stage"] for entry in status["rounds"]] == ["finished"] * 2
    assert status["privacy"] == {"epsilon": noise.spent(2), "delta": 1e-5, "rounds": 2}
    assert not {"loss", "correct", "examples", "saturated"} & set(status["rounds"][0])
    # Two rounds of noise far above the updates, of which none is above 1 a coordinate.
    assert np.abs(weights).max() > 2
    assert f"spent: epsilon {noise.spent(2):.3g} at delta 1e-05, in 2 rounds" in told


def test_a_database_that_is_put_back_does_not_get_its_budget_back(tmp_path):
    noise = Privacy(8.0, 1e-5)
    privacy = {"noise_multiplier": 8.0, "epsilon": (noise.spent(2) + noise.spent(3)) / 2}
    folder = tmp_path / "server"
    with serving(tmp_path) as server, server.operator() as operator:
        operator.create_task("private", MODEL, START, **task_settings(3, rounds=9, **privacy))
    for name in ("state.sqlite", "state.sqlite-wal", "state.sqlite-shm"):
        if (folder / name).exists():
            shutil.copy(folder / name, tmp_path / name)
    with serving(tmp_path) as server:
        fleet_of(server, tmp_path / "first", 3).run()
    assert Ledger(folder / "privacy/private").count() == 2
    for path in folder.glob("state.sqlite*"):
        path.unlink()
    for path in tmp_path.glob("state.sqlite*"):
        shutil.copy(path, folder / path.name)
    with serving(tmp_path) as server, server.operator() as operator:
        fleet_of(server, tmp_path / "second", 3).run()
        status = operator.status("private")
    assert status["state"] == "finished"
    assert status["privacy"]["rounds"] == 2
    assert status["version"] == 0
    assert "another round would spend more" in status["rounds"][0]["error"]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"epsilon": 1.0}, "want a noise_multiplier above 0 with it"),
        ({"noise_multiplier": 0.5, "epsilon": 1.0}, "epsilon is 1.0, and one round spends"),
        (
            {"noise_multiplier": 1.0, "max_weight": 5},
            "max_weight is 5, want 1 where",
        ),
        ({"noise_multiplier": -1.0}, "setting noise_multiplier is -1.0, want greater"),
        ({"noise_multiplier": 1.0, "delta": 1.0}, "setting delta is 1.0, want less than 1"),
    ],
)
def test_settings_that_promise_nothing_are_refused(given, words):
    with pytest.raises(SettingsError, match=words):
        TaskSettings.checked(name="t", **given).check(LENGTH)
