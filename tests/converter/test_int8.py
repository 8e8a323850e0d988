"""int8 post-training quantization of imported models."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from torch import nn

import lite_runtime as lite
from cloud.interpreter import run
from converter import ConvertError, Report, convert
from ir import model_file
from ir.dtype import DType
from ir.graph import Weight
from tests.converter.conftest import Exported, samples
from tests.converter.torch_models import CASES, export, mobilenet_v2

NOISE = {  # largest accepted root mean square error, relative: about twice what was measured
    "mlp": 0.02, "lenet": 0.02, "mobilenet_v1": 0.015, "mobilenet_v2": 0.02, "resnet18": 0.035,
    "dscnn": 0.015,
}  # fmt: skip


def int8(source: Path, target: Path, name: str, **options: object) -> Report:
    return convert(source, target, quantize="int8", calibration=samples(name), **options)


@pytest.mark.parametrize("name", CASES)
def test_the_error_of_an_int8_model_is_small(name: str, exported: Exported, tmp_path: Path) -> None:
    report = int8(exported(name), tmp_path / "m.ms", name, check=16)
    (found,) = report.agreement
    assert found.rms <= NOISE[name]


@pytest.mark.parametrize("name", CASES)
def test_every_layer_runs_in_int8(name: str, exported: Exported, tmp_path: Path) -> None:
    nodes = int8(exported(name), tmp_path / "m.ms", name).nodes
    floats = set(nodes) - {n for n in nodes if n.startswith("quantized_")}
    assert floats <= {"quantize", "dequantize", "reshape", "transpose", "max_pool2d"}
    assert nodes["quantize"] == nodes["dequantize"] == 1
    want = CASES[name].nodes
    assert nodes.get("quantized_add", 0) == want.get("conv2d_add", 0)
    assert nodes.get("quantized_mean", 0) == want.get("reduce_mean", 0)


@pytest.mark.parametrize("name", ["mobilenet_v2", "resnet18", "lenet"])
def test_the_runtime_gives_the_bits_of_the_interpreter(
    name: str, exported: Exported, tmp_path: Path
) -> None:
    int8(exported(name), tmp_path / "m.ms", name)
    x = samples(name, 3, seed=5)["x"]
    (want,) = run(model_file.load(tmp_path / "m.ms").entries["infer"], x)
    np.testing.assert_array_equal(lite.load(tmp_path / "m.ms", threads=2).run(x), want)


def test_a_mobilenet_of_real_width_shrinks_to_27_percent(tmp_path: Path) -> None:
    net = mobilenet_v2(width=1.0, classes=100).eval()
    source = export(net, tmp_path / "m.onnx", (3, 32, 32), free_batch=False)
    report = int8(source, tmp_path / "m.ms", "mobilenet_v2")
    assert report.target_bytes <= 0.27 * source.stat().st_size


def test_the_report_ranks_layers_by_their_noise(exported: Exported, tmp_path: Path) -> None:
    report = int8(exported("mobilenet_v2"), tmp_path / "m.ms", "mobilenet_v2")
    assert len(report.layers) == 35 + 17 + 11 + 2
    assert all(20 < row["sqnr_db"] < 80 for row in report.layers)
    assert "noisiest layers, on 8 inputs of the calibration data: " in str(report)
    assert f"int8, {report.int8_nodes} of {report.int8_nodes} nodes" in str(report)


def test_layers_that_keep_float_do(exported: Exported, tmp_path: Path) -> None:
    plain = int8(exported("lenet"), tmp_path / "a.ms", "lenet")
    kept = int8(exported("lenet"), tmp_path / "b.ms", "lenet", keep_float=["0.weight", "11.*"])
    assert kept.nodes["conv2d"] == kept.nodes["linear"] == 1
    assert kept.nodes["quantized_conv2d"] == plain.nodes["quantized_conv2d"] - 1
    weights = {w.name: w.dtype for w in model_file.load(tmp_path / "b.ms").weights}
    assert weights["0.weight"] is weights["11.weight"] is DType.f32
    assert weights["3.weight"] is DType.i8


def test_a_pattern_of_nothing_is_refused(exported: Exported, tmp_path: Path) -> None:
    with pytest.raises(ConvertError, match="keep_float: no node or weight matches 'nothing'"):
        int8(exported("lenet"), tmp_path / "b.ms", "lenet", keep_float=["nothing"])


def test_a_relu_behind_a_sum_is_part_of_it(exported: Exported, tmp_path: Path) -> None:
    nodes = int8(exported("resnet18"), tmp_path / "m.ms", "resnet18").nodes
    assert "relu" not in nodes
    assert "quantized_lookup" not in nodes


@pytest.mark.parametrize("act", [nn.Hardswish(), nn.SiLU(), nn.GELU(), nn.Sigmoid()])
def test_an_activation_that_is_no_clamp_is_a_table(act: nn.Module, tmp_path: Path) -> None:
    net = nn.Sequential(nn.Flatten(), nn.Linear(20, 8), act, nn.Linear(8, 5))
    source = export(net.eval(), tmp_path / "m.onnx", (20,))
    report = int8(source, tmp_path / "m.ms", "mlp")
    assert report.nodes["quantized_lookup"] == 1
    assert report.agreement[0].rms < 0.05


def test_a_model_that_int8_ruins_is_not_written(exported: Exported, tmp_path: Path) -> None:
    wrong = {"x": samples("lenet")["x"] * 1e-3}  # every real value is far beyond these
    with pytest.raises(ConvertError, match=r"root mean square\), tolerance 0.1"):
        convert(
            exported("lenet"),
            tmp_path / "m.ms",
            quantize="int8",
            calibration=wrong,
            check_data=samples("lenet"),
        )
    assert not list(tmp_path.iterdir())


def test_a_channel_of_dead_weights_keeps_its_bias(tmp_path: Path) -> None:
    net = nn.Sequential(nn.Conv2d(3, 4, 1), nn.Flatten(), nn.Linear(4, 2))
    net[0].weight.data[1] *= 1e-9
    net[0].bias.data[1] = 0.7
    source = export(net.eval(), tmp_path / "m.onnx", (3, 1, 1))
    data = {"x": np.random.default_rng(0).standard_normal((32, 3, 1, 1)).astype(np.float32)}
    report = convert(source, tmp_path / "m.ms", quantize="int8", calibration=data)
    assert report.agreement[0].rms < 0.03


def test_a_model_of_a_fixed_batch_is_calibrated_in_such_batches(tmp_path: Path) -> None:
    source = export(CASES["mlp"].module(), tmp_path / "m.onnx", (20,), free_batch=False)
    report = convert(
        source,
        tmp_path / "m.ms",
        shapes={"x": [3, 20]},
        quantize="int8",
        calibration=samples("mlp", 10),
    )
    assert report.checked_inputs == 3
    with pytest.raises(ConvertError, match="calibration: 2 examples, the model takes 3"):
        convert(
            source,
            tmp_path / "m.ms",
            shapes={"x": [3, 20]},
            quantize="int8",
            calibration=samples("mlp", 2),
        )


def test_the_weights_of_an_int8_model_are_named_as_before(
    exported: Exported, tmp_path: Path
) -> None:
    int8(exported("dscnn"), tmp_path / "m.ms", "dscnn")
    loaded = model_file.load(tmp_path / "m.ms")
    names = [w.name for w in loaded.weights if isinstance(w, Weight)]
    assert "classifier.weight" in names
