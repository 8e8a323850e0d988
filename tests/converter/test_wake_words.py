"""The wake word "alexa" in speech, by a chain of two models as ONNX and as TFLite files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import lite_runtime as lite
from converter import convert
from ir.graph import Array
from tests.converter.real_inputs import mels, needs_models, path_of, sound, spoken

pytestmark = [needs_models, pytest.mark.timeout(600)]
CHAINS = {
    "onnx": ("oww_embedding_model.onnx", "oww_alexa_v0.1.onnx"),
    "tflite": ("oww_embedding_model.tflite", "oww_alexa.tflite"),
}


class Chain:
    """Windows of 76 frames of sound become 96 numbers, 16 of these in a row an answer."""

    def __init__(self, kind: str, folder: Path) -> None:
        self.parts = []
        for name in CHAINS[kind]:
            convert(path_of(f"{kind}/{name}"), folder / name, check=1)
            self.parts.append(lite.load(folder / name, threads=1))

    def strength(self, samples: Array) -> float:
        """The largest answer to speech with silence around it."""
        silence = np.zeros(32000)
        frames = mels(np.concatenate([silence, samples, silence[:16000]]))
        windows = [frames[i : i + 76, :, None] for i in range(0, len(frames) - 75, 8)]
        embed, classify = self.parts
        rows = np.stack([np.asarray(embed.run(w[None])).reshape(96) for w in windows])
        found = [np.asarray(classify.run(rows[None, i : i + 16])) for i in range(len(rows) - 15)]
        return float(np.max(found))


@pytest.mark.parametrize("kind", CHAINS)
def test_a_wake_word_is_heard_from_three_voices(kind: str, tmp_path: Path) -> None:
    chain = Chain(kind, tmp_path)
    for voice in ("en-us", "en-gb", "en"):
        assert chain.strength(spoken("alexa", voice, tmp_path)) > 0.5
        for text in ("good morning everybody", "hey mycroft", "what time is it"):
            assert chain.strength(spoken(text, voice, tmp_path)) < 0.1


@pytest.mark.parametrize("kind", CHAINS)
def test_a_wake_word_is_not_heard_in_other_speech(kind: str, tmp_path: Path) -> None:
    chain = Chain(kind, tmp_path)
    for name in ("goforward.raw", "001.wav", "sense_and_sensibility_01_austen_64kb-0870.wav"):
        assert chain.strength(sound(path_of(f"data/speech/{name}"))) < 0.1
