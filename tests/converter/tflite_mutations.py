"""Damaged TFLite files: `python -m tests.converter.tflite_mutations COUNT [SEED]`.

Converts COUNT small models, bytes or small numbers of which were changed; else as `mutations`.
"""

from __future__ import annotations

import sys

import numpy as np

from tests.converter.mutations import Rng, change_bytes, run
from tests.converter.tflite_cases import FLOAT
from tests.converter.tflite_int_cases import INT8, INT16, UINT8

WORDS = (0, 1, 2**31 - 1, 2**31, 2**32 - 1, 2**32 - 2, 2**16, 2**20, 255, 4, 100)


def change_numbers(file: bytes, rng: Rng) -> bytes:
    """One to three of the small numbers changed: sizes, options and places of tensors. Most such
    files are still well-formed."""
    out = bytearray(file)
    words = np.frombuffer(file[: len(file) // 4 * 4], "<u4")
    small = np.flatnonzero((words < 256) | (words > 2**32 - 256))
    for i in rng.choice(small, int(rng.integers(1, 4))):
        word = int(rng.choice(WORDS) if rng.random() < 0.3 else rng.integers(0, 16))
        out[4 * i : 4 * i + 4] = word.to_bytes(4, "little")
    return bytes(out)


def originals() -> list[bytes]:
    """A model of each operator that the tests hold."""
    return [data for family in (FLOAT, INT8, UINT8, INT16) for data in family.values()]


if __name__ == "__main__":
    given = [int(a) for a in sys.argv[1:]]
    seed = given[1] if len(given) > 1 else 0
    sys.exit(run(given[0], seed, originals(), [change_bytes] + [change_numbers] * 3))
