"""Our own models as the source: saved files and models in memory."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import lite_runtime as lite
from cloud.models import dscnn, lenet, mobilenet_v2, resnet8
from cloud.nn.loss import softmax_cross_entropy
from cloud.train.graphs import inference_graph, training_model
from cloud.train.optim import SGD, Momentum
from converter import ConvertError, TrainSpec, convert
from ir import model_file
from ir.graph import Array, Model

SHAPES = {
    "lenet": (28, 28, 1), "dscnn": (49, 10, 1), "resnet8": (32, 32, 3), "mobilenet_v2": (32, 32, 3),
}  # fmt: skip
MAKERS = {
    "lenet": lenet,
    "dscnn": lambda rng: dscnn(width=16, rng=rng),
    "resnet8": lambda rng: resnet8(width=8, rng=rng),
    "mobilenet_v2": lambda rng: mobilenet_v2(7, width=0.25, size=32, rng=rng),
}


def saved(name: str, folder: Path, *, trained: bool = False) -> tuple[Path, Array]:
    """A cloud model's file, and inputs for it; statistics are those of some training."""
    rng = np.random.default_rng(0)
    net = MAKERS[name](rng=rng)
    net.name_weights()
    for w in net.weights().values():
        if "running" in str(w.name):
            w.data = rng.uniform(0.5, 1.5, w.data.shape).astype(np.float32)
    inputs = {"image": ("batch", *SHAPES[name])}
    if trained:
        model = training_model(net, softmax_cross_entropy, Momentum(0.1), inputs)
    else:
        model = Model({"infer": inference_graph(net, inputs)}, {"task": "test"})
    model_file.save(model, folder / f"{name}.ms")
    return folder / f"{name}.ms", rng.standard_normal((8, *SHAPES[name])).astype(np.float32)


@pytest.mark.parametrize("name", MAKERS)
def test_a_saved_model_for_inference_is_folded_and_fused(name: str, tmp_path: Path) -> None:
    source, x = saved(name, tmp_path)
    report = convert(source, tmp_path / "fast.ms")
    assert report.source_kind == "ms"
    assert "batch_norm" not in report.nodes
    assert sum(report.nodes.values()) < report.nodes_read
    before, after = lite.load(source, threads=1), lite.load(tmp_path / "fast.ms", threads=1)
    want = before.run(x)
    np.testing.assert_allclose(after.run(x), want, atol=1e-4 * np.abs(want).max())
    assert model_file.load(tmp_path / "fast.ms").metadata["task"] == "test"


@pytest.mark.parametrize("name", MAKERS)
def test_a_file_that_trains_passes_through_unharmed(name: str, tmp_path: Path) -> None:
    source, x = saved(name, tmp_path, trained=True)
    report = convert(source, tmp_path / "again.ms")
    assert report.entries == ["infer", "loss", "train"]
    before, after = model_file.load(source), model_file.load(tmp_path / "again.ms")
    assert {w.name for w in before.weights} == {w.name for w in after.weights}
    assert after.metadata == before.metadata
    updated = [[w.name for w, _ in m.entries["train"].updates] for m in (before, after)]
    assert sorted(map(str, updated[0])) == sorted(map(str, updated[1]))
    assert (tmp_path / "again.ms").stat().st_size <= source.stat().st_size + 64
    label = np.arange(8, dtype=np.int32) % 7
    feed = {"image": x, "label": label, "lr": np.float32(0.05)}
    sessions = [lite.load(p, threads=1) for p in (source, tmp_path / "again.ms")]
    losses = [[float(s.run(feed, entry="train")["loss"]) for _ in range(4)] for s in sessions]
    np.testing.assert_allclose(losses[1], losses[0], rtol=1e-4)


def test_a_trained_model_becomes_an_int8_base_with_a_float_head(tmp_path: Path) -> None:
    source, x = saved("dscnn", tmp_path, trained=True)
    spec = TrainSpec(trainable=["classifier.*"])
    with pytest.raises(ConvertError, match="has entries infer, loss, train, which share"):
        convert(source, tmp_path / "m.ms", quantize="int8", calibration={"image": x})
    report = convert(
        source, tmp_path / "m.ms", quantize="int8", calibration={"image": x}, train=spec
    )
    assert report.trainable == ["classifier.weight", "classifier.bias"]
    assert report.nodes["quantized_depthwise_conv2d"] == 4
    assert report.nodes["linear"] == 1
    session = lite.load(tmp_path / "m.ms", threads=1)
    feed = {"image": x, "label": np.arange(8, dtype=np.int32), "lr": np.float32(0.1)}
    losses = [float(session.run(feed, entry="train")["loss"]) for _ in range(10)]
    assert losses[-1] < losses[0]


def test_a_model_in_memory_is_left_as_it_was(tmp_path: Path) -> None:
    net = lenet(rng=np.random.default_rng(0))
    model = training_model(net, softmax_cross_entropy, SGD(0.1), {"image": ("batch", 28, 28, 1)})
    before = model_file.write(model)
    convert(Model({"infer": model.entries["infer"]}), tmp_path / "a.ms")
    convert(model, tmp_path / "b.ms")
    convert(model, tmp_path / "c.ms", train=TrainSpec(trainable=["fc3.*"]))
    assert model_file.write(model) == before
    assert all(w.trainable for w in model.weights)


def test_flags_of_onnx_are_refused_for_our_own_models(tmp_path: Path) -> None:
    source, _ = saved("lenet", tmp_path)
    with pytest.raises(ConvertError, match="shapes and outputs are for imported models"):
        convert(source, tmp_path / "m.ms", outputs=["logits"])
    model = Model({"loss": model_file.load(source).entries["infer"]})
    with pytest.raises(ConvertError, match=r"model: no entry infer; has \['loss'\]"):
        convert(model, tmp_path / "m.ms")


def test_a_damaged_file_is_refused(tmp_path: Path) -> None:
    source, _ = saved("lenet", tmp_path)
    data = bytearray(source.read_bytes())
    data[len(data) // 2] ^= 1
    source.write_bytes(data)
    with pytest.raises(ConvertError, match="does not have the hash"):
        convert(source, tmp_path / "m.ms")
