"""Nets over sequences learn: which of two events came first, and real movements of a watch."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cloud import data, nn, ops
from cloud.train import Adam, AdamW, ArrayDataset, Trainer, checkpoint, evaluate, fit, schedule
from examples.watch import data as watch

STEPS = 24


@pytest.fixture(autouse=True)
def runtime() -> None:
    pytest.importorskip("lite_runtime")


def events(n: int, seed: int) -> ArrayDataset:
    """Noisy sequences with a pulse in each of two channels; the label: which came first."""
    rng = np.random.default_rng(seed)
    x = rng.normal(0, 0.1, (n, STEPS, 2))
    at = np.stack([rng.permutation(STEPS)[:2] for _ in range(n)])
    for channel in (0, 1):
        x[np.arange(n), at[:, channel], channel] += 1
    return ArrayDataset(x=x, label=(at[:, 0] < at[:, 1]).astype(np.int32))


class Classifier(nn.Module):
    """The mean over steps of a body's features, times a matrix."""

    def __init__(self, body: Callable[[np.random.Generator], nn.Module], size: int, classes: int):
        rng = np.random.default_rng(0)
        self.body = body(rng)
        self.head = nn.Linear(size, classes, rng=rng)

    def forward(self, x: Any) -> Any:
        return self.head(ops.reduce_mean(self.body(x), axes=(1,)))


class Encoder(nn.Module):
    def __init__(self, rng: np.random.Generator) -> None:
        self.up, self.block = nn.Linear(2, 16, rng=rng), nn.TransformerBlock(16, 2, rng=rng)

    def forward(self, x: Any) -> Any:
        return self.block(self.up(x) + nn.positions(STEPS, 16))


BODIES: dict[str, tuple[Callable[[np.random.Generator], nn.Module], int]] = {
    "lstm": (lambda rng: nn.LSTM(2, 16, rng=rng), 16),
    "gru of two layers and ways": (
        lambda rng: nn.GRU(2, 8, layers=2, bidirectional=True, rng=rng), 16
    ),
    "transformer": (Encoder, 16),
    "convolutions": (
        lambda rng: nn.Sequential(
            nn.Conv1d(2, 16, 9, padding="same", rng=rng), nn.GELU(), nn.GroupNorm(4, 16),
            nn.Conv1d(16, 16, 15, padding="same", rng=rng), nn.GELU(),
        ), 16,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BODIES)
def test_a_net_over_sequences_learns_which_event_came_first(name: str) -> None:
    body, size = BODIES[name]
    net = Classifier(body, size, 2)
    steps = 20 * 512 // 32
    fit(
        net, events(512, seed=0), optimizer=Adam(clip_norm=1.0), epochs=20, progress=False,
        schedule=schedule.cosine(0.01, steps=steps, warmup=10),
    )  # fmt: skip
    assert evaluate(net, events(256, seed=1))["accuracy"] > 0.93


def test_an_lstm_tells_the_exercises_of_a_person_it_never_saw(watch_file: Path) -> None:
    split = watch.split(
        watch.load(watch_file), seed=0, cloud_people=6, validation_people=2, stride=50
    )
    train, test = (
        ArrayDataset(x=w.x[:, ::2, 0], label=w.y) for w in (split.cloud, split.validation)
    )
    net = Classifier(lambda rng: nn.LSTM(6, 32, rng=rng), 32, len(watch.EXERCISES))
    steps = 8 * len(train) // 32
    fit(
        net, train, optimizer=AdamW(weight_decay=0.01, clip_norm=1.0), epochs=8, progress=False,
        schedule=schedule.cosine(0.01, steps=steps, warmup=10),
        loss=nn.loss.cross_entropy(smoothing=0.05),
    )  # fmt: skip
    accuracy = evaluate(net, test)["accuracy"]
    print(f"{accuracy:.3f} of {len(test)} windows")
    assert accuracy > 0.75


def jittered(item: dict[str, Any], rng: np.random.Generator) -> dict[str, Any]:
    return {**item, "x": item["x"] + rng.normal(0, 0.05, item["x"].shape).astype(np.float32)}


def pipeline(workers: int) -> data.Pipeline:
    columns = events(96, seed=0).columns
    rows = data.arrays(**columns).map(jittered, random=True).shuffle().batch(32)
    return rows.prefetch(workers)


def gru() -> nn.Module:
    return Classifier(lambda rng: nn.GRU(2, 8, rng=rng), 8, 2)


class Stop(Exception):
    """The end of a run that is not its own."""


@pytest.mark.parametrize("stop_at", [2, 4])
def test_a_pipeline_trains_the_same_bits_with_any_number_of_processes_and_resumed_in_mid_epoch(
    stop_at: int, tmp_path: Path
) -> None:
    def stopping(step: int) -> float:
        if step == stop_at:
            raise Stop
        return 0.01

    nets, path = [gru() for _ in range(3)], tmp_path / "run.ms"
    options: dict[str, Any] = {"optimizer": Adam(0.01), "epochs": 3, "progress": False, "seed": 7}
    want = fit(nets[0], pipeline(0), **options)
    fit(nets[1], pipeline(2), **options)
    saved = {"checkpoint": path, "checkpoint_every": 1}
    with pytest.raises(Stop):
        fit(nets[2], pipeline(1), schedule=stopping, **saved, **options)
    assert checkpoint.load(path).batch == stop_at % 3
    found = fit(nets[2], pipeline(3), **saved, resume=True, **options)
    bits = [{n: a.tobytes() for n, a in net.state_dict().items()} for net in nets]
    assert bits[0] == bits[1] == bits[2]
    assert found.records == want.records


def test_a_pipeline_validates_and_a_stream_trains_too() -> None:
    columns = events(64, seed=0).columns

    def rows() -> Any:
        for i in range(64):
            yield {name: a[i] for name, a in columns.items()}

    history = fit(
        gru(), data.generator(rows).shuffle(16).batch(16), optimizer=Adam(), epochs=2,
        validation=pipeline(0), progress=False,
    )  # fmt: skip
    assert len(history["val_loss"]) == 2
    net = gru()
    assert evaluate(net, data.arrays(**columns).batch(7)) == pytest.approx(
        evaluate(net, ArrayDataset(**columns)), rel=1e-5
    )


def test_a_pipeline_that_gives_no_batches_of_columns_is_refused() -> None:
    with pytest.raises(TypeError, match="a batch is ndarray; want a dict of arrays by name"):
        Trainer(gru(), data.sequence([1, 2]).batch(2), optimizer=Adam())
    with pytest.raises(ValueError, match="want at least one"):
        Trainer(gru(), data.sequence([]).batch(2), optimizer=Adam())
    with pytest.raises(ValueError, match="want no augment="):
        fit(gru(), pipeline(0), optimizer=Adam(), epochs=1, augment=[lambda b, r: b])
