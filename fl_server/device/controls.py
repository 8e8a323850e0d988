"""A device's control variate of each task (SCAFFOLD), on its disk.

It may change only with an update that is in the sum: the server's variate is the mean of all
devices'. What was sent is kept beside it, and the round's transcript tells whether it counted.
"""

from __future__ import annotations

import json
import logging
import struct
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from fl_server.device.local import file_name
from fl_server.errors import Malformed
from fl_server.secagg.encode import Floats
from fl_server.storage.files import sync_folder, write_file
from fl_server.storage.weights import weights_bytes, weights_vector

_HEAD = struct.Struct("<QQ")  # before the values: their generation, and the round

_log = logging.getLogger(__name__)


class Controls:
    """One file for each task, and one more while a round's outcome is not known. What is damaged is
    said in the log, and training goes on without it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def own(self, task: str, generation: int, length: int) -> Floats:
        """c_i, zeros at first, in each generation     -> float32 [length]"""
        path = self._path(task, "own")
        kept = path.read_bytes() if path.exists() else b""
        try:
            if kept and _head(kept)[0] == generation:
                found = weights_vector(kept[_HEAD.size :])
                if found.size == length:
                    return found
                raise Malformed(f"{found.size} values, the model has {length} weights")
        except Malformed as error:
            _log.error("%s: %s; the control variate begins at zero", path, error)
        return np.zeros(length, np.float32)

    def propose(self, task: str, generation: int, number: int, controls: Floats) -> None:
        """Keep what c_i becomes if the update of this round is in the sum."""
        head = _HEAD.pack(generation, number)
        write_file(self._path(task, "next"), head + weights_bytes(controls), mode=0o600)

    def settle(self, task: str, client: int, transcript: Callable[[int], Sequence[str]]) -> None:
        """Learn from its transcript what became of the last round; one that does not tell is one
        that did not count."""
        path = self._path(task, "next")
        if not path.exists():
            return
        try:
            if counted(transcript(_head(path.read_bytes())[1]), client):
                path.replace(self._path(task, "own"))
        except Malformed as error:
            _log.error("%s: %s; the control variate stays what it was", path, error)
        path.unlink(missing_ok=True)
        sync_folder(self._folder)

    def _path(self, task: str, what: str) -> Path:
        return self._folder / f"{file_name(task)}.{what}"


def _head(kept: bytes) -> tuple[int, int]:
    """The generation of a kept control variate, and its round.     raises Malformed"""
    if len(kept) < _HEAD.size:
        raise Malformed(f"{len(kept)} bytes, want {_HEAD.size} and more")
    generation, number = _HEAD.unpack_from(kept)
    return generation, number


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
