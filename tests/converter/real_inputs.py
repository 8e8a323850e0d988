"""Real models and what they were made for: files, speech and pictures as their programs feed them.

The folder of `MINDSPAN_MODELS` holds them; tests of them are skipped, aloud, where it is not set.
"""

from __future__ import annotations

import os
import wave
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageDraw, ImageFont

from ir.graph import Array

FOLDER = os.environ.get("MINDSPAN_MODELS", "")
needs_models = pytest.mark.skipif(
    not FOLDER, reason="MINDSPAN_MODELS is not set: want a folder of models and data"
)


def path_of(name: str) -> Path:
    """A file of the folder. Skips the test where it is not there."""
    path = Path(FOLDER) / name
    if not FOLDER or not path.exists():
        pytest.skip(f"{path}: not fetched")
    return path


def file_bytes(data: bytes) -> Array:
    """The first and the last 1024 bytes of a file without blanks around it, 256 for none."""
    first, last = data.lstrip()[:1024], data.rstrip()[-1024:]
    row = [*first, *[256] * (1024 - len(first)), *[256] * (1024 - len(last)), *last]
    return np.array([row], np.int32)


def speech() -> Array:
    """Someone reads a book: 16,000 numbers a second, -1 to 1."""
    name = "data/speech/sense_and_sensibility_01_austen_64kb-0870.wav"
    with wave.open(str(path_of(name))) as file:
        samples = np.frombuffer(file.readframes(file.getnframes()), np.int16)
    return (samples / 32768).astype(np.float32)


def frames(sound: Array, step: int = 512, before: int = 64) -> Array:
    """Pieces of `step` numbers, each behind the last ones of the piece before it."""
    padded = np.concatenate([np.zeros(before, np.float32), sound])
    starts = range(0, len(sound) - step + 1, step)
    return np.stack([padded[i : i + before + step] for i in starts])


def picture(name: str, box: tuple[int, int, int, int] | None = None) -> Image.Image:
    image = Image.open(path_of(f"data/images/{name}")).convert("RGB")
    return image.crop(box) if box else image


def written(text: str, size: tuple[int, int], at: tuple[int, int], height: int) -> Image.Image:
    """Dark text on a light picture."""
    image = Image.new("RGB", size, (235, 235, 225))
    ImageDraw.Draw(image).text(at, text, (20, 20, 40), ImageFont.load_default(height))
    return image


def channels_first(image: Image.Image, mean: Array | float, deviation: Array | float) -> Array:
    """[1, 3, h, w], normalised."""
    x = (np.asarray(image, np.float32) / 255 - mean) / deviation
    return np.ascontiguousarray(x.transpose(2, 0, 1)[None], np.float32)


def face(image: Image.Image, size: int) -> Array:
    """[1, size, size, 3] as MTCNN takes it: columns first, -1 to 1."""
    x = np.asarray(image.resize((size, size), Image.Resampling.BILINEAR), np.float32)
    return ((x - 127.5) / 128).transpose(1, 0, 2)[None]
