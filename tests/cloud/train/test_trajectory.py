"""Training a small CNN follows PyTorch's float64 run step by step."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from cloud import nn
from cloud.train import Adam, ArrayDataset, Momentum, Optimizer, Trainer
from ir.dtype import DType
from tests.cloud.torch_twin import to_torch, weight_to_ours

T = torch.nn
CLASSES, BATCH, STEPS, LR = 3, 16, 100, 0.05


def our_net() -> nn.Module:
    rng = np.random.default_rng(0)
    return nn.Sequential(
        conv1=nn.Conv2d(1, 4, 3, padding=1, bias=False, rng=rng),
        norm1=nn.BatchNorm(4),
        relu1=nn.ReLU(),
        pool1=nn.MaxPool2d(2),
        conv2=nn.Conv2d(4, 8, 3, rng=rng),
        relu2=nn.ReLU(),
        pool2=nn.AvgPool2d(2),
        gap=nn.GlobalAveragePool(),
        fc=nn.Linear(8, CLASSES, rng=rng),
    )


def torch_net() -> T.Module:
    torch.manual_seed(0)
    return T.Sequential(
        T.Conv2d(1, 4, 3, padding=1, bias=False), T.BatchNorm2d(4), T.ReLU(), T.MaxPool2d(2),
        T.Conv2d(4, 8, 3), T.ReLU(), T.AvgPool2d(2), T.AdaptiveAvgPool2d(1), T.Flatten(),
        T.Linear(8, CLASSES),
    ).double()  # fmt: skip


def stripes(n: int) -> ArrayDataset:
    """Noisy 12x12 images of horizontal, vertical or diagonal stripes."""
    rng = np.random.default_rng(5)
    labels = rng.integers(0, CLASSES, n)
    i, j = np.mgrid[:12, :12]
    phases = np.stack([i, j, i + j])[labels] + rng.integers(0, 4, (n, 1, 1))
    noise = rng.standard_normal((n, 12, 12))
    return ArrayDataset(image=(np.sin(phases * np.pi / 2) + noise)[..., None], label=labels)


DATA = stripes(BATCH * 10)


def batch(step: int) -> dict[str, np.ndarray]:
    rows = slice(step % 10 * BATCH, (step % 10 + 1) * BATCH)
    return DATA[rows].columns


def torch_losses(net: T.Module, optimizer: torch.optim.Optimizer) -> list[float]:
    losses = []
    for i in range(STEPS):
        b = batch(i)
        logits = net(to_torch(b["image"].astype(np.float64)))
        loss = T.functional.cross_entropy(logits, torch.tensor(b["label"].astype(np.int64)))
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        losses.append(loss.item())
    return losses


def our_losses(net: nn.Module, optimizer: Optimizer, engine: str) -> list[float]:
    trainer = Trainer(net, DATA, optimizer=optimizer, engine=engine)
    losses = [trainer.step(batch(i), optimizer.lr)["loss"] for i in range(STEPS)]
    trainer.pull()
    return losses


def with_equal_weights(dtype: DType) -> tuple[nn.Module, T.Module]:
    ours, theirs = our_net(), torch_net()
    ours.to(dtype)
    pairs = zip(
        [w for w in ours.weights().values() if not w.state], theirs.parameters(), strict=True
    )
    for w, t in pairs:
        with torch.no_grad():
            t.copy_(t.float().double())  # both start from float32 numbers
        w.data = weight_to_ours(t, w).astype(w.data.dtype)
    return ours, theirs


OPTIMIZERS: dict[str, tuple[Any, Any]] = {
    "momentum": (
        lambda: Momentum(LR, weight_decay=1e-3),
        lambda p: torch.optim.SGD(p, LR, momentum=0.9, weight_decay=1e-3),
    ),
    "adam": (lambda: Adam(0.01), lambda p: torch.optim.Adam(p, 0.01)),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_the_interpreter_in_float64_follows_pytorch_to_1e_9(name: str) -> None:
    ours, theirs = with_equal_weights(DType.f64)
    make, torch_make = OPTIMIZERS[name]
    found = our_losses(ours, make(), "interpreter")
    want = torch_losses(theirs, torch_make(theirs.parameters()))
    off = np.abs(np.array(found) / want - 1)
    print(f"float64, {name}: {off[:10].max():.0e} in 10 steps, {off.max():.0e} in {STEPS}")
    np.testing.assert_allclose(found, want, rtol=1e-9)
    assert want[-1] < 0.7 * want[0]
    for (n, w), t in zip(
        [(n, w) for n, w in ours.weights().items() if not w.state], theirs.parameters(), strict=True
    ):
        np.testing.assert_allclose(w.data, weight_to_ours(t, w), rtol=1e-8, atol=1e-9, err_msg=n)


@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize("engine", ["lite", "interpreter"])
def test_float32_training_follows_pytorchs_float64_losses(engine: str, name: str) -> None:
    if engine == "lite":
        pytest.importorskip("lite_runtime")
    ours, theirs = with_equal_weights(DType.f32)
    make, torch_make = OPTIMIZERS[name]
    found = np.array(our_losses(ours, make(), engine))
    want = np.array(torch_losses(theirs, torch_make(theirs.parameters())))
    off = np.abs(found - want) / want
    print(f"{engine}, {name}: {off[:10].max():.0e} in 10 steps, {off.max():.0e} in {STEPS}")
    np.testing.assert_allclose(found[:10], want[:10], rtol=1e-5)
    np.testing.assert_allclose(found, want, rtol=1e-3)
