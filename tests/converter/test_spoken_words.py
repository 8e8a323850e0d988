"""Models of spoken words and of calls, end to end: they hear what was said."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import lite_runtime as lite
from converter import convert
from ir.graph import Array
from tests.converter.real_inputs import loud_mels, needs_models, path_of, sound, speech
from tests.converter.word_features import band_picture, log_bands, micro_features, said

pytestmark = [needs_models, pytest.mark.timeout(600)]
VOICES = ("en-us", "en-gb")


def converted(name: str, folder: Path) -> lite.Session:
    convert(path_of(name), folder / "m.ms", check=1)
    return lite.load(folder / "m.ms", threads=1)


def answer(session: lite.Session, x: Array) -> Array:
    """The only output, of one example."""
    (y,) = session.run({session.inputs("infer")[0].name: x}).values()
    return y[0]


@pytest.mark.parametrize("voice", VOICES)
def test_yes_is_told_from_no_and_from_nothing(voice: str, tmp_path: Path) -> None:
    session = converted("tflite/mltk_tflite_micro_speech.tflite", tmp_path)
    silence = np.random.default_rng(1).standard_normal(32000) * 8
    sounds = [said(word, voice, 16000, tmp_path, 16000) for word in ("yes", "no", "computer")]
    for i, samples in enumerate([*sounds, silence]):
        x = micro_features(samples, 40, 7500, 0.05, even_out=True)[-49:]
        y = answer(session, x[None, :, :, None])
        assert y[i] > 90  # of -128 to 127


@pytest.mark.parametrize("voice", VOICES)
def test_directions_are_understood(voice: str, tmp_path: Path) -> None:
    session = converted("tflite/mltk_audio_example1.tflite", tmp_path)
    words = ["up", "down", "left", "right", "computer"]
    heard = []
    for word in words:
        samples = said(word, voice, 19200, tmp_path)
        x = micro_features(samples, 49, 3999, 0.03, even_out=False)
        heard.append(words[int(answer(session, x[None, :, :, None]).argmax())])
    assert sum(a == b for a, b in zip(heard, words, strict=True)) >= 4  # US "down" is another word
    assert heard[2:] == words[2:]


def test_ten_commands_are_understood(tmp_path: Path) -> None:
    session = converted("tflite/mltk_keyword_spotting.tflite", tmp_path)
    words = ["yes", "no", "up", "down", "left", "right", "on", "off", "stop", "go"]
    right = 0
    for voice in VOICES:
        for i, word in enumerate(words):
            x = band_picture(said(word, voice, 16000, tmp_path))
            right += int(answer(session, x[None, :, :, None]).argmax()) == i
    assert right >= 16  # of 20


def test_a_word_is_known_again_from_another_voice(tmp_path: Path) -> None:
    source = path_of("onnx/effword_resnet50_qdq_int8.onnx")
    words = ["alexa", "balloon", "computer", "mycroft"]
    heard = {
        voice: np.stack([log_bands(said(w, voice, 24000, tmp_path))[None] for w in words])
        for voice in VOICES
    }
    report = convert(source, tmp_path / "m.ms", check=1, check_data={"input": heard["en-us"]})
    assert report.agrees
    session = lite.load(tmp_path / "m.ms", threads=1)
    one, other = ([answer(session, x[None]) for x in heard[voice]] for voice in VOICES)
    alike = np.array(one) @ np.array(other).T
    assert (alike.argmax(axis=0) == np.arange(4)).all()
    assert np.diag(alike).min() > 0.6
    assert (alike - np.eye(4)).max() < 0.4


def test_an_echo_that_is_left_in_a_call_is_heard(tmp_path: Path) -> None:
    session = converted("onnx/aecmos_a.onnx", tmp_path)
    far = sound(path_of("data/speech/001.wav")).astype(np.float32) / 32768
    near = speech()[: len(far)]
    room = np.exp(-np.arange(1600) / 300) * np.random.default_rng(0).standard_normal(1600)
    echo = np.convolve(far, np.concatenate([np.zeros(800), room]))[: len(far)]
    echo *= near.std() / echo.std()
    frames = len(far) // 256 + 1
    scores = []
    for left in (0.0, 0.03, 0.1, 0.3):
        sounds = (far, near + echo, near + left * echo)
        x = np.stack([loud_mels(s, frames, 160, 256) for s in sounds])[None]
        y = session.run({"input": x, "h0": np.zeros((4, 1, 64), np.float32)})
        scores.append(float(next(iter(y.values())).ravel()[0]))  # of echo, 1 to 5
    assert scores[0] > 4
    assert scores[-1] < 2.5
    assert scores == sorted(scores, reverse=True)
