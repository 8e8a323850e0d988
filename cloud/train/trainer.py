"""One module in training: its model, the engine that runs it, and its weights in between."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from cloud.nn.loss import Loss, correct, softmax_cross_entropy
from cloud.nn.module import Module
from cloud.train.data import ArrayDataset, Batch, batches
from cloud.train.engine import Arrays, Engine, engine_for
from cloud.train.graphs import LEARNING_RATE, Metrics, Spec, training_model
from cloud.train.optim import Optimizer
from ir.dtype import DType
from ir.errors import GraphError
from ir.graph import Array, Model, Value
from ir.symbol import symbol

ACCURACY: Metrics = {"correct": correct}


class Trainer:
    """Steps, evaluations and weights of one module.

    `data` gives names, shapes and types: its first `inputs` columns are the module's, the others
    the loss's. The engine owns the weights; `pull` brings them back to the module.
    """

    def __init__(
        self,
        module: Module,
        data: ArrayDataset,
        *,
        optimizer: Optimizer,
        loss: Loss = softmax_cross_entropy,
        metrics: Metrics | None = None,
        trainable: Sequence[str] | None = None,
        inputs: int = 1,
        engine: str = "lite",
        threads: int = 2,
    ) -> None:
        self.module, self.optimizer = module, optimizer
        self.metrics = metrics_for(loss, metrics)
        xs, targets = column_specs(data, inputs)
        self.columns = (*xs, *targets)
        self.model: Model = training_model(
            module, loss, optimizer, xs, targets, metrics=self.metrics, trainable=trainable
        )
        self._kind, self._threads = engine, threads
        self.engine: Engine = engine_for(self.model, engine, threads=threads)

    def step(self, batch: Batch, lr: float) -> dict[str, float]:
        """One step of the optimiser; the loss and metrics of the batch before it."""
        out = self.engine.run(
            "train",
            {**self._columns(batch), LEARNING_RATE: np.asarray(lr, self.module.dtype.numpy)},
        )
        return {name: float(y) for name, y in out.items()}

    def evaluate(self, data: ArrayDataset, batch_size: int = 256) -> dict[str, float]:
        """The mean loss and, where it is counted, the accuracy, in inference mode."""
        return evaluation(self.engine, data, self.columns, ("loss", *self.metrics), batch_size)

    def pull(self) -> None:
        """Give the module's weights, and the optimiser's states, the engine's values."""
        arrays = self.engine.weights()
        for w in self.model.weights:
            if str(w.name) in arrays:
                w.data = np.asarray(arrays[str(w.name)], w.dtype.numpy).reshape(w.data.shape)

    def push(self, arrays: Mapping[str, Array]) -> None:
        """Set weights and states by name, in the module and in a new engine."""
        weights = {str(w.name): w for w in self.model.weights}
        if odd := sorted(arrays.keys() ^ weights.keys()):
            raise GraphError(f"weights {', '.join(odd)}: in only one of model and what is set")
        for name, a in arrays.items():
            weights[name].data = np.array(a, weights[name].dtype.numpy)
        self.engine = engine_for(self.model, self._kind, threads=self._threads)

    def _columns(self, batch: Batch) -> Arrays:
        return {name: batch[name] for name in self.columns}


def evaluation(
    engine: Engine,
    data: ArrayDataset,
    columns: Sequence[str],
    names: Sequence[str],
    batch_size: int,
) -> dict[str, float]:
    """Means over `data` of what the entry `loss` gives under `names`."""
    total = Means()
    for batch in batches(data, batch_size):
        out = engine.run("loss", {name: batch[name] for name in columns})
        total.add({name: float(out[name]) for name in names}, rows(batch))
    return total.result()


class Means:
    """Means over examples, of means over batches; the count `correct` becomes `accuracy`."""

    def __init__(self) -> None:
        self.sums: dict[str, float] = {}
        self.count = 0

    def add(self, values: Mapping[str, float], n: int) -> None:
        self.count += n
        for name, y in values.items():
            weight = 1 if name == "correct" else n
            self.sums[name] = self.sums.get(name, 0.0) + y * weight

    def result(self) -> dict[str, float]:
        names = {"correct": "accuracy"}
        return {names.get(k, k): v / max(self.count, 1) for k, v in self.sums.items()}


def column_specs(data: ArrayDataset, inputs: int = 1) -> tuple[dict[str, Spec], dict[str, Spec]]:
    """A model's inputs and targets by name: the columns' shapes, with `batch` for the first axis,
    and their types; floats are of the module's type."""
    specs: list[tuple[str, Spec]] = []
    for name, a in data.columns.items():
        shape = (symbol("batch"), *a.shape[1:])
        specs.append((name, shape if a.dtype.kind == "f" else Value(shape, DType.of(a))))
    return dict(specs[:inputs]), dict(specs[inputs:])


def metrics_for(loss: Loss, metrics: Metrics | None) -> Metrics:
    """`metrics`, by default the accuracy of a classifier."""
    if metrics is None:
        return ACCURACY if loss is softmax_cross_entropy else {}
    return metrics


def rows(batch: Batch) -> int:
    return len(next(iter(batch.values())))
