"""What the tasks learn from: small, seeded, made here."""

from __future__ import annotations

import numpy as np

Array = np.ndarray
Split = tuple[Array, Array, Array, Array]  # inputs and targets, then those of validation

# Five rows of three dots for each digit, as octal numbers.
FONT = ["75557", "26227", "71747", "71717", "55711", "74717", "74757", "71111", "75757", "75717"]
GLYPHS = np.array([[[int(row) >> 2 - i & 1 for i in range(3)] for row in g] for g in FONT])
TOKENS, LENGTH = 16, 24


def digits(count: int = 2400, size: int = 8, *, kinds: range = range(10), seed: int = 0) -> Split:
    """Images [n,size,size] of digits at random places, in noise, and labels from 0 on."""
    rng = np.random.default_rng(seed)
    label = rng.integers(0, len(kinds), count)
    image = rng.normal(0, 0.1, (count, size, size)).astype(np.float32)
    rows, columns = rng.integers(0, size - 4, count), rng.integers(0, size - 2, count)
    for x, y, i, j in zip(image, label, rows, columns, strict=True):
        x[i : i + 5, j : j + 3] += GLYPHS[kinds[y]]
    return split(image, label)


def sequences(count: int = 400, seed: int = 0) -> Split:
    """Tokens [n,t] and their successors: each is five times the one before, plus 0 or 1."""
    rng = np.random.default_rng(seed)
    tokens = np.zeros((count, LENGTH + 1), np.int64)
    tokens[:, 0] = rng.integers(0, TOKENS, count)
    for t in range(LENGTH):
        tokens[:, t + 1] = (5 * tokens[:, t] + rng.integers(0, 2, count)) % TOKENS
    return split(tokens[:, :-1], tokens[:, 1:])


def split(x: Array, y: Array) -> Split:
    """The last fourth is for validation."""
    n = len(x) * 3 // 4
    return x[:n], y[:n], x[n:], y[n:]
