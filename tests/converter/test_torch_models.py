"""The CNN and MLP families, exported from PyTorch: they agree, and nothing is left to fold."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import torch
from torch import Tensor, nn

import lite_runtime as lite
from converter import convert
from converter.report import Report
from tests.converter.conftest import Exported, samples
from tests.converter.torch_models import CASES, export

LIMIT = 1e-4  # of the largest difference from ONNX Runtime, over the largest value
EXPORTERS = {
    "script, opset 13": {"opset": 13},
    "script, batch norms kept": {"opset": 17, "keep_norms": True},
    "script, opset 17, batch of one": {"opset": 17, "free_batch": False},
    "dynamo": {"dynamo": True},
    "dynamo, batch of one": {"dynamo": True, "free_batch": False},
}

PAIRS = [
    (name, how)
    for name in CASES
    for how in EXPORTERS
    if name == "dscnn" or how != "dynamo, batch of one"  # one model is enough to see that one
]


Converted = Callable[[str, str], tuple[Path, Path, Report]]


@pytest.fixture(scope="module")
def converted(exported: Exported, tmp_path_factory: pytest.TempPathFactory) -> Converted:
    """`converted("lenet", "dynamo")`: the ONNX file, the model file, what `convert` said."""

    @cache
    def get(name: str, how: str) -> tuple[Path, Path, Report]:
        source, target = exported(name, **EXPORTERS[how]), tmp_path_factory.mktemp(name) / "m.ms"
        return source, target, convert(source, target)

    return get


@pytest.mark.parametrize(("name", "how"), PAIRS)
def test_an_exported_model_agrees_with_onnx_runtime(
    name: str, how: str, converted: Converted
) -> None:
    source, target, report = converted(name, how)
    assert report.agrees
    assert report.checked_inputs >= 4
    session = lite.load(target, threads=1)
    reference = onnxruntime.InferenceSession(str(source))
    x = samples(name, 4, seed=7)["x"]
    for batch in [x] if EXPORTERS[how].get("free_batch", True) else np.split(x, 4):
        (want,) = reference.run(None, {"x": batch})
        assert np.abs(session.run(batch) - want).max() <= LIMIT * np.abs(want).max()


@pytest.mark.parametrize(("name", "how"), PAIRS)
def test_nothing_is_left_to_fold_or_fuse(name: str, how: str, converted: Converted) -> None:
    _, _, report = converted(name, how)
    assert report.nodes == CASES[name].nodes


def test_an_older_and_a_newer_opset_give_the_same_graph(exported: Exported, tmp_path: Path) -> None:
    files = [exported("mobilenet_v2", opset=n) for n in (7, 11, 23)]
    counts = [convert(file, tmp_path / "m.ms").nodes for file in files]
    assert counts == [CASES["mobilenet_v2"].nodes] * 3


class _Gated(nn.Module):
    """A squeeze-and-excitation block (Hu et al. 2018) with MobileNetV3's activations."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.last = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 4, 1)
        self.narrow, self.wide = nn.Conv2d(8, 4, 1), nn.Conv2d(4, 8, 1)

    def forward(self, x: Tensor) -> Tensor:
        y = nn.functional.hardswish(self.conv(x))
        gate = self.wide(torch.relu(self.narrow(y.mean((2, 3), keepdim=True))))
        z: Tensor = self.last(y * nn.functional.hardsigmoid(gate))
        return z.mean((2, 3))


FUSED = {
    "relu": nn.ReLU(), "relu6": nn.ReLU6(), "clip": nn.Hardtanh(0, 6), "hard_swish": nn.Hardswish(),
    "silu": nn.SiLU(), "sigmoid": nn.Sigmoid(), "tanh": nn.Tanh(), "gelu": nn.GELU(),
}  # fmt: skip
ALONE = {
    "gelu by tanh": (nn.GELU(approximate="tanh"), "gelu"),
    "hard_sigmoid": (nn.Hardsigmoid(), "hard_sigmoid"),
    "leaky_relu": (nn.LeakyReLU(0.2), "leaky_relu"),
    "elu": (nn.ELU(), "elu"),
    "clip to other bounds": (nn.Hardtanh(-1, 2), "clip"),
}
BOTH = [{"opset": 13}, {"dynamo": True}]


@pytest.mark.parametrize("options", BOTH, ids=["script", "dynamo"])
@pytest.mark.parametrize("name", FUSED)
def test_an_activation_becomes_part_of_its_layer(
    name: str, options: dict[str, object], tmp_path: Path
) -> None:
    net = nn.Sequential(nn.Conv2d(3, 8, 3), FUSED[name], nn.Conv2d(8, 4, 3), FUSED[name])
    source = export(net.eval(), tmp_path / "m.onnx", (3, 8, 8), **options)  # type: ignore[arg-type]
    assert convert(source, tmp_path / "m.ms").nodes == {"transpose": 2, "conv2d": 2}


@pytest.mark.parametrize("options", BOTH, ids=["script", "dynamo"])
@pytest.mark.parametrize("name", ALONE)
def test_an_activation_that_no_layer_can_take_is_one_node(
    name: str, options: dict[str, object], tmp_path: Path
) -> None:
    act, op = ALONE[name]
    source = export(nn.Sequential(nn.Linear(6, 5), act), tmp_path / "m.onnx", (6,), **options)  # type: ignore[arg-type]
    assert convert(source, tmp_path / "m.ms").nodes == {"linear": 1, op: 1}


@pytest.mark.parametrize("options", BOTH, ids=["script", "dynamo"])
def test_a_squeeze_and_excitation_block_keeps_one_transpose(
    options: dict[str, object], tmp_path: Path
) -> None:
    source = export(_Gated().eval(), tmp_path / "m.onnx", (3, 8, 8), **options)  # type: ignore[arg-type]
    nodes = convert(source, tmp_path / "m.ms").nodes
    assert nodes.pop("reshape", 0) <= 1
    assert nodes == {"transpose": 1, "conv2d": 4, "reduce_mean": 2, "hard_sigmoid": 1, "mul": 1}


def test_a_net_of_one_dimensional_convolutions_keeps_one_transpose(tmp_path: Path) -> None:
    net = nn.Sequential(
        nn.Conv1d(6, 8, 5, padding=2), nn.BatchNorm1d(8), nn.ReLU(), nn.MaxPool1d(2),
        nn.Conv1d(8, 8, 3, stride=2, groups=8), nn.ReLU(), nn.AdaptiveAvgPool1d(1), nn.Flatten(),
        nn.Linear(8, 3),
    )  # fmt: skip
    source = export(net.eval(), tmp_path / "m.onnx", (6, 32))
    nodes = convert(source, tmp_path / "m.ms").nodes
    assert nodes.pop("reshape") <= 2
    assert nodes == {
        "transpose": 1, "conv2d": 1, "max_pool2d": 1, "depthwise_conv2d": 1, "reduce_mean": 1,
        "linear": 1,
    }  # fmt: skip


def test_free_height_and_width_stay_free(tmp_path: Path) -> None:
    net = nn.Sequential(nn.Conv2d(3, 8, 3, stride=2), nn.ReLU(), nn.AdaptiveAvgPool2d(1))
    whole = nn.Sequential(net, nn.Flatten(), nn.Linear(8, 2)).eval()
    path = tmp_path / "m.onnx"
    export(whole, path, (3, 9, 9))
    report = convert(path, tmp_path / "m.ms", shapes={"x": ["n", 3, "h", "w"]})
    assert report.agrees
    session = lite.load(tmp_path / "m.ms", threads=1)
    for h, w in ((9, 12), (30, 17)):
        x = np.ones((2, 3, h, w), np.float32)
        want = whole(torch.tensor(x)).detach().numpy()
        np.testing.assert_allclose(session.run(x), want, atol=1e-5)
