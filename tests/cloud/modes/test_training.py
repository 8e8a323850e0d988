"""Layers written in Python train in both modes, and take the same steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from cloud import modes, nn
from cloud.train import SGD, ArrayDataset, fit

RNG = np.random.default_rng(0)
DATA = ArrayDataset(
    x=RNG.normal(size=(16, 4)).astype(np.float32),
    label=RNG.integers(0, 3, 16).astype(np.int32),
)
IDS = ArrayDataset(
    x=RNG.integers(0, 8, (16, 4)).astype(np.int32),
    label=RNG.integers(0, 3, 16).astype(np.int32),
)


def grown(y: Any) -> Any:
    while abs(y).sum() < 50:
        y = y * 2.0
    return y


def chosen(y: Any) -> Any:
    if y.sum() > 0:
        return y * 2.0
    total = y
    for row in y.T:
        total = total + row[:, None]
    return total


FORMS: dict[str, Callable[[Any], Any]] = {
    "mod": lambda y: y % 2.0,
    "floor": lambda y: y - y // 1.0,
    "sum": lambda y: y * y.sum(),
    "max": lambda y: y - y.max(axis=1, keepdims=True),
    "item": lambda y: y * y[0, 0],
    "numpy": lambda y: np.tanh(abs(y)),
    "while": grown,
    "if": chosen,
}


class Net(nn.Module):
    def __init__(self, form: Callable[[Any], Any]) -> None:
        self.form = form
        self.linear = nn.Linear(4, 3, rng=np.random.default_rng(1))

    def forward(self, x: Any) -> Any:
        return self.form(self.linear(x))


class Looked(nn.Module):
    def __init__(self) -> None:
        self.table = nn.Embedding(8, 1, rng=np.random.default_rng(2))
        self.linear = nn.Linear(4, 3, rng=np.random.default_rng(1))

    def forward(self, ids: Any) -> Any:
        return self.linear(self.table(ids // 2)[:, :, 0])


def losses(module: nn.Module, data: ArrayDataset, mode: str) -> list[float]:
    with modes.using(mode=mode):
        history = fit(
            module, data, optimizer=SGD(0.05), epochs=2, batch_size=8, validation=data,
            progress=False,
        )  # fmt: skip
        assert history["loss"] != history["val_loss"]
        return [*history["loss"], *history["val_loss"]]


@pytest.mark.parametrize("name", FORMS)
def test_a_layer_written_in_python_trains_the_same_in_both_modes(name: str) -> None:
    graph, eager = Net(FORMS[name]), Net(FORMS[name])
    before = graph.linear.weight.data.copy()
    assert losses(graph, DATA, "graph") == losses(eager, DATA, "eager")
    np.testing.assert_array_equal(graph.linear.weight.data, eager.linear.weight.data)
    assert not np.array_equal(graph.linear.weight.data, before)


def test_a_layer_that_computes_with_indices_trains_the_same_in_both_modes() -> None:
    assert losses(Looked(), IDS, "graph") == losses(Looked(), IDS, "eager")
