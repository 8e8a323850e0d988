"""Secret sharing over GF(2^8), byte by byte, without tables or branches on secrets (Shamir 1979).

The field is that of AES: polynomial x^8 + x^4 + x^3 + x + 1. A share is its x followed by one byte
for each byte of the secret.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from fl_server.errors import TooFewShares

SECRET_SIZE = 32
SHARE_SIZE = 1 + SECRET_SIZE
MOST_SHARES = 255

Bytes = npt.NDArray[np.uint8]


def split(secret: bytes | bytearray, threshold: int, count: int, random: bytes) -> list[bytearray]:
    """Shares for x = 1..count, any `threshold` of which give the secret back.

    random: 32*(threshold - 1) bytes, the coefficients of x^1, x^2, … one after another
    """
    if len(secret) != SECRET_SIZE or len(random) != SECRET_SIZE * (threshold - 1):
        raise ValueError(f"secret of {len(secret)} bytes, randomness of {len(random)} bytes")
    if not 1 <= threshold <= count <= MOST_SHARES:
        raise ValueError(f"threshold {threshold} of {count} shares")
    x = np.arange(1, count + 1, dtype=np.uint8)[:, None]
    coefficients = np.frombuffer(random, np.uint8).reshape(threshold - 1, SECRET_SIZE)
    y = np.zeros((count, SECRET_SIZE), np.uint8)
    for coefficient in coefficients[::-1]:
        y = multiply(y ^ coefficient, x)
    y ^= np.frombuffer(secret, np.uint8)
    return [bytearray([i + 1]) + bytearray(row.tobytes()) for i, row in enumerate(y)]


def combine(shares: Sequence[bytes | bytearray], threshold: int) -> bytearray:
    """The secret of the first `threshold` shares.     raises TooFewShares"""
    xs = tuple(share[0] for share in shares[:threshold])
    if len(xs) < threshold or len(set(xs)) != len(xs) or 0 in xs:
        raise TooFewShares(f"{len(set(xs) - {0})} distinct shares, {threshold} are needed")
    y = np.stack([np.frombuffer(share, np.uint8)[1:] for share in shares[:threshold]])
    products = multiply(y, _weights_at_zero(xs)[:, None])
    return bytearray(np.bitwise_xor.reduce(products, axis=0).tobytes())


def multiply(a: Bytes, b: Bytes) -> Bytes:
    """a*b in the field, with broadcasting: eight steps, the same whatever the values."""
    a, b = np.broadcast_arrays(a, b)
    a = a.copy()
    out = np.zeros_like(a)
    for bit in range(8):
        out ^= a * ((b >> np.uint8(bit)) & np.uint8(1))
        a = (a << np.uint8(1)) ^ (np.uint8(0x1B) * (a >> np.uint8(7)))
    return out


def invert(a: Bytes) -> Bytes:
    """a^254, which is 1/a where a is not 0."""
    out, power = np.ones_like(a), a
    for _ in range(7):
        power = multiply(power, power)
        out = multiply(out, power)
    return out


@lru_cache(maxsize=512)
def _weights_at_zero(xs: tuple[int, ...]) -> Bytes:
    """Lagrange's weights at x = 0. The xs are public, so that caching by them tells nothing."""
    x = np.array(xs, np.uint8)
    difference = x[:, None] ^ x[None, :]
    np.fill_diagonal(difference, 1)
    ratios = multiply(np.broadcast_to(x[None, :], difference.shape), invert(difference))
    np.fill_diagonal(ratios, 1)
    out = np.ones_like(x)
    for column in ratios.T:
        out = multiply(out, column)
    return out
