"""Changes of coordinates that all devices of a round share: a random rotation, a random choice.

Both are linear, so that what is summed can be turned back once, by the server.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from fl_server.secagg.keys import derive
from fl_server.secagg.mask import KEY_SIZE, expand

Doubles = npt.NDArray[np.float64]
_SIGNS, _CHOICE = b"signs", b"choice"


def padded(length: int) -> int:
    """The next power of two, which a rotation needs."""
    return 1 << max(length - 1, 0).bit_length()


def rotate(values: Doubles, seed: bytes) -> Doubles:
    """H D x / sqrt(n), which spreads every coordinate over all     [d] -> [padded(d)]

    D are random signs and H is Hadamard's matrix (Suresh 2017, "Distributed mean estimation with
    limited communication"): the largest coordinate is then near ||x|| sqrt(2 log(n) / n) whatever x
    is, so that a small clip value, and few bits, hold it.
    """
    size = padded(len(values))
    whole = np.zeros(size)
    whole[: len(values)] = values
    return np.asarray(hadamard(whole * _signs(seed, size)) / np.sqrt(size), np.float64)


def rotate_back(values: Doubles, length: int, seed: bytes) -> Doubles:
    """The inverse     [padded(d)] -> [d]"""
    size = len(values)
    return np.asarray(hadamard(values) * _signs(seed, size) / np.sqrt(size))[:length]


def hadamard(values: Doubles) -> Doubles:
    """Sylvester's matrix of +1 and -1 times a vector whose length is a power of two, n log n."""
    half, size = 1, len(values)
    while half < size:
        pairs = values.reshape(-1, 2, half)
        values = np.stack([pairs[:, 0] + pairs[:, 1], pairs[:, 0] - pairs[:, 1]], 1).reshape(-1)
        half *= 2
    return values


def chosen(count: int, size: int, seed: bytes) -> npt.NDArray[np.int64]:
    """`count` of `size` coordinates, any as likely as any other, in order."""
    draws = expand(derive(seed, bytes(32), _CHOICE, KEY_SIZE), size, 64)
    return np.sort(np.argsort(draws, kind="stable")[:count])


def _signs(seed: bytes, size: int) -> Doubles:
    bits = expand(derive(seed, bytes(32), _SIGNS, KEY_SIZE), size, 1)
    return np.asarray(1.0 - 2.0 * bits, np.float64)
