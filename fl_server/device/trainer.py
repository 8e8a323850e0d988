"""Training on the device: what a trainer is, and the one that runs a model on the lite runtime."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from fl_server.device.weights import assign, flatten, load_session, runtime, split_names
from fl_server.errors import SettingsError
from fl_server.secagg.encode import Floats, Update

Arrays = Mapping[str, npt.NDArray[Any]]

# The scalar input of a `train` entry that sets the size of its steps.
_RATE = "lr"
_EVALUATED_AT_ONCE = 256
# A model comes from a server: a small file may ask for any memory, and loop for ever.
MOST_MEMORY_BYTES, TIMEOUT_S = 1 << 30, 300.0


class Trainer(Protocol):
    """Turns the global weights into an update."""

    def train(self, weights: Floats, model: bytes) -> Update:
        """What local training changes     weights: float32 [d]; model: the bytes of its file"""
        ...


@runtime_checkable
class Measures(Protocol):
    """A trainer that can also tell how well weights do, for evaluations."""

    def measure(self, weights: Floats, model: bytes) -> Update:
        """Loss and counts of the device's examples, and an update of no coordinates."""
        ...


@dataclass(frozen=True)
class Work:
    """What a plan asks of local training.

    correction: float32 [d], added to the gradient of every step, None for nothing · local: patterns
    of the names of weights that stay on the device (FedPer) · own: float32, those weights, None
    where the model's are still the device's
    """

    correction: Floats | None = None
    local: Sequence[str] = ()
    own: Floats | None = None


@dataclass(frozen=True)
class Trained:
    """update: of the shared weights · travel: the sum of the rates of all local steps, K eta where
    they are all alike · own: float32, the weights that stay on the device
    """

    update: Update
    travel: float
    own: Floats = field(default_factory=lambda: np.zeros(0, np.float32), repr=False)


@runtime_checkable
class Follows(Protocol):
    """A trainer that can do what a plan asks for."""

    def follow(self, weights: Floats, model: bytes, work: Work) -> Trained:
        """As `train`; weights: float32 [d], without those that stay on the device.

        Karimireddy 2020 for the correction, Arivazhagan 2019 ("Federated learning with
        personalization layers") for local weights. raises SettingsError where it cannot
        """
        ...

    def measure_own(self, weights: Floats, model: bytes, work: Work) -> Update:
        """As `Measures.measure`, with the device's own weights where some are local."""
        ...


class LiteTrainer:
    """Runs the `train` entry of a .ms model over the device's own examples.

    data: an array for each input of the entry but the rate, the examples along the first axis ·
    label: the name of the labels among them, for counting correct answers · weight: "uniform" gives
    every device one vote, "examples" one for each example · learning_rate: else the model's own ·
    proximal: mu of FedProx (Li 2020), which holds training to the global weights by
    mu/2 ||w - global||^2; applied beside the step, which with SGD is the gradient step on both ·
    most_memory_bytes, timeout_s: what one run of the model, which is the server's, may take
    """

    def __init__(
        self,
        data: Arrays,
        epochs: int = 1,
        batch_size: int = 16,
        seed: int = 0,
        label: str = "label",
        batch_symbol: str = "batch",
        weight: Literal["uniform", "examples"] = "uniform",
        threads: int = 1,
        learning_rate: float | None = None,
        proximal: float = 0.0,
        most_memory_bytes: int = MOST_MEMORY_BYTES,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        if not 0 < most_memory_bytes < 2**63 or not 0 < timeout_s < math.inf:
            raise SettingsError(
                f"{most_memory_bytes} bytes and {timeout_s} s for a run; want numbers above 0"
            )
        if epochs < 1 or batch_size < 1 or seed < 0:
            raise SettingsError(
                f"{epochs} epochs, batches of {batch_size}, seed {seed}; want 1, 1 and 0 or more"
            )
        if learning_rate is not None and not 0 < learning_rate < math.inf:
            raise SettingsError(f"learning_rate is {learning_rate}, want a number above 0")
        if not 0 <= proximal < math.inf:
            raise SettingsError(f"proximal is {proximal}, want a number of at least 0")
        if flat := [name for name, array in data.items() if not np.ndim(array)]:
            raise SettingsError(f"{flat[0]} is a single number, want one for each example")
        sizes = {len(array) for array in data.values()}
        if len(sizes) != 1 or not min(sizes):
            raise SettingsError(f"the arrays hold {sorted(sizes)} examples; one number above 0")
        self._data = dict(data)
        self._size = sizes.pop()
        self._epochs = epochs
        self._batch_size = min(batch_size, self._size)
        self._seed = seed
        self._label = label
        self._batch_symbol = batch_symbol
        self._weight = weight
        self._threads = threads
        self._learning_rate = learning_rate
        self._proximal = proximal
        self._limits = {"most_memory": most_memory_bytes, "timeout_s": timeout_s}
        self._rounds = 0

    def train(self, weights: Floats, model: bytes) -> Update:
        """Some epochs from the global weights; loss and correct answers are those before them."""
        return self.follow(weights, model, Work()).update

    def follow(self, weights: Floats, model: bytes, work: Work) -> Trained:
        """As `train`; the correction is applied beside the step, which with SGD is the gradient
        step on both.     raises SettingsError where the model's rate is not an input"""
        session = self._open(model, weights, work)
        shared, own = split_names(session, work.local)
        if work.correction is not None and not self._rate_input(session):
            raise SettingsError("a correction needs a `train` entry that takes a learning rate")
        loss, correct = self._measure(session)
        first_losses, travel = self._fit(session, work.correction, shared)
        update = Update(
            delta=flatten(session, shared) - weights,
            weight=self._size if self._weight == "examples" else 1,
            loss=float(np.mean(first_losses)) if loss is None else loss,
            correct=correct,
            examples=self._size,
        )
        return Trained(update, travel, flatten(session, own))

    def measure(self, weights: Floats, model: bytes) -> Update:
        """Loss and correct answers of the global weights; no coordinate of an update."""
        return self.measure_own(weights, model, Work())

    def measure_own(self, weights: Floats, model: bytes, work: Work) -> Update:
        """As `measure`, with the device's own weights where some are local."""
        loss, correct = self._measure(self._open(model, weights, work))
        return Update(
            delta=np.zeros(0, np.float32),
            weight=self._size if self._weight == "examples" else 1,
            loss=loss or 0.0,
            correct=correct,
            examples=self._size,
        )

    def evaluate(self, weights: Floats, model: bytes, work: Work | None = None) -> float:
        """The share of the device's examples that these weights get right, with the device's own
        where some are local."""
        return self._measure(self._open(model, weights, work))[1] / self._size

    def personalise(self, weights: Floats, model: bytes, path: str) -> None:
        """Train on from the global weights and save the model for this device alone."""
        session = self._open(model, weights)
        self._fit(session)
        session.save(path)

    def _open(self, model: bytes, weights: Floats, work: Work | None = None) -> Any:
        session, work = load_session(model, self._threads, **self._limits), work or Work()
        shared, own = split_names(session, work.local)
        assign(session, weights, shared)
        if work.own is not None:
            assign(session, work.own, own)
        return session

    def _fit(
        self,
        session: Any,
        correction: Floats | None = None,
        shared: Sequence[str] | None = None,
    ) -> tuple[list[float], float]:
        """Train in place; the losses of the first epoch and the sum of all rates come out."""
        # A new order each round, yet the same one whenever the run is repeated.
        rng = np.random.default_rng([self._seed, self._rounds])
        self._rounds += 1
        rate, start_at = self._rate_input(session), flatten(session, shared)
        if self._proximal and not rate:
            raise SettingsError("proximal needs a model whose `train` entry takes a learning rate")
        session.resize({self._batch_symbol: self._batch_size})
        losses, travel = [], 0.0
        for epoch in range(self._epochs):
            order = rng.permutation(self._size)
            # A last batch that is not full is left out; another order brings its examples in.
            for start in range(0, self._size - self._batch_size + 1, self._batch_size):
                batch = self._examples(order[start : start + self._batch_size])
                before = flatten(session, shared) if self._proximal else start_at
                result = session.run({**batch, **rate}, entry="train")
                if self._proximal:
                    share = self._proximal * rate[_RATE]
                    held = flatten(session, shared) - share * (before - start_at)
                    assign(session, held, shared)
                if correction is not None:
                    moved = flatten(session, shared) - rate[_RATE] * correction
                    assign(session, moved, shared)
                travel += float(rate.get(_RATE, 0.0))
                if epoch == 0:
                    losses.append(float(np.mean(result["loss"])))
        return losses, travel

    def _rate_input(self, session: Any) -> dict[str, npt.NDArray[np.float32]]:
        """The learning rate, where the entry takes one: the device's own, else the model's."""
        if all(info.name != _RATE for info in session.inputs("train")):
            return {}
        rate = self._learning_rate
        if rate is None:
            kept = session.metadata.get("train.lr")
            if kept is None:
                raise SettingsError("the model names no learning rate; give learning_rate")
            rate = float(kept)
        return {_RATE: np.asarray(rate, np.float32)}

    def _measure(self, session: Any) -> tuple[float | None, int]:
        """The mean loss, None if the model has no `loss` entry, and how many answers are right."""
        entry = "loss" if "loss" in session.entries else "infer"
        wanted = {info.name for info in session.inputs(entry)}
        loss, correct = 0.0, 0
        for start in range(0, self._size, _EVALUATED_AT_ONCE):
            rows = np.arange(start, min(start + _EVALUATED_AT_ONCE, self._size))
            session.resize({self._batch_symbol: len(rows)})
            chosen = self._examples(rows)
            result = session.run({n: chosen[n] for n in wanted}, entry=entry)
            loss += float(np.mean(result.get("loss", 0.0))) * len(rows) / self._size
            correct += self._count_correct(session, result, chosen)
        return (loss if entry == "loss" else None), correct

    def _count_correct(self, session: Any, result: Arrays, chosen: Arrays) -> int:
        """Examples whose highest score is that of their label; 0 where there are no labels."""
        labels = chosen.get(self._label)
        name = session.outputs("infer")[0].name
        if labels is None or name not in result:
            return 0
        wanted = labels if labels.ndim == 1 else labels.argmax(axis=-1)
        return int(np.count_nonzero(result[name].argmax(axis=-1) == wanted))

    def _examples(self, rows: npt.NDArray[np.int64]) -> dict[str, npt.NDArray[Any]]:
        return {name: array[rows] for name, array in self._data.items()}


def load_examples(path: Path) -> dict[str, npt.NDArray[Any]]:
    """The arrays of an .npz file by name.     raises SettingsError, OSError"""
    lite = runtime()
    try:
        arrays: dict[str, npt.NDArray[Any]] = lite.files.read_arrays(path)
    except lite.LiteError as error:
        raise SettingsError(str(error)) from None
    return arrays
