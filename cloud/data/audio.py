"""Sound as arrays: reading WAV files, resampling, spectra, log-mel and MFCC features."""

from __future__ import annotations

import io
import math
import wave
from functools import lru_cache
from pathlib import Path

import numpy as np

Array = np.ndarray


def read_wav(source: str | Path | bytes) -> tuple[Array, int]:
    """(float32 [t,channels] in [-1, 1), samples a second) of a PCM file of 8 to 32 bits, or its
    bytes. Raises ValueError for another file."""
    name = "bytes" if isinstance(source, bytes) else str(source)
    try:
        with wave.open(io.BytesIO(source) if isinstance(source, bytes) else str(source)) as file:
            data = file.readframes(file.getnframes())
            width, channels, rate = file.getsampwidth(), file.getnchannels(), file.getframerate()
    except (wave.Error, EOFError) as e:
        raise ValueError(f"{name}: {e or 'cut short'}; want a PCM WAV file") from None
    data = data[: len(data) // (width * channels) * width * channels]
    return _pcm(data, width).reshape(-1, channels), rate


def write_wav(path: str | Path, x: Array, rate: int) -> None:
    """A 16-bit file of [t] or [t,channels] in [-1, 1]; what is louder is cut off."""
    samples = np.clip(np.rint(np.asarray(x, np.float64) * 32768), -32768, 32767).astype("<i2")
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1 if x.ndim == 1 else x.shape[1])
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes(samples.tobytes())


def resample(x: Array, rate: int, to: int, *, lobes: int = 16) -> Array:
    """[t,...] at `rate` samples a second -> [ceil(t to / rate),...], without what the lower of both
    rates cannot hold: a sinc of so many lobes in a Kaiser window, for each phase (Smith 2011)"""
    if rate == to:
        return x
    divisor = math.gcd(rate, to)
    up, down = to // divisor, rate // divisor
    cutoff = min(1.0, up / down)
    reach = math.ceil(lobes / cutoff)
    n = -(-len(x) * up // down)
    padded = np.pad(x, ((reach, reach), *((0, 0),) * (x.ndim - 1)))
    y = np.empty((n, *x.shape[1:]), np.float64)
    taps = np.arange(-reach + 1, reach + 1)
    for phase in range(min(up, n)):  # results phase, phase + up, … lie equally between samples
        at = phase * down
        t = taps - (at % up) / up
        kernel = cutoff * np.sinc(cutoff * t) * _kaiser(t / reach)
        first = at // up + np.arange(len(y[phase::up])) * down + 1
        windows = padded[first[:, None] + np.arange(2 * reach)]
        y[phase::up] = np.einsum("nk...,k->n...", windows, kernel / kernel.sum())
    return y.astype(x.dtype)


def stft(x: Array, *, size: int = 512, step: int = 256, centered: bool = True) -> Array:
    """complex64 [frames, size / 2 + 1]: the spectra of windows (Hann) of x [t], `step` apart;
    `centered`: around every step, the ends mirrored"""
    if centered:
        x = np.pad(x, size // 2, mode="reflect")
    if len(x) < size:
        raise ValueError(f"stft: {len(x)} samples, want at least {size}")
    window = np.hanning(size + 1)[:-1]
    frames = np.lib.stride_tricks.sliding_window_view(x, size)[::step]
    return np.fft.rfft(frames * window).astype(np.complex64)


@lru_cache(maxsize=8)
def mel_filters(
    rate: int, *, size: int = 512, mels: int = 40, low_hz: float = 0.0, high_hz: float | None = None
) -> Array:
    """float32 [mels, size / 2 + 1]: triangles that lie evenly on the mel scale

    mel = 2595 log10(1 + f / 700) (O'Shaughnessy 1987)
    """
    high_hz = rate / 2 if high_hz is None else high_hz
    if not 0 <= low_hz < high_hz <= rate / 2:
        raise ValueError(f"mel filters: {low_hz} to {high_hz} Hz, want within 0 to {rate / 2}")
    ends = 2595 * np.log10(1 + np.array([low_hz, high_hz]) / 700)
    edges = 700 * (10 ** (np.linspace(*ends, mels + 2) / 2595) - 1)
    frequencies = np.linspace(0, rate / 2, size // 2 + 1)
    rising = (frequencies - edges[:-2, None]) / np.diff(edges)[:-1, None]
    falling = (edges[2:, None] - frequencies) / np.diff(edges)[1:, None]
    return np.maximum(np.minimum(rising, falling), 0).astype(np.float32)


def log_mel(
    x: Array,
    rate: int,
    *,
    size: int = 512,
    step: int = 256,
    mels: int = 40,
    low_hz: float = 0.0,
    high_hz: float | None = None,
    floor: float = 1e-10,
) -> Array:
    """float32 [frames,mels]: the logarithm of the power in each band of x [t], at least `floor`"""
    filters = mel_filters(rate, size=size, mels=mels, low_hz=low_hz, high_hz=high_hz)
    power = np.square(np.abs(stft(x, size=size, step=step)))
    return np.log(np.maximum(power @ filters.T, floor)).astype(np.float32)


def mfcc(x: Array, rate: int, *, coefficients: int = 13, mels: int = 40, **mel: float) -> Array:
    """float32 [frames,coefficients]: the first of the cosine transform (orthonormal, type 2) of
    `log_mel`, which takes the other settings (Davis and Mermelstein 1980)"""
    if not 0 < coefficients <= mels:
        raise ValueError(f"mfcc: {coefficients} coefficients of {mels} bands, want 1 to {mels}")
    bands = log_mel(x, rate, mels=mels, **mel)  # type: ignore[arg-type]
    k, n = np.arange(coefficients)[:, None], np.arange(mels)
    basis = np.cos(np.pi * k * (2 * n + 1) / (2 * mels)) * np.sqrt(2 / mels)
    basis[0] /= np.sqrt(2)
    return (bands @ basis.T).astype(np.float32)


def _pcm(data: bytes, width: int) -> Array:
    if width == 1:  # the one width that is unsigned
        return (np.frombuffer(data, np.uint8).astype(np.float32) - 128) / 128
    if width == 3:
        wide = np.zeros((len(data) // 3, 4), np.uint8)
        wide[:, 1:] = np.frombuffer(data, np.uint8).reshape(-1, 3)
        return (wide.view("<i4")[:, 0] / 2.0**31).astype(np.float32)
    if width not in (2, 4):
        raise ValueError(f"WAV of {8 * width} bits a sample: want 8, 16, 24 or 32")
    return (np.frombuffer(data, f"<i{width}") / 2.0 ** (8 * width - 1)).astype(np.float32)


def _kaiser(t: Array, beta: float = 8.6) -> Array:
    return np.i0(beta * np.sqrt(np.maximum(1 - t * t, 0))) / np.i0(beta)
