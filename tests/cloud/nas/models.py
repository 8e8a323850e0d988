"""Small model files for the library's tests, and a recipe that yields them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from cloud import nn
from cloud.train.graphs import inference_graph
from ir import Model, model_file

Row = tuple[str, bytes, str, float, dict[str, str]]


def file_of(hidden: int = 4) -> bytes:
    """A .ms file of a small perceptron."""
    rng = np.random.default_rng(hidden)
    net = nn.Sequential(nn.Linear(3, hidden, rng=rng), nn.ReLU(), nn.Linear(hidden, 2, rng=rng))
    net.name_weights()
    return model_file.write(Model({"infer": inference_graph(net, {"x": ("batch", 3)})}))


def recipe() -> Iterator[Row]:
    yield "small", file_of(4), "toy", 0.7, {"hidden": "4"}
    yield "large", file_of(64), "toy", 0.9, {"hidden": "64"}


def failing_recipe() -> Iterator[Row]:
    yield "small", file_of(4), "toy", 0.7, {}
    raise RuntimeError("no data\nfor the second")


def uneven_recipe() -> Iterator[tuple[str, bytes]]:
    yield "small", file_of(4)
