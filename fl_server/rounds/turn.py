"""A turn at a task: nobody else is at it, and all that is done to it is committed together.

A round moves on in memory first. If the transaction fails, memory is dropped and built anew.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection, Row, select

from fl_server import messages as wire
from fl_server.access.clients import Caller, Clients
from fl_server.errors import FlError, Gone, LedgerDamaged, NotFound, ProtocolError, RoundFailed
from fl_server.rounds import record
from fl_server.rounds.account import Account
from fl_server.rounds.live import FAILED, FINISHED, STAGES, LiveRound
from fl_server.rounds.outcome import outcome_of
from fl_server.rounds.replicas import Replicas
from fl_server.secagg.cohort import ShardedStage, Sum
from fl_server.settings import Settings
from fl_server.storage import audit, transcript
from fl_server.storage.store import Store
from fl_server.storage.tables import rounds as table
from fl_server.storage.weights import Version, Weights
from fl_server.tasks import Task, Tasks

_log = logging.getLogger(__name__)


@dataclass
class Desk:
    """What turns are taken with. `on_change` is called when a round has moved on."""

    store: Store
    clients: Clients
    settings: Settings
    weights: Weights
    tasks: Tasks
    replicas: Replicas
    account: Account
    on_change: Callable[[], None] = lambda: None
    _locks: dict[str, threading.Lock] = field(default_factory=dict)

    @contextmanager
    def turn(self, name: str, number: int | None = None) -> Iterator[Turn]:
        """The turn at a task and an open round of it, the newest if no number is given.

        raises NotFound
        """
        with self._locks.setdefault(name, threading.Lock()):
            turn: Turn | None = None
            try:
                with self.store.begin() as db:
                    turn = self._begin(db, name, number)
                    yield turn
                    if turn.moved:
                        self.store.notify(db)
            except BaseException as error:
                # A refusal changes nothing; anything else may have left memory ahead.
                if turn is None or turn.changed or not isinstance(error, FlError):
                    self.replicas.drop(name)
                raise
        if turn.moved:
            self.on_change()
        for over in turn.over:
            record.drop_vectors(self.store, over.context)

    @contextmanager
    def first_turn(self, make: Callable[[Connection], Task]) -> Iterator[Turn]:
        """The turn at a task that `make` makes in the same transaction."""
        with self.store.begin() as db:
            yield Turn(self, db, make(db), None)
            self.store.notify(db)
        self.on_change()

    def _begin(self, db: Connection, name: str, number: int | None) -> Turn:
        task = self.tasks.locked(name, db)
        rows = {row.number: row for row in record.open_rounds(db, name)}
        self.replicas.drop(name, but=rows)  # others may have ended some
        row = rows.get(max(rows, default=0) if number is None else number)
        return Turn(self, db, task, None) if row is None else self.load(db, task, row)

    def load(self, db: Connection, task: Task, row: Row[Any]) -> Turn:
        """The turn at an open round, which fails where what is kept makes no round."""
        try:
            return Turn(self, db, task, self.replicas.current(db, task, row))
        except FlError as error:
            turn = Turn(self, db, task, self.replicas.blank(task, row, db))
            turn.fail(RoundFailed(f"it could not be resumed: {error}"))
            return turn


class Turn:
    """task: as it stands · live: its open round, None if there is none, or no longer"""

    def __init__(self, desk: Desk, db: Connection, task: Task, live: LiveRound | None) -> None:
        self.task = task
        self.live = live
        self.changed = False
        self.moved = False
        self.over: list[LiveRound] = []
        self._desk = desk
        self._db = db

    def receive(self, stage: str, caller: Caller, body: bytes, digest: bytes = b"") -> None:
        """Take a message; it is kept when the turn is over.     raises FlError

        digest: SHA-256 of a vector, whose file is there
        """
        live, now = self._open, self._now()
        if not live.receive(stage, caller.id, body, caller.certificate, now, digest):
            return
        self.changed = True
        record.keep_message(self._db, live, stage, caller.id, digest or body)
        while self.live is live and live.complete():
            self.advance()

    def end_if_due(self, now: float) -> None:
        """End the stage if its time was over at `now` and still is: if the clock was set since,
        one of the two is not what the deadline was set by."""
        if self.live is None or min(now, self._now()) < self.live.deadline:
            return
        least, joined = self.task.settings.min_cohort, len(self.live.senders("advertise"))
        if self.live.stage != "advertise" or joined >= least:
            self.advance()
        elif joined or self._is_behind(self.live):
            missing = f"{joined} of at least {least} clients joined in time"
            self.fail(RoundFailed(missing), counts=False)
        else:
            self.extend()

    def extend(self) -> None:
        """Give the stage its whole time again, from now on."""
        live = self._open
        live.deadline = self._now() + live.task.stage_s(live.stage)
        record.keep_deadline(self._db, self.task.name, live.number, live.deadline)

    def advance(self) -> None:
        """End the stage: the round moves on, or is finished, or fails."""
        live, now = self._open, self._now()
        self.changed = self.moved = True
        try:
            if isinstance(live.state, ShardedStage) and live.stage == STAGES[-1]:
                self._finish(live, live.state.close(), now)
                return
            ended, revocations = live.stage, self._desk.clients.revocations(self._db)
            live.advance(revocations, now)
            if live.stage == STAGES[-1]:
                self._allow(lambda: self._desk.account.may_reveal(self._db, self.task, live))
        except ProtocolError as error:
            self.fail(error)
            return
        record.keep_stage(self._db, live, ended, revocations, now)

    def fail(self, error: FlError, counts: bool = True) -> None:
        """End the round without a result. Updates that were uploaded stay spent."""
        live, tasks = self._open, self._desk.tasks
        public = record.failure(live, error)
        summary = {**public, "counts": live.counts(), "seconds": live.seconds, "counted": counts}
        summary["bytes_up"] = record.bytes_up(self._db, live)
        transcript.append(self._db, self.task.name, live.number, self._now(), FAILED, **public)
        record.close_round(self._db, live, FAILED, summary)
        failures = record.failures_in_a_row(self._db, self.task.name)
        if self.task.state == "running" and failures > self.task.settings.max_failures:
            why = f"{failures} rounds in a row failed; the last: {error}"
            tasks.set_state(self._db, self.task.name, "failed", why)
        self._end(live)

    def stop(self) -> None:
        """End the task; its open round fails."""
        if self.task.state != "running":
            return
        self._desk.tasks.set_state(self._db, self.task.name, "stopped")
        self.task = self._desk.tasks.get(self.task.name, self._db)
        self._fail_all(RoundFailed("the task was stopped"))
        self.moved = True

    def roll_back(self, version: int) -> None:
        """Keep a version of the weights once more, as the newest. SCAFFOLD begins anew: devices do
        not know what their control variates were then.     raises NotFound, ProtocolError"""
        weights, name = self._desk.weights, self.task.name
        if self.task.state != "running":  # no round would go on from them
            raise ProtocolError(f"task {name} is {self.task.state}, want one that is running")
        versions = weights.versions(name, self._db)
        if not 0 <= version < len(versions):
            raise NotFound(f"task {name} has weights 0 to {len(versions) - 1}, not {version}")
        old = versions[version]
        anew = self.task.settings.strategy == "scaffold"
        moments = None if anew else weights.moments(old)
        weights.add(self._db, name, weights.values(old), old.round, moments)
        self.changed = self.moved = True
        self._fail_all(RoundFailed(f"the weights were rolled back to {version}"), counts=False)

    def open(self) -> None:
        """Open a round on the newest weights, if the task runs, its privacy budget has one left,
        and no open round is in its place."""
        rows, version = self._rows(), self._desk.weights.latest(self.task.name, self._db)
        if self.task.settings.max_staleness:
            rows = [row for row in rows if row.stage == STAGES[0] and row.weights == version.digest]
        if not rows:
            self._open_on(version.digest)

    def buffer_for(self, row: Row[Any]) -> Row[Any]:
        """The round that takes updates of the model of an earlier one, opened if there is none.

        raises Gone
        """
        task, most = self.task, self.task.settings.max_staleness
        behind = self._desk.weights.staleness(self._db, task.name, row.weights)
        if behind > most:
            raise Gone(f"the update is of weights {behind} versions old, at most {most} are taken")
        for attempt in range(2):
            for other in self._rows():
                same = other.model_digest == row.model_digest and other.stage == STAGES[0]
                if same and other.number > row.number:
                    return other
            if attempt == 0:
                self._open_on(row.weights)
        raise Gone(f"round {row.number} of task {task.name} is over, and no other opens")

    def offer(self, row: Row[Any]) -> wire.Offer:
        """What devices are told of a round of the task."""
        return self._desk.replicas.offer(self.task, row, self._db)

    def _rows(self) -> list[Row[Any]]:
        return record.open_rounds(self._db, self.task.name)

    def _open_on(self, weights: bytes) -> None:
        task, db = self.task, self._db
        if task.state != "running":
            return
        try:
            why = self._desk.account.overspent(db, task)
        except LedgerDamaged as error:  # the task ends, the others go on
            self._desk.tasks.set_state(db, task.name, "failed", str(error))
            return
        if why:
            self._desk.tasks.set_state(db, task.name, "finished", why)
            return
        now = self._now()
        query = select(table.c.number).where(table.c.task == task.name)
        number = (db.scalar(query.order_by(table.c.number.desc()).limit(1)) or 0) + 1
        begun = self._desk.weights.version_of(task.name, weights, db)
        generation = self._desk.weights.generation(task.name, begun, db)
        plan = task.settings.plan(begun.moments, generation)
        row: dict[str, Any] = {
            "task": task.name,
            "number": number,
            "stage": "advertise",
            "deadline": now + task.settings.join_s,
            "opened_at": now,
            "stage_started": now,
            "model_digest": plan.model_digest(task.model, weights),
            "weights": weights,
            "server_nonce": self._desk.settings.random(32),
        }
        db.execute(table.insert().values(**row))
        public = {"model": task.model.hex(), "weights": weights.hex()}
        transcript.append(db, task.name, number, now, "opened", **public)
        self.moved = True

    def _is_behind(self, live: LiveRound) -> bool:
        return self._desk.weights.staleness(self._db, self.task.name, live.weights) > 0

    @property
    def _open(self) -> LiveRound:
        assert self.live is not None, "the task has no open round"
        return self.live

    def _now(self) -> float:
        return self._desk.settings.clock()

    def _finish(self, live: LiveRound, total: Sum, now: float) -> None:
        task, weights, db = self.task, self._desk.weights, self._db
        public: dict[str, Any] = {"clients": total.cohort.bitmap(total.survivors).hex()}
        record.warn_of_clamping(live, total.mean)
        live.seconds["reveal"] = round(now - live.stage_started, 3)
        if task.settings.kind == "evaluate":
            public["summary"] = record.summary(db, live, total.mean, total)
            self._close(live, weights.latest(task.name, db), public, now)
            return
        try:
            self._allow(lambda: self._desk.account.may_release(db, task))
            leaf = self._desk.account.leaf(db, task, live, total.survivors)
            arguments = db, task, live, total, weights, self._desk.settings.random
            made = outcome_of(*arguments, leaf)
        except (RoundFailed, LedgerDamaged) as error:
            self.fail(error)
            return
        public["summary"] = made.summary
        version = weights.add(db, task.name, made.weights, live.number, made.moments)
        # Counted before anybody can see it.
        self._desk.account.keep(db, task, f"round {live.number} {version.digest.hex()}")
        self._close(live, version, public, now)

    def _allow(self, why_not: Callable[[], str]) -> None:
        """raises RoundFailed where the account says no, or is damaged"""
        try:
            why = why_not()
        except LedgerDamaged as error:
            why = str(error)
        if why:
            raise RoundFailed(why)

    def _close(self, live: LiveRound, version: Version, public: dict[str, Any], now: float) -> None:
        """The round is finished, and what came of it is `version`."""
        task, db = self.task, self._db
        told = {"weights": version.digest.hex(), **public}
        transcript.append(db, task.name, live.number, now, FINISHED, **told)
        record.close_round(db, live, FINISHED, public["summary"])
        if record.finished(db, task.name) >= task.settings.rounds:
            self._desk.tasks.set_state(db, task.name, "finished")
        self._end(live)
        if self.task.state != "running":
            self._fail_all(RoundFailed(f"the task is {self.task.state}"), counts=False)
        elif task.settings.max_staleness:
            self._drop_stale()

    def _end(self, live: LiveRound) -> None:
        """The round is over: the audit log ties its transcript to all that came before."""
        task, number, at = self.task.name, live.number, self._now()
        told = {"task": task, "round": number, "counts": live.counts()}
        _log.info("a round ended", extra=told)
        last = transcript.line_hash(transcript.lines(self._db, task, number)[-1])
        what = {"task": task, "round": number, "transcript": last}
        audit.append(self._desk.store, self._db, at, audit.SERVER, "a round ended", **what)
        self.changed = self.moved = True
        self.over.append(live)
        still_open = [row.number for row in self._rows()]
        self._desk.replicas.drop(self.task.name, but=still_open)
        self.live = None
        self.task = self._desk.tasks.get(self.task.name, self._db)
        if not self.task.settings.max_staleness:  # else when a device asks
            self.open()

    def _fail_all(self, error: FlError, counts: bool = True) -> None:
        for row in self._rows():
            self._fail(row, error, counts)

    def _drop_stale(self) -> None:
        """End the rounds that wait for updates which nobody sends any more."""
        most, name = self.task.settings.max_staleness, self.task.name
        for row in self._rows():
            behind = self._desk.weights.staleness(self._db, name, row.weights)
            if row.stage == STAGES[0] and behind > most:
                self._fail(row, RoundFailed(f"its weights are {behind} versions old"), False)

    def _fail(self, row: Row[Any], error: FlError, counts: bool) -> None:
        """End any open round of the task."""
        turn = self._desk.load(self._db, self.task, row)
        if turn.live is not None:
            turn.fail(error, counts)
        self.over += turn.over
        self.changed = self.moved = True
        self.live, self.task = None, turn.task
