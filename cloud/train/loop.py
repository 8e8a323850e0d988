"""The loop: epochs of steps, with progress, validation, callbacks and checkpoints."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cloud.nn.loss import Loss, softmax_cross_entropy
from cloud.nn.module import Module
from cloud.train import checkpoint as checkpoints
from cloud.train.checkpoint import Checkpoint
from cloud.train.data import Augment, Source, check_count, check_source, count_of, epoch_of
from cloud.train.engine import engine_for
from cloud.train.graphs import Metrics, loss_graph
from cloud.train.optim import Optimizer
from cloud.train.schedule import Schedule, constant
from cloud.train.trainer import Means, Trainer, column_specs, evaluation, metrics_for, rows
from ir.graph import Model

Record = dict[str, float]
# (epoch, its record, trainer) -> True ends training. Callbacks, and schedules, with a method
# `observe(record)` are shown every record first, also those of the run that is resumed; callbacks
# with a method `finish(trainer)` are called at the end.
Callback = Callable[[int, Record, Trainer], Any]


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
    data: Source,
    *,
    optimizer: Optimizer,
    epochs: int,
    loss: Loss = softmax_cross_entropy,
    metrics: Metrics | None = None,
    batch_size: int = 32,
    schedule: Schedule | None = None,
    validation: Source | None = None,
    augment: Sequence[Augment] = (),
    callbacks: Sequence[Callback] = (),
    trainable: Sequence[str] | None = None,
    inputs: int = 1,
    seed: int = 0,
    accumulate: int = 1,
    checkpoint: str | Path | None = None,
    checkpoint_every: int | None = None,
    resume: bool = False,
    progress: bool = True,
    engine: str = "lite",
    threads: int = 2,
) -> History:
    """Train the module's weights in place.

    `data`: a data set, or a pipeline of `cloud.data` whose items are batches (`batch_size` is then
    the pipeline's own); the first `inputs` columns are the module's inputs, the others the loss's
    targets. `accumulate`: each batch runs in so many parts, with the same result in less memory.
    `checkpoint`: a file that is written after each epoch, and after every `checkpoint_every` steps;
    with `resume`, and if it exists, the run goes on from it and ends with the same bits as one that
    was never stopped. After an interrupt (KeyboardInterrupt) the module holds the weights of the
    last whole step.
    """
    check_source("fit: data", data)
    if validation is not None:
        check_source("fit: validation", validation)
    check_count("fit: batch size", batch_size)
    check_count("fit: epochs", epochs, least=0)
    trainer = Trainer(
        module, data, optimizer=optimizer, loss=loss, metrics=metrics, trainable=trainable,
        inputs=inputs, accumulate=accumulate, evaluates=validation is not None, engine=engine,
        threads=threads,
    )  # fmt: skip
    start = _resumed(trainer, checkpoint, seed) if resume else Checkpoint(0, 0, seed, [])
    history, rate = History(list(start.history)), schedule or constant(optimizer.lr)
    saver = _Saver(trainer, checkpoint, checkpoint_every, seed, history)
    loop = _Loop(saver, data, validation, batch_size, augment, rate, callbacks, progress)
    try:
        loop.run(start, epochs)
    finally:
        trainer.pull()
    return history


def evaluate(
    module: Module,
    data: Source,
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


@dataclass
class _State:
    """Where a run stands within an epoch."""

    step: int  # how many steps are done
    batch: int  # how many of them in this epoch
    means: Means  # over this epoch's examples


@dataclass(frozen=True)
class _Saver:
    """Writes checkpoints, where one is wanted."""

    trainer: Trainer
    path: str | Path | None
    every: int | None
    seed: int
    history: History

    def after_step(self, epoch: int, state: _State) -> None:
        if self.every and state.step % self.every == 0:
            self.save(epoch, state)

    def save(self, epoch: int, state: _State) -> None:
        if self.path is not None:
            now = Checkpoint(
                epoch, state.step, self.seed, self.history.records, state.batch, state.means.state()
            )
            checkpoints.save(self.path, self.trainer, now)


@dataclass(frozen=True)
class _Loop:
    """Epochs of one run, from where it stands."""

    saver: _Saver
    data: Source
    validation: Source | None
    batch_size: int
    augment: Sequence[Augment]
    rate: Schedule
    callbacks: Sequence[Callback]
    progress: bool

    def run(self, start: Checkpoint, epochs: int) -> None:
        """Each epoch that is left, until a callback ends training."""
        listeners, records = [*self.callbacks, self.rate], self.saver.history.records
        for record in records:
            _tell(listeners, "observe", record)
        state = _State(start.step, start.batch, Means(start.sums))
        for epoch in range(start.epoch, epochs):
            label = f"epoch {epoch + 1}/{epochs}"
            record = self._epoch(state, epoch, label)
            records.append(record)
            if self.progress:
                print(f"{label}: {_text(record)}", file=sys.stderr, flush=True)
            state = _State(state.step, 0, Means())
            self.saver.save(epoch + 1, state)
            _tell(listeners, "observe", record)
            if _stopped(self.callbacks, epoch, record, self.saver.trainer):
                break
        _tell(self.callbacks, "finish", self.saver.trainer)

    def _epoch(self, state: _State, epoch: int, label: str) -> Record:
        """Train on each batch; means over the epoch's examples, and those of validation."""
        trainer, saver = self.saver.trainer, self.saver
        steps = epoch_of(
            self.data, self.batch_size, seed=saver.seed, epoch=epoch, start=state.batch,
            augment=self.augment,
        )  # fmt: skip
        count = count_of(self.data, self.batch_size)
        for batch in _shown(steps, count, state.batch, label, progress=self.progress):
            lr = self.rate(state.step)
            state.means.add(trainer.step(batch, lr), rows(batch))
            state.step += 1
            state.batch += 1
            saver.after_step(epoch, state)
        lr = self.rate(state.step - 1) if state.batch else 0.0
        record = {**state.means.result(), "lr": lr}
        if self.validation is not None:
            found = trainer.evaluate(self.validation)
            record |= {f"val_{k}": v for k, v in found.items()}
        return record


def _tell(listeners: Iterable[Any], method: str, news: Any) -> None:
    for listener in listeners:
        if hasattr(listener, method):
            getattr(listener, method)(news)


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


def _shown(
    items: Iterator[Any], count: int | None, done: int, label: str, *, progress: bool
) -> Iterator[Any]:
    """A progress bar on a terminal; elsewhere the line of each epoch is enough."""
    if not progress or not sys.stderr.isatty():
        return items
    from tqdm import tqdm

    return iter(tqdm(items, total=count, initial=done, desc=label, leave=False, file=sys.stderr))


def _text(record: Record) -> str:
    return "  ".join(f"{name} {value:.4g}" for name, value in record.items())
