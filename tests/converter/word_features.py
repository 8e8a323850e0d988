"""What models of spoken words take for sound: the features of the programs that they come from."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ir.graph import Array
from tests.converter.real_inputs import spoken


def said(text: str, voice: str, count: int, folder: Path, before: int = 0) -> Array:
    """`count` numbers of 16 kHz with `text` in their middle, behind `before` of near silence."""
    word = spoken(text, voice, folder)
    loud = np.nonzero(np.abs(word.astype(int)) > 300)[0]
    word = word[loud[0] : loud[-1]][:count] * 0.7
    sound = np.random.default_rng(0).standard_normal(before + count) * 8
    start = before + (count - len(word)) // 2
    sound[start : start + len(word)] += word
    return sound


def micro_features(sound: Array, bands: int, high: float, floor: float, even_out: bool) -> Array:
    """int8 [frames, bands] as TensorFlow's microfrontend makes them of windows of 30 ms, one each
    20 ms: roots of mel bands, less their running means but at least `floor` of them, if asked for
    divided by these to the power of 0.95, as logarithms."""
    starts = np.arange(0, len(sound) - 479, 320)
    window = 0.5 - 0.5 * np.cos(2 * np.pi * (np.arange(480) + 0.5) / 480)
    spectrum = np.fft.rfft(sound[starts[:, None] + np.arange(480)] * window, 512)
    roots = np.sqrt(np.abs(spectrum) ** 2 @ _bands(512, bands, 125, high)) / 8
    follow = np.where(np.arange(bands) % 2 == 0, 0.025, 0.06)
    mean, rows = np.zeros(bands), []
    for row in roots:
        mean = follow * row + (1 - follow) * mean
        left = np.maximum(row - mean, floor * row)
        if even_out:
            ratio = left * 8 * (mean * 8 + 80) ** -0.95
            left = 64 * np.where(ratio < 2, ratio**2 / 4, ratio - 1)
        rows.append(np.round(64 * np.log(np.maximum(np.floor(left) * 8, 1))))
    stored = np.floor((np.array(rows) * 256 + 333) / 666) - 128
    return np.clip(stored, -128, 127).astype(np.int8)


def band_picture(sound: Array) -> Array:
    """[50, 10] from 0 to 255: logarithms of mel bands to 4,000 Hz in windows of 40 ms, one each
    20 ms, of a second."""
    starts = np.arange(50) * 320
    padded = np.pad(sound / 32768, (0, 640))
    pieces = padded[starts[:, None] + np.arange(640)] * np.hanning(641)[:640]
    power = np.abs(np.fft.rfft(pieces, 1024)) ** 2 @ _bands(1024, 10, 20, 4000)
    logs = np.log(power + 1e-6)
    return ((logs - logs.min()) / np.ptp(logs) * 255).astype(np.float32)


def log_bands(sound: Array) -> Array:
    """[149, 64] as EfficientWord-Net takes 1.5 seconds: logarithms of bands between whole bins."""
    starts = np.arange(149) * 160
    padded = np.pad(sound / 32768, (0, 416))
    power = np.abs(np.fft.rfft(padded[starts[:, None] + np.arange(400)], 512)) ** 2 / 512
    edges = np.floor(513 * _hertz(np.linspace(0, _mel(8000), 66)) / 16000)
    energy = power @ _triangles(np.arange(257), edges)
    return np.log(np.where(energy == 0, np.finfo(float).eps, energy)).astype(np.float32)


def _bands(points: int, bands: int, low: float, high: float) -> Array:
    edges = np.linspace(_mel(low), _mel(high), bands + 2)
    return _triangles(_mel(np.arange(points // 2 + 1) * 16000 / points), edges)


def _triangles(at: Array, edges: Array) -> Array:
    """[places, bands] that rise from an edge to the next and fall to the one after it."""
    left, middle, right = edges[:-2], edges[1:-1], edges[2:]
    place = at[:, None]
    rise = (place - left) / np.maximum(middle - left, 1e-9)
    fall = (right - place) / np.maximum(right - middle, 1e-9)
    return np.clip(np.where(place < middle, rise, fall), 0, 1)


def _mel(hertz: Array | float) -> Array:
    return 1127 * np.log1p(np.asarray(hertz) / 700)


def _hertz(mel: Array) -> Array:
    return 700 * np.expm1(mel / 1127)
