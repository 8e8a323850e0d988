"""What runs the entries of a model: the lite runtime, or the numpy interpreter as the oracle."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import numpy as np

from cloud import interpreter
from cloud.compile.fold_frozen import fold_frozen
from cloud.compile.pipeline import optimized_model
from ir.graph import Array, Model

Arrays = dict[str, Array]


class Engine(Protocol):
    """Runs entries by name and owns the weights while it does."""

    def run(self, entry: str, inputs: Mapping[str, Array]) -> Arrays:
        """The entry's outputs by name; its updates are in the weights afterwards."""

    def weights(self) -> Arrays:
        """A copy of every weight and state by name; one that never changes may be missing."""


class LiteEngine:
    """The engine of phones: the model, compiled, is handed to the runtime as a file's bytes."""

    def __init__(self, model: Model, *, threads: int = 2) -> None:
        import lite_runtime as lite
        from ir.model_file import write

        compiled = optimized_model(fold_frozen(model))
        self._session = lite.load(write(compiled), threads=threads)

    def run(self, entry: str, inputs: Mapping[str, Array]) -> Arrays:
        return dict(self._session.run(dict(inputs), entry=entry))

    def weights(self) -> Arrays:
        return dict(self._session.weights())


class InterpreterEngine:
    """Each operator's numpy reference, in the model's types: float64 makes an oracle."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._weights = {w: w.data.copy() for w in model.weights}

    def run(self, entry: str, inputs: Mapping[str, Array]) -> Arrays:
        graph = self._model.entries[entry]
        arrays = [np.asarray(inputs[str(v.name)], v.dtype.numpy) for v in graph.inputs]
        outputs, new = interpreter.step(graph, *arrays, weights=self._weights)
        self._weights = {**self._weights, **new}  # at once: an interrupt leaves all or nothing
        return dict(zip(graph.output_names, outputs, strict=True))

    def weights(self) -> Arrays:
        return {str(w.name): a.copy() for w, a in self._weights.items()}


def engine_for(model: Model, kind: str, *, threads: int = 2) -> Engine:
    """The engine of that name: "lite" or "interpreter"."""
    if kind == "lite":
        return LiteEngine(model, threads=threads)
    if kind == "interpreter":
        return InterpreterEngine(model)
    raise ValueError(f"engine {kind!r}: want lite or interpreter")
