"""Images as arrays [h,w,c]: reading, and what is done to them before training.

Functions keep the element type: uint8 stays uint8, rounded. Those that draw take an `rng`, as
`Pipeline.map(f, random=True)` gives it.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

Array = np.ndarray


def decode(source: str | Path | bytes, *, channels: int = 3) -> Array:
    """uint8 [h,w,channels] of a PNG, JPEG … file or its bytes; 1, 3 or 4 channels: grey, RGB, RGBA.

    Raises ImportError where Pillow is missing, ValueError for what is no image.
    """
    try:
        from PIL import Image, UnidentifiedImageError
    except ImportError:
        raise ImportError("reading images wants Pillow: pip install 'mindspan[image]'") from None
    modes = {1: "L", 3: "RGB", 4: "RGBA"}
    if channels not in modes:
        raise ValueError(f"decode: {channels} channels, want 1, 3 or 4")
    name = "bytes" if isinstance(source, bytes) else str(source)
    try:
        with Image.open(io.BytesIO(source) if isinstance(source, bytes) else source) as image:
            pixels = np.asarray(image.convert(modes[channels]))
    except (UnidentifiedImageError, SyntaxError) as e:
        raise ValueError(f"{name}: no image that Pillow knows ({e})") from None
    return pixels.reshape(*pixels.shape[:2], channels).copy()


def resize(x: Array, size: int | tuple[int, int], *, antialias: bool = True) -> Array:
    """[h,w,c] -> [*size,c] by linear interpolation between pixel centres; a number is the shorter
    side. `antialias`: what shrinks is averaged over all that it covers."""
    h, w = x.shape[:2]
    if isinstance(size, int):
        scale = size / min(h, w)
        size = (size, round(w * scale)) if h <= w else (round(h * scale), size)
    rows, columns = (_interpolation(n, m, antialias) for n, m in zip((h, w), size, strict=True))
    y = np.einsum("ph,hwc->pwc", rows, x.astype(np.float32))
    return _like(np.einsum("qw,pwc->pqc", columns, y), x)


def crop(x: Array, top: int, left: int, size: int | tuple[int, int]) -> Array:
    """The part of `size` from (top, left) on. Raises ValueError where it is not inside."""
    h, w = _pair(size)
    if not (0 <= top <= x.shape[0] - h and 0 <= left <= x.shape[1] - w):
        raise ValueError(f"crop: {h}x{w} at {top},{left} of {x.shape[0]}x{x.shape[1]}")
    return x[top : top + h, left : left + w]


def center_crop(x: Array, size: int | tuple[int, int]) -> Array:
    """The middle part of `size`."""
    h, w = _pair(size)
    return crop(x, (x.shape[0] - h) // 2, (x.shape[1] - w) // 2, (h, w))


def random_crop(
    x: Array, size: int | tuple[int, int], rng: np.random.Generator, *, padding: int = 0
) -> Array:
    """A part of `size` somewhere in the image, with zeros around it."""
    x = np.pad(x, ((padding, padding), (padding, padding), (0, 0)))
    h, w = _pair(size)
    if h > x.shape[0] or w > x.shape[1]:
        raise ValueError(f"crop: {h}x{w} of {x.shape[0]}x{x.shape[1]}")
    top, left = (int(rng.integers(n)) for n in (x.shape[0] - h + 1, x.shape[1] - w + 1))
    return crop(x, top, left, (h, w))


def random_resized_crop(
    x: Array,
    size: int | tuple[int, int],
    rng: np.random.Generator,
    *,
    area: tuple[float, float] = (0.08, 1.0),
    ratio: tuple[float, float] = (3 / 4, 4 / 3),
) -> Array:
    """A part of random area and aspect ratio, resized; the middle if ten draws do not fit

    (Szegedy et al. 2015)
    """
    h, w = x.shape[:2]
    for _ in range(10):
        target = rng.uniform(*area) * h * w
        aspect = np.exp(rng.uniform(*np.log(ratio)))
        a, b = round(np.sqrt(target / aspect)), round(np.sqrt(target * aspect))
        if 0 < a <= h and 0 < b <= w:
            return resize(random_crop(x, (a, b), rng), _pair(size))
    return resize(center_crop(x, min(h, w)), _pair(size))


def flip_horizontal(x: Array) -> Array:
    """Mirrored left to right."""
    return x[:, ::-1]


def random_flip(x: Array, rng: np.random.Generator) -> Array:
    """Mirrored left to right, or not, by the toss of a coin."""
    return flip_horizontal(x) if rng.random() < 0.5 else x


def random_brightness(x: Array, rng: np.random.Generator, *, most: float = 0.2) -> Array:
    """Times a number between 1 - most and 1 + most."""
    return _like(x.astype(np.float32) * np.float32(rng.uniform(1 - most, 1 + most)), x)


def random_contrast(x: Array, rng: np.random.Generator, *, most: float = 0.2) -> Array:
    """Distances from the mean times a number between 1 - most and 1 + most."""
    mean = np.float32(x.mean())
    scale = np.float32(rng.uniform(1 - most, 1 + most))
    return _like((x.astype(np.float32) - mean) * scale + mean, x)


def to_float(x: Array) -> Array:
    """float32 in [0, 1] of bytes."""
    return x.astype(np.float32) / np.float32(255)


def normalise(x: Array, mean: float | Sequence[float], std: float | Sequence[float]) -> Array:
    """(x - mean) / std, one number or one a channel; of bytes, after `to_float`."""
    x = to_float(x) if x.dtype == np.uint8 else x
    return (x - np.asarray(mean, np.float32)) / np.asarray(std, np.float32)


def _pair(size: int | tuple[int, int]) -> tuple[int, int]:
    return (size, size) if isinstance(size, int) else size


def _like(y: Array, x: Array) -> Array:
    if x.dtype == np.uint8:
        return np.clip(np.rint(y), 0, 255).astype(np.uint8)
    return y.astype(x.dtype)


def _interpolation(n: int, m: int, antialias: bool) -> Any:
    """The matrix [m,n] that makes m pixels of n: a triangle around each centre."""
    if m < 1:
        raise ValueError(f"resize: to {m} pixels, want at least 1")
    scale = n / m
    width = max(scale, 1.0) if antialias else 1.0
    centres = (np.arange(m) + 0.5) * scale - 0.5
    if not antialias:
        centres = np.clip(centres, 0, n - 1)
    weights = np.maximum(1 - np.abs(np.arange(n) - centres[:, None]) / width, 0)
    return (weights / weights.sum(1, keepdims=True)).astype(np.float32)
