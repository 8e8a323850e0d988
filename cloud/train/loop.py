"""The loop: epochs of steps, with progress, validation, callbacks and checkpoints."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from cloud.nn.loss import Loss, softmax_cross_entropy
from cloud.nn.module import Module
from cloud.train import checkpoint as checkpoints
from cloud.train.checkpoint import Checkpoint
from cloud.train.data import ArrayDataset, Augment, Batch, batch_count, batches
from cloud.train.engine import engine_for
from cloud.train.graphs import Metrics, loss_graph
from cloud.train.optim import Optimizer
from cloud.train.schedule import Schedule, constant
from cloud.train.trainer import Means, Trainer, column_specs, evaluation, metrics_for, rows
from ir.graph import Model

Record = dict[str, float]
Callback = Callable[[int, Record, Trainer], Any]  # (epoch, its record, trainer); True ends training


@dataclass
class History:
    """What each epoch measured: loss, lr, metrics, and the same of validation as `val_…`."""

    records: list[Record] = field(default_factory=list)

    def __getitem__(self, name: str) -> list[float]:
        return [r[name] for r in self.records]

    def items(self) -> list[tuple[str, list[float]]]:
        """Each measure's name and its values by epoch."""
        return [(name, self[name]) for name in (self.records[0] if self.records else ())]

    def __len__(self) -> int:
        return len(self.records)


def fit(
    module: Module,
    data: ArrayDataset,
    *,
    optimizer: Optimizer,
    epochs: int,
    loss: Loss = softmax_cross_entropy,
    metrics: Metrics | None = None,
    batch_size: int = 32,
    schedule: Schedule | None = None,
    validation: ArrayDataset | None = None,
    augment: Sequence[Augment] = (),
    callbacks: Sequence[Callback] = (),
    trainable: Sequence[str] | None = None,
    inputs: int = 1,
    seed: int = 0,
    checkpoint: str | Path | None = None,
    resume: bool = False,
    progress: bool = True,
    engine: str = "lite",
    threads: int = 2,
) -> History:
    """Train the module's weights in place.

    `data`: the first `inputs` columns are the module's inputs, the others the loss's targets.
    `checkpoint`: a file that is written after each epoch; with `resume`, and if it exists, the run
    goes on from it and ends with the same bits as one that was never stopped. After an interrupt
    (KeyboardInterrupt) the module holds the weights of the last whole step.
    """
    for name, examples in (("data", data), ("validation", validation)):
        if examples is not None and not len(examples):
            raise ValueError(f"fit: {name} has 0 examples, want at least 1")
    trainer = Trainer(
        module, data, optimizer=optimizer, loss=loss, metrics=metrics, trainable=trainable,
        inputs=inputs, engine=engine, threads=threads,
    )  # fmt: skip
    run = _resumed(trainer, checkpoint, seed) if resume else Checkpoint(0, 0, seed, [])
    history, step = History(list(run.history)), run.step
    rate = schedule or constant(optimizer.lr)
    try:
        for epoch in range(run.epoch, epochs):
            rng = np.random.default_rng((seed, epoch))
            steps = batches(data, batch_size, rng=rng, augment=augment)
            label, count = f"epoch {epoch + 1}/{epochs}", batch_count(len(data), batch_size)
            record = _epoch(trainer, _shown(steps, count, label, progress=progress), rate, step)
            step += count
            if validation is not None:
                record |= {f"val_{k}": v for k, v in trainer.evaluate(validation).items()}
            history.records.append(record)
            if progress:
                print(f"{label}: {_text(record)}", file=sys.stderr, flush=True)
            if checkpoint is not None:
                now = Checkpoint(epoch + 1, step, seed, history.records)
                checkpoints.save(checkpoint, trainer, now)
            if _stopped(callbacks, epoch, record, trainer):
                break
    finally:
        trainer.pull()
    return history


def evaluate(
    module: Module,
    data: ArrayDataset,
    *,
    loss: Loss = softmax_cross_entropy,
    metrics: Metrics | None = None,
    inputs: int = 1,
    batch_size: int = 256,
    engine: str = "lite",
    threads: int = 2,
) -> Record:
    """The module's mean loss and metrics over `data`, in inference mode."""
    metrics = metrics_for(loss, metrics)
    xs, targets = column_specs(data, inputs)
    module.name_weights()
    model = Model({"loss": loss_graph(module, loss, xs, targets, metrics=metrics)})
    runner = engine_for(model, engine, threads=threads)
    return evaluation(runner, data, (*xs, *targets), ("loss", *metrics), batch_size)


def _epoch(trainer: Trainer, steps: Iterator[Batch], rate: Schedule, step: int) -> Record:
    """Train on each batch, the first one's number being `step`; means over the epoch's examples."""
    total, lr = Means(), 0.0
    for i, batch in enumerate(steps, start=step):
        lr = rate(i)
        total.add(trainer.step(batch, lr), rows(batch))
    return {**total.result(), "lr": lr}


def _resumed(trainer: Trainer, path: str | Path | None, seed: int) -> Checkpoint:
    if path is None or not Path(path).exists():
        return Checkpoint(0, 0, seed, [])
    run = checkpoints.load(path)
    if run.seed != seed:
        raise ValueError(f"{path}: a run with seed {run.seed}, want seed {seed}")
    trainer.push(run.weights)
    return run


def _stopped(callbacks: Sequence[Callback], epoch: int, record: Record, trainer: Trainer) -> bool:
    """Whether a callback asks to end; each is called, and sees the module's weights of now."""
    if callbacks:
        trainer.pull()
    wishes = [callback(epoch, record, trainer) for callback in callbacks]
    return True in wishes


def _shown(items: Iterator[Any], count: int, label: str, *, progress: bool) -> Iterator[Any]:
    """A progress bar on a terminal; elsewhere the line of each epoch is enough."""
    if not progress or not sys.stderr.isatty():
        return items
    from tqdm import tqdm

    return iter(tqdm(items, total=count, desc=label, leave=False, file=sys.stderr))


def _text(record: Record) -> str:
    return "  ".join(f"{name} {value:.4g}" for name, value in record.items())
