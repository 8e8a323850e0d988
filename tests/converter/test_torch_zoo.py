"""Attention, recurrence, detectors, shuffles: from PyTorch by both exporters and as programs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import lite_runtime as lite
from converter import ConvertError, convert
from converter.report import Report
from ir.graph import Array
from tests.converter.torch_models import quiet
from tests.converter.torch_zoo import ZOO, Zoo

pytestmark = pytest.mark.timeout(300)
BY_SCRIPT = list(ZOO)
# torch.export wants recurrent layers of a fixed length, as bi_lstm has it, and two lengths that
# have to be equal to have one name.
BY_DYNAMO = [name for name in ZOO if name not in ("lstm", "gru", "mobilebert")]


def exported(zoo: Zoo, module: nn.Module, path: Path, dynamo: bool) -> Path:
    names = list(zoo.inputs)
    with quiet():
        if dynamo:
            program = torch.export.export(module, zoo.arguments(), dynamic_shapes=dynamic(zoo))
            torch.onnx.export(program, (), path, dynamo=True, input_names=names)
        else:
            torch.onnx.export(
                module, zoo.arguments(), path, input_names=names, dynamo=False,
                dynamic_axes=zoo.free_axes() or None,
            )  # fmt: skip
    return path


def dynamic(zoo: Zoo) -> tuple[dict[int, object], ...] | None:
    free = zoo.free_axes()
    if not free:
        return None
    return tuple(
        {axis: torch.export.Dim(name) for axis, name in free.get(key, {}).items()}
        for key in zoo.inputs
    )


def stacked(zoo: Zoo) -> dict[str, Array]:
    """Three whole inputs."""
    rows = [zoo.arguments(seed) for seed in range(3)]
    names = list(zoo.inputs)
    return {n: np.stack([row[i].numpy() for row in rows]) for i, n in enumerate(names)}


def agrees_with_torch(zoo: Zoo, module: nn.Module, path: Path) -> None:
    """The file gives what the module gives, at the sizes of its export and at other ones."""
    session = lite.load(path)
    takes = session.inputs()
    names = [i.name for i in takes]
    for grow in (0, 1) if zoo.free else (0,):
        given = [grown(zoo, name, x, grow) for name, x in zip(names, zoo.arguments(9), strict=True)]
        with torch.no_grad():
            want = module(*given)
        want = want if isinstance(want, tuple) else (want,)
        feed = {i.name: x.numpy().astype(i.dtype) for i, x in zip(takes, given, strict=True)}
        found = session.run_arrays([feed[n] for n in names])
        for y, w in zip(found, want, strict=True):
            assert y.shape == tuple(w.shape)
            np.testing.assert_allclose(y, w.numpy(), rtol=1e-3, atol=1e-4)


def grown(zoo: Zoo, name: str, x: Tensor, by: int) -> Tensor:
    """x with `by` more of what its free axes count."""
    for axis in zoo.free_axes().get(name, {}):
        x = torch.cat([x, x.narrow(axis, 0, by)], axis)
    return x


def converted(name: str, tmp_path: Path, dynamo: bool) -> tuple[Report, Zoo, nn.Module]:
    zoo = ZOO[name]
    module = zoo.module()
    source = exported(zoo, module, tmp_path / "m.onnx", dynamo)
    report = convert(source, tmp_path / "m.ms", check=3, check_data=stacked(zoo))
    return report, zoo, module


@pytest.mark.parametrize("name", BY_SCRIPT)
def test_a_model_by_the_older_exporter_agrees_at_all_sizes(name: str, tmp_path: Path) -> None:
    report, zoo, module = converted(name, tmp_path, dynamo=False)
    assert report.agrees
    assert zoo.kinds is None or len(report.nodes) <= zoo.kinds
    agrees_with_torch(zoo, module, tmp_path / "m.ms")


@pytest.mark.parametrize("name", BY_DYNAMO)
def test_a_model_by_the_newer_exporter_agrees_at_all_sizes(name: str, tmp_path: Path) -> None:
    report, zoo, module = converted(name, tmp_path, dynamo=True)
    assert report.agrees
    assert zoo.kinds is None or len(report.nodes) <= zoo.kinds
    agrees_with_torch(zoo, module, tmp_path / "m.ms")


def test_free_dimensions_keep_their_names(tmp_path: Path) -> None:
    converted("mobilenet_v3", tmp_path, dynamo=False)
    session = lite.load(tmp_path / "m.ms")
    assert session.inputs()[0].shape == ("batch", 3, 32, 32)
    assert session.outputs()[0].shape == ("batch", 7)


def test_an_embedding_that_is_also_the_last_layer_is_kept_single(tmp_path: Path) -> None:
    converted("whisper_decoder", tmp_path, dynamo=False)
    sizes = [w.shape for w in lite.load(tmp_path / "m.ms").weight_infos]
    assert sum(set(s) == {50, 24} for s in sizes) == 1


def test_a_program_is_converted_without_onnx_to_see(tmp_path: Path) -> None:
    zoo = ZOO["deit"]
    module = zoo.module()
    with quiet():
        program = torch.export.export(module, zoo.arguments(), dynamic_shapes=dynamic(zoo))
        torch.export.save(program, tmp_path / "m.pt2")
    report = convert(tmp_path / "m.pt2", tmp_path / "m.ms")
    assert report.agrees
    assert report.source_kind == "pt2"
    agrees_with_torch(zoo, module, tmp_path / "m.ms")
    convert(program, tmp_path / "again.ms")
    agrees_with_torch(zoo, module, tmp_path / "again.ms")


def test_an_archive_that_is_no_program_is_refused_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "m.pt2").write_bytes(b"PK\x03\x04" + bytes(60))
    with pytest.raises(ConvertError, match=r"m\.pt2: not a program of torch\.export"):
        convert(tmp_path / "m.pt2", tmp_path / "m.ms")
    assert not (tmp_path / "m.ms").exists()
