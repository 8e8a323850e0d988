"""Versions of a task's global weights: a float32 vector each, kept under its digest."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np
from sqlalchemy import Connection, bindparam, func, select

from fl_server.errors import Malformed, NotFound
from fl_server.secagg.encode import Floats
from fl_server.storage.store import Store
from fl_server.storage.tables import moments as moments_table
from fl_server.storage.tables import weights as table

# What is asked with each check-in, put together once (rounds/record.py).
_same = (moments_table.c.task == table.c.task) & (moments_table.c.version == table.c.version)
_of_task = table.c.task == bindparam("of_task")
_of_digest = table.c.digest == bindparam("of_digest")
_every = select(table, moments_table.c.digest.label("moments")).outerjoin(moments_table, _same)
_versions = _every.where(_of_task).order_by(table.c.version)
_newest = _every.where(_of_task).order_by(table.c.version.desc()).limit(1)
_newest_of = _newest.where(_of_digest)
_generation = (
    select(func.max(table.c.version))
    .outerjoin(moments_table, _same)
    .where(_of_task, table.c.version <= bindparam("up_to"), moments_table.c.version.is_(None))
)
_last_of = select(func.max(table.c.version)).where(_of_task & _of_digest)


@dataclass(frozen=True)
class Version:
    """version 0 is what the operator uploaded; `round` is the round that made the others.

    moments: the digest of what the strategy keeps beside these weights, empty if nothing
    """

    version: int
    digest: bytes
    round: int
    moments: bytes = b""


class Weights:
    def __init__(self, store: Store) -> None:
        self._store = store

    def add(
        self,
        db: Connection,
        task: str,
        values: Floats,
        round_number: int,
        moments: Floats | None = None,
    ) -> Version:
        """Keep the next version, and its strategy's moments, in the caller's transaction."""
        digest = self._store.put_blob(weights_bytes(values))
        last = db.scalar(
            select(table.c.version).where(table.c.task == task).order_by(table.c.version.desc())
        )
        version = 0 if last is None else last + 1
        row = {"version": version, "digest": digest, "round": round_number}
        db.execute(table.insert().values(task=task, **row))
        if moments is None or not moments.size:
            return Version(version, digest, round_number)
        kept = self._store.put_blob(weights_bytes(moments))
        db.execute(moments_table.insert().values(task=task, version=version, digest=kept))
        return Version(version, digest, round_number, kept)

    def latest(self, task: str, within: Connection | None = None) -> Version:
        """raises NotFound"""
        return self._found(task, within, newest=True)[-1]

    def versions(self, task: str, within: Connection | None = None) -> list[Version]:
        """All versions, oldest first.     raises NotFound"""
        return self._found(task, within)

    def _found(
        self,
        task: str,
        within: Connection | None,
        newest: bool = False,
        digest: bytes | None = None,
    ) -> list[Version]:
        query = (_newest if digest is None else _newest_of) if newest else _versions
        with self._store.read(within) as db:
            rows = db.execute(query, {"of_task": task, "of_digest": digest})
            found = [Version(r.version, r.digest, r.round, r.moments or b"") for r in rows]
        if not found:
            raise NotFound(f"task {task} has no weights")
        return found

    def version_of(self, task: str, digest: bytes, within: Connection | None = None) -> Version:
        """The newest version with these weights.     raises NotFound"""
        return self._found(task, within, newest=True, digest=digest)[-1]

    def generation(self, task: str, version: Version, within: Connection | None = None) -> int:
        """The newest version, up to this one, beside which nothing is kept: there the strategy
        began, or was made to begin anew."""
        which = {"of_task": task, "up_to": version.version}
        with self._store.read(within) as db:
            return int(db.scalar(_generation, which) or 0)

    def staleness(self, db: Connection, task: str, digest: bytes) -> int:
        """How many versions have come since the newest one with these weights.

        raises NotFound
        """
        found = db.scalar(_last_of, {"of_task": task, "of_digest": digest})
        if found is None:
            raise NotFound(f"task {task} has no weights {digest.hex()}")
        return self.latest(task, db).version - int(found)

    def values(self, version: Version) -> Floats:
        """float32 [d]"""
        return weights_vector(self._store.get_blob(version.digest))

    def moments(self, version: Version) -> Floats | None:
        """float32 [rows, d]; None where the strategy has kept none"""
        if not version.moments:
            return None
        kept = weights_vector(self._store.get_blob(version.moments))
        return kept.reshape(-1, self.values(version).size)


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
