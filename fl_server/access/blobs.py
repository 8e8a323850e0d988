"""Whose the models and weights are: what a tenant may build a task on, and its devices fetch."""

from __future__ import annotations

from sqlalchemy import Connection, bindparam, select

from fl_server.errors import NotFound
from fl_server.storage.store import Store
from fl_server.storage.tables import moments, uploads, weights
from fl_server.tasks import Tasks

_holders = select(weights.c.task).where(weights.c.digest == bindparam("digest"))
_besides = select(moments.c.task).where(moments.c.digest == bindparam("digest"))


class Blobs:
    """own: the tenant of tasks that name none"""

    def __init__(self, store: Store, tasks: Tasks, own: str) -> None:
        self._store = store
        self._tasks = tasks
        self._own = own

    def upload(self, data: bytes, tenant: str) -> bytes:
        """Keep what an operator of a tenant sends, of none if empty; the digest comes out."""
        digest = self._store.put_blob(data)
        with self._store.begin() as db:
            self._store.lock(db, "uploads")
            if not self._uploaded(db, tenant, digest):
                db.execute(uploads.insert().values(tenant=tenant, digest=digest))
        return digest

    def check_operator(self, digest: bytes, tenant: str) -> None:
        """Nothing, if an operator of this tenant may build on a blob; one of none may on all.

        raises NotFound
        """
        with self._store.read() as db:
            if not tenant or self._uploaded(db, tenant, digest) or self._named(db, tenant, digest):
                return
        # The answer for what is not there: who asks learns nothing of others' models.
        raise NotFound(f"nothing is kept under {digest.hex()}")

    def check_device(self, digest: bytes, tenant: str) -> None:
        """Nothing, if a task of the device's tenant names a blob.     raises NotFound"""
        with self._store.read() as db:
            if not self._named(db, tenant, digest):
                raise NotFound(f"nothing is kept under {digest.hex()}")

    def _uploaded(self, db: Connection, tenant: str, digest: bytes) -> bool:
        this = (uploads.c.tenant == tenant) & (uploads.c.digest == digest)
        return db.execute(select(uploads).where(this)).first() is not None

    def _named(self, db: Connection, tenant: str, digest: bytes) -> bool:
        """Whether a task of the tenant has it as its model, as a version of its weights, or as a
        control variate that its plan names."""
        holders = set(db.scalars(_holders, {"digest": digest}))
        besides = set(db.scalars(_besides, {"digest": digest}))
        return any(
            (
                task.model == digest
                or task.name in holders
                or (task.name in besides and task.settings.plan(digest).controls == digest)
            )
            and (task.settings.tenant or self._own) == tenant
            for task in self._tasks.all(db)
        )
