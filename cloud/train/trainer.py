"""One module in training: its model, the engine that runs it, and its weights in between."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

import numpy as np

from cloud.nn.loss import Loss, correct, softmax_cross_entropy
from cloud.nn.module import Module
from cloud.train.data import Batch, Source, columns_of, in_order, split_batch
from cloud.train.engine import Arrays, Engine, engine_for
from cloud.train.graphs import (
    LEARNING_RATE,
    SHARE,
    Metrics,
    Spec,
    first_result,
    step_model,
    with_inference,
)
from cloud.train.optim import ACCUMULATED, Optimizer
from ir.dtype import DType
from ir.errors import GraphError
from ir.graph import Array, Model, Value
from ir.symbol import symbol

_COUNT = "examples"
ACCURACY: Metrics = {"correct": correct}


class Trainer:
    """Steps, evaluations and weights of one module.

    `data` gives names, shapes and types: its first `inputs` columns are the module's, the others
    the loss's. The engine owns the weights; `pull` brings them back to the module. `accumulate`:
    each step runs its batch in so many parts and adds up their gradients, which needs the memory
    of one part. `evaluates`: make what `evaluate` needs at once, not when it is first called.
    """

    def __init__(
        self,
        module: Module,
        data: Source,
        *,
        optimizer: Optimizer,
        loss: Loss = softmax_cross_entropy,
        metrics: Metrics | None = None,
        trainable: Sequence[str] | None = None,
        inputs: int = 1,
        accumulate: int = 1,
        evaluates: bool = False,
        engine: str = "lite",
        threads: int = 2,
    ) -> None:
        if accumulate < 1:
            raise ValueError(f"accumulate {accumulate}: want at least 1 part")
        self.module, self.optimizer, self._parts = module, optimizer, accumulate
        self.metrics = metrics_for(loss, metrics)
        xs, targets = column_specs(data, inputs)
        self.columns = (*xs, *targets)
        self._steps = step_model(
            module, loss, optimizer, xs, targets, metrics=self.metrics, trainable=trainable,
            accumulate=accumulate > 1,
        )  # fmt: skip
        self._whole = lambda: with_inference(
            self._steps, module, loss, xs, targets, metrics=self.metrics
        )
        self._evaluates = evaluates
        self._kind, self._threads, self._dtype = engine, threads, module.dtype.numpy
        self.engine: Engine
        self.restart()

    @cached_property
    def model(self) -> Model:
        """The whole model: see `training_model`."""
        return self._whole()

    def step(self, batch: Batch, lr: float) -> dict[str, float]:
        """One step of the optimiser; the loss and metrics of the batch before it."""
        rate = {LEARNING_RATE: self._scalar(lr)}
        if self._parts > 1:
            return self._step_in_parts(batch, rate)
        out = self.engine.run("train", {**self._columns(batch), **rate})
        return {name: float(y) for name, y in out.items()}

    def _step_in_parts(self, batch: Batch, rate: Arrays) -> dict[str, float]:
        total, n = Means(), rows(batch)
        for part in split_batch(self._columns(batch), self._parts):
            share = {SHARE: self._scalar(rows(part) / n)}
            out = self.engine.run("accumulate", {**part, **share})
            total.add({name: float(y) for name, y in out.items()}, rows(part))
        self.engine.run("apply", rate)
        return total.of_batch()

    def _scalar(self, number: float) -> Array:
        return np.asarray(number, self._dtype)

    def evaluate(self, data: Source, batch_size: int = 256) -> dict[str, float]:
        """The mean loss and, where it is counted, the accuracy, in inference mode."""
        if not self._evaluates:
            self.pull()
            self._evaluates = True
            self.restart()
        return evaluation(self.engine, data, self.columns, ("loss", *self.metrics), batch_size)

    def pull(self) -> None:
        """Give the module's weights, and the optimiser's states, the engine's values."""
        arrays = self.engine.weights()
        for w in self._steps.weights:
            if str(w.name) in arrays:
                w.data = np.asarray(arrays[str(w.name)], w.dtype.numpy).reshape(w.data.shape)
            if str(w.name).startswith(f"optimizer.{ACCUMULATED}."):
                w.data = np.zeros_like(w.data)  # of a step that was interrupted

    def push(self, arrays: Mapping[str, Array]) -> None:
        """Set weights and states by name, in the module and in a new engine."""
        weights = {str(w.name): w for w in self.model.weights}
        if odd := sorted(arrays.keys() ^ weights.keys()):
            raise GraphError(f"weights {', '.join(odd)}: in only one of model and what is set")
        for name, a in arrays.items():
            weights[name].data = np.array(a, weights[name].dtype.numpy)
        self.restart()

    def restart(self) -> None:
        """Go on from the weights and states that the module and the optimiser hold now."""
        model = self.model if self._evaluates else self._steps
        self.engine = engine_for(model, self._kind, threads=self._threads)

    def _columns(self, batch: Batch) -> Arrays:
        return {name: batch[name] for name in self.columns}


def evaluation(
    engine: Engine,
    data: Source,
    columns: Sequence[str],
    names: Sequence[str],
    batch_size: int,
) -> dict[str, float]:
    """Means over `data` of what the entry `loss` gives under `names`."""
    total = Means()
    for batch in in_order(data, batch_size):
        out = engine.run("loss", {name: batch[name] for name in columns})
        total.add({name: float(out[name]) for name in names}, rows(batch))
    return total.result()


class Means:
    """Means over examples, of means over batches; the count `correct` becomes `accuracy`."""

    def __init__(self, state: Mapping[str, float] | None = None) -> None:
        self.sums = dict(state or {})
        self.count = int(self.sums.pop(_COUNT, 0))

    def state(self) -> dict[str, float]:
        """What another one goes on from."""
        return {**self.sums, _COUNT: self.count}

    def add(self, values: Mapping[str, float], n: int) -> None:
        self.count += n
        for name, y in values.items():
            weight = 1 if name == "correct" else n
            self.sums[name] = self.sums.get(name, 0.0) + y * weight

    def of_batch(self) -> dict[str, float]:
        """The same under the names of one batch: its mean loss, its number of correct ones."""
        n = max(self.count, 1)
        return {k: v / (1 if k == "correct" else n) for k, v in self.sums.items()}

    def result(self) -> dict[str, float]:
        names = {"correct": "accuracy"}
        return {names.get(k, k): v / max(self.count, 1) for k, v in self.sums.items()}


def predict(
    module: Module,
    data: Source,
    *,
    inputs: int = 1,
    batch_size: int = 256,
    engine: str = "lite",
    threads: int = 2,
) -> Array:
    """The module's first result for all rows of `data`, in inference mode."""
    xs, _ = column_specs(data, inputs)
    module.name_weights()
    runner = engine_for(Model({"infer": first_result(module, xs)}), engine, threads=threads)
    parts = [
        next(iter(runner.run("infer", {name: batch[name] for name in xs}).values()))
        for batch in in_order(data, batch_size)
    ]
    return np.concatenate(parts)


def column_specs(data: Source, inputs: int = 1) -> tuple[dict[str, Spec], dict[str, Spec]]:
    """A model's inputs and targets by name: the columns' shapes, with `batch` for the first axis,
    and their types; floats are of the module's type."""
    specs: list[tuple[str, Spec]] = []
    for name, a in columns_of(data).items():
        shape = (symbol("batch"), *a.shape[1:])
        specs.append((name, shape if a.dtype.kind == "f" else Value(shape, DType.of(a))))
    return dict(specs[:inputs]), dict(specs[inputs:])


def metrics_for(loss: Loss, metrics: Metrics | None) -> Metrics:
    """`metrics`, by default the accuracy of a classifier."""
    if metrics is None:
        classifies = loss is softmax_cross_entropy or getattr(loss, "classifies", False)
        return ACCURACY if classifies else {}
    return metrics


def rows(batch: Batch) -> int:
    return len(next(iter(batch.values())))
