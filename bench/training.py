"""Training steps beside PyTorch: equal weights and batches, and the losses compared."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import Any

import numpy as np
import torch

from bench.timing import Row, Turns, rows, take_turns, timed
from cloud import models, nn
from cloud.train import ArrayDataset, Momentum, Trainer
from tests.cloud.torch_twin import to_torch, weight_to_ours
from tests.converter import torch_models

BATCH, BATCHES, CLASSES = 32, 10, 10
LR, MOMENTUM = 0.01, 0.9


@dataclass(frozen=True)
class Case:
    """One net of ours, and the same in PyTorch with weights in the same order."""

    ours: Callable[..., nn.Module]
    theirs: Callable[[], torch.nn.Module]
    shape: tuple[int, ...]  # of one example, channels last
    flat: tuple[str, tuple[int, int, int]] | None = None  # the weight that flat channels reach


MLP = (784, 256, 128, CLASSES)


def resnet8(width: int = 16) -> torch.nn.Module:
    """Banbury et al. 2021, as cloud.models has it."""
    features = torch.nn.Sequential(
        torch_models.conv_norm(3, width),
        torch_models.BasicBlock(width, width, 1),
        torch_models.BasicBlock(width, 2 * width, 2),
        torch_models.BasicBlock(2 * width, 4 * width, 2),
    )
    return torch_models.Head(features, 4 * width, CLASSES)


CASES = {
    "mlp": Case(partial(models.mlp, MLP), partial(torch_models.mlp, MLP), (28, 28, 1)),
    "lenet": Case(
        partial(models.lenet, CLASSES),
        partial(torch_models.lenet, CLASSES),
        (28, 28, 1),
        ("fc1.weight", (16, 5, 5)),
    ),
    "resnet8": Case(partial(models.resnet8, CLASSES), resnet8, (32, 32, 3)),
    "dscnn 64": Case(
        partial(models.dscnn, CLASSES), partial(torch_models.dscnn, 64, CLASSES), (49, 10, 1)
    ),
}


def measure(
    turns: Turns, threads: Sequence[int], steps: int = 100, cases: Sequence[str] = tuple(CASES)
) -> Iterator[Row]:
    """Rows of every case by number of threads; `steps` losses are compared with float64."""
    for name in cases:
        case = CASES[name]
        off = trajectories(case, steps)
        note = "; ".join(
            f"{who} {o[:10].max():.0e} in 10, {o.max():.0e} in {steps}" for who, o in off.items()
        )
        for n in threads:
            torch.set_num_threads(n)
            contenders = {
                "ours": timed(our_steps(case, n)),
                "torch": timed(torch_steps(case)),
                "torch, channels last": timed(torch_steps(case, channels_last=True)),
            }
            found = take_turns(contenders, turns)
            yield from rows("training", name, n, found, note)


def trajectories(case: Case, steps: int) -> dict[str, np.ndarray]:
    """How far each loss in float32 is from PyTorch's in float64, relatively, by who computes it."""
    exact = _losses(torch_steps(case, torch.float64), steps)
    runs = {"ours": our_steps(case, 1), "torch": torch_steps(case)}
    return {who: np.abs(_losses(run, steps) / exact - 1) for who, run in runs.items()}


def our_steps(case: Case, threads: int) -> Callable[[], float]:
    """The loss of each next step, by the runtime."""
    module, data, batches = equal_weights(case)[0], *example_data(case)
    trainer = Trainer(
        module, data, optimizer=Momentum(LR, momentum=MOMENTUM), metrics={}, threads=threads
    )
    turn = count()
    return lambda: trainer.step(batches[next(turn) % BATCHES], LR)["loss"]


def torch_steps(
    case: Case, dtype: torch.dtype = torch.float32, channels_last: bool = False
) -> Callable[[], float]:
    """The same by PyTorch, eager."""
    net = equal_weights(case)[1].to(dtype).train()
    layout: dict[str, Any] = {"memory_format": torch.channels_last} if channels_last else {}
    if len(case.shape) == 3 and channels_last:
        net = net.to(**layout)
    optimizer = torch.optim.SGD(net.parameters(), LR, momentum=MOMENTUM)
    xs = [to_torch(b["image"]).to(dtype).contiguous(**layout) for b in example_data(case)[1]]
    labels = [torch.tensor(b["label"].astype(np.int64)) for b in example_data(case)[1]]
    turn = count()

    def step() -> float:
        i = next(turn) % BATCHES
        loss = torch.nn.functional.cross_entropy(net(xs[i]), labels[i])
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        return loss.item()

    return step


def equal_weights(case: Case) -> tuple[nn.Module, torch.nn.Module]:
    """Our net and PyTorch's, which has been given its weights."""
    torch.manual_seed(0)
    ours, theirs = case.ours(rng=np.random.default_rng(0)), case.theirs()
    trained = {n: w for n, w in ours.weights().items() if not w.state}
    for (name, w), t in zip(trained.items(), theirs.parameters(), strict=True):
        if case.flat and name == case.flat[0]:  # PyTorch flattens [c,h,w], we [h,w,c]
            t = t.detach().reshape(-1, *case.flat[1]).permute(0, 2, 3, 1).reshape(t.shape)
        w.data = weight_to_ours(t, w)
    return ours, theirs


def example_data(case: Case) -> tuple[ArrayDataset, list[dict[str, np.ndarray]]]:
    """A pattern a class in noise, and its batches."""
    rng = np.random.default_rng(1)
    label = rng.integers(0, CLASSES, BATCH * BATCHES).astype(np.int32)
    patterns = rng.standard_normal((CLASSES, *case.shape))
    image = (patterns[label] + rng.standard_normal((len(label), *case.shape))).astype(np.float32)
    data = ArrayDataset(image=image, label=label)
    return data, [data[slice(i * BATCH, (i + 1) * BATCH)].columns for i in range(BATCHES)]


def _losses(step: Callable[[], float], steps: int) -> np.ndarray:
    return np.array([step() for _ in range(steps)])
