"""Strategies against their papers' formulas, one coordinate at a time."""

from __future__ import annotations

import math

import numpy as np
import pytest
from fl_fleet import LENGTH

from fl_server import task_checks
from fl_server.errors import SettingsError
from fl_server.secagg.encode import Mean
from fl_server.strategy import STRATEGIES
from fl_server.task_settings import TaskSettings

RATE, MOMENTUM, BETA2, TAU = 0.3, 0.8, 0.95, 0.01


def mean_of(delta: np.ndarray) -> Mean:
    return Mean(delta, 3, 3, 0.5, 1, 2, 3, 0)


def by_hand(name: str, w: float, deltas: list[float]) -> float:
    """One weight after some rounds."""
    m, v = 0.0, 0.0 if name == "fedavgm" else TAU**2
    for d in deltas:
        if name == "fedavg":
            w += RATE * d
        elif name == "fedavgm":
            v = MOMENTUM * v + d
            w += RATE * v
        else:
            m = MOMENTUM * m + (1 - MOMENTUM) * d
            if name == "fedadagrad":
                v += d * d
            elif name == "fedadam":
                v = BETA2 * v + (1 - BETA2) * d * d
            else:
                v -= (1 - BETA2) * d * d * math.copysign(1, v - d * d)
            w += RATE * m / (math.sqrt(v) + TAU)
    return w


def settings_of(name: str) -> TaskSettings:
    given = {"learning_rate": RATE}
    given |= {} if name == "fedavg" else {"momentum": MOMENTUM}
    given |= {"tau": TAU} if name in ("fedadagrad", "fedadam", "fedyogi") else {}
    given |= {"beta2": BETA2} if name in ("fedadam", "fedyogi") else {}
    return TaskSettings.checked(name="t", strategy=name, **given)


@pytest.mark.parametrize("name", [name for name in STRATEGIES if name != "scaffold"])
def test_weights_move_as_the_paper_says(name):
    rng = np.random.default_rng(0)
    start = rng.standard_normal(LENGTH).astype(np.float32)
    deltas = rng.standard_normal((6, LENGTH)) * 10.0 ** rng.integers(-4, 1, (6, LENGTH))
    strategy = settings_of(name).make_strategy()
    weights, moments = start, strategy.start(LENGTH)
    for delta in deltas:
        weights, moments = strategy.apply(weights, mean_of(delta), moments)
    assert weights.dtype == moments.dtype == np.float32
    want = [by_hand(name, float(w), list(d)) for w, d in zip(start, deltas.T, strict=True)]
    np.testing.assert_allclose(weights, want, rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize("name", STRATEGIES)
def test_a_setting_that_is_left_out_is_the_strategys_own(name):
    assert TaskSettings(name="t", strategy=name).make_strategy() == STRATEGIES[name]()


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"momentum": 0.9}, "momentum is set, but fedavg takes learning_rate alone"),
        (
            {"strategy": "fedavgm", "beta2": 0.9},
            "beta2 is set, but fedavgm takes learning_rate, momentum alone",
        ),
        ({"strategy": "fedadam", "tau": 0.0}, "setting tau is 0.0, want greater than 0"),
        ({"strategy": "fedadam", "momentum": 1}, "setting momentum is 1, want less than 1"),
        ({"strategy": "mean"}, "setting strategy is 'mean', want 'fedavg', 'fedavgm'"),
    ],
)
def test_settings_that_a_strategy_does_not_take_are_refused(given, words):
    with pytest.raises(SettingsError, match=words):
        task_checks.check(TaskSettings.checked(name="t", **given), LENGTH)


def adapted(name: str, rounds: int) -> float:
    """How far from the best weights a strategy is, where coordinates differ in scale by 10^4."""
    scale = np.logspace(0, 4, LENGTH)
    best, strategy = np.ones(LENGTH), STRATEGIES[name](learning_rate=0.1)
    weights, moments = np.zeros(LENGTH, np.float32), strategy.start(LENGTH)
    for _ in range(rounds):
        delta = 1e-4 * scale * (best - weights)  # one step of every device, of a fixed rate
        weights, moments = strategy.apply(weights, mean_of(delta), moments)
    return float(np.abs(best - weights).max())


@pytest.mark.parametrize("name", ["fedadagrad", "fedadam", "fedyogi"])
def test_adaptive_strategies_reach_what_averaging_does_not(name):
    assert adapted(name, 200) < 0.5 * adapted("fedavg", 200)


def test_a_task_that_was_kept_under_the_old_name_goes_on():
    kept = TaskSettings(name="t").model_dump_json().replace('"fedavg"', '"average"')
    assert TaskSettings.model_validate_json(kept).make_strategy() == STRATEGIES["fedavg"]()
