"""The rounds of all tasks: what comes in is checked, kept, acknowledged; deadlines move things on.

Everything here is safe to call from several threads, and none of it waits.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import Row, select

from fl_server import messages as wire
from fl_server import record, transcript
from fl_server.clients import Caller, Clients
from fl_server.errors import FlError, Gone, NotFound, ProtocolError, RoundFailed, RoundFinished
from fl_server.live import FAILED, FINISHED, STAGES, LiveRound
from fl_server.privacy import Ledger
from fl_server.secagg.certificate import RevocationList
from fl_server.secagg.cohort import ShardedStage, Sum
from fl_server.secagg.encode import Floats
from fl_server.secagg.keys import model_digest
from fl_server.secagg.messages import Context
from fl_server.settings import Settings, TaskSettings
from fl_server.store import Store
from fl_server.store import rounds as table
from fl_server.tasks import Task, Tasks
from fl_server.weights import Weights


class Rounds:
    """At most one round of each task is open at a time."""

    def __init__(self, store: Store, clients: Clients, settings: Settings) -> None:
        self.weights = Weights(store)
        self.tasks = Tasks(store, self.weights)
        self.on_change: Callable[[], None] = lambda: None
        self._store = store
        self._clients = clients
        self._settings = settings
        self._lock = threading.RLock()
        self._live: dict[str, LiveRound] = {}
        # By task, whom evidence has named: they could make every round fail.
        self._barred: dict[str, set[int]] = {}
        self._behind = True
        with self._guarded():
            pass

    # What an operator does.

    def create_task(self, settings: TaskSettings, model: bytes, initial: Floats) -> Task:
        """A task whose first round is open when this returns."""
        with self._guarded():
            task = self.tasks.create(settings, model, initial)
            self._open(task)
        self.on_change()
        return task

    def stop_task(self, name: str) -> Task:
        """End a task; its open round fails."""
        with self._guarded():
            if self.tasks.get(name).state == "running":
                with self._store.begin() as db:
                    self.tasks.set_state(db, name, "stopped")
                if name in self._live:
                    self._fail(self._live[name], RoundFailed("the task was stopped"))
        return self.tasks.get(name)

    def live(self, task: str) -> LiveRound | None:
        """The open round of a task."""
        return self._live.get(task)

    # What devices do.

    def check_in(self, caller: Caller, request: wire.CheckIn) -> wire.CheckInReply | None:
        """Work, or IDLE where there is no task; None where a round may come or a cohort may fill.

        raises Gone, ProtocolError
        """
        with self._guarded():
            if request.advert:
                return self._join(caller, request)
            running = [task for task in self.tasks.all() if self._is_for(task, caller)]
            for task in running:
                live = self._live.get(task.name)
                if live is not None and self._may_offer(live, caller):
                    return self._reply(wire.OFFER, _offer(live).to_bytes())
            return None if running else self._reply(wire.IDLE)

    def wait_reply(self) -> wire.CheckInReply:
        """Come again."""
        return self._reply(wire.WAIT)

    def put(self, caller: Caller, session: str, stage: str, body: bytes) -> None:
        """Take the message of a stage; it is kept when this returns.     raises FlError"""
        with self._guarded():
            try:
                live = self._find(session)
            except RoundFinished:
                # Nobody needs the reveal any more; a vector may come again that is in the sum.
                if stage == "reveal" or (stage == "vector" and self._took(session, caller.id)):
                    return
                raise
            self._receive(live, stage, caller, body)

    def get(self, caller: Caller, session: str, stage: str) -> bytes | None:
        """What follows a stage; None until it is over.     raises Gone, NotFound"""
        with self._guarded():
            return self._find(session).reply(stage, caller.id)

    def vector_size(self, session: str, client: int) -> int | None:
        """The bytes of a masked vector; None where the client's is in the sum of a finished round.

        raises Gone, NotFound
        """
        with self._guarded():
            try:
                live = self._find(session)
            except RoundFinished:
                if self._took(session, client):
                    return None
                raise
            if live.session is None:
                raise Gone(f"client {client} is not in this session")
            return live.session.session_of(client).params.vector_size

    def vector_place(self, session: str, client: int) -> Path | None:
        """Where a vector is put together; None if it was taken.     raises Gone, NotFound"""
        with self._guarded():
            if self.vector_size(session, client) is None:
                return None
            live = self._find(session)
            if client in live.senders("vector"):
                return None
            if live.stage != "vector":
                when = "not open yet" if live.stage == "share" else "over"
                raise Gone(f"stage vector is {when}; this is stage {live.stage}")
            path = self._store.vector_path(live.task.name, live.number, client)
            return path.with_suffix(".part")

    # What time does.

    def tick(self) -> float | None:
        """End what is over; when to call again comes out, None if nothing has a deadline."""
        with self._guarded():
            for live in list(self._live.values()):
                if self._settings.clock() >= live.deadline:
                    self._deadline(live)
            return min((live.deadline for live in self._live.values()), default=None)

    # What the above uses.

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        """One at a time; if the store fails, memory may be ahead of it and is built anew."""
        with self._lock:
            if self._behind:
                self._restore()
                self._behind = False
            try:
                yield
            except FlError:
                raise
            except BaseException:
                self._behind = True
                raise

    def _is_for(self, task: Task, caller: Caller) -> bool:
        return task.state == "running" and task.settings.population == caller.population

    def _may_offer(self, live: LiveRound, caller: Caller) -> bool:
        if live.stage != "advertise" or caller.id in live.senders("advertise"):
            return False
        if caller.id in self._barred_from(live.task.name):
            return False
        return not record.has_spent(self._store, live.context, caller.id)

    def _barred_from(self, task: str) -> set[int]:
        if task not in self._barred:
            self._barred[task] = record.blamed(self._store, task)
        return self._barred[task]

    def _reply(self, kind: int, body: bytes = b"") -> wire.CheckInReply:
        return wire.CheckInReply(kind, int(self._settings.retry_s * 1000), body)

    def _join(self, caller: Caller, request: wire.CheckIn) -> wire.CheckInReply | None:
        live = self._live.get(request.task)
        if live is None or live.number != request.round:
            raise Gone(f"round {request.round} of task {request.task} is over")
        if caller.id in self._barred_from(request.task):
            raise Gone(f"evidence has named client {caller.id} in an earlier round of this task")
        if record.has_spent(self._store, live.context, caller.id):
            raise Gone("an update of this model has been taken from this client before")
        self._receive(live, "advertise", caller, request.advert)
        if live.session is None:
            return None
        return self._reply(wire.SESSION, live.session.id)

    def _find(self, session: str) -> LiveRound:
        for live in self._live.values():
            if live.session is not None and live.session.id.hex() == session:
                return live
        with self._store.begin() as db:
            row = db.execute(select(table).where(table.c.session == session)).first()
        if row is None or not session:
            raise NotFound("there is no such session")
        if row.stage == FINISHED:
            raise RoundFinished("the round is finished")
        raise Gone(f"the round failed: {json.loads(row.summary).get('error')}")

    def _took(self, session: str, client: int) -> bool:
        return record.took_vector(self._store, session, client)

    def _receive(self, live: LiveRound, stage: str, caller: Caller, body: bytes) -> None:
        now = self._settings.clock()
        if not live.receive(stage, caller.id, body, caller.certificate, now):
            return
        record.keep_message(self._store, live.context, stage, caller.id, body)
        while live.task.name in self._live and live.complete():
            if not self._advance(live):
                break

    def _deadline(self, live: LiveRound) -> None:
        joined = len(live.senders("advertise"))
        if live.stage != "advertise" or joined >= live.task.min_cohort:
            self._advance(live)
        elif joined:
            missing = f"{joined} of at least {live.task.min_cohort} clients joined in time"
            self._fail(live, RoundFailed(missing), counts=False)
        else:
            live.deadline = self._settings.clock() + live.task.join_s

    def _advance(self, live: LiveRound) -> bool:
        """Whether the round goes on. It ends the stage, in memory and then in the store."""
        now = self._settings.clock()
        try:
            if isinstance(live.state, ShardedStage) and live.stage == STAGES[-1]:
                self._finish(live, live.state.close(), now)
                return False
            ended, revocations = live.stage, self._clients.revocations()
            live.advance(revocations, now)
        except ProtocolError as error:
            self._fail(live, error)
            return False
        record.keep_stage(self._store, live, ended, revocations, now)
        self.on_change()
        return True

    def _finish(self, live: LiveRound, total: Sum, now: float) -> None:
        task = self.tasks.get(live.task.name)
        if why := self._overspent(task):  # the database was put back to an earlier state
            self._fail(live, RoundFailed(why))
            return
        mean, privacy = total.mean, task.settings.privacy
        if privacy is not None:
            params = total.totals[0].session.params  # of the one shard: settings.check
            mean = privacy.noisy(mean, params, self._settings.random)
        before, strategy = self.weights.latest(task.name), task.settings.make_strategy()
        weights, moments = self.weights.values(before), self.weights.moments(before)
        after, moments = strategy.apply(
            weights, mean, strategy.start(len(weights)) if moments is None else moments
        )
        live.seconds["reveal"] = round(now - live.stage_started, 3)
        summary = record.summary(live, mean, total)
        record.warn_of_clamping(live, mean)
        with self._store.begin() as db:
            version = self.weights.add(db, task.name, after, live.number, moments)
            if privacy is not None:  # counted before anybody can see it
                what = f"round {live.number} {version.digest.hex()}"
                self._ledger(task).add(privacy.noise_multiplier, what)
            public = {"weights": version.digest.hex(), "summary": summary}
            transcript.append(db, task.name, live.number, now, FINISHED, **public)
            record.close_round(db, live, FINISHED, summary)
            if version.version >= task.settings.rounds:
                self.tasks.set_state(db, task.name, "finished")
        self._over(live)

    def spent(self, task: Task) -> dict[str, float] | None:
        """What the task's releases have cost, None without differential privacy."""
        privacy = task.settings.privacy
        if privacy is None:
            return None
        noises = self._ledger(task).noises()
        return {"epsilon": privacy.spent(noises), "delta": privacy.delta, "rounds": len(noises)}

    def _overspent(self, task: Task) -> str:
        """Why the task's privacy budget has no round left, empty if it has."""
        privacy = task.settings.privacy
        if privacy is None or privacy.allows_after(self._ledger(task).noises()):
            return ""
        return f"another round would spend more than epsilon {privacy.epsilon:g}"

    def _ledger(self, task: Task) -> Ledger:
        return Ledger(self._store.ledger_path(task.name))

    def _fail(self, live: LiveRound, error: FlError, counts: bool = True) -> None:
        """End a round without a result. Updates that were uploaded stay spent."""
        task, now = self.tasks.get(live.task.name), self._settings.clock()
        public = record.failure(live, error)
        summary = {**public, "counts": live.counts(), "seconds": live.seconds, "counted": counts}
        with self._store.begin() as db:
            transcript.append(db, task.name, live.number, now, FAILED, **public)
            record.close_round(db, live, FAILED, summary)
            failures = record.failures_in_a_row(db, task.name)
            if task.state == "running" and failures > task.settings.max_failures:
                why = f"{failures} rounds in a row failed; the last: {error}"
                self.tasks.set_state(db, task.name, "failed", why)
        self._over(live)

    def _over(self, live: LiveRound) -> None:
        record.drop_vectors(self._store, live.context)
        self._barred.pop(live.task.name, None)
        del self._live[live.task.name]
        task = self.tasks.get(live.task.name)
        if task.state == "running":
            self._open(task)
        self.on_change()

    def _open(self, task: Task) -> None:
        """Open the next round of a task, if its privacy budget has one left."""
        if why := self._overspent(task):
            with self._store.begin() as db:
                self.tasks.set_state(db, task.name, "finished", why)
            return
        now, version = self._settings.clock(), self.weights.latest(task.name)
        with self._store.begin() as db:
            query = select(table.c.number).where(table.c.task == task.name)
            last = db.scalar(query.order_by(table.c.number.desc())) or 0
            row: dict[str, Any] = {
                "task": task.name,
                "number": last + 1,
                "stage": "advertise",
                "deadline": now + task.settings.join_s,
                "opened_at": now,
                "model_digest": model_digest(task.model, version.digest),
                "weights": version.digest,
                "server_nonce": self._settings.random(32),
            }
            db.execute(table.insert().values(**row))
            public = {"model": task.model.hex(), "weights": version.digest.hex()}
            transcript.append(db, task.name, last + 1, now, "opened", **public)
        with self._store.begin() as db:
            this = (table.c.task == task.name) & (table.c.number == last + 1)
            self._live[task.name] = self._build(task, db.execute(select(table).where(this)).one())

    def _build(self, task: Task, row: Row[Any]) -> LiveRound:
        length = self._store.blob_path(row.weights).stat().st_size // 4
        context = Context(
            tenant=self._settings.tenant,
            population=task.settings.population,
            task=task.name,
            round=row.number,
            model=row.model_digest,
        )
        return LiveRound(
            task.settings,
            context,
            task.settings.encoding(length),
            task.model,
            row.weights,
            row.server_nonce,
            self._clients.authority_public,
            row.opened_at,
        )

    def _restore(self) -> None:
        """Build the open rounds from the store; a running task without one gets one."""
        self._live.clear()
        with self._store.begin() as db:
            rows = db.execute(select(table).where(table.c.stage.in_(STAGES))).all()
        for row in rows:
            task = self.tasks.get(row.task)
            live = self._live[row.task] = self._build(task, row)
            try:
                self._replay(live, row)
            except FlError as error:
                self._fail(live, RoundFailed(f"it could not be resumed: {error}"))
        for task in self.tasks.all():
            if task.state == "running" and task.name not in self._live:
                self._open(task)

    def _replay(self, live: LiveRound, row: Row[Any]) -> None:
        """Feed a round what was kept of it, up to the stage that it had reached."""
        now = self._settings.clock()
        for stage in STAGES:
            for client, body in record.kept_messages(self._store, live.context, stage):
                certificate = self._clients.certificate(client)
                live.receive(stage, client, body, certificate, live.opened_at)
            if stage == row.stage:
                break
            live.advance(RevocationList.from_bytes(row.revocations), now)
        if row.session and (live.session is None or live.session.id.hex() != row.session):
            raise RoundFailed("its messages give another session")
        # The server was away: whoever still takes part gets the whole time again.
        live.deadline = now + live.task.stage_s(live.stage)


def _offer(live: LiveRound) -> wire.Offer:
    least, most = live.task.min_cohort, live.task.target_cohort
    sizes = live.task.layout.least_shard(least, most), most
    return wire.Offer(live.context, live.model, live.weights, live.encoding, *sizes)
