"""Models that packages ship, end to end: they convert, agree, and are right about real input."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnxruntime as ort
import pytest

import lite_runtime as lite
from converter import convert
from converter.onnx.reader import read_onnx
from converter.passes import PASSES
from ir.graph import Array
from ir.passes import applied
from tests.converter.real_inputs import (
    channels_first,
    face,
    file_bytes,
    frames,
    loud_mels,
    needs_models,
    path_of,
    picture,
    speech,
    written,
)
from tests.helpers import ROOT

pytestmark = [needs_models, pytest.mark.timeout(600)]
LIMIT = 1e-4


class Pair:
    """A converted model beside its source."""

    def __init__(self, name: str, folder: Path, **options: object) -> None:
        source = path_of(f"onnx/{name}.onnx")
        self.report = convert(source, folder / "m.ms", **options)
        self.ours = lite.load(folder / "m.ms")
        self.theirs = ort.InferenceSession(str(source), providers=["CPUExecutionProvider"])

    def __call__(self, **inputs: Array) -> list[Array]:
        """Our answers, which are the source's as far as floats are."""
        got = self.ours.run(dict(inputs))
        for y, want in zip(got.values(), self.theirs.run(None, inputs), strict=True):
            assert y.shape == want.shape
            assert np.abs(y - want).max(initial=0) <= LIMIT * max(np.abs(want).max(initial=0), 1e-3)
        return list(got.values())


FILES = {
    "ir/op.py": "python",
    "README.md": "markdown",
    "lite_runtime/exec/machine.cc": "cpp",
    "pyproject.toml": "toml",
    "lite_runtime/web/lite.js": "javascript",
    "Makefile": "makefile",
    "docs/mindspan.svg": "svg",
}


def test_the_type_of_a_file_is_told_from_its_bytes(tmp_path: Path) -> None:
    import json

    labels = json.loads(path_of("onnx/magika.config.json").read_text())["target_labels_space"]
    model = Pair("magika", tmp_path)
    files = {ROOT / name: label for name, label in FILES.items()}
    files |= {path_of("data/images/coffee.png"): "png", path_of("data/images/china.jpg"): "jpeg"}
    found = {
        path.name: labels[int(model(bytes=file_bytes(path.read_bytes()))[0].argmax())]
        for path in files
    }
    assert found == {path.name: label for path, label in files.items()}


def test_speech_is_told_from_silence_a_whole_clip_at_once(tmp_path: Path) -> None:
    model = Pair("silero_vad_16k_sequence", tmp_path)
    zero = np.zeros((1, 1, 128), np.float32)
    heard = model(input=frames(speech()), h=zero, c=zero)[0]
    assert (heard > 0.5).mean() > 0.8
    silent = model(input=frames(np.zeros(16000, np.float32)), h=zero, c=zero)[0]
    assert (silent > 0.5).mean() == 0


def test_speech_is_told_from_silence_frame_by_frame(tmp_path: Path) -> None:
    clip = frames(speech())
    rate, state = np.array(16000, np.int64), np.zeros((2, 1, 128), np.float32)
    data = {"input": clip[:4, None], "sr": np.repeat(rate, 4), "state": np.stack([state] * 4)}
    model = Pair("silero_vad_op18_ifless", tmp_path, check_data=data)
    shares = []
    for sound in (clip, np.zeros_like(clip[:30])):
        now, heard = state, []
        for frame in sound:
            y, now = model(input=frame[None], sr=rate, state=now)
            heard.append(float(y[0, 0]))
        shares.append((np.array(heard) > 0.5).mean())
    assert shares[0] > 0.8
    assert shares[1] == 0


def test_text_that_stands_on_its_head_is_found(tmp_path: Path) -> None:
    model = Pair("ch_ppocr_mobile_v2.0_cls_infer", tmp_path)
    image = written("MindSpan 2026", (192, 48), (6, 8), 24)
    for turned in (0, 180):
        (y,) = model(x=channels_first(image.rotate(turned), 0.5, 0.5))
        assert y[0].argmax() == turned // 180
        assert y[0].max() > 0.9


def test_text_is_found_where_it_stands(tmp_path: Path) -> None:
    model = Pair("ch_PP-OCRv4_det_infer", tmp_path)
    mean, deviation = np.float32([0.485, 0.456, 0.406]), np.float32([0.229, 0.224, 0.225])
    image = written("Hello world", (320, 160), (60, 60), 36)
    (y,) = model(x=channels_first(image, mean, deviation))
    rows, columns = np.nonzero(y[0, 0] > 0.3)
    assert 50 <= rows.min() < rows.max() <= 110
    assert 50 <= columns.min() < 80
    assert 220 < columns.max() <= 290


FACE, NO_FACE = (170, 55, 280, 165), (0, 300, 110, 410)


@pytest.mark.parametrize(("name", "size"), [("mtcnn_rnet", 24), ("mtcnn_onet", 48)])
def test_a_face_is_told_from_something_else(name: str, size: int, tmp_path: Path) -> None:
    model = Pair(name, tmp_path)
    (source,) = [i.name for i in model.theirs.get_inputs()]
    seen = [
        model(**{source: face(picture("astronaut.png", box), size)})[-1][0, 1]
        for box in (FACE, NO_FACE)
    ]
    assert seen[0] > 0.9
    assert seen[1] < 0.1


def test_faces_are_proposed_where_one_is(tmp_path: Path) -> None:
    model = Pair("mtcnn_pnet", tmp_path)
    (source,) = [i.name for i in model.theirs.get_inputs()]
    image = picture("astronaut.png", (120, 0, 340, 220)).resize((40, 40))
    x = ((np.asarray(image, np.float32) - 127.5) / 128).transpose(1, 0, 2)[None]
    scores = next(y for y in model(**{source: x}) if y.shape[-1] == 2)[0, ..., 1]
    assert scores.max() > 0.9
    column, row = np.unravel_index(scores.argmax(), scores.shape)
    assert 2 <= column <= 12
    assert 3 <= row <= 13


@pytest.mark.parametrize("name", ["oww_alexa_v0.1", "oww_embedding_model"])
def test_models_of_sound_agree(name: str, tmp_path: Path) -> None:
    assert Pair(name, tmp_path).report.agrees


def test_speech_sounds_better_without_noise(tmp_path: Path) -> None:
    model = Pair("dnsmos_model_v8", tmp_path)
    clip = np.resize(speech(), 16000 * 9)
    noise = np.random.default_rng(0).standard_normal(len(clip)).astype(np.float32)
    found = [model(input_1=loud_mels(clip + s * noise)[None])[0].item() for s in (0, 0.01, 0.1)]
    assert 3 < found[0] < 5
    assert found[0] > found[1] + 0.3 > found[2] + 0.6


def test_a_quality_of_calls_is_told_with_state_that_is_given(tmp_path: Path) -> None:
    model = Pair("aecmos_a", tmp_path)
    rng = np.random.default_rng(0)
    for length in (30, 47):
        x = rng.standard_normal((1, 3, length, 160)).astype(np.float32)
        (y,) = model(input=x, h0=np.zeros((4, 1, 64), np.float32))
        assert 0 < y[0] < 6


def test_a_quantized_network_keeps_its_integers(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    data = {"input": rng.standard_normal((2, 1, 149, 64)).astype(np.float32)}
    report = convert(
        path_of("onnx/effword_resnet50_qdq_int8.onnx"), tmp_path / "m.ms", check=2, check_data=data
    )
    assert report.rounds
    assert report.agrees
    assert report.target_bytes < 1.01 * report.source_bytes
    assert report.int8_nodes == 74
    assert report.nodes["quantized_conv2d"] == 53


CNNS = (
    "aecmos_a", "ch_PP-OCRv4_det_infer", "ch_ppocr_mobile_v2.0_cls_infer", "dnsmos_model_v8",
    "effword_resnet50_qdq_int8", "mtcnn_onet", "mtcnn_pnet", "mtcnn_rnet", "oww_embedding_model",
)  # fmt: skip


@pytest.mark.parametrize("name", CNNS)
def test_one_transpose_at_most_is_left_in_a_network_of_convolutions(name: str) -> None:
    graph = applied(PASSES, read_onnx(path_of(f"onnx/{name}.onnx")).entries["infer"])
    kinds = [n.op.name for n in graph.nodes]
    assert kinds.count("transpose") <= 1
    assert any("conv2d" in kind for kind in kinds)
