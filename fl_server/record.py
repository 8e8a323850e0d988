"""What is kept of a round in the store: its messages, its stage, its outcome."""

from __future__ import annotations

import hashlib
import json
import logging
import shutil
from collections.abc import Iterator
from typing import Any

from sqlalchemy import Connection, delete, select, update

from fl_server import transcript
from fl_server.errors import FlError
from fl_server.live import FAILED, FINISHED, LiveRound
from fl_server.secagg.certificate import RevocationList
from fl_server.secagg.cohort import Cohort, Sum
from fl_server.secagg.encode import Mean
from fl_server.secagg.messages import Context
from fl_server.secagg.server import Adverts
from fl_server.store import Store, messages, write_file
from fl_server.store import rounds as table

CLAMPED_SHARE = 0.01  # of all coordinates: from here on an operator is told

_log = logging.getLogger(__name__)


def keep_message(store: Store, context: Context, stage: str, client: int, body: bytes) -> None:
    """Keep one client's message of a stage; a vector goes to a file, before its row."""
    if stage == "vector":
        write_file(store.vector_path(context.task, context.round, client), body)
        body = b""
    row = {"task": context.task, "round": context.round, "stage": stage, "client": client}
    with store.begin() as db:
        db.execute(messages.insert().values(body=body, **row))


def kept_messages(store: Store, context: Context, stage: str) -> Iterator[tuple[int, bytes]]:
    """The messages of a stage, one at a time, by client."""
    of_stage = _of_round(context) & (messages.c.stage == stage)
    with store.begin() as db:
        rows = db.execute(select(messages).where(of_stage).order_by(messages.c.client)).all()
    for row in rows:
        if stage == "vector":
            yield row.client, store.vector_path(row.task, row.round, row.client).read_bytes()
        else:
            yield row.client, row.body


def keep_stage(
    store: Store, live: LiveRound, ended: str, revocations: RevocationList, now: float
) -> None:
    """Keep that a stage is over, and what became public by that."""
    session = live.session
    assert session is not None, "no stage ends without a cohort"
    values: dict[str, Any] = {
        "stage": live.stage,
        "deadline": live.deadline,
        "session": session.id.hex(),
    }
    if ended == "advertise":
        values["revocations"] = revocations.to_bytes()
    with store.begin() as db:
        db.execute(update(table).where(_this(live.context)).values(**values))
        public = _public(live, ended)
        transcript.append(db, live.context.task, live.number, now, ended, **public)


def close_round(db: Connection, live: LiveRound, stage: str, summary: dict[str, Any]) -> None:
    """Keep the outcome. Of the messages only who uploaded a vector is still known afterwards."""
    values = {"stage": stage, "summary": json.dumps(summary)}
    db.execute(update(table).where(_this(live.context)).values(**values))
    db.execute(delete(messages).where(_of_round(live.context) & (messages.c.stage != "vector")))


def drop_vectors(store: Store, context: Context) -> None:
    """Remove the files of a round that is over."""
    shutil.rmtree(store.vector_path(context.task, context.round, 0).parent, ignore_errors=True)


def has_spent(store: Store, context: Context, client: int) -> bool:
    """Whether a client has uploaded an update of this model of this task."""
    same = (
        (messages.c.task == context.task)
        & (messages.c.client == client)
        & (messages.c.stage == "vector")
        & (table.c.task == messages.c.task)
        & (table.c.number == messages.c.round)
        & (table.c.model_digest == context.model)
    )
    with store.begin() as db:
        return db.execute(select(messages.c.client).where(same)).first() is not None


def took_vector(store: Store, session: str, client: int) -> bool:
    """Whether a client's vector was taken in the round of a session."""
    same = (
        (table.c.session == session)
        & (messages.c.task == table.c.task)
        & (messages.c.round == table.c.number)
        & (messages.c.client == client)
        & (messages.c.stage == "vector")
    )
    with store.begin() as db:
        return db.execute(select(messages.c.client).where(same)).first() is not None


def failures_in_a_row(db: Connection, task: str) -> int:
    """Rounds that failed since the last one that finished, those without a cohort left out."""
    over = (table.c.task == task) & table.c.stage.in_((FINISHED, FAILED))
    count = 0
    for row in db.execute(select(table).where(over).order_by(table.c.number.desc())):
        if row.stage == FINISHED:
            break
        count += bool(json.loads(row.summary).get("counted"))
    return count


def blamed(store: Store, task: str) -> set[int]:
    """Whom evidence has named in any round of a task."""
    with store.begin() as db:
        summaries = db.scalars(select(table.c.summary).where(table.c.task == task))
        return {client for text in summaries for client in json.loads(text).get("blamed", ())}


def summary(live: LiveRound, mean: Mean, total: Sum) -> dict[str, Any]:
    """The figures of a finished round, all of them sums over the survivors; with noise in the
    weights, those alone that who took part tells anyway."""
    private = {
        "loss": mean.loss,
        "correct": mean.correct,
        "examples": mean.examples,
        "within_clip": mean.within_clip,
        "saturated": mean.saturated,
    }
    return {
        "clients": len(total.cohort.ids),
        "survivors": len(total.survivors),
        "shards": len(total.cohort.sessions),
        "lost": [str(error) for error in total.lost.values()],
        "blamed": list(total.blamed),
        "accusations": [list(pair) for pair in total.accusations],
        "weight": mean.weight,
        **({} if live.task.privacy else private),
        "counts": live.counts(),
        "seconds": live.seconds,
    }


def warn_of_clamping(live: LiveRound, mean: Mean) -> None:
    """Say so where many coordinates were clamped: the mean is then not that of the updates."""
    # A client's own count ends at the largest integer of a coordinate.
    many = min(CLAMPED_SHARE * live.encoding.length, live.encoding.top) * mean.clients
    if mean.saturated >= max(many, 1) and live.task.privacy is None:
        _log.warning(
            "task %s: round %d: %d coordinates of %d clients were clamped to %g; "
            "a larger clip_value would keep them",
            live.context.task,
            live.number,
            mean.saturated,
            mean.clients,
            live.encoding.clip_value,
        )


def failure(live: LiveRound, error: FlError) -> dict[str, Any]:
    """What is public of a round that failed: why, whom evidence names, in this error or before it,
    and what one client said of another."""
    stage = None if isinstance(live.state, Adverts) else live.state
    caught = stage.blamed if stage else ()
    return {
        "error": str(error),
        "kind": type(error).__name__,
        "blamed": sorted({*error.who, *caught}),
        "accusations": [list(pair) for pair in stage.accusations] if stage else [],
    }


def of_task(store: Store, task: str) -> list[dict[str, Any]]:
    """The rounds of a task, oldest first."""
    with store.begin() as db:
        rows = db.execute(select(table).where(table.c.task == task).order_by(table.c.number))
        return [
            {
                "number": row.number,
                "stage": row.stage,
                "session": row.session,
                "opened_at": row.opened_at,
                **json.loads(row.summary),
            }
            for row in rows
        ]


def _public(live: LiveRound, ended: str) -> dict[str, Any]:
    """What the transcript says of a stage that is over."""
    session = live.session
    assert session is not None
    if ended == "advertise":
        return {"session": session.id.hex(), "shards": _shards(live, session)}
    if ended == "agree":
        return {"signed": [reply.hex() for reply in _replies(live, session, ended)]}
    return {"clients": session.bitmap(live.senders(ended)).hex()}


def _shards(live: LiveRound, cohort: Cohort) -> list[dict[str, Any]]:
    return [
        {
            "session": session.id.hex(),
            "clients": list(session.ids),
            "cohort": hashlib.sha256(reply).hexdigest(),
        }
        for session, reply in zip(cohort.sessions, _replies(live, cohort, "advertise"), strict=True)
    ]


def _replies(live: LiveRound, cohort: Cohort, stage: str) -> list[bytes]:
    """What followed a stage in each shard; nothing in one that is lost."""
    state = live.state
    assert not isinstance(state, Adverts)
    return [
        b"" if at in state.lost else live.reply(stage, session.ids[0]) or b""
        for at, session in enumerate(cohort.sessions)
    ]


def _this(context: Context) -> Any:
    return (table.c.task == context.task) & (table.c.number == context.round)


def _of_round(context: Context) -> Any:
    return (messages.c.task == context.task) & (messages.c.round == context.round)
