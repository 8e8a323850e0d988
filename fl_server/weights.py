"""Versions of a task's global weights: a float32 vector each, kept under its digest."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np
from sqlalchemy import Connection, select

from fl_server.errors import Malformed, NotFound
from fl_server.secagg.encode import Floats
from fl_server.store import Store
from fl_server.store import weights as table


@dataclass(frozen=True)
class Version:
    """version 0 is what the operator uploaded; `round` is the round that made the others."""

    version: int
    digest: bytes
    round: int


class Weights:
    def __init__(self, store: Store) -> None:
        self._store = store

    def add(self, db: Connection, task: str, values: Floats, round_number: int) -> Version:
        """Keep the next version, in the caller's transaction."""
        digest = self._store.put_blob(weights_bytes(values))
        last = db.scalar(
            select(table.c.version).where(table.c.task == task).order_by(table.c.version.desc())
        )
        version = Version(0 if last is None else last + 1, digest, round_number)
        row = {"version": version.version, "digest": digest, "round": round_number}
        db.execute(table.insert().values(task=task, **row))
        return version

    def latest(self, task: str) -> Version:
        """raises NotFound"""
        return self.versions(task)[-1]

    def versions(self, task: str) -> list[Version]:
        """All versions, oldest first.     raises NotFound"""
        with self._store.begin() as db:
            query = select(table).where(table.c.task == task).order_by(table.c.version)
            found = [Version(row.version, row.digest, row.round) for row in db.execute(query)]
        if not found:
            raise NotFound(f"task {task} has no weights")
        return found

    def values(self, version: Version) -> Floats:
        """float32 [d]"""
        return weights_vector(self._store.get_blob(version.digest))


def weights_bytes(values: Floats) -> bytes:
    """float32, little-endian, in the order of the model's sorted trainable names."""
    return np.ascontiguousarray(values, "<f4").tobytes()


def weights_vector(data: bytes) -> Floats:
    """The vector of `weights_bytes`.     raises Malformed"""
    if not data or len(data) % 4:
        raise Malformed(f"weights of {len(data)} bytes, which is no positive number of float32")
    values = np.frombuffer(data, "<f4")
    if not np.isfinite(values).all():
        raise Malformed("weights have values that are not finite")
    return values.astype(np.float32)


def digest_of(data: bytes) -> bytes:
    """SHA-256, under which models and weights are kept and asked for."""
    return hashlib.sha256(data).digest()
