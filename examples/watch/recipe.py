"""What the cloud does: train a teacher, distil a small student, prune it, make it int8.

Every net is a base of convolutions over time, a batch norm of the pooled features, and a linear
head. The batch norm after the pool puts every feature on one scale, which is what lets a head
that was trained on a few people be tuned on a device by a handful of steps.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import lite_runtime as lite
from cloud import nn
from cloud.compress import distill, prune
from cloud.nas import measure_latency_ms
from cloud.train import Adam, ArrayDataset, fit, inference_graph, schedule
from cloud.train.data import Augment, Batch
from converter import TrainSpec, convert
from examples.watch.data import EXERCISES, WatchData, Windows, augment
from ir import Model

CHANNELS, CLASSES = 6, len(EXERCISES)
INPUT = {"x": ("batch", 100, 1, CHANNELS)}
BATCH_SIZE, LEARNING_RATE, WEIGHT_DECAY = 64, 2e-3, 1e-4
TEMPERATURE, ALPHA = 3.0, 0.8
PRUNED = 1 / 3  # of the channels
HEAD = ("head.*",)
DEVICE_OPTIMIZER = "momentum:lr=0.01,momentum=0.9"
CALIBRATION_WINDOWS = 256
THREADS = 2
TASK = "watch exercises"

Stem = tuple[int, int, int]  # kernel, stride, channels
Say = Callable[[str], None]


@dataclass(frozen=True)
class Epochs:
    """How long each net is trained; `tuning` is what follows pruning."""

    teacher: int = 16
    student: int = 25
    tuning: int = 12
    variant: int = 20


class WatchNet(nn.Module):
    """x [n,100,1,6] -> logits [n,7]: a base, its features pooled over time, batch norm, a head."""

    def __init__(
        self, base: list[nn.Module], features: int, rng: np.random.Generator, dropout: float = 0
    ):
        self.base = nn.Sequential(*base)
        self.norm = nn.BatchNorm(features)
        self.dropout = nn.Dropout(dropout, rng=rng) if dropout else None
        self.head = nn.Linear(features, CLASSES, rng=rng)

    @property
    def last_weight(self) -> str:
        """The name of the weight that makes the pooled features."""
        return [
            name for name in self.weights() if name.startswith("base.") and name.endswith(".weight")
        ][-1]

    def forward(self, x: Any) -> Any:
        y = self.norm(self.base(x))
        return self.head(self.dropout(y) if self.dropout else y)


@dataclass(frozen=True)
class Stage:
    """One row of the table of what compression did."""

    name: str
    parameters: int
    size_bytes: int
    latency_ms: float
    accuracy: float  # on the validation people
    seconds: float  # to train and convert it


@dataclass(frozen=True)
class Base:
    """The cloud's result: the model that goes to devices, and how it came about."""

    teacher: WatchNet
    device_model: Path
    stages: tuple[Stage, ...]


def plain(convolutions: Sequence[Stem], rng: np.random.Generator, dropout: float = 0) -> WatchNet:
    """Full convolutions, each (kernel, stride, channels), with batch norm and relu."""
    layers: list[nn.Module] = []
    before = CHANNELS
    for size, stride, channels in convolutions:
        layers += _convolution(before, channels, size, stride, rng)
        before = channels
    return WatchNet([*layers, nn.GlobalAveragePool()], before, rng, dropout)


def separable(stem: Stem, blocks: Sequence[Stem], rng: np.random.Generator) -> WatchNet:
    """A stem, then depthwise and pointwise pairs (Howard et al. 2017)."""
    size, stride, before = stem
    layers = _convolution(CHANNELS, before, size, stride, rng)
    for size, stride, channels in blocks:
        layers += [
            nn.DepthwiseConv2d(
                before, (size, 1), stride=(stride, 1), padding="same", bias=False, rng=rng
            ),
            nn.BatchNorm(before),
            nn.ReLU(),
            *_convolution(before, channels, 1, 1, rng),
        ]
        before = channels
    return WatchNet([*layers, nn.GlobalAveragePool()], before, rng)


def teacher(rng: np.random.Generator) -> WatchNet:
    return plain([(9, 2, 32), (5, 2, 64), (5, 1, 64), (3, 2, 96)], rng, dropout=0.3)


def student(rng: np.random.Generator) -> WatchNet:
    return separable((9, 2, 48), [(5, 2, 64), (5, 2, 96)], rng)


def train_base(
    data: WatchData, folder: Path, seed: int, say: Say, epochs: Epochs | None = None
) -> Base:
    """Teacher, student, pruned student, int8; each stage measured; `.ms` files in `folder`."""
    epochs, rng, stages = epochs or Epochs(), np.random.default_rng(seed), []
    start = time.perf_counter()

    def finished(name: str, net: WatchNet, path: Path) -> None:
        nonlocal start
        seconds = time.perf_counter() - start
        accuracy = accuracy_of_file(path, data.validation)
        size, latency = path.stat().st_size, measure_latency_ms(path)
        stages.append(Stage(name, parameters(net), size, latency, accuracy, seconds))
        say(
            f"{name}: {size / 1000:.1f} kB, {latency:.4f} ms, accuracy {accuracy:.3f} on new people"
        )
        start = time.perf_counter()

    big = teacher(rng)
    train_teacher(big, data, seed, epochs)
    finished("teacher", big, export(big, folder / "teacher.ms"))
    small = student(rng)
    _train(distill, small, data, epochs.student, seed, teacher=big)
    finished("student", small, export(small, folder / "student.ms"))
    prune(inference_graph(small, INPUT), PRUNED, spare=(small.last_weight,))
    _train(distill, small, data, epochs.tuning, seed, teacher=big)
    finished("pruned", small, export(small, folder / "pruned.ms"))
    device = export_for_devices(small, data, folder / "device.ms", rng)
    finished("int8 base", small, device)
    return Base(big, device, tuple(stages))


def train_teacher(net: WatchNet, data: WatchData, seed: int, epochs: Epochs) -> None:
    _train(fit, net, data, epochs.teacher, seed)


def train_variant(net: WatchNet, data: WatchData, big: WatchNet, seed: int, epochs: Epochs) -> None:
    """Train one architecture for the model library."""
    _train(distill, net, data, epochs.variant, seed, teacher=big)


def export(net: WatchNet, path: Path) -> Path:
    """The float32 model, optimised and checked."""
    convert(_model(net), path, metadata={"task": TASK})
    return path


def export_for_devices(
    net: WatchNet, data: WatchData, path: Path, rng: np.random.Generator
) -> Path:
    """A frozen int8 base under a float32 head that trains on the device."""
    chosen = rng.choice(len(data.cloud), min(CALIBRATION_WINDOWS, len(data.cloud)), replace=False)
    convert(
        _model(net),
        path,
        quantize="int8",
        calibration={"x": data.cloud.x[chosen]},
        train=TrainSpec("softmax_cross_entropy", DEVICE_OPTIMIZER, HEAD),
        metadata={"task": TASK},
    )
    return path


def accuracy_of_file(path: Path, windows: Windows) -> float:
    """The share of windows that the file's `infer` entry gets right on the lite runtime."""
    logits = lite.load(path, threads=1).run(windows.x)
    return float((logits.argmax(axis=1) == windows.y).mean())


def parameters(net: WatchNet) -> int:
    return sum(w.data.size for w in net.weights().values() if not w.state)


def _train(run: Any, net: WatchNet, data: WatchData, epochs: int, seed: int, **more: Any) -> None:
    """`fit` or `distill` with what all stages share."""
    samples = ArrayDataset(x=data.cloud.x, label=data.cloud.y)
    steps = epochs * -(-len(samples) // BATCH_SIZE)
    run(
        net,
        data=samples,
        optimizer=Adam(LEARNING_RATE, weight_decay=WEIGHT_DECAY),
        epochs=epochs,
        batch_size=BATCH_SIZE,
        schedule=schedule.cosine(LEARNING_RATE, steps=steps),
        augment=[_turned(data)],
        seed=seed,
        progress=sys.stderr.isatty(),
        threads=THREADS,
        **more,
    )


def _turned(data: WatchData) -> Augment:
    def change(batch: Batch, rng: np.random.Generator) -> Batch:
        return {**batch, "x": augment(batch["x"], data.mean, data.std, rng)}

    return change


def _model(net: WatchNet) -> Model:
    net.name_weights()
    return Model({"infer": inference_graph(net, INPUT)})


def _convolution(
    inputs: int, outputs: int, size: int, stride: int, rng: np.random.Generator
) -> list[nn.Module]:
    """A convolution over time, batch norm, relu     [n,t,1,inputs] -> [n,t/stride,1,outputs]"""
    options: Any = {"stride": (stride, 1), "padding": "same", "bias": False, "rng": rng}
    return [nn.Conv2d(inputs, outputs, (size, 1), **options), nn.BatchNorm(outputs), nn.ReLU()]
