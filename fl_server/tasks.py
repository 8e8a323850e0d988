"""The tasks of a server: which model one population trains, and how far it has come."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, cast

from sqlalchemy import Connection, Row, select, update

from fl_server.errors import NotFound, ProtocolError
from fl_server.secagg.encode import Floats
from fl_server.settings import TaskSettings
from fl_server.store import Store
from fl_server.store import tasks as table
from fl_server.weights import Weights

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

    def create(self, settings: TaskSettings, model: bytes, initial: Floats) -> Task:
        """A running task over the kept model     raises ProtocolError, NotFound"""
        settings.check(len(initial))
        self._store.blob_path(model)
        with self._store.begin() as db:
            if db.execute(select(table).where(table.c.name == settings.name)).first():
                raise ProtocolError(f"there is a task {settings.name} already")
            row = {"settings": settings.model_dump_json(), "model": model, "state": "running"}
            db.execute(table.insert().values(name=settings.name, error="", **row))
            self._weights.add(db, settings.name, initial, 0)
        return self.get(settings.name)

    def get(self, name: str) -> Task:
        """raises NotFound"""
        with self._store.begin() as db:
            row = db.execute(select(table).where(table.c.name == name)).first()
        if row is None:
            raise NotFound(f"there is no task {name}")
        return _task(row)

    def all(self) -> list[Task]:
        with self._store.begin() as db:
            return [_task(row) for row in db.execute(select(table).order_by(table.c.name))]

    def set_state(self, db: Connection, name: str, state: State, error: str = "") -> None:
        """Change the state in the caller's transaction."""
        db.execute(update(table).where(table.c.name == name).values(state=state, error=error))


def _task(row: Row[tuple[object, ...]]) -> Task:
    settings = TaskSettings.model_validate_json(row.settings)
    return Task(settings, row.model, cast(State, row.state), row.error)
