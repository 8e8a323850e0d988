"""Open rounds in one worker's memory, brought up to what the database holds before each use."""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Any

from sqlalchemy import Connection, Row

from fl_server import messages as wire
from fl_server.access.clients import Clients
from fl_server.errors import RoundFailed
from fl_server.rounds import record
from fl_server.rounds.live import STAGES, LiveRound
from fl_server.secagg.certificate import RevocationList
from fl_server.secagg.messages import Context
from fl_server.settings import Settings
from fl_server.storage.store import Store
from fl_server.storage.weights import Weights
from fl_server.tasks import Task


class Replicas:
    """What is in here can be dropped: the same messages, in the order in which they were taken,
    give the same state again."""

    def __init__(self, store: Store, clients: Clients, settings: Settings) -> None:
        self._store = store
        self._weights = Weights(store)
        self._clients = clients
        self._settings = settings
        self._rounds: dict[tuple[str, int], LiveRound] = {}

    def kept(self, task: str, number: int) -> LiveRound | None:
        """The round as this worker last saw it."""
        return self._rounds.get((task, number))

    def drop(self, task: str, but: Collection[int] = ()) -> None:
        """Forget the rounds of a task but these: they are over, or may be ahead of the database."""
        for place in list(self._rounds):
            if place[0] == task and place[1] not in but:
                self._rounds.pop(place, None)

    def current(self, db: Connection, task: Task, row: Row[Any]) -> LiveRound:
        """The open round of this row, up to its last message. The caller has locked the task.

        raises FlError where what is kept makes no round
        """
        place = task.name, row.number
        live = self._rounds.pop(place, None) or self.blank(task, row, db)
        self._catch_up(db, live, row)
        self._rounds[place] = live
        return live

    def blank(self, task: Task, row: Row[Any], db: Connection) -> LiveRound:
        """The round of a row without its messages."""
        length = self._store.blob_size(row.weights) // 4
        begun = self._weights.version_of(task.name, row.weights, db)
        generation = self._weights.generation(task.name, begun, db)
        clip = record.next_clip_norm(db, task.name, begun.round)
        context = Context(
            tenant=task.settings.tenant or self._settings.tenant,
            population=task.settings.population,
            task=task.name,
            round=row.number,
            model=row.model_digest,
        )
        return LiveRound(
            task.settings,
            context,
            task.settings.encoding(length, clip),
            task.settings.plan(begun.moments, generation),
            task.model,
            row.weights,
            row.server_nonce,
            self._clients.authority_public(),
            row.opened_at,
        )

    def offer(self, task: Task, row: Row[Any], db: Connection) -> wire.Offer:
        """What devices are told of the round of a row."""
        live = self.blank(task, row, db)
        least, most = live.task.min_cohort, live.task.selected
        sizes = live.task.layout.least_shard(least, most), most
        what = live.context, live.model, live.weights, live.encoding
        return wire.Offer(*what, *sizes, live.plan.offered)

    def _catch_up(self, db: Connection, live: LiveRound, row: Row[Any]) -> None:
        for message in record.kept_after(self._store, db, live.context, live.seen):
            self._advance_to(message.stage, live, row)
            certificate = self._clients.certificate(message.client, db)
            arguments = message.client, message.body, certificate, live.opened_at
            live.receive(message.stage, *arguments)
            live.seen = message.seq
        self._advance_to(row.stage, live, row)
        if row.session and (live.session is None or live.session.id.hex() != row.session):
            raise RoundFailed("its messages give another session")
        live.deadline = row.deadline
        live.stage_started = row.stage_started or row.opened_at
        live.seconds = json.loads(row.seconds)

    def _advance_to(self, stage: str, live: LiveRound, row: Row[Any]) -> None:
        while STAGES.index(live.stage) < STAGES.index(stage):
            live.advance(RevocationList.from_bytes(row.revocations), row.opened_at)
