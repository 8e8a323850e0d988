"""Noise, what it costs, and a budget that nothing gives back."""

from __future__ import annotations

import math
import shutil

import dp_accounting
import numpy as np
import pytest
from fl_fleet import LENGTH, MODEL, fleet_of, serving, task_settings
from fl_people import seeded
from scipy import stats

from fl_server import task_checks
from fl_server.cli import serve
from fl_server.errors import SettingsError
from fl_server.privacy import Privacy, gaussian, sensitivity
from fl_server.secagg.encode import Mean, Update, decode, encode
from fl_server.secagg.params import complete_graph
from fl_server.storage.ledger import Ledger
from fl_server.task_settings import TaskSettings

START = np.zeros(LENGTH, np.float32)
SPENT = Privacy(8.0, 1e-5).spent
PRIVATE = {
    "clip_norm": 0.5,
    "clip_value": 16.0,
    "noise_multiplier": 8.0,
    "epsilon": (SPENT([8.0] * 2) + SPENT([8.0] * 3)) / 2,  # two rounds, and not a third
}


def exact_delta(epsilon: float, noise: float) -> float:
    """Of one Gaussian release (Balle and Wang 2018, theorem 8)."""
    a, b = 1 / (2 * noise), epsilon * noise
    return stats.norm.cdf(a - b) - math.exp(epsilon) * stats.norm.cdf(-a - b)


@pytest.mark.parametrize(
    "noises", [[1.0], [4.0] * 10, [2.0] * 50, [20.0] * 400, [1.0, 3.0, 9.0], [1e-3], [1000.0]]
)
def test_the_account_is_the_exact_one_and_never_below_it(noises):
    spent, whole = Privacy(1.0, 1e-5).spent(noises), 1 / math.sqrt(sum(z**-2 for z in noises))
    if whole > 0.05:  # where the formula does not overflow
        assert exact_delta(spent, whole) <= 1e-5
        assert exact_delta(0.999 * spent - 1e-6, whole) > 1e-5
    assert 0 < spent < math.inf


@pytest.mark.parametrize(("noise", "rounds"), [(4.0, 10), (8.0, 3)])
def test_the_accountants_of_other_ways_agree(noise, rounds):
    spent = Privacy(1.0, 1e-5).spent([noise] * rounds)
    event = dp_accounting.GaussianDpEvent(noise)
    renyi = dp_accounting.rdp.RdpAccountant().compose(event, rounds).get_epsilon(1e-5)
    loss = dp_accounting.pld.PLDAccountant().compose(event, rounds).get_epsilon(1e-5)
    assert loss == pytest.approx(spent, rel=1e-4)
    assert spent <= renyi <= 1.3 * spent


def test_noise_is_normal_and_never_the_same_twice():
    numbers = gaussian(bytes(16), 200_001)
    assert stats.kstest(numbers, "norm").pvalue > 0.01
    assert abs(np.corrcoef(numbers[:-1], numbers[1:])[0, 1]) < 0.01
    assert len(gaussian(bytes(16), 7)) == 7
    assert not np.array_equal(gaussian(b"a" * 16, 8), gaussian(b"b" * 16, 8))


def test_noise_has_the_deviation_that_the_account_is_for():
    length, clients = 20_000, 5
    params = complete_graph(
        clients, TaskSettings(name="t", clip_norm=3.0, clip_value=10.0).encoding(length)
    )
    mean = Mean(np.full(length, 0.25), clients, clients, 0.0, 0, 0, clients, 0)
    found = Privacy(0.7, 1e-5).noisy(mean, params, seeded("noise")).delta
    wanted = 0.7 * sensitivity(params.encoding) / clients
    assert found.std() == pytest.approx(wanted, rel=0.02)
    assert found.mean() == pytest.approx(0.25, abs=4 * wanted / math.sqrt(length))


def test_a_sum_that_somebody_has_made_wrap_around_shows_no_more_than_noise():
    """Words of a client that does not play fair put another's coordinate at the end of the ring."""
    length, clients = 2000, 20
    encoding = TaskSettings(name="t", clip_norm=0.5, clip_value=1.0).encoding(length)
    params = complete_graph(clients, encoding)
    scale, ring = encoding.clip_value / (encoding.top * clients), 2**params.ring_bits
    at_the_end = np.full(length, ring - 2, np.int64)
    found = []
    for update in (0, 4):  # words of the one whom this is about
        words = (at_the_end + update) % ring
        delta = words * (2 * scale) - encoding.clip_value
        mean = Mean(delta, clients, clients, 0.0, 0, 0, clients, 0)
        found.append(Privacy(4.0, 1e-5).noisy(mean, params, seeded("same")).delta)
    period = 2 * scale * ring
    apart = np.abs(found[0] - found[1])
    np.testing.assert_allclose(np.minimum(apart, period - apart), 4 * 2 * scale, atol=1e-9)


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
    with serving(tmp_path) as server, server.operator() as operator:
        operator.create_task("private", MODEL, START, **task_settings(3, rounds=9, **PRIVATE))
        fleet_of(server, tmp_path, 3).run()
        status, weights = operator.status("private"), operator.weights("private")
        place = ["--server", server.url, "--folder", str(tmp_path / "server")]
        assert serve(["status", "private", *place]) == 0
    told = capsys.readouterr().out
    assert status["state"] == "finished"
    assert "another round would spend more than epsilon" in status["error"]
    assert [entry["stage"] for entry in status["rounds"]] == ["finished"] * 2
    assert status["privacy"] == {"epsilon": SPENT([8.0] * 2), "delta": 1e-5, "rounds": 2}
    assert not {"loss", "correct", "examples", "saturated"} & set(status["rounds"][0])
    # Two rounds of noise far above the updates, of which none is longer than 0.5.
    assert np.linalg.norm(weights) > 2
    assert f"spent: epsilon {SPENT([8.0] * 2):.3g} at delta 1e-05, in 2 rounds" in told


def test_a_database_that_is_put_back_does_not_get_its_budget_back(tmp_path):
    folder = tmp_path / "server"
    with serving(tmp_path) as server, server.operator() as operator:
        operator.create_task("private", MODEL, START, **task_settings(3, rounds=9, **PRIVATE))
    for name in ("state.sqlite", "state.sqlite-wal", "state.sqlite-shm"):
        if (folder / name).exists():
            shutil.copy(folder / name, tmp_path / name)
    with serving(tmp_path) as server:
        fleet_of(server, tmp_path / "first", 3).run()
    assert Ledger(folder / "privacy/private").noises() == [8.0, 8.0]
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
        ({"noise_multiplier": 1e-9}, "noise_multiplier is 1e-09, want 0 or at least 0.001"),
        ({"noise_multiplier": 1.0}, r"clip_value is 1.0, want 4.\d+ for that noise"),
        ({"noise_multiplier": -1.0}, "setting noise_multiplier is -1.0, want greater"),
        ({"noise_multiplier": 1.0, "delta": 1.0}, "setting delta is 1.0, want less than 1"),
    ],
)
def test_settings_that_promise_nothing_are_refused(given, words):
    with pytest.raises(SettingsError, match=words):
        task_checks.check(TaskSettings.checked(name="t", **given), LENGTH)
