"""How long a large file takes to open, beside one hash of its bytes: python -m bench.opening

Three files of about 100 MB: of frozen weights, of weights that train with their optimiser's state,
and of both. Opening checks every byte; it copies no weight. Both sides map the file anew each time.
"""

from __future__ import annotations

import hashlib
import mmap
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

import lite_runtime as lite
from bench.timing import QUICK, Row, Turns, rows, take_turns, timed
from ir import model_file
from ir.graph import Graph, Model, Value, Weight
from ir.op import OPS

SIDE = 2500  # of a square weight: 25 MB
KINDS = {"frozen": (4, 0), "training": (0, 2), "both": (2, 1)}  # weights: frozen, trained


def measure(turns: Turns = QUICK, threads: int = 2, side: int = SIDE) -> Iterator[Row]:
    """A row for each kind of file, its weights `side` squared; `theirs` is the hash."""
    for kind, counts in KINDS.items():
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model.ms"
            model_file.save(large_model(*counts, side), path)
            contenders = {
                "ours": timed(lambda path=path: lite.load(path, threads=threads)),
                "sha256": timed(lambda path=path: hashed(path)),
            }
            found = take_turns(contenders, turns)
            size = path.stat().st_size / 1e6
            yield from rows("opening", f"{kind}, {size:.0f} MB", threads, found, "")


def large_model(frozen: int, trained: int, side: int = SIDE) -> Model:
    """Products with frozen weights; weights that train with momentum, which doubles them."""

    def weight(name: str, trainable: bool = False) -> Weight:
        return Weight(np.ones((side, side), np.float32), name=name, trainable=trainable)

    x, lr = Value((1, side), name="x"), Value((), name="lr")
    y = x
    for i in range(frozen):
        y = y @ weight(f"frozen{i}")
    updates = []
    for i in range(trained):
        w = weight(f"w{i}", trainable=True)
        v = Weight(np.zeros((side, side), np.float32), name=f"v{i}", state=True)
        step = OPS["momentum_step"](w, v, w * 0.1, lr)
        updates += list(zip((w, v), step, strict=True))
    return Model({"train": Graph((x, lr), (y,), ("y",), tuple(updates))})


def hashed(path: Path) -> bytes:
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        return hashlib.sha256(data).digest()


def main() -> int:
    for row in measure():
        times = f"opened in {row.ours:.0f} ms, hashed in {row.theirs:.0f} ms"
        print(f"{row.case}: {times}, {1 / row.ratio:.2f} times, best {1 / row.best_ratio:.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
