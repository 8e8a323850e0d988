"""A device's control variate of each task (SCAFFOLD), on its disk.

It may change only with an update that is in the sum: the server's variate is the mean of all
devices'. What was sent is kept beside it, and the round's transcript tells whether it counted.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from fl_server.device.local import file_name
from fl_server.errors import Malformed
from fl_server.secagg.encode import Floats
from fl_server.storage.files import write_file
from fl_server.storage.weights import weights_bytes, weights_vector

_ROUND_BYTES = 8


class Controls:
    """One file for each task, and one more while a round's outcome is not known."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def own(self, task: str, length: int) -> Floats:
        """c_i, zeros at first     -> float32 [length]; raises Malformed"""
        path = self._path(task, "own")
        if not path.exists():
            return np.zeros(length, np.float32)
        kept = weights_vector(path.read_bytes())
        if kept.size != length:
            raise Malformed(f"{path}: {kept.size} values, the model has {length} weights")
        return kept

    def propose(self, task: str, number: int, controls: Floats) -> None:
        """Keep what c_i becomes if the update of this round is in the sum."""
        head = number.to_bytes(_ROUND_BYTES, "little")
        write_file(self._path(task, "next"), head + weights_bytes(controls), mode=0o600)

    def settle(self, task: str, client: int, transcript: Callable[[int], Sequence[str]]) -> None:
        """Learn from its transcript what became of the last round.     raises Malformed"""
        path = self._path(task, "next")
        if not path.exists():
            return
        kept = path.read_bytes()
        number = int.from_bytes(kept[:_ROUND_BYTES], "little")
        if counted(transcript(number), client):
            write_file(self._path(task, "own"), kept[_ROUND_BYTES:], mode=0o600)
        path.unlink()

    def _path(self, task: str, what: str) -> Path:
        return self._folder / f"{file_name(task)}.{what}"


def counted(transcript: Sequence[str], client: int) -> bool:
    """Whether a client's vector is in the sum of a finished round.     raises Malformed"""
    try:
        events = {line["event"]: line for line in map(json.loads, transcript)}
        if "finished" not in events:
            return False
        ids = sorted(i for shard in events["advertise"]["shards"] for i in shard["clients"])
        bits = int.from_bytes(bytes.fromhex(events["finished"]["clients"]), "little")
        return client in ids and bool(bits >> ids.index(client) & 1)
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError):
        raise Malformed("a transcript that does not tell who is in the sum") from None
