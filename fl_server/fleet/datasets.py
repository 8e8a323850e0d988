"""Data sets that a fleet shares: the files of MNIST and its kin, or arrays in an .npz file."""

from __future__ import annotations

import gzip
import math
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fl_server.errors import SettingsError

Arrays = dict[str, npt.NDArray[Any]]

LABEL, USER, TEST = "label", "user", "test_"
_MOST_BYTES = 1 << 30


@dataclass(frozen=True)
class DataSet:
    """Arrays by the names of a model's inputs, `label` among them, examples along the first axis.

    user: [n], whose example each is, None where nobody knows · test: held out, {} where none are
    """

    train: Arrays
    test: Arrays
    user: npt.NDArray[Any] | None = None


def idx_images(folder: Path) -> DataSet:
    """The four files of MNIST (LeCun 1998) or Fashion-MNIST (Xiao 2017), gzipped or not.

    image: float32 [n, 28, 28, 1] in [0, 1], label: int32 [n]     raises SettingsError, OSError
    """
    return DataSet(_part(folder, "train"), _part(folder, "t10k"))


def from_arrays(arrays: Arrays, place: str) -> DataSet:
    """Of the arrays of an .npz file: `user` and what begins with `test_` are told apart.

    raises SettingsError
    """
    held = {n.removeprefix(TEST): a for n, a in arrays.items() if n.startswith(TEST)}
    train = {n: a for n, a in arrays.items() if not n.startswith(TEST)}
    user = train.pop(USER, None)
    if LABEL not in train or len(train) < 2:
        raise SettingsError(f"{place}: holds {sorted(arrays)}, want `label` and the inputs")
    if held and held.keys() != train.keys():
        raise SettingsError(f"{place}: test_ {sorted(held)}, want those of {sorted(train)}")
    for part in (train, held):
        sizes = {name: len(a) if a.ndim else 0 for name, a in part.items()}
        if len(set(sizes.values())) > 1 or 0 in sizes.values():
            raise SettingsError(f"{place}: examples {sizes}, want as many in each array")
    return DataSet(train, held, user)


def _part(folder: Path, part: str) -> Arrays:
    pixels = _read_idx(folder / f"{part}-images-idx3-ubyte", 3)
    label = _read_idx(folder / f"{part}-labels-idx1-ubyte", 1)
    if len(pixels) != len(label):
        raise SettingsError(f"{folder}: {len(pixels)} {part} images and {len(label)} labels")
    return {"image": pixels[..., None].astype(np.float32) / 255, LABEL: label.astype(np.int32)}


def _read_idx(path: Path, rank: int) -> npt.NDArray[np.uint8]:
    """The bytes of an idx file, `path` or the same with .gz     raises SettingsError, OSError"""
    path = path if path.exists() else path.with_name(path.name + ".gz")
    with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
        try:
            raw = file.read(_MOST_BYTES)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise SettingsError(f"{path}: not gzip ({error})") from None
    head = 4 + 4 * rank
    shape = [int.from_bytes(raw[at : at + 4], "big") for at in range(4, head, 4)]
    if raw[:4] != bytes([0, 0, 8, rank]) or len(raw) != head + math.prod(shape) or 0 in shape:
        raise SettingsError(f"{path}: not an idx file of bytes with {rank} dimensions")
    return np.frombuffer(raw, np.uint8, offset=head).reshape(shape)
