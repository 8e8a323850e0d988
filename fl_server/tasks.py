"""The tasks of a server: which model one population trains, and how far it has come."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, cast

from sqlalchemy import Connection, Row, bindparam, select, update

from fl_server import task_checks
from fl_server.errors import NotFound, ProtocolError
from fl_server.secagg.encode import Floats
from fl_server.storage.store import Store
from fl_server.storage.tables import tasks as table
from fl_server.storage.weights import Weights
from fl_server.task_settings import TaskSettings

_all = select(table).order_by(table.c.name)
_named = select(table).where(table.c.name == bindparam("name"))
_locked = _named.with_for_update()

State = Literal["running", "finished", "failed", "stopped"]


@dataclass(frozen=True)
class Task:
    settings: TaskSettings
    model: bytes
    state: State
    error: str

    @property
    def name(self) -> str:
        return self.settings.name


class Tasks:
    def __init__(self, store: Store, weights: Weights) -> None:
        self._store = store
        self._weights = weights

    def create(self, db: Connection, settings: TaskSettings, model: bytes, initial: Floats) -> Task:
        """A running task over the kept model, in the caller's transaction.

        raises SettingsError, ProtocolError, NotFound
        """
        task_checks.check(settings, len(initial))
        self._store.blob_size(model)
        if db.execute(select(table).where(table.c.name == settings.name)).first():
            raise ProtocolError(f"there is a task {settings.name} already")
        row = {"settings": settings.model_dump_json(), "model": model, "state": "running"}
        db.execute(table.insert().values(name=settings.name, error="", **row))
        self._weights.add(db, settings.name, initial, 0)
        return self.get(settings.name, db)

    def get(self, name: str, within: Connection | None = None) -> Task:
        """raises NotFound"""
        return self._get(name, within, lock=False)

    def locked(self, name: str, db: Connection) -> Task:
        """The task, which no other worker locks before the transaction ends.     raises NotFound"""
        return self._get(name, db, lock=True)

    def all(self, within: Connection | None = None) -> list[Task]:
        with self._store.read(within) as db:
            return [_task(row) for row in db.execute(_all)]

    def set_state(self, db: Connection, name: str, state: State, error: str = "") -> None:
        """Change the state in the caller's transaction."""
        db.execute(update(table).where(table.c.name == name).values(state=state, error=error))

    def _get(self, name: str, within: Connection | None, lock: bool) -> Task:
        with self._store.read(within) as db:
            row = db.execute(_locked if lock else _named, {"name": name}).first()
        if row is None:
            raise NotFound(f"there is no task {name}")
        return _task(row)


def _task(row: Row[tuple[object, ...]]) -> Task:
    return Task(settings_of(row.settings), row.model, cast(State, row.state), row.error)


@lru_cache(1024)
def settings_of(text: str) -> TaskSettings:
    """The settings that a row holds; every check-in asks for those of all tasks."""
    return TaskSettings.model_validate_json(text)
