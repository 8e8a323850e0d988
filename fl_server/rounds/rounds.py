"""The rounds of all tasks: what comes in is checked, kept, acknowledged; deadlines move things on.

Everything here is safe to call from several threads, and in several workers over one database.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Callable, Collection, Mapping
from typing import Any

from sqlalchemy import Connection, Row

from fl_server import messages as wire
from fl_server.access.clients import Caller, Clients
from fl_server.conditions import NOTHING_SAID, Conditions
from fl_server.errors import (
    FlError,
    Gone,
    LedgerDamaged,
    NotFound,
    RoundFinished,
    StageReplayed,
)
from fl_server.rounds import record
from fl_server.rounds.account import Account
from fl_server.rounds.deadlines import Deadlines
from fl_server.rounds.live import FINISHED, STAGES, LiveRound
from fl_server.rounds.pace import Pace
from fl_server.rounds.replicas import Replicas
from fl_server.rounds.turn import Desk
from fl_server.secagg.cohort import ShardedStage
from fl_server.secagg.encode import Floats
from fl_server.secagg.session import Session
from fl_server.settings import Settings
from fl_server.storage.store import Store
from fl_server.storage.weights import Weights
from fl_server.task_settings import TaskSettings
from fl_server.tasks import Task, Tasks

_log = logging.getLogger(__name__)


class Rounds:
    """At most one round of each task is open at a time; where updates may be stale, one for each
    version of the weights that devices have begun from, and those that are through with joining."""

    def __init__(self, store: Store, clients: Clients, settings: Settings) -> None:
        self.weights = Weights(store)
        self.tasks = Tasks(store, self.weights)
        self._store = store
        self._settings = settings
        self._replicas = Replicas(store, clients, settings)
        parts = store, clients, settings, self.weights, self.tasks, self._replicas
        self._desk = Desk(*parts, Account(store, self.tasks, settings.random))
        self._deadlines = Deadlines(self._desk)
        self._clients = clients
        self._pace = Pace(settings)
        self._barred: dict[str, tuple[int, set[int]]] = {}

    def on_change(self, call: Callable[[], None]) -> None:
        """Have this called whenever a round has moved on, in this worker."""
        self._desk.on_change = call

    # What an operator does.

    def create_task(self, settings: TaskSettings, model: bytes, initial: Floats) -> Task:
        """A task whose first round is open when this returns."""
        with self._desk.first_turn(
            lambda db: self.tasks.create(db, settings, model, initial)
        ) as turn:
            turn.open()
        return self.tasks.get(settings.name)

    def stop_task(self, name: str) -> Task:
        """End a task; its open round fails."""
        with self._desk.turn(name) as turn:
            turn.stop()
        return self.tasks.get(name)

    def roll_back(self, name: str, version: int) -> Task:
        """Make an older version of the weights the newest; the open round begins anew from it.

        raises NotFound, ProtocolError where the task runs no longer
        """
        with self._desk.turn(name) as turn:
            turn.roll_back(version)
        return self.tasks.get(name)

    def live(self, task: str) -> LiveRound | None:
        """The open round of a task."""
        with self._desk.turn(task) as turn:
            return turn.live

    def spent(self, task: Task) -> dict[str, float] | None:
        """What the task's releases have cost, None without differential privacy or an account that
        can be read."""
        return self._desk.account.spent(task)

    # What devices do.

    def check_in(
        self,
        caller: Caller,
        request: wire.CheckIn,
        device: Conditions = NOTHING_SAID,
        declined: Collection[wire.Place] = (),
    ) -> wire.CheckInReply | None:
        """Work, or IDLE where there is no task; None where a round may come or a cohort may fill.
        Of several rounds the one that has waited for longest is offered.

        declined: rounds that the device wants none of, by task and number
        raises Gone, ProtocolError
        """
        if request.advert:
            return self._join(caller, request)
        with self._store.read() as db:
            running = {task.name: task for task in self.tasks.all(db) if self._is_for(task, caller)}
            suited = {name: t for name, t in running.items() if t.settings.suits(device)}
            if offered := self._offered(db, suited, caller, declined):
                return offered
            wanting = [task for task in suited.values() if self._wants_round(db, task, caller)]
        for task in wanting:
            with self._desk.turn(task.name) as turn:
                turn.open()
        if wanting:
            with self._store.read() as db:
                return self._offered(db, suited, caller, declined)
        return None if running else self._again(wire.IDLE)

    def wait_reply(self) -> wire.CheckInReply:
        """Come again."""
        return self._again(wire.WAIT)

    def put(
        self, caller: Caller, session: str, stage: str, body: bytes, digest: bytes = b""
    ) -> None:
        """Take the message of a stage; it is kept when this returns.     raises FlError

        digest: the message's SHA-256, where that is known
        """
        try:
            live = self._find(session)
        except RoundFinished:
            # Nobody needs the reveal any more; a vector may come again that is in the sum.
            if stage == "reveal" or (stage == "vector" and self._took(session, caller.id)):
                return
            raise
        if stage == "vector":
            _session_of(live, caller.id)
            digest = digest or hashlib.sha256(body).digest()
            name = record.write_vector(self._store, live.context, caller.id, body, digest)
        else:
            digest = b""
        try:
            self._receive(live.context.task, live.number, stage, caller, body, digest)
        except FlError:
            if stage == "vector":
                self._store.files.remove(name)
            raise

    def get(self, caller: Caller, session: str, stage: str) -> bytes | None:
        """What follows a stage; None until it is over.     raises Gone, NotFound"""
        with self._store.read() as db:
            row = record.of_session(db, session) if session else None
        live = self._live(session, row)
        _session_of(live, caller.id)
        # Memory may be a stage ahead of the database, which nobody may see before it is committed.
        over = row is not None and STAGES.index(row.stage) > STAGES.index(stage)
        return live.reply(stage, caller.id) if over else None

    def vector_size(self, session: str, client: int) -> int | None:
        """The bytes of a masked vector; None where the client's is in the sum of a finished round.

        raises Gone, NotFound
        """
        try:
            live = self._find(session)
        except RoundFinished:
            if self._took(session, client):
                return None
            raise
        return _session_of(live, client).params.vector_size

    def vector_place(self, session: str, client: int) -> tuple[str, int] | None:
        """The task and round that a vector is for; None if it was taken.

        raises Gone, NotFound
        """
        kept = None
        with self._store.read() as db:
            row = record.of_session(db, session) if session else None
            if row is not None:
                kept = record.kept_message(db, row.task, row.number, "vector", client)
        try:
            live = self._live(session, row)
        except RoundFinished:
            if kept is not None:
                return None
            raise
        _session_of(live, client)
        if kept is not None:
            return None
        if live.stage != "vector":
            when = "not open yet" if live.stage == "share" else "over"
            raise Gone(f"stage vector is {when}; this is stage {live.stage}")
        if isinstance(live.state, ShardedStage):
            live.state.state_of(client)
        return live.context.task, live.number

    def check_begun_from(self, weights: bytes) -> None:
        """Nothing, if an open round began from these weights.     raises NotFound"""
        with self._store.read() as db:
            if not any(row.weights == weights for row in record.open_rounds(db)):
                raise NotFound(f"no open round began from the weights {weights.hex()}")

    # What time does.

    def tick(self, now: float | None = None) -> float | None:
        """End what is over, `now` by the clock unless it is given; when to call again comes out,
        None if nothing has a deadline."""
        return self._deadlines.tick(self._settings.clock() if now is None else now)

    def adopt_ledgers(self) -> None:
        """At the start: accounts of an older server get what today's have."""
        self._desk.account.adopt()

    def resume(self) -> None:
        """After the server was away, or its clock jumped: whoever still takes part gets the whole
        time again, and a running task without a round gets one."""
        self._deadlines.resume()

    def begin_anew(self, why: str) -> None:
        """End all open rounds, which another opens after."""
        self._deadlines.begin_anew(why)

    # What the above uses.

    def _is_for(self, task: Task, caller: Caller) -> bool:
        whose = task.settings.tenant or self._settings.tenant, task.settings.population
        return task.state == "running" and whose == (caller.tenant, caller.population)

    def _offered(
        self, db: Connection, tasks: Mapping[str, Task], caller: Caller, but: Collection[wire.Place]
    ) -> wire.CheckInReply | None:
        """The round of these tasks that has waited for longest for such a client."""
        for row in record.open_rounds(db):
            task = None if (row.task, row.number) in but else tasks.get(row.task)
            if task is None or not self._may_offer(db, task, row, caller):
                continue
            try:
                offer = self._replicas.offer(task, row, db)
            except FlError as error:  # there may be another task
                _log.error("task %s cannot be offered: %s", row.task, error)
            else:
                return self._reply(wire.OFFER, offer.to_bytes())
        return None

    def _wants_round(self, db: Connection, task: Task, caller: Caller) -> bool:
        """Whether a buffer on the newest weights should be opened for a client."""
        if not task.settings.max_staleness:
            return False
        newest, rows = self.weights.latest(task.name, db).digest, record.open_rounds(db, task.name)
        if any(row.stage == "advertise" and row.weights == newest for row in rows):
            return False
        return not record.has_spent(db, task.name, newest, caller.id) and (
            caller.id not in self._blamed(db, task, 0)
        )

    def _may_offer(self, db: Connection, task: Task, row: Row[Any], caller: Caller) -> bool:
        if row.stage != "advertise":
            return False
        if task.settings.max_staleness and self.weights.staleness(db, task.name, row.weights):
            return False  # it is for those who have begun already
        if record.kept_message(db, row.task, row.number, "advertise", caller.id) is not None:
            return False
        return not self._why_not(db, task, row, caller)

    def _blamed(self, db: Connection, task: Task, number: int) -> set[int]:
        """Whom evidence has named before a round; that changes with a round's end alone, which is
        another's beginning unless rounds are buffers."""
        if task.settings.max_staleness:
            number = record.ended(db, task.name)
        kept = self._barred.get(task.name)
        if kept is None or kept[0] != number:
            kept = self._barred[task.name] = number, record.blamed(db, task.name)
        return kept[1]

    def _why_not(self, db: Connection, task: Task, row: Row[Any], caller: Caller) -> str:
        """Why a client may not join a round, empty if it may."""
        if caller.id in self._blamed(db, task, row.number):
            return f"evidence has named client {caller.id} in an earlier round of this task"
        try:
            if caller.id in self._desk.account.barred(db, task):
                return "this client has been in a round of this tree of noise, or in enough of them"
        except LedgerDamaged as error:  # which ends the task when a round is opened
            _log.error("task %s: %s", task.name, error)
            return "the account of this task cannot be read"
        if record.has_spent(db, row.task, row.weights, caller.id):
            return "an update of these weights has been taken from this client before"
        return ""

    def _reply(self, kind: int, body: bytes = b"") -> wire.CheckInReply:
        return wire.CheckInReply(kind, int(self._settings.retry_s * 1000), body)

    def _again(self, kind: int) -> wire.CheckInReply:
        """No work: when to come again follows from how many devices there are."""
        return wire.CheckInReply(kind, self._pace.retry_ms(self._clients.count), b"")

    def _join(self, caller: Caller, request: wire.CheckIn) -> wire.CheckInReply | None:
        place = request.task, request.round
        with self._store.read() as db:
            row = record.of_round(db, *place)
            if row is None:
                raise Gone(f"round {request.round} of task {request.task} is over")
            task, kept = self.tasks.get(request.task, db), None
            if row.stage in STAGES:
                kept = record.kept_message(db, *place, "advertise", caller.id)
            why = "" if kept is not None else self._why_not(db, task, row, caller)
        if why:
            raise Gone(why)
        if kept is None:
            try:
                live = self._receive(*place, "advertise", caller, request.advert)
            except Gone as gone:
                return self._later(task, row, caller, gone)
            session = live.session.id if live.session is not None else b""
        elif kept != request.advert:
            what = f"client {caller.id} sent another message for this stage"
            raise StageReplayed(what, [caller.id])
        else:
            session = bytes.fromhex(row.session)
        return self._reply(wire.SESSION, session) if session else None

    def _later(self, task: Task, row: Row[Any], caller: Caller, gone: Gone) -> wire.CheckInReply:
        """Another round on the weights of one that is over, for an update that is done only now.

        raises Gone
        """
        if not task.settings.max_staleness or not self._is_for(task, caller):
            raise gone
        with self._desk.turn(row.task) as turn:
            offer = turn.offer(turn.buffer_for(row))
        return self._reply(wire.OFFER, offer.to_bytes())

    def _receive(
        self, task: str, number: int, stage: str, caller: Caller, body: bytes, digest: bytes = b""
    ) -> LiveRound:
        """Take a message for a round, which comes out as it is then.     raises FlError"""
        with self._desk.turn(task, number) as turn:
            live = turn.live
            if live is not None:
                turn.receive(stage, caller, body, digest)
                return live
        with self._store.read() as db:
            row = record.of_round(db, task, number)
        raise _ended(row)

    def _find(self, session: str) -> LiveRound:
        """A session's open round, at least as far as the database says.

        raises NotFound, Gone, RoundFinished
        """
        with self._store.read() as db:
            row = record.of_session(db, session) if session else None
        return self._live(session, row)

    def _live(self, session: str, row: Row[Any] | None) -> LiveRound:
        """The open round of a session whose row this was just now."""
        if row is not None and row.stage in STAGES:
            live = self._replicas.kept(row.task, row.number)
            if live is None or live.stage != row.stage:
                with self._desk.turn(row.task, row.number) as turn:
                    live = turn.live
            if live is not None:
                return live
            with self._store.read() as db:
                row = record.of_session(db, session)
        raise _ended(row)

    def _took(self, session: str, client: int) -> bool:
        with self._store.read() as db:
            return record.took_vector(db, session, client)


def _ended(row: Row[Any] | None) -> FlError:
    """Why a round takes nothing more."""
    if row is None:
        return NotFound("there is no such session")
    if row.stage == FINISHED:
        return RoundFinished("the round is finished")
    return Gone(f"the round failed: {json.loads(row.summary).get('error')}")


def _session_of(live: LiveRound, client: int) -> Session:
    """raises Gone"""
    if live.session is None:
        raise Gone(f"client {client} is not in this session")
    return live.session.session_of(client)
