"""Real models and what they were made for: files, speech and pictures as their programs feed them.

The folder of `MINDSPAN_MODELS` holds them; tests of them are skipped, aloud, where it is not set.
"""

from __future__ import annotations

import os
import shutil
import subprocess
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


def sound(path: Path) -> Array:
    """int16 at 16 kHz"""
    if path.suffix == ".raw":
        return np.fromfile(path, np.int16)
    with wave.open(str(path)) as file:
        samples = np.frombuffer(file.readframes(file.getnframes()), np.int16)
        rate = file.getframerate()
    at = np.arange(int(len(samples) * 16000 / rate)) * rate / 16000
    return np.interp(at, np.arange(len(samples)), samples).astype(np.int16)


def spoken(text: str, voice: str, folder: Path) -> Array:
    """`text` by a voice of espeak-ng. Skips the test where that is not installed."""
    program = shutil.which("espeak-ng")
    if program is None:
        pytest.skip("espeak-ng is not installed, which says the words")
    path = folder / f"{voice}.wav"
    subprocess.run([program, "-v", voice, "-w", str(path), text], check=True)
    return sound(path)


def mels(samples: Array) -> Array:
    """[frames, 32] of numbers at 16 kHz as the wake words of openWakeWord take them: decibels of
    mel bands from 60 to 3,800 Hz in windows of 25 ms, one each 10 ms, no lower than 80 below the
    loudest; by 10, and 2 more."""
    starts = np.arange(0, len(samples) - 511, 160)
    window = np.zeros(512)
    window[56:456] = np.hanning(401)[:400]
    pieces = samples[starts[:, None] + np.arange(512)] * window
    power = np.abs(np.fft.rfft(pieces)) ** 2 @ _mel_bands(512, 32, 60, 3800)
    loud = 10 * np.log10(np.maximum(power, 1e-10))
    return (np.maximum(loud, loud.max() - 80) / 10 + 2).astype(np.float32)


def loud_mels(samples: Array, frames: int = 900, bands: int = 120, step: int = 160) -> Array:
    """[frames, bands] of numbers at 16 kHz as DNSMOS and AECMOS take them: decibels of mel bands to
    8,000 Hz below the loudest one, at least -80, from 1 down, in windows of two steps."""
    points = 2 * step + 1
    padded = np.pad(samples[: frames * step], step)
    starts = np.arange(frames) * step
    pieces = padded[starts[:, None] + np.arange(points)] * np.hanning(points + 1)[:points]
    power = np.abs(np.fft.rfft(pieces)) ** 2 @ _mel_bands(points, bands, 0, 8000)
    loud = 10 * np.log10(np.maximum(power, 1e-10) / np.maximum(power.max(), 1e-10))
    return ((np.maximum(loud, -80) + 40) / 40).astype(np.float32)


def _mel_bands(points: int, bands: int, low: float, high: float) -> Array:
    """[points / 2 + 1, bands] triangles of one area, evenly on Slaney's scale (1998)."""
    even = [
        f * 3 / 200 if f < 1000 else 15 + np.log(f / 1000) * 27 / np.log(6.4) for f in (low, high)
    ]
    steps = np.linspace(even[0], even[1], bands + 2)
    edges = np.where(steps < 15, steps * 200 / 3, 1000 * np.exp((steps - 15) * np.log(6.4) / 27))
    left, middle, right = edges[:-2], edges[1:-1], edges[2:]
    hertz = np.arange(points // 2 + 1)[:, None] * 16000 / points
    sides = np.minimum((hertz - left) / (middle - left), (right - hertz) / (right - middle))
    return np.maximum(sides, 0) * 2 / (right - left)
