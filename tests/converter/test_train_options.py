"""Training of imported models beside PyTorch's own: losses, batch norms, new heads, memory."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import lite_runtime as lite
from converter import ConvertError, TrainSpec, bisect, convert
from converter.cli import main
from ir import model_file
from ir.graph import Array
from tests.converter.conftest import Exported
from tests.converter.test_training import blobs
from tests.converter.torch_models import CASES, export, randomised

STEPS = 8
TORCH_OPTIMIZERS: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "sgd:lr=0.05": lambda p: torch.optim.SGD(p, lr=0.05),
    "momentum:lr=0.02,momentum=0.9,weight_decay=0.001": lambda p: torch.optim.SGD(
        p, lr=0.02, momentum=0.9, weight_decay=0.001
    ),
    "adamw:lr=0.002,weight_decay=0.01": lambda p: torch.optim.AdamW(p, lr=0.002),
}


def losses_of(path: Path, feed: dict[str, Array], steps: int = STEPS) -> list[float]:
    session = lite.load(path, threads=1)
    return [float(session.run(feed, entry="train")["loss"]) for _ in range(steps)]


def torch_losses(
    net: nn.Module, step: torch.optim.Optimizer, loss: nn.Module, x: Array, target: Array
) -> list[float]:
    out = []
    for _ in range(STEPS):
        step.zero_grad()
        value = loss(net(torch.from_numpy(x)), torch.from_numpy(target))
        value.backward()
        step.step()
        out.append(float(value.detach()))
    return out


@pytest.mark.parametrize("optimizer", TORCH_OPTIMIZERS)
@pytest.mark.parametrize("name", ["lenet", "dscnn", "resnet18"])
def test_a_trajectory_of_an_imported_model_is_that_of_pytorch(
    name: str, optimizer: str, tmp_path: Path
) -> None:
    net = CASES[name].module()
    source = export(net, tmp_path / "m.onnx", CASES[name].shape, keep_norms=True)
    report = convert(source, tmp_path / "m.ms", train=TrainSpec(optimizer=optimizer))
    x, label = blobs(name, 12)
    lr = float(model_file.load(tmp_path / "m.ms").metadata["train.lr"])
    got = losses_of(tmp_path / "m.ms", {"x": x, "label": label, "lr": np.float32(lr)})
    step = TORCH_OPTIMIZERS[optimizer](net.parameters())  # in eval mode: batch norms are frozen
    want = torch_losses(net, step, nn.CrossEntropyLoss(), x, label.astype(np.int64))
    np.testing.assert_allclose(got, want, rtol=2e-3, atol=2e-4)
    assert f"train {report.memory['memory.train']}" in str(report)


@pytest.mark.parametrize("name", ["dscnn", "resnet18"])
def test_live_batch_norms_train_as_in_pytorch(name: str, tmp_path: Path) -> None:
    net = CASES[name].module()
    source = export(net, tmp_path / "m.onnx", CASES[name].shape, keep_norms=True)
    spec = TrainSpec(optimizer="sgd:lr=0.05", batch_norm="live")
    convert(source, tmp_path / "m.ms", train=spec)
    x, label = blobs(name, 12)
    session = lite.load(tmp_path / "m.ms", threads=1)
    feed = {"x": x, "label": label, "lr": np.float32(0.05)}
    got = [float(session.run(feed, entry="train")["loss"]) for _ in range(STEPS)]
    net.train()
    step = torch.optim.SGD(net.parameters(), lr=0.05)
    want = torch_losses(net, step, nn.CrossEntropyLoss(), x, label.astype(np.int64))
    np.testing.assert_allclose(got, want, rtol=5e-3, atol=5e-4)
    net.eval()
    with torch.no_grad():
        answers = net(torch.from_numpy(x)).numpy()
    np.testing.assert_allclose(session.run({"x": x})["y"], answers, rtol=0.02, atol=0.02)


def test_only_batch_norms_that_train_are_live(tmp_path: Path) -> None:
    net = nn.Sequential(
        nn.Linear(20, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 6), nn.BatchNorm1d(6),
        nn.ReLU(), nn.Linear(6, 4),
    )  # fmt: skip
    source = export(randomised(net), tmp_path / "m.onnx", (20,), keep_norms=True)
    spec = TrainSpec(trainable=["4.*", "6.*"], batch_norm="live")
    convert(source, tmp_path / "m.ms", train=spec)
    model = model_file.load(tmp_path / "m.ms")
    assert {w.name for w in model.weights if w.state} == {"4.running_mean", "4.running_var"}
    names = [n.op.name for n in model.entries["train"].nodes]
    assert sum(n in ("batch_norm_train", "batch_norm_relu") for n in names) == 1


Case = tuple[str, nn.Module, nn.Module]
LOSSES: list[Case] = [
    ("cross_entropy:smoothing=0.1", nn.Identity(), nn.CrossEntropyLoss(label_smoothing=0.1)),
    ("multi_class_hinge", nn.Identity(), nn.MultiMarginLoss()),
    ("binary_cross_entropy", nn.Sigmoid(), nn.BCELoss()),
    ("binary_cross_entropy_with_logits", nn.Identity(), nn.BCEWithLogitsLoss()),
    ("mean_squared_error", nn.Tanh(), nn.MSELoss()),
    ("mean_absolute_error", nn.Identity(), nn.L1Loss()),
    ("huber:delta=0.5", nn.Identity(), nn.HuberLoss(delta=0.5)),
    ("kl_divergence", nn.LogSoftmax(1), nn.KLDivLoss(reduction="batchmean")),
]


@pytest.mark.parametrize(("name", "last", "torch_loss"), LOSSES, ids=[c[0] for c in LOSSES])
def test_a_loss_of_the_table_trains_as_in_pytorch(
    name: str, last: nn.Module, torch_loss: nn.Module, tmp_path: Path
) -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(20, 16), nn.Tanh(), nn.Linear(16, 5), last).eval()
    source = export(net, tmp_path / "m.onnx", (20,))
    convert(source, tmp_path / "m.ms", train=TrainSpec(loss=name, optimizer="sgd:lr=0.1"))
    rng = np.random.default_rng(0)
    x = rng.standard_normal((12, 20)).astype(np.float32)
    numbers = rng.uniform(0.05, 0.95, (12, 5)).astype(np.float32)
    numbers /= numbers.sum(1, keepdims=True)
    label = rng.integers(0, 5, 12)
    session = lite.load(tmp_path / "m.ms", threads=1)
    is_label = "label" in {t.name for t in session.inputs("train")}
    target = {"label": label.astype(np.int32)} if is_label else {"target": numbers}
    got = losses_of(tmp_path / "m.ms", {"x": x, **target, "lr": np.float32(0.1)})
    step = torch.optim.SGD(net.parameters(), lr=0.1)
    want = torch_losses(net, step, torch_loss, x, label if is_label else numbers)
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


# The loss behind 40 steps, of that before: features without training tell little in the others.
LEARNT = {"lenet": 0.8, "resnet18": 0.85}


@pytest.mark.parametrize("name", ["lenet", "mobilenet_v2", "resnet18", "dscnn"])
def test_a_new_head_learns_other_classes(name: str, exported: Exported, tmp_path: Path) -> None:
    last = [n for n, _ in CASES[name].module().named_parameters()][-1].rpartition(".")[0]
    spec = TrainSpec(head=7, trainable=[f"{last}.*"], optimizer="adam:lr=0.02")
    report = convert(exported(name), tmp_path / "m.ms", train=spec)
    assert report.trainable == [f"{last}.weight", f"{last}.bias"]
    x, label = blobs(name, 40, classes=7)
    session = lite.load(tmp_path / "m.ms", threads=1)
    assert session.run({"x": x})["y"].shape == (40, 7)
    losses = losses_of(
        tmp_path / "m.ms", {"x": x, "label": label, "lr": np.float32(0.02)}, steps=40
    )
    assert losses[0] == pytest.approx(np.log(7), rel=0.6)
    assert losses[-1] < LEARNT.get(name, 0.98) * losses[0]


def test_the_same_head_is_drawn_every_time(exported: Exported, tmp_path: Path) -> None:
    for name in ("a", "b"):
        convert(exported("lenet"), tmp_path / name, train=TrainSpec(head=3))
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_a_model_without_a_last_layer_takes_no_head(tmp_path: Path) -> None:
    net = nn.Sequential(nn.Linear(20, 6), nn.LayerNorm(6)).eval()
    source = export(net, tmp_path / "m.onnx", (20,))
    with pytest.raises(ConvertError, match="a new head replaces a last linear layer"):
        convert(source, tmp_path / "m.ms", train=TrainSpec(head=3))
    assert [p.name for p in tmp_path.iterdir()] == ["m.onnx"]


def needed(path: Path, batch: int) -> int:
    session = lite.load(path, threads=1)
    session.resize(dict.fromkeys(session.symbols, batch))
    model = model_file.load(path)
    written = {w for g in model.entries.values() for w, _ in g.updates}
    return session.planned_bytes("train") + sum(w.data.nbytes for w in written)


def test_more_memory_trains_more_and_never_more_than_there_is(
    exported: Exported, tmp_path: Path
) -> None:
    convert(exported("lenet"), tmp_path / "all.ms", train=TrainSpec())
    whole = needed(tmp_path / "all.ms", 4)
    counts = []
    for share in (0.4, 0.7, 1.0):
        spec = TrainSpec(memory=int(whole * share), batch=4)
        report = convert(exported("lenet"), tmp_path / "m.ms", train=spec)
        assert needed(tmp_path / "m.ms", 4) <= whole * share
        assert report.train_memory.startswith(f"within {int(whole * share):,} B at batch 4 train ")
        assert report.train_memory in str(report)
        counts.append(len(report.trainable))
    assert counts == sorted(counts)
    assert counts[0] < counts[-1] == 10
    assert "all 5 layers" in report.train_memory


def test_too_little_memory_says_what_the_least_is(exported: Exported, tmp_path: Path) -> None:
    with pytest.raises(
        ConvertError,
        match=r"the bias of the last layer alone wants \d+ bytes at batch \d+; want that much",
    ):
        convert(exported("lenet"), tmp_path / "m.ms", train=TrainSpec(memory=10))
    assert not list(tmp_path.iterdir())


def test_the_command_takes_all_of_it(
    exported: Exported, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    args = [str(exported("resnet18", keep_norms=True)), "-o", str(tmp_path / "m.ms"), "--train"]
    args += ["--head", "3", "--batch-norm", "live", "--train-memory", "4MB", "--train-batch", "2"]
    assert main([*args, "--loss", "cross_entropy:smoothing=0.1"]) == 0
    out = capsys.readouterr().out
    assert "within 4,000,000 B at batch 2 train " in out
    assert (
        model_file.load(tmp_path / "m.ms").metadata["train.loss"] == "cross_entropy:smoothing=0.1"
    )


def test_the_report_of_a_new_head_is_of_the_model_that_is_written(
    exported: Exported, tmp_path: Path
) -> None:
    """Layers that train are not quantized, in the file as in the report."""
    x, _ = blobs("lenet", 32, classes=5)
    last = [n for n, _ in CASES["lenet"].module().named_parameters()][-1].rpartition(".")[0]
    with_head = TrainSpec(head=5, trainable=[f"{last}.*"])
    options: dict[str, Any] = {"quantize": "int8", "calibration": {"x": x}, "check_data": {"x": x}}
    new = convert(exported("lenet"), tmp_path / "new.ms", train=with_head, **options)
    old = TrainSpec(trainable=[f"{last}.*"])
    same = convert(exported("lenet"), tmp_path / "old.ms", train=old, **options)
    assert [row["op"] for row in new.layers] == [row["op"] for row in same.layers]


def test_bisecting_a_conversion_with_a_new_head_looks_at_the_old_one(exported: Exported) -> None:
    assert bisect(exported("lenet"), train=TrainSpec(head=5)) is None


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--head", "3"], "are for --train"),
        (["--train-batch", "4"], "are for --train"),
        (["--train", "--train-memory", "10iB"], "'10iB': want bytes such as 2MB"),
        (["--train", "--train-memory", "much"], "'much': want bytes such as 2MB"),
        (["--train", "--loss", "perplexity"], "loss is 'perplexity', want one of"),
    ],
)
def test_wrong_flags_are_wrong_usage(
    flags: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as end:
        main(["m.onnx", *flags])
    assert end.value.code == 2
    assert message in capsys.readouterr().err
