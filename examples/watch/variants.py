"""The architectures of the model library, small to large; a recipe for `ms-library build`."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from examples.watch import data, recipe

Build = Callable[[np.random.Generator], recipe.WatchNet]
Row = tuple[str, bytes, str, float, dict[str, str]]  # name, file, task, accuracy, facts

VARIANTS: dict[str, Build] = {
    "tiny": lambda rng: recipe.separable((9, 4, 8), [(5, 2, 16)], rng),
    "ds-0.25-s4": lambda rng: recipe.separable((9, 4, 12), [(5, 2, 16), (5, 1, 24)], rng),
    "one-block": lambda rng: recipe.separable((9, 2, 16), [(5, 2, 32)], rng),
    "ds-0.5-s4": lambda rng: recipe.separable((9, 4, 24), [(5, 2, 32), (5, 1, 48)], rng),
    "ds-1.0": recipe.student,
    "plain-0.5": lambda rng: recipe.plain([(9, 2, 16), (5, 2, 32), (5, 1, 32), (3, 2, 48)], rng),
}


def variants(seed: int = 0) -> Iterator[Row]:
    """Every variant on the data in out/data: trained, converted, tested on people not seen."""
    cache = Path(os.environ.get("MINDSPAN_DATA", "out/data"))
    yield from trained(data.split(data.load(data.fetch(cache)), seed), seed)


def trained(watch: data.WatchData, seed: int, epochs: recipe.Epochs | None = None) -> Iterator[Row]:
    """Every variant, distilled from a teacher that is trained first."""
    epochs = epochs or recipe.Epochs()
    big = recipe.teacher(np.random.default_rng(seed))
    recipe.train_teacher(big, watch, seed, epochs)
    with tempfile.TemporaryDirectory() as folder:
        for name, build in VARIANTS.items():
            net = build(np.random.default_rng(seed))
            recipe.train_variant(net, watch, big, seed, epochs)
            path = recipe.export(net, Path(folder) / f"{name}.ms")
            accuracy = recipe.accuracy_of_file(path, watch.validation)
            facts = {"parameters": str(recipe.parameters(net)), "seed": str(seed)}
            yield name, path.read_bytes(), recipe.TASK, accuracy, facts
