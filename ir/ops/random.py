"""Random numbers that are functions of a key: the same on every machine."""

from __future__ import annotations

import math

import numpy as np

from ir.dtype import DType
from ir.errors import ShapeError
from ir.graph import shape_text
from ir.op import NO_GRAD, case, exactly, ints, op

_MULTIPLIERS = 0xD2511F53, 0xCD9E8D57
_WEYL = 0x9E3779B9, 0xBB67AE85  # what the key moves by from round to round


def _philox(counter, key):
    """Philox 4x32-10: four arrays of 32 random bits (in uint64) for each counter."""
    low = np.uint64(0xFFFFFFFF)
    x = [counter & low, counter >> np.uint64(32), np.zeros_like(counter), np.zeros_like(counter)]
    pairs = list(zip(key, _WEYL, strict=True))
    for i in range(10):
        k = [np.uint64((int(word) + i * weyl) & 0xFFFFFFFF) for word, weyl in pairs]
        a, b = (x[j] * np.uint64(m) for j, m in zip((0, 2), _MULTIPLIERS, strict=True))
        x = [
            (b >> np.uint64(32)) ^ x[1] ^ k[0],
            b & low,
            (a >> np.uint64(32)) ^ x[3] ^ k[1],
            a & low,
        ]
    return x


def _key_shape(key, *, shape):
    if key != (2,):
        raise ShapeError(f"random_uniform: key is {shape_text(key)}; want [2]")
    return tuple(shape)


@op(
    code=300,
    shape=_key_shape,
    dtype=DType.f32,
    samples=[
        case(exactly([1, 2], DType.i32), shape=(3, 5)),
        case(ints(2, low=-(2**31), high=2**31), shape=(2, 3, 2)),
        case(ints(2), shape=()),
    ],
    kernels=("i32",),
    grad=NO_GRAD,
)
def random_uniform(key, *, shape=()):
    """y = uniform in [0, 1), multiples of 2^-24     key: int32[2] -> y: float32[*shape]

    Element i is word i % 4 of Philox 4x32-10 of the counter i // 4 (Salmon et al. 2011), so equal
    keys give equal numbers and no state is kept. Every machine computes the same bits.
    """
    n = math.prod(shape)
    words = np.stack(_philox(np.arange((n + 3) // 4, dtype=np.uint64), key), axis=-1)
    y = (words.reshape(-1)[:n] >> np.uint64(8)).astype(np.float32) * np.float32(2**-24)
    return y.reshape(shape)
