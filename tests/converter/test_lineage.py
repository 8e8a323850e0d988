"""What a file says of where it comes from, and that it is the same every time."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import numpy as np
import onnx
from onnx.external_data_helper import convert_model_to_external_data

from converter import TrainSpec, convert
from ir import model_file
from ir.version import version
from tests.converter.conftest import Exported, samples


def test_source_flags_and_version_are_in_the_file(exported: Exported, tmp_path: Path) -> None:
    data = samples("lenet")
    source = exported("lenet")
    convert(
        source, tmp_path / "m.ms", quantize="int8", calibration=data, calibrate="mse",
        train=TrainSpec(trainable=["11.*"]), check=2,
    )  # fmt: skip
    said = model_file.load(tmp_path / "m.ms").metadata
    assert said["source.sha256"] == hashlib.sha256(source.read_bytes()).hexdigest()
    assert said["converter.version"] == version()
    flags = json.loads(said["converter.flags"])
    assert flags.keys() == {"quantize", "calibration", "calibrate", "train"}
    assert flags["train"]["trainable"] == ["11.*"]
    assert flags["calibration"]["x"] == hashlib.sha256(data["x"].tobytes()).hexdigest()


def test_without_flags_none_are_told(exported: Exported, tmp_path: Path) -> None:
    convert(exported("mlp"), tmp_path / "m.ms", check=1, tol=1e-3)
    assert model_file.load(tmp_path / "m.ms").metadata["converter.flags"] == "{}"


def test_the_hash_is_also_that_of_external_data(exported: Exported, tmp_path: Path) -> None:
    proto = onnx.load(exported("mlp"))
    convert_model_to_external_data(proto, location="w.bin", size_threshold=0)
    onnx.save(proto, tmp_path / "m.onnx")
    convert(tmp_path / "m.onnx", tmp_path / "a.ms")
    first = model_file.load(tmp_path / "a.ms").metadata["source.sha256"]
    weights = bytearray((tmp_path / "w.bin").read_bytes())
    weights[0:4] = np.float32(0.25).tobytes()
    (tmp_path / "w.bin").write_bytes(weights)
    convert(tmp_path / "m.onnx", tmp_path / "b.ms")
    assert model_file.load(tmp_path / "b.ms").metadata["source.sha256"] != first


def test_the_same_source_and_flags_give_the_same_bytes(exported: Exported, tmp_path: Path) -> None:
    for name in ("a", "b"):
        convert(
            exported("resnet18"), tmp_path / name, quantize="int8", calibration=samples("resnet18"),
            calibrate="mse", equalize=True, correct_bias=True, max_drop=0.2,
        )  # fmt: skip
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
