"""Training models: entries, names, and what frozen weights leave out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cloud import nn
from cloud.interpreter import run, step
from cloud.nn.loss import correct, distillation, mean_squared_error, softmax_cross_entropy
from cloud.train import SGD, Adam, Momentum, training_model
from ir.dtype import DType
from ir.errors import GraphError, ShapeError
from ir.graph import Graph, Model, Value
from ir.in_place import in_place_order
from ir.symbol import symbol

IMAGE = {"image": ("batch", 6, 6, 1)}


def net() -> nn.Sequential:
    rng = np.random.default_rng(0)
    return nn.Sequential(
        base=nn.Sequential(
            nn.Conv2d(1, 4, 3, rng=rng),
            nn.BatchNorm(4),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Dropout(0.2, rng=rng),
        ),
        flatten=nn.Flatten(),
        fc=nn.Linear(16, 3, rng=rng),
    )


def model(**options: Any) -> Model:
    return training_model(
        net(), softmax_cross_entropy, Momentum(0.1), IMAGE, metrics={"correct": correct}, **options
    )


def arrays(n: int = 5) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    return rng.standard_normal((n, 6, 6, 1)).astype(np.float32), rng.integers(0, 3, n).astype(
        np.int32
    )


def kinds(graph: Graph) -> list[str]:
    return [n.op.name for n in graph.nodes]


def test_the_three_entries_have_their_inputs_and_outputs_by_name() -> None:
    entries = model().entries
    found = {k: ([v.name for v in g.inputs], list(g.output_names)) for k, g in entries.items()}
    assert found == {
        "infer": (["image"], ["logits"]),
        "loss": (["image", "label"], ["loss", "correct", "logits"]),
        "train": (["image", "label", "lr"], ["loss", "correct"]),
    }
    assert entries["infer"].inputs[0].shape == (symbol("batch"), 6, 6, 1)
    assert entries["train"].inputs[2].shape == ()


def test_metadata_gives_the_optimiser_and_the_default_rate() -> None:
    m = model().metadata
    assert m["train.lr"] == "0.1"
    assert m["train.optimizer"].startswith("momentum:lr=0.1,")


def test_train_updates_every_trainable_weight_its_momentum_and_the_states_of_layers() -> None:
    names = {str(w.name) for w, _ in model().entries["train"].updates}
    trained = {
        "base.0.weight",
        "base.0.bias",
        "base.1.scale",
        "base.1.bias",
        "fc.weight",
        "fc.bias",
    }
    states = {"base.1.running_mean", "base.1.running_variance", "base.4.key"}
    assert names == trained | states | {f"optimizer.momentum.{n}" for n in trained}


def test_entries_share_their_weights_and_only_train_updates_them() -> None:
    m = model()
    assert set(m.entries["infer"].weights) <= set(m.entries["train"].weights)
    assert not m.entries["infer"].updates
    assert not m.entries["loss"].updates


def test_every_entry_can_run_in_place() -> None:
    for optimizer in (SGD(0.1), Momentum(0.1), Adam(0.1, clip_norm=1.0)):
        m = training_model(net(), softmax_cross_entropy, optimizer, IMAGE)
        assert all(in_place_order(g) for g in m.entries.values())


def test_the_loss_entry_is_in_inference_mode() -> None:
    x, t = arrays()
    m = model()
    loss, hits, logits = run(m.entries["loss"], x, t)
    (want,) = run(m.entries["infer"], x)
    np.testing.assert_array_equal(logits, want)
    p = np.exp(logits - logits.max(1, keepdims=True))
    p /= p.sum(1, keepdims=True)
    assert loss == pytest.approx(-np.log(p[np.arange(5), t]).mean(), rel=1e-5)
    assert hits == np.sum(logits.argmax(1) == t)


def test_a_trained_head_leaves_no_backward_node_of_its_frozen_base() -> None:
    m = model(trainable=["fc.*"])
    train, infer = kinds(m.entries["train"]), kinds(m.entries["infer"])
    assert not [k for k in train if k.startswith(("conv2d_", "max_pool2d_", "batch_norm_train"))]
    assert train.count("momentum_step") == 2
    assert {str(w.name) for w, _ in m.entries["train"].updates} == {
        "fc.weight", "fc.bias", "optimizer.momentum.fc.weight", "optimizer.momentum.fc.bias"
    }  # fmt: skip
    assert [k for k in train if k in ("conv2d", "batch_norm", "max_pool2d")] == [
        k for k in infer if k in ("conv2d", "batch_norm", "max_pool2d")
    ]


def test_freezing_more_leaves_fewer_nodes() -> None:
    counts = [
        len(model(trainable=p).entries["train"].nodes)
        for p in (["*"], ["base.1.*", "fc.*"], ["fc.*"], ["fc.bias"])
    ]
    assert counts == sorted(counts, reverse=True)
    assert len(set(counts)) == 4


def test_a_frozen_base_is_the_same_after_training_its_head() -> None:
    x, t = arrays()
    module = net()
    m = training_model(module, softmax_cross_entropy, SGD(0.5), IMAGE, trainable=["fc.*"])
    _, new = step(m.entries["train"], x, t, np.float32(0.5))
    assert {str(w.name) for w in new} == {"fc.weight", "fc.bias"}


def test_nothing_to_train_is_refused() -> None:
    module = net()
    module.freeze()
    with pytest.raises(GraphError, match="Sequential: no trainable weight reaches the loss"):
        training_model(module, softmax_cross_entropy, SGD(0.1), IMAGE)


def test_a_weight_that_the_loss_does_not_need_is_left_alone() -> None:
    class Idle(nn.Module):
        def __init__(self) -> None:
            self.used = nn.Linear(2, 1, rng=np.random.default_rng(0))
            self.idle = nn.Linear(2, 1, rng=np.random.default_rng(0))

        def forward(self, x: Any) -> Any:
            return self.used(x)

    specs = {"x": ("n", 2)}, {"y": ("n", 1)}
    m = training_model(Idle(), mean_squared_error, Momentum(0.1, weight_decay=0.1), *specs)
    assert all("idle" not in str(w.name) for w in m.weights)


def test_a_loss_that_is_not_scalar_is_refused() -> None:
    def rows(y: Value, target: Value) -> Value:
        return y - target

    with pytest.raises(ShapeError, match=r"loss gives shape \[n,3\], want a scalar"):
        training_model(net(), rows, SGD(0.1), {"x": ("n", 6, 6, 1)}, {"t": ("n", 3)})


def test_targets_can_be_several_such_as_a_teachers_logits() -> None:
    targets = {"label": Value((symbol("batch"),), DType.i32), "teacher": ("batch", 3)}
    m = training_model(net(), distillation(), SGD(0.1), IMAGE, targets)
    assert [v.name for v in m.entries["train"].inputs] == ["image", "label", "teacher", "lr"]
