"""The weights of each task that stay on the device, in a file that only its owner may read."""

from __future__ import annotations

import hashlib
from pathlib import Path

from fl_server.secagg.encode import Floats
from fl_server.storage.files import write_file
from fl_server.storage.weights import weights_bytes, weights_vector

DIGEST_SIZE = 32


class LocalWeights:
    """A file for each task: the digest of its model, and the weights as they were trained last,
    whatever became of that round."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def load(self, task: str, model: bytes) -> Floats | None:
        """float32, flattened; None before the first training of this model, whose digest it is:
        another server may have a task of the same name.     raises Malformed"""
        path = self._folder / file_name(task)
        kept = path.read_bytes() if path.exists() else b""
        return weights_vector(kept[DIGEST_SIZE:]) if kept[:DIGEST_SIZE] == model else None

    def of_model(self, model: bytes) -> Floats | None:
        """Those of the task of this model that was trained last.     raises Malformed"""
        for path in sorted(self._folder.glob("*"), key=lambda p: p.stat().st_mtime, reverse=True):
            kept = path.read_bytes()
            if kept[:DIGEST_SIZE] == model:
                return weights_vector(kept[DIGEST_SIZE:])
        return None

    def keep(self, task: str, model: bytes, own: Floats) -> None:
        write_file(self._folder / file_name(task), model + weights_bytes(own), mode=0o600)


def file_name(task: str) -> str:
    """A file's name for a task, which a server may name as it likes."""
    return hashlib.sha256(task.encode()).hexdigest()[:32]
