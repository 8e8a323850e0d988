"""Frozen batch norm leaves the model that trains: the same numbers, fewer nodes, no new weights."""

from __future__ import annotations

import numpy as np

from cloud import nn
from cloud.compile.fold_frozen import fold_frozen
from cloud.nn.loss import softmax_cross_entropy
from cloud.train import ArrayDataset, Momentum, Trainer, training_model
from ir.dtype import DType
from ir.graph import Graph, Model
from ir.ops import OUTPUT_AXIS

LR = 0.05


def net() -> nn.Sequential:
    """A base whose statistics are not those of new layers, and a head with batch norm of its own"""
    rng = np.random.default_rng(0)
    made = nn.Sequential(
        base=nn.Sequential(
            nn.Conv2d(2, 4, 3, rng=rng),
            nn.BatchNorm(4),
            nn.ReLU6(),
            nn.DepthwiseConv2d(4, 3, bias=False, rng=rng),
            nn.BatchNorm(4),
        ),
        head=nn.Sequential(
            nn.GlobalAveragePool(),
            nn.Linear(4, 6, rng=rng),
            nn.BatchNorm(6),
            nn.ReLU(),
            nn.Linear(6, 3, rng=rng),
        ),
    )
    for name, w in made.weights().items():
        if name.startswith("base.") and w.rank == 1:
            w.data = rng.uniform(0.5, 1.5, w.data.shape).astype(np.float32)
    return made


def data() -> ArrayDataset:
    rng = np.random.default_rng(1)
    x = rng.standard_normal((8, 7, 7, 2))
    return ArrayDataset(x=x, label=rng.integers(0, 3, 8))


def model(trainable: list[str]) -> Model:
    inputs = {"x": ("batch", 7, 7, 2)}
    return training_model(net(), softmax_cross_entropy, Momentum(LR), inputs, trainable=trainable)


def norms(graph: Graph) -> list[str]:
    return [n.op.name for n in graph.nodes if n.op.name.startswith("batch_norm")]


def test_batch_norm_of_what_is_frozen_is_gone_and_that_of_what_trains_stays() -> None:
    folded = fold_frozen(model(["head.*"])).entries
    assert {name: norms(g) for name, g in folded.items()} == {
        "infer": ["batch_norm"],
        "loss": ["batch_norm"],
        "train": ["batch_norm_relu", "batch_norm_relu_dx"],
    }


def test_what_trains_is_not_folded() -> None:
    before = model(["*"])
    after = fold_frozen(before)
    assert {n: norms(g) for n, g in after.entries.items()} == {
        n: norms(g) for n, g in before.entries.items()
    }


def test_entries_share_the_folded_weights() -> None:
    entries = fold_frozen(model(["head.*"])).entries.values()
    layers = [[n.inputs[1] for n in g.nodes if n.op.name in OUTPUT_AXIS][:2] for g in entries]
    assert layers[0] == layers[1] == layers[2]
    assert not any(w.name and w.name.startswith("base.") for g in entries for w in g.weights)


def test_a_head_on_a_folded_base_trains_like_one_on_the_base_in_float64() -> None:
    batch = data().columns
    losses, weights = [], []
    for engine in ("lite", "interpreter"):
        module = net()
        if engine == "interpreter":
            module.to(DType.f64)
        trainer = Trainer(
            module, data(), optimizer=Momentum(LR), trainable=["head.*"], metrics={}, engine=engine
        )
        losses.append([trainer.step(batch, LR)["loss"] for _ in range(10)])
        evaluated = trainer.evaluate(data())
        trainer.pull()
        weights.append(module.state_dict())
        losses[-1].append(evaluated["loss"])
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-5)
    before = net().state_dict()
    for name, w in weights[0].items():
        np.testing.assert_allclose(w, weights[1][name], rtol=1e-4, atol=1e-5, err_msg=name)
        assert name.startswith("head.") or np.array_equal(w, before[name])
