"""Masked vectors that come in parts, each acknowledged once it is on the disk.

The digest of the whole is fixed by the first part: whoever begins with one vector cannot go on with
another. A part goes where the ones before it end; a device that does not know where that is asks.
"""

from __future__ import annotations

import hashlib
import os
import threading
from pathlib import Path

from fl_server.clients import Caller
from fl_server.errors import FlError, Malformed, StageReplayed, WrongOffset
from fl_server.messages import Part
from fl_server.rounds import Rounds

_DIGEST_BYTES = 32
_LOCKS = 64


class Uploads:
    """A vector on its way is a file: the digest of the whole, and the bytes that are there."""

    def __init__(self, rounds: Rounds) -> None:
        self._rounds = rounds
        # Two requests of one client write one after the other; most others do not wait for them.
        self._locks = [threading.Lock() for _ in range(_LOCKS)]

    def offset(self, caller: Caller, session: str) -> int | None:
        """How many bytes of a vector are here; None if it was taken.     raises Gone, NotFound"""
        path = self._rounds.vector_place(session, caller.id)
        return None if path is None else _kept(path)

    def put(self, caller: Caller, session: str, part: Part, body: bytes) -> None:
        """Keep a part; the last one hands the vector over to the round.

        raises WrongOffset, StageReplayed, Malformed, Gone, NotFound
        """
        with self._locks[caller.id % _LOCKS]:
            path = self._rounds.vector_place(session, caller.id)
            if path is None:
                return
            kept = _kept(path)
            # It came before, and the server went away before the round had it.
            again = kept == part.total == part.last + 1
            if not again:
                if part.first != kept:
                    raise WrongOffset(f"the part begins at byte {part.first}, want {kept}")
                if len(body) != part.size:
                    raise Malformed(f"a part of {len(body)} bytes, {part.size} were announced")
                _append(path, part.digest, body)
                self._drop_if_late(path, caller, session)
            if part.last + 1 == part.total:
                self._rounds.put(caller, session, "vector", _whole(path, part.digest))
                path.unlink(missing_ok=True)

    def _drop_if_late(self, path: Path, caller: Caller, session: str) -> None:
        """The round may have ended, and its files be gone, while the part was written.

        raises Gone
        """
        try:
            self._rounds.vector_place(session, caller.id)
        except FlError:
            path.unlink(missing_ok=True)
            raise


def _kept(path: Path) -> int:
    """The bytes of the vector in a file, 0 without one."""
    return max(path.stat().st_size - _DIGEST_BYTES, 0) if path.exists() else 0


def _append(path: Path, digest: bytes, body: bytes) -> None:
    """Have the part on the disk when this returns.     raises StageReplayed"""
    path.parent.mkdir(parents=True, exist_ok=True)
    with os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT, 0o600), "r+b") as file:
        first = file.read(_DIGEST_BYTES)
        if len(first) < _DIGEST_BYTES:  # a new file, or one whose first write was cut off
            file.seek(0)
            file.write(digest)
        elif first != digest:
            raise StageReplayed("the parts are of another vector than the first one was")
        file.seek(0, os.SEEK_END)
        file.write(body)
        file.flush()
        os.fsync(file.fileno())


def _whole(path: Path, digest: bytes) -> bytes:
    """The vector of the parts; one that was not promised is dropped.     raises Malformed"""
    vector = path.read_bytes()[_DIGEST_BYTES:]
    if hashlib.sha256(vector).digest() != digest:
        os.truncate(path, _DIGEST_BYTES)
        raise Malformed("the parts do not have the digest that they were announced with")
    return vector
