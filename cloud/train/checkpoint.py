"""A training run on disk: a model file whose metadata says where the run stands."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path

from cloud.train.trainer import Trainer
from ir import model_file
from ir.errors import FormatError
from ir.graph import Array, Model

KEY = "train.checkpoint"


@dataclass(frozen=True)
class Checkpoint:
    """Everything that the rest of a run depends on. Random draws of an epoch depend on `seed` and
    the epoch's number alone, those of dropout on its key, which is one of the weights. `batch` and
    `sums` say how far the epoch under way is."""

    epoch: int  # how many epochs are done
    step: int  # how many steps
    seed: int
    history: list[dict[str, float]]
    batch: int = 0  # how many steps of the next epoch are among them
    sums: dict[str, float] = field(default_factory=dict)  # what that epoch measured so far
    weights: dict[str, Array] = field(default_factory=dict)  # and states, by name


def save(path: str | Path, trainer: Trainer, checkpoint: Checkpoint) -> None:
    """Write the model with today's weights and states; an old file stays whole until the end."""
    trainer.pull()
    run = {k: v for k, v in vars(checkpoint).items() if k != "weights"}
    model = Model(trainer.model.entries, {**trainer.model.metadata, KEY: json.dumps(run)})
    model_file.save(model, path)


def load(path: str | Path) -> Checkpoint:
    """The run that a file holds. Raises FormatError where it is no checkpoint."""
    model = model_file.read(Path(path).read_bytes())
    try:
        run = json.loads(model.metadata[KEY])
        return Checkpoint(**run, weights={str(w.name): w.data for w in model.weights})
    except (KeyError, TypeError, ValueError) as e:
        raise FormatError(
            f"{path}: metadata {KEY!r} ({e}); want a file of checkpoint.save"
        ) from None
