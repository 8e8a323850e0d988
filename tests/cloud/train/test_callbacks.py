"""Plateaus against PyTorch's, early stopping, mixed schedules."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from cloud import nn
from cloud.train import SGD, ArrayDataset, EarlyStopping, fit, schedule

RNG = np.random.default_rng(0)
X = RNG.standard_normal((32, 3))
DATA = ArrayDataset(x=X, y=X @ [[1.0], [2.0], [-1.0]])
LOSSES = [1.0, 0.9, 0.95, 0.91, 0.92, 0.93, 0.94, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.4, 0.6, 0.6, 0.6]


@pytest.mark.parametrize("cooldown", [0, 2])
@pytest.mark.parametrize("patience", [0, 1, 3])
def test_a_plateau_lowers_the_rate_when_pytorchs_does(patience: int, cooldown: int) -> None:
    ours = schedule.Plateau(
        schedule.constant(1.0), monitor="loss", factor=0.5, patience=patience, cooldown=cooldown,
        final=0.01,
    )  # fmt: skip
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], 1.0)
    theirs = torch.optim.lr_scheduler.ReduceLROnPlateau(
        optimizer, factor=0.5, patience=patience, cooldown=cooldown, min_lr=0.01
    )
    for step, value in enumerate(LOSSES):
        ours.observe({"loss": value})
        theirs.step(value)
        assert ours(step) == pytest.approx(optimizer.param_groups[0]["lr"]), step


def test_schedules_are_mixed_by_a_chain_with_a_plateau_around() -> None:
    parts = schedule.chain(
        (schedule.polynomial(0.1, steps=10, final=0.05), 10),
        (schedule.cosine(0.05, steps=10, warmup=2), 10),
        (schedule.constant(1e-3), None),
    )
    rate = schedule.Plateau(parts, monitor="loss", patience=0, factor=0.1)
    assert [rate(s) for s in (0, 5, 10, 11, 20, 99)] == pytest.approx(
        [0.1, 0.075, 0.025, 0.05, 1e-3, 1e-3]
    )
    for value in (1.0, 1.0):
        rate.observe({"loss": value})
    assert rate(99) == pytest.approx(1e-4)


def test_one_cycle_rises_to_the_top_and_falls_to_nothing() -> None:
    rate = schedule.one_cycle(1.0, steps=100)
    rates = [rate(s) for s in range(101)]
    assert rates[0] == pytest.approx(0.04)
    assert rates[30] == max(rates) == 1.0
    assert rates[100] == pytest.approx(4e-6)


def test_the_inverse_root_meets_its_warmup() -> None:
    rate = schedule.inverse_root(0.1, warmup=4)
    assert [rate(s) for s in (0, 3, 4, 16)] == pytest.approx([0.025, 0.1, 0.1, 0.05])


def test_exponential_decay_is_pytorchs() -> None:
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], 0.5)
    theirs = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
    for step in range(5):
        assert schedule.exponential(0.5, factor=0.9)(step) == pytest.approx(theirs.get_last_lr()[0])
        optimizer.step()
        theirs.step()


def _fit(stop: Any, epochs: int, rate: float = 0.1, **options: Any) -> tuple[nn.Module, Any]:
    net = nn.Linear(3, 1, rng=np.random.default_rng(0))
    history = fit(
        net, DATA, loss=nn.loss.mean_squared_error, optimizer=SGD(rate), epochs=epochs,
        callbacks=[stop], validation=DATA, engine="interpreter", progress=False, **options,
    )  # fmt: skip
    return net, history


def test_training_stops_once_nothing_becomes_better() -> None:
    stop = EarlyStopping("val_loss", patience=3)
    _, history = _fit(stop, 100, rate=0.0)
    assert len(history) == 4  # the first is the best, three are not better


def test_the_weights_of_the_best_epoch_come_back() -> None:
    def diverging(step: int) -> float:
        return 0.1 if step < 3 else 1.5

    net, history = _fit(EarlyStopping(patience=2), 100, schedule=diverging)
    losses = history["val_loss"]
    assert len(losses) == int(np.argmin(losses)) + 3
    error = np.mean((net(X.astype(np.float32)) - DATA.columns["y"]) ** 2)
    assert error == pytest.approx(min(losses), rel=1e-5)


def test_a_resumed_run_remembers_how_long_it_has_waited(tmp_path: Path) -> None:
    path = tmp_path / "run.ms"
    _fit(EarlyStopping(patience=4, restore=False), 3, rate=0.0, checkpoint=path)
    _, history = _fit(
        EarlyStopping(patience=4, restore=False), 99, rate=0.0, checkpoint=path, resume=True
    )
    assert len(history) == 5


def test_a_resumed_plateau_goes_on_with_the_lower_rate(tmp_path: Path) -> None:
    def plateau() -> schedule.Plateau:
        return schedule.Plateau(schedule.constant(1e-12), patience=1, factor=0.5)

    path = tmp_path / "run.ms"

    def nothing(*_: Any) -> None:
        pass

    _, whole = _fit(nothing, 6, schedule=plateau())
    _fit(nothing, 3, schedule=plateau(), checkpoint=path)
    _, resumed = _fit(nothing, 6, schedule=plateau(), checkpoint=path, resume=True)
    assert whole.records == resumed.records
    assert whole["lr"][-1] < whole["lr"][0]


def test_watching_what_is_not_measured_is_refused() -> None:
    with pytest.raises(ValueError, match=r"no 'val_f1' among loss, lr, val_loss"):
        _fit(EarlyStopping("val_f1"), 1)
    with pytest.raises(ValueError, match=r"only the last may be without end"):
        schedule.chain((schedule.constant(1.0), None), (schedule.constant(1.0), 3))
    with pytest.raises(ValueError, match=r"factor 1\.0"):
        schedule.Plateau(schedule.constant(1.0), factor=1.0)
