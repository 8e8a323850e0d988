"""The digits data set: 1797 handwritten digits of 43 people, 8 by 8 (Alpaydin and Kaynak 1998)."""

from __future__ import annotations

import gzip
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from examples.package_data import PackageFile

DIGITS = PackageFile(
    name="digits data",
    package="scikit-learn==1.7.2",  # BSD-3
    size_mb=9,
    member="sklearn/datasets/data/digits.csv.gz",
    member_sha256="09f66e6debdee2cd2b5ae59e0d6abbb73fc2b0e0185d2e1957e9ebb51e23aa22",
)
SIDE = 8
MOST = 16  # the value of a cell that is all ink


@dataclass(frozen=True)
class Digits:
    """Images and what they show     x: float32 [n, 8, 8, 1] in [0, 1], y: int32 [n]"""

    x: NDArray[np.float32]
    y: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.y)


def load(path: Path, test_share: float = 0.25) -> tuple[Digits, Digits]:
    """What to train on and what to test on; the file is in order of its writers, and stays so

    Raises DataError if the file is missing or its hash is not the pinned one.
    """
    rows = np.loadtxt(gzip.decompress(DIGITS.read(path)).decode().splitlines(), delimiter=",")
    x = (rows[:, :-1] / MOST).astype(np.float32).reshape(-1, SIDE, SIDE, 1)
    y = rows[:, -1].astype(np.int32)
    border = round(len(y) * (1 - test_share))
    return Digits(x[:border], y[:border]), Digits(x[border:], y[border:])
