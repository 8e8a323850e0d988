"""Micro-batches: their steps are those of the whole batch."""

from __future__ import annotations

import numpy as np
import pytest

from cloud import nn
from cloud.train import Adam, ArrayDataset, Momentum, Trainer, fit
from cloud.train.data import split_batch
from ir.dtype import DType

RNG = np.random.default_rng(0)
DATA = ArrayDataset(x=RNG.standard_normal((50, 6)), label=RNG.integers(0, 3, 50))


def net(dtype: DType = DType.f32) -> nn.Module:
    rng = np.random.default_rng(1)
    module = nn.Sequential(nn.Linear(6, 8, rng=rng), nn.Tanh(), nn.Linear(8, 3, rng=rng))
    module.to(dtype)
    return module


@pytest.mark.parametrize("parts", [2, 3, 7])
def test_n_micro_batches_move_the_weights_as_one_batch_does(parts: int) -> None:
    """Also where the batch does not divide by n, with clipping, and with the optimiser's states."""
    nets = net(DType.f64), net(DType.f64)
    options = {"batch_size": 16, "epochs": 2, "engine": "interpreter", "progress": False}
    histories = [
        fit(module, DATA, optimizer=Adam(0.05, clip_norm=0.5), accumulate=n, **options)
        for module, n in zip(nets, (1, parts), strict=True)
    ]
    for name in ("loss", "accuracy"):
        np.testing.assert_allclose(histories[1][name], histories[0][name], rtol=1e-10)
    for a, b in zip(nets[0].state_dict().values(), nets[1].state_dict().values(), strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-8, atol=1e-12)


def test_accumulation_runs_on_the_runtime() -> None:
    pytest.importorskip("lite_runtime")
    nets = net(), net()
    for module, n in zip(nets, (1, 4), strict=True):
        fit(module, DATA, optimizer=Momentum(0.1), accumulate=n, epochs=2, progress=False)
    for a, b in zip(nets[0].state_dict().values(), nets[1].state_dict().values(), strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-4, atol=1e-6)


def test_an_interrupted_step_leaves_no_gradients_behind() -> None:
    optimizer, module = Momentum(0.1), net()
    trainer = Trainer(module, DATA, optimizer=optimizer, accumulate=2, engine="interpreter")
    part = {name: a[:8] for name, a in DATA.columns.items()}
    trainer.engine.run("accumulate", {**part, "share": np.float32(0.5)})
    trainer.pull()
    sums = [s.data for name, s in optimizer.states.items() if ".sum." in name]
    assert len(sums) == 4
    assert not any(s.any() for s in sums)


def test_a_batch_is_split_into_parts_of_nearly_equal_size() -> None:
    batch = {"x": np.arange(10), "y": np.arange(10) * 2}
    parts = split_batch(batch, 4)
    assert [len(p["x"]) for p in parts] == [2, 3, 2, 3]
    assert np.concatenate([p["y"] for p in parts]).tolist() == batch["y"].tolist()
    assert len(split_batch({"x": np.arange(2)}, 4)) == 2


def test_fewer_than_one_part_is_refused() -> None:
    with pytest.raises(ValueError, match="accumulate 0: want at least 1 part"):
        Trainer(net(), DATA, optimizer=Momentum(0.1), accumulate=0, engine="interpreter")
