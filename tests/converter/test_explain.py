"""Where nodes of the source went and why, and what the command says of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from converter import TrainSpec, convert
from converter.cli import main
from tests.converter.conftest import Exported, samples
from tests.converter.onnx_graphs import floats, model, one


def test_what_passes_put_together_is_told(exported: Exported, tmp_path: Path) -> None:
    source = exported("dscnn", keep_norms=True)
    report = convert(source, tmp_path / "m.ms", explain=True)
    first = next(row for row in report.explain if row["op"] == "conv2d")
    assert first["type"] == "float32"
    steps = {part.rpartition(" (")[2] for part in first["from"] if " (" in part}
    assert steps >= {"fold_batch_norm)", "fuse_activation)"}
    assert first["node"] in first["from"]
    told = {part.partition(" (")[0] for row in report.explain for part in row["from"]}
    left = {row["node"] for row in report.explain if row["type"] == "none"}
    import onnx

    assert {n.name for n in onnx.load(source).graph.node} == told | left


def test_every_node_of_an_int8_model_says_why(exported: Exported, tmp_path: Path) -> None:
    report = convert(
        exported("lenet"), tmp_path / "m.ms", quantize="int8", calibration=samples("lenet"),
        keep_float=["11.*"], explain=True,
    )  # fmt: skip
    whys = {row["op"]: row["why"] for row in report.explain}
    assert whys["quantized_conv2d"] == "its weights are fixed"
    assert whys["max_pool2d"] == "what it reads is stored in integers"
    assert whys["linear"] == "stays float: --keep-float 11.*"
    assert whys["quantize"] == "makes int8 of float32 for what follows"
    assert all(row["why"] for row in report.explain)


def test_layers_that_train_say_so(exported: Exported, tmp_path: Path) -> None:
    report = convert(
        exported("lenet"), tmp_path / "m.ms", quantize="int8-weights", explain=True,
        train=TrainSpec(trainable=["11.*"]),
    )  # fmt: skip
    row = next(row for row in report.explain if row["op"] == "linear")
    assert row["why"] == "stays float: its weights train"


def test_nodes_without_work_are_told_too(tmp_path: Path) -> None:
    nodes = [
        ("Identity", ["x"], ["a"], {"name": "same"}),
        ("Mul", ["c", "c"], ["d"], {"name": "known"}),
        ("Add", ["a", "d"], ["y"], {"name": "sum"}),
    ]
    source = model(nodes, {"x": (2, 3)}, ["y"], {"c": floats(3)})
    report = convert(source, tmp_path / "m.ms", explain=True)
    told = {row["node"]: row["why"] for row in report.explain if row["type"] == "none"}
    assert told["same"].startswith("left out while reading")
    assert told["known"].startswith("left out")
    assert [row["node"] for row in report.explain if row["type"] != "none"] == ["sum"]


def test_the_command_explains(
    exported: Exported, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    args = [str(exported("lenet")), "-o", str(tmp_path / "m.ms"), "--explain"]
    assert main([*args, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["explain"][0]["op"]
    assert main(args) == 0
    assert "(fuse_activation)" in capsys.readouterr().out


def test_the_command_lists_every_place_that_does_not_go(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "m.onnx").write_bytes(one("Mystery", (2, 3)))
    assert main([str(tmp_path / "m.onnx"), "--explain"]) == 1
    captured = capsys.readouterr()
    assert captured.out.startswith("Mystery node 0: no such operator; ")
    assert captured.err.count("\n") == 1


def test_what_the_last_passes_take_in_is_told(tmp_path: Path) -> None:
    nodes = [
        ("MatMul", ["x", "w"], ["h"], {"name": "fc"}),
        ("Add", ["h", "x"], ["s"], {"name": "sum"}),
        ("Relu", ["s"], ["y"], {"name": "relu"}),
    ]
    source = model(nodes, {"x": (2, 4)}, ["y"], {"w": floats(4, 4)})
    report = convert(source, tmp_path / "m.ms", explain=True)
    (row,) = report.explain
    assert row["op"] == "linear_add"
    want = {"fc", "sum (fuse_residual)", "relu (fuse_trained_activation)"}
    assert {*row["from"]} == want
