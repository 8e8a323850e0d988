"""A training entry for imported models: what moves, what stays, and that gradients are right."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import lite_runtime as lite
from cloud.interpreter import step
from converter import ConvertError, TrainSpec, convert
from ir import model_file
from ir.dtype import DType
from ir.graph import Array, Graph, Weight
from tests.converter.conftest import Exported, samples
from tests.converter.torch_models import CASES, export, randomised

OPTIMIZERS = [
    "sgd:lr=0.5",
    "sgd:lr=0.1,momentum=0.9",
    "momentum:lr=0.1,nesterov=True",
    "adam:lr=0.03",
    "adamw:lr=0.03,weight_decay=0.01",
]
GRADIENT_LIMIT = 1e-5  # relative; the exported weights are float32, the sums are float64


def blobs(name: str, count: int = 48, classes: int = 4) -> tuple[Array, Array]:
    """Noisy copies of one prototype a class: a task that a few steps make better."""
    rng = np.random.default_rng(3)
    centres = rng.standard_normal((classes, *CASES[name].shape))
    label = rng.integers(0, classes, count).astype(np.int32)
    x = centres[label] + 0.3 * rng.standard_normal((count, *CASES[name].shape))
    return x.astype(np.float32), label


def train(path: Path, name: str, lr: float, steps: int = 25) -> tuple[lite.Session, list[float]]:
    session = lite.load(path, threads=1)
    x, label = blobs(name)
    feed = {"x": x, "label": label, "lr": np.float32(lr)}
    return session, [float(session.run(feed, entry="train")["loss"]) for _ in range(steps)]


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_a_head_learns_on_a_frozen_base(optimizer: str, exported: Exported, tmp_path: Path) -> None:
    spec = TrainSpec(optimizer=optimizer, trainable=["classifier.*"])
    report = convert(exported("dscnn"), tmp_path / "m.ms", train=spec)
    assert report.entries == ["infer", "loss", "train"]
    assert report.trainable == ["classifier.weight", "classifier.bias"]
    loaded = model_file.load(tmp_path / "m.ms")
    lr = float(loaded.metadata["train.lr"])
    session, losses = train(tmp_path / "m.ms", "dscnn", lr)
    assert losses[-1] < 0.8 * losses[0]
    before = {w.name: w.data for w in loaded.weights}
    for w, after in session.weights().items():
        moved = w.startswith(("classifier.", "optimizer."))
        assert np.array_equal(after, before[w]) is not moved, w


def test_an_int8_base_carries_a_float_head(exported: Exported, tmp_path: Path) -> None:
    spec = TrainSpec(trainable=["classifier.*"], optimizer="momentum:lr=0.05")
    report = convert(
        exported("mobilenet_v2"),
        tmp_path / "m.ms",
        quantize="int8",
        calibration=samples("mobilenet_v2"),
        train=spec,
    )
    assert report.nodes["quantized_conv2d"] == 35
    assert report.nodes["linear"] == 1
    loaded = model_file.load(tmp_path / "m.ms")
    train_ops = {n.op.name for n in loaded.entries["train"].nodes}
    assert not {o for o in train_ops if o.startswith(("conv2d", "depthwise"))}
    types = {w.name: w.dtype for w in loaded.weights}
    assert types["classifier.weight"] is DType.f32
    assert DType.i8 in types.values()
    session, losses = train(tmp_path / "m.ms", "mobilenet_v2", 0.05)
    assert losses[-1] < 0.8 * losses[0]
    before = {w.name: w.data for w in loaded.weights if w.dtype is DType.i8}
    after = session.weights()
    assert all(np.array_equal(after[name], data) for name, data in before.items() if name in after)


def test_a_whole_model_learns(exported: Exported, tmp_path: Path) -> None:
    report = convert(exported("lenet"), tmp_path / "m.ms", train=TrainSpec())
    assert len(report.trainable) == 10
    session, losses = train(tmp_path / "m.ms", "lenet", 0.05)
    assert losses[-1] < 0.7 * losses[0]
    before = {w.name: w.data for w in model_file.load(tmp_path / "m.ms").weights}
    assert all(not np.array_equal(after, before[n]) for n, after in session.weights().items())


def test_training_changes_what_the_model_answers(exported: Exported, tmp_path: Path) -> None:
    convert(exported("mlp"), tmp_path / "m.ms", train=TrainSpec(optimizer="adam:lr=0.01"))
    session, _ = train(tmp_path / "m.ms", "mlp", 0.01, steps=60)
    x, label = blobs("mlp")
    assert (session.run({"x": x}, entry="infer")["y"].argmax(1) == label).mean() > 0.9


def _as_float64(model: model_file.Model, entry: str, x: Array, label: Array) -> dict[str, Array]:
    """What one step of plain gradient descent with rate 1 takes from each weight."""
    graph: Graph = model.entries[entry]
    wide = {w: w.data.astype(np.float64) for w in graph.weights if w.dtype is DType.f32}
    arrays = {"x": x.astype(np.float64), "label": label, "lr": np.float64(1)}
    _, new = step(graph, *(arrays[v.name or ""] for v in graph.inputs), weights=wide)
    return {w.name or "": wide[w] - a for w, a in new.items()}


@pytest.mark.parametrize("name", ["lenet", "dscnn", "resnet18"])
def test_the_gradient_of_an_imported_model_is_that_of_pytorch(name: str, tmp_path: Path) -> None:
    net = CASES[name].module()
    source = export(net, tmp_path / "m.onnx", CASES[name].shape, keep_norms=True)
    convert(source, tmp_path / "m.ms", train=TrainSpec())
    model = model_file.load(tmp_path / "m.ms")
    x, label = blobs(name, 6)
    found = _as_float64(model, "train", x, label)

    net = net.double()
    loss = nn.functional.cross_entropy(net(torch.tensor(x).double()), torch.tensor(label).long())
    loss.backward()
    wanted = {n: p.grad for n, p in net.named_parameters()}
    assert found.keys() == wanted.keys()
    for n, g in found.items():
        want = _ours(wanted[n].numpy(), g)
        np.testing.assert_allclose(g, want, atol=GRADIENT_LIMIT * np.abs(want).max())


def _ours(g: Array, like: Array) -> Array:
    """[k,c,r,s] -> [k,r,s,c], or [c,1,r,s] -> [r,s,c]."""
    if g.ndim == 4:
        g = g[:, 0].transpose(1, 2, 0) if like.ndim == 3 else g.transpose(0, 2, 3, 1)
    return g


@pytest.mark.parametrize("act", [nn.ReLU(), nn.SiLU(), nn.GELU()])
def test_layers_that_train_are_computed_once(act: nn.Module, tmp_path: Path) -> None:
    net = nn.Sequential(nn.Linear(20, 8), act, nn.Linear(8, 4)).eval()
    source = export(net, tmp_path / "m.onnx", (20,), dynamo=True)
    report = convert(source, tmp_path / "m.ms", train=TrainSpec())
    assert report.nodes == {"linear": 2}
    train_entry = model_file.load(tmp_path / "m.ms").entries["train"]
    assert [n.op.name for n in train_entry.nodes].count("linear") == 2


def test_the_loss_of_a_model_that_ends_in_softmax_is_that_of_its_logits(tmp_path: Path) -> None:
    torch.manual_seed(0)
    plain = nn.Sequential(nn.Linear(20, 5)).eval()
    soft = nn.Sequential(plain[0], nn.Softmax(1)).eval()
    losses = []
    for i, net in enumerate((plain, soft)):
        source = export(net, tmp_path / f"{i}.onnx", (20,))
        convert(source, tmp_path / f"{i}.ms", train=TrainSpec())
        losses.append(train(tmp_path / f"{i}.ms", "mlp", 0.1, steps=3)[1])
    np.testing.assert_allclose(losses[1], losses[0], rtol=1e-6)


def test_a_regression_learns_by_mean_squared_error(exported: Exported, tmp_path: Path) -> None:
    spec = TrainSpec(loss="mean_squared_error", optimizer="adam:lr=0.01")
    convert(exported("mlp"), tmp_path / "m.ms", train=spec)
    session = lite.load(tmp_path / "m.ms", threads=1)
    x = samples("mlp")["x"]
    feed = {"x": x, "target": x[:, :5] * 2, "lr": np.float32(0.01)}
    losses = [float(session.run(feed, entry="train")["loss"]) for _ in range(100)]
    assert losses[-1] < 0.3 * losses[0]


def test_running_statistics_never_train(tmp_path: Path) -> None:
    net = nn.Sequential(nn.Linear(20, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 4))
    source = export(randomised(net), tmp_path / "m.onnx", (20,), keep_norms=True)
    report = convert(source, tmp_path / "m.ms", train=TrainSpec())
    assert set(report.trainable) == {n for n, _ in net.named_parameters()}


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"trainable": ["nothing.*"]}, "no weight that can train matches 'nothing.*'"),
        ({"loss": "perplexity"}, "loss is 'perplexity', want one of"),
        ({"loss": "huber:delta=inf"}, "inf is not a finite number"),
        ({"optimizer": "sgd:lr=nan"}, "nan is not a finite number"),
        ({"loss": "huber:width=3"}, r"no setting \['width'\]; has delta"),
        ({"loss": "huber:delta=0"}, "delta 0.0, want above 0"),
        ({"batch_norm": "thawed"}, "batch_norm is 'thawed', want one of frozen, live"),
        ({"head": 1}, "head is 1, want at least 2"),
        ({"optimizer": "newton"}, "optimizer 'newton': no such name"),
        ({"optimizer": "sgd:speed=1"}, "optimizer 'sgd:speed=1'"),
        ({"trainable": []}, r"trainable is \[\], want a list of patterns"),
    ],
)
def test_a_wrong_specification_is_refused(
    spec: dict[str, object], message: str, exported: Exported, tmp_path: Path
) -> None:
    with pytest.raises(ConvertError, match=message):
        convert(exported("mlp"), tmp_path / "m.ms", train=TrainSpec(**spec))  # type: ignore[arg-type]
    assert not list(tmp_path.iterdir())


def test_what_trains_is_marked_in_the_file(exported: Exported, tmp_path: Path) -> None:
    convert(exported("mlp"), tmp_path / "m.ms", train=TrainSpec(trainable=["5.*"]))
    marked = {w.name for w in model_file.load(tmp_path / "m.ms").weights if w.trainable}
    assert marked == {"5.weight", "5.bias"}
    assert all(isinstance(w, Weight) for w in model_file.load(tmp_path / "m.ms").weights)
