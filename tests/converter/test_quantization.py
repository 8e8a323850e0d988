"""Kinds of quantization, calibration and --max-drop in a conversion."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import lite_runtime as lite
from converter import ConvertError, convert
from converter.cli import main
from ir import model_file
from ir.dtype import DType
from ir.graph import Array
from tests.converter.conftest import Exported, samples
from tests.converter.onnx_graphs import Node, inner, model
from tests.converter.torch_models import export, quiet


@pytest.mark.parametrize(
    ("kind", "size", "rms"),
    [("fp16", 0.52, 2e-3), ("int8-weights", 0.28, 0.03), ("int4-weights", 0.19, 0.25),
     ("int4-weights:group=64", 0.18, 0.25)],
)  # fmt: skip
def test_stored_weights_make_small_files_that_agree(
    kind: str, size: float, rms: float, tmp_path: Path
) -> None:
    net = nn.Sequential(
        nn.Conv2d(3, 32, 3), nn.ReLU(), nn.Flatten(), nn.Linear(32 * 36, 128), nn.ReLU(),
        nn.Linear(128, 10),
    )  # fmt: skip
    source = export(net.eval(), tmp_path / "m.onnx", (3, 8, 8))
    report = convert(source, tmp_path / "m.ms", quantize=kind)
    assert report.target_bytes <= size * source.stat().st_size
    assert report.agreement[0].rms <= rms
    assert report.nodes["compressed_linear"] == 2
    assert [row["op"] for row in report.layers] == ["conv2d", "linear", "linear"]


@pytest.mark.parametrize("name", ["lenet", "resnet18", "mobilenet_v1"])
def test_activations_of_16_bits_are_nearer_to_the_source_on_integers(
    name: str, exported: Exported, tmp_path: Path
) -> None:
    x, found = samples(name, 16), {}
    for kind in ("int8", "int16"):
        found[kind] = convert(
            exported(name), tmp_path / f"{kind}.ms", quantize=kind, calibration=x, check_data=x
        )
    wide = found["int16"]
    assert wide.agreement[0].rms < 0.7 * found["int8"].agreement[0].rms
    assert wide.target_bytes < 1.1 * found["int8"].target_bytes
    moved = ("transpose", "reshape", "quantize_16", "dequantize", "max_pool2d")
    assert all(op.startswith("quantized_") or op in moved for op in wide.nodes)
    graph = model_file.read((tmp_path / "int16.ms").read_bytes()).entries["infer"]
    layers = [n for n in graph.nodes if n.op.name.startswith("quantized_")]
    assert {v.dtype for n in layers for v in n.results} == {DType.i16}


def test_the_bits_of_a_weight_only_model_do_not_depend_on_threads(
    exported: Exported, tmp_path: Path
) -> None:
    convert(exported("resnet18"), tmp_path / "m.ms", quantize="int4-weights")
    x = samples("resnet18", 3, seed=5)["x"]
    one, two = (lite.load(tmp_path / "m.ms", threads=n).run(x) for n in (1, 2))
    np.testing.assert_array_equal(one, two)


def test_a_transformer_with_an_embedding_is_stored_in_four_bits(tmp_path: Path) -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = nn.Embedding(200, 64)
            self.layer = nn.Sequential(nn.LayerNorm(64), nn.Linear(64, 256), nn.GELU())
            self.out = nn.Linear(256, 200)

        def forward(self, at: torch.Tensor) -> torch.Tensor:
            return self.out(self.layer(self.table(at)))

    with quiet():
        torch.onnx.export(
            Net().eval(), (torch.zeros(1, 5, dtype=torch.int64),), tmp_path / "m.onnx",
            input_names=["at"], output_names=["y"], dynamo=False,
        )  # fmt: skip
    at = {"at": np.random.default_rng(0).integers(0, 200, (8, 5)).astype(np.int32)}
    report = convert(tmp_path / "m.onnx", tmp_path / "m.ms", quantize="int4-weights", check_data=at)
    assert report.nodes["compressed_gather"] == 1
    assert report.nodes["compressed_linear"] == 2
    stored = {w.name: w.dtype for w in model_file.load(tmp_path / "m.ms").weights}
    assert stored["table.weight"] is DType.i8


@pytest.mark.parametrize("method", ["percentile:percentile=99.9", "mse", "kl"])
def test_calibration_methods_agree(method: str, exported: Exported, tmp_path: Path) -> None:
    report = convert(
        exported("dscnn"), tmp_path / "m.ms", quantize="int8", calibration=samples("dscnn"),
        calibrate=method, equalize=True, correct_bias=True,
    )  # fmt: skip
    assert report.agreement[0].rms < 0.1


@pytest.fixture(scope="module")
def uneven(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, np.ndarray]]:
    """A net one of whose layers int8 ruins, and data on which its own answers are the labels."""
    torch.manual_seed(0)
    net = nn.Sequential(
        nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(),
        nn.Linear(64, 8),
    )  # fmt: skip
    with torch.no_grad():
        net[2].weight[0] *= 3000  # one channel that takes the whole range of this layer's result
        net[4].weight[:, 0] = 0
        for layer in (net[0], net[2], net[4]):
            layer.weight *= 4  # beside biases, so that answers differ
    source = export(net.eval(), tmp_path_factory.mktemp("uneven") / "m.onnx", (16,))
    x = np.random.default_rng(0).standard_normal((300, 16)).astype(np.float32)
    with torch.no_grad():
        label = net(torch.from_numpy(x)).argmax(1).numpy()
    return source, {"x": x, "label": label}


def test_the_layer_that_int8_ruins_stays_float(
    uneven: tuple[Path, dict[str, np.ndarray]], tmp_path: Path
) -> None:
    source, data = uneven
    options = {"quantize": "int8", "calibration": {"x": data["x"]}, "check_data": data, "tol": 2.0}
    plain = convert(source, tmp_path / "a.ms", **options)
    kept = convert(source, tmp_path / "b.ms", **options, max_drop=0.02)
    assert plain.kept_float == []
    assert sorted(kept.kept_float) == [
        "/2/Gemm",
        "/4/Gemm",
    ]  # what makes the wide channel and reads it
    assert kept.nodes["quantized_linear"] + kept.nodes["linear"] == 4
    assert kept.score["metric"] == "accuracy"
    assert kept.score["float"] == 1.0
    assert kept.score["quantized"] >= 0.98
    right = lite.load(tmp_path / "b.ms", threads=1).run(data["x"]).argmax(1) == data["label"]
    assert right.mean() == kept.score["quantized"]
    before = lite.load(tmp_path / "a.ms", threads=1).run(data["x"]).argmax(1) == data["label"]
    assert before.mean() < 0.9
    assert f"stays float32: {kept.kept_float[0]}" in str(kept)


def test_without_labels_it_is_agreement(exported: Exported, tmp_path: Path) -> None:
    report = convert(
        exported("lenet"), tmp_path / "m.ms", quantize="int8", calibration=samples("lenet"),
        max_drop=0.2,
    )  # fmt: skip
    assert report.score["metric"] == "agreement"
    assert report.score["float"] == 1.0
    assert report.kept_float == []


def test_labels_of_another_shape_are_refused(tmp_path: Path) -> None:
    source = export(nn.Sequential(nn.Linear(4, 3)).eval(), tmp_path / "m.onnx", (4,))
    data = {"x": np.random.default_rng(0).standard_normal((9, 4)).astype(np.float32)}
    with pytest.raises(ConvertError, match=r"labels \[9, 2\] beside answers \[9, 3\]"):
        convert(
            source, tmp_path / "m.ms", quantize="int8-weights", max_drop=0.0,
            check_data={**data, "label": np.zeros((9, 2), np.int64)},
        )  # fmt: skip
    assert [p.name for p in tmp_path.iterdir()] == ["m.onnx"]


def test_labels_that_are_none_of_the_classes_are_refused(tmp_path: Path) -> None:
    source = export(nn.Sequential(nn.Linear(4, 3)).eval(), tmp_path / "m.onnx", (4,))
    x = np.random.default_rng(0).standard_normal((9, 4)).astype(np.float32)
    for odd in (3, -1):
        with pytest.raises(ConvertError, match=f"label {odd}: want one of the 3 classes, 0 to 2"):
            convert(
                source, tmp_path / "m.ms", quantize="int8-weights", max_drop=0.0,
                check_data={"x": x, "label": np.full(9, odd)},
            )  # fmt: skip


def test_samples_that_never_change_are_told(tmp_path: Path) -> None:
    source = export(nn.Sequential(nn.Linear(4, 3)).eval(), tmp_path / "m.onnx", (4,))
    varied = np.random.default_rng(0).standard_normal((9, 4)).astype(np.float32)
    for x, told in ((varied, False), (np.ones_like(varied), True)):
        report = convert(source, tmp_path / "m.ms", quantize="int8", calibration={"x": x})
        assert ("warning: calibration: x is the same in every example" in str(report)) == told


def test_complex_samples_are_refused(tmp_path: Path) -> None:
    source = export(nn.Sequential(nn.Linear(4, 3)).eval(), tmp_path / "m.onnx", (4,))
    data = {"x": np.ones((9, 4), np.complex64)}
    with pytest.raises(ConvertError, match="calibration: x holds complex64, want real numbers"):
        convert(source, tmp_path / "m.ms", quantize="int8", calibration=data)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"quantize": "int8-weights:size=3"}, "want one of none, fp16, int8, "),
        ({"quantize": "int8:group=32"}, "want one of none, fp16, int8, "),
        ({"quantize": "int4-weights:group=20"}, "group 20 of 4 bits, want a multiple of 32"),
        ({"quantize": "int4-weights:group=x"}, "invalid literal"),
        ({"quantize": "fp16", "calibrate": "kl"}, "are for quantize int8"),
        ({"quantize": "int8", "calibrate": "median"}, "no such method"),
        ({"max_drop": 0.1}, "keep_float and max_drop are for quantize"),
        ({"quantize": "fp16", "max_drop": 1.5}, "max_drop is 1.5, want a share"),
    ],
)
def test_flags_that_mean_nothing_are_refused(
    options: dict[str, object], message: str, exported: Exported, tmp_path: Path
) -> None:
    with pytest.raises(ConvertError, match=message):
        convert(exported("mlp"), tmp_path / "m.ms", **options)


def test_the_command_stores_four_bits_and_keeps_what_it_is_told(
    uneven: tuple[Path, dict[str, np.ndarray]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, data = uneven
    np.savez(tmp_path / "d.npz", **data)
    target = tmp_path / "m.ms"
    args = [str(source), "-o", str(target), "--quantize", "int4-weights:group=64"]
    args += ["--check-data", str(tmp_path / "d.npz"), "--max-drop", "0.05", "--tol", "2"]
    assert main(args) == 0
    out = capsys.readouterr().out
    assert "accuracy on inputs of the check data: 1.0000 in float32, " in out
    assert "noisiest layers, on 8 inputs of the check data: " in out
    assert target.exists()


def test_a_layer_that_16_bits_cannot_scale_stays_float_and_the_report_says_so(
    tmp_path: Path,
) -> None:
    layer = nn.Linear(16, 4)
    layer.weight.data[:, 0] = 0
    layer.bias.data[:] = 0
    x = np.random.default_rng(0).standard_normal((8, 16)).astype(np.float32) * 1e-3
    x[:, 0] = 1e4
    source = export(layer.eval(), tmp_path / "m.onnx", (16,))
    report = convert(
        source, tmp_path / "m.ms", quantize="int16", calibration={"x": x}, explain=True
    )
    ((node, why),) = report.unfit.items()
    assert report.nodes == {"linear": 1}
    assert "want one below 128" in why
    assert f"stays float32: {node}: {why}" in str(report)
    assert [row["why"] for row in report.explain] == [f"stays float: {why}"]


def test_a_calibration_that_cuts_is_refused_for_16_bits(tmp_path: Path) -> None:
    source = export(nn.Linear(16, 4).eval(), tmp_path / "m.onnx", (16,))
    with pytest.raises(ConvertError, match=r"quantize int16: calibration 'kl': cuts off .* or mse"):
        convert(source, tmp_path / "m.ms", quantize="int16", calibrate="kl")


def stateful() -> bytes:
    """y = x w times a rate, which is one number, and a state that is not as long as x."""
    rng = np.random.default_rng(0)
    w = {"w": rng.standard_normal((16, 24)).astype(np.float32)}
    nodes: list[Node] = [
        ("MatMul", ["x", "w"], ["a"], {}), ("Mul", ["a", "rate"], ["y"], {}),
        ("ReduceSum", ["y"], ["b"], {"keepdims": 0}), ("Add", ["state", "b"], ["next"], {}),
    ]  # fmt: skip
    return model(nodes, {"x": ("n", 16), "rate": (), "state": (2, 1, 4)}, ["y", "next"], w)


def whole(count: int, seed: int) -> dict[str, Array]:
    """Whole inputs of it, of five examples each."""
    rng = np.random.default_rng(seed)
    shapes = {"x": (count, 5, 16), "rate": (count,), "state": (count, 2, 1, 4)}
    return {name: rng.uniform(0.5, 1, s).astype(np.float32) for name, s in shapes.items()}


MEASURED = {
    "calibration": "6 inputs of the calibration data", "check data": "3 inputs of the check data",
    "both": "3 inputs of the check data", "none": "8 random inputs",
}  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "given"),
    [(kind, given) for kind in ("fp16", "int8-weights") for given in MEASURED]
    + [(kind, given) for kind in ("int8", "int16") for given in ("calibration", "both")],
)
def test_inputs_that_are_no_examples_are_given_whole(kind: str, given: str, tmp_path: Path) -> None:
    data = {"calibration": whole(6, 0)} if given in ("calibration", "both") else {}
    data |= {"check_data": whole(3, 1)} if given in ("check data", "both") else {}
    report = convert(stateful(), tmp_path / "m.ms", quantize=kind, **data)
    assert report.agrees
    assert report.layers[0]["sqnr_db"] > 30
    assert report.measured_on == MEASURED[given]


def test_no_whole_inputs_are_refused_in_one_line(tmp_path: Path) -> None:
    none = {name: a[:0] for name, a in whole(1, 0).items()}
    with pytest.raises(ConvertError, match="calibration: 0 examples, the model takes"):
        convert(stateful(), tmp_path / "m.ms", quantize="int8", calibration=none)


def branching() -> bytes:
    """A layer, and one more in the one branch or the other."""
    rng = np.random.default_rng(1)
    w = {n: rng.standard_normal((64, 64)).astype(np.float32) for n in ("v", "w0", "w1")}
    sides = [
        inner([("MatMul", ["h", n], [f"y{n}"], {}, )], {}, [f"y{n}"]) for n in ("w0", "w1")
    ]  # fmt: skip
    nodes: list[Node] = [
        ("MatMul", ["x", "v"], ["h"], {}), ("ReduceMax", ["h"], ["m"], {"keepdims": 0}),
        ("Greater", ["m", "bound"], ["c"], {}),
        ("If", ["c"], ["y"], {"then_branch": sides[0], "else_branch": sides[1]}),
    ]  # fmt: skip
    return model(nodes, {"x": ("n", 64)}, ["y"], {**w, "bound": np.array(12, np.float32)})


@pytest.mark.parametrize(("kind", "share"), [("fp16", 0.56), ("int8-weights", 0.33)])
def test_weights_in_branches_are_stored_smaller_too(
    kind: str, share: float, tmp_path: Path
) -> None:
    convert(branching(), tmp_path / "f.ms")
    report = convert(branching(), tmp_path / "m.ms", quantize=kind)
    assert report.target_bytes < share * (tmp_path / "f.ms").stat().st_size
    assert [row["op"] for row in report.layers] == ["linear", "cond"]
    plain, small = (lite.load(tmp_path / name, threads=1) for name in ("f.ms", "m.ms"))
    x = np.random.default_rng(2).standard_normal((4, 64)).astype(np.float32)
    for scale in (0.1, 10):  # the one branch, and the other
        y, want = small.run(x * np.float32(scale)), plain.run(x * np.float32(scale))
        assert 0 < np.abs(y - want).max() < 0.05 * np.abs(want).max()


def test_weights_in_branches_stay_float_by_name(tmp_path: Path) -> None:
    sizes = [
        convert(branching(), tmp_path / "m.ms", quantize="int8-weights", keep_float=k).target_bytes
        for k in ((), ("w0",), ("w0", "w1"), ("w*", "v"))
    ]
    steps = np.diff(sizes)
    assert (steps > 0.7 * 64 * 64 * 4).all()


def test_layers_in_branches_are_told_to_stay_float(tmp_path: Path) -> None:
    x = {"x": np.random.default_rng(3).standard_normal((16, 64)).astype(np.float32)}
    report = convert(branching(), tmp_path / "m.ms", quantize="int8", calibration=x, tol=0.2)
    ((_, why),) = report.unfit.items()
    assert why == "layers in branches and loops have no smaller arithmetic, only smaller weights"
    assert why in str(report)


def test_a_figure_is_of_fresh_rows_where_there_are_any_and_says_so(
    exported: Exported, tmp_path: Path
) -> None:
    seen, fresh = samples("mlp", 40), samples("mlp", 5)
    alone = {name: a[:, None] for name, a in fresh.items()}
    found = [
        str(convert(exported("mlp"), tmp_path / "m.ms", quantize="int8-weights", **data))
        for data in (
            {}, {"calibration": seen}, {"calibration": seen, "check_data": fresh},
            {"calibration": seen, "check_data": alone},
        )
    ]  # fmt: skip
    noise = [
        "8 random inputs", "8 inputs of the calibration data", "5 inputs of the check data",
        "5 inputs of the check data",
    ]  # fmt: skip
    checked = ["random inputs", "inputs of the calibration data", *["inputs of the check data"] * 2]
    for text, on, origin in zip(found, noise, checked, strict=True):
        assert f"noisiest layers, on {on}: " in text
        assert re.search(rf"agreement of y on 4 {origin}: largest difference", text)
