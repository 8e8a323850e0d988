"""What is kept of a round in the store: its messages, its stage, its outcome."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row, bindparam, delete, func, select, update

from fl_server.errors import FlError, RoundFailed
from fl_server.rounds.live import FAILED, FINISHED, STAGES, LiveRound
from fl_server.secagg.certificate import RevocationList
from fl_server.secagg.cohort import Cohort, Sum
from fl_server.secagg.encode import Mean
from fl_server.secagg.messages import Context
from fl_server.secagg.server import Adverts
from fl_server.storage import transcript
from fl_server.storage.store import Store
from fl_server.storage.tables import messages, parts
from fl_server.storage.tables import rounds as table

CLAMPED_SHARE = 0.01  # of all coordinates: from here on an operator is told

_log = logging.getLogger(__name__)

# What is asked with each request of a device: to put such a question together takes SQLAlchemy as
# long as to ask it.
_a_round = (table.c.task == bindparam("task")) & (table.c.number == bindparam("number"))
_round, _summary_of = select(table).where(_a_round), select(table.c.summary).where(_a_round)
_of_session = select(table).where(table.c.session == bindparam("session"))
_still_open = (
    select(table)
    .where(table.c.stage.in_(STAGES))
    .order_by(table.c.opened_at, table.c.task, table.c.number)
)
_still_open_of = _still_open.where(table.c.task == bindparam("task"))
_this_round = (messages.c.task == bindparam("task")) & (messages.c.round == bindparam("round"))
_newer = (
    select(messages)
    .where(_this_round & (messages.c.seq > bindparam("seq")))
    .order_by(messages.c.seq)
)
_keep = messages.insert()
_drop_parts = delete(parts).where(
    (parts.c.task == bindparam("of_task"))
    & (parts.c.round == bindparam("of_round"))
    & (parts.c.client == bindparam("of_client"))
)
_spent = select(messages.c.client).where(
    (messages.c.task == bindparam("task"))
    & (messages.c.client == bindparam("client"))
    & (messages.c.stage == "vector")
    & (table.c.task == messages.c.task)
    & (table.c.number == messages.c.round)
    & (table.c.weights == bindparam("weights"))
)
_body_of = select(messages.c.body).where(
    _this_round
    & (messages.c.stage == bindparam("stage"))
    & (messages.c.client == bindparam("client"))
)


@dataclass(frozen=True)
class Kept:
    """A message of a round, numbered in the order in which they were taken."""

    seq: int
    stage: str
    client: int
    body: bytes


def write_vector(store: Store, context: Context, client: int, body: bytes, digest: bytes) -> str:
    """Have a vector in a file before its row is there; the file's name comes out."""
    name = _vector_name(context, client, digest)
    store.files.write(name, body)
    return name


def keep_message(db: Connection, live: LiveRound, stage: str, client: int, body: bytes) -> None:
    """Keep one client's message behind all that are in the round; of a vector, whose file is there,
    the digest, and nothing of its parts any more."""
    row = {"task": live.context.task, "round": live.number, "stage": stage, "client": client}
    db.execute(_keep, {"body": body, "seq": live.seen + 1, **row})
    if stage == "vector":
        drop_parts(db, live.context.task, live.number, client)
    live.seen += 1


def kept_after(store: Store, db: Connection, context: Context, seq: int) -> Iterator[Kept]:
    """The messages of a round beyond a number, in order, one at a time.     raises RoundFailed"""
    after = {"task": context.task, "round": context.round, "seq": seq}
    for row in db.execute(_newer, after).all():
        body = row.body
        if row.stage == "vector":
            name = _vector_name(context, row.client, row.body)
            try:
                body = store.files.read(name)
            except FileNotFoundError:
                raise RoundFailed(f"the vector of client {row.client} is lost") from None
        yield Kept(row.seq, row.stage, row.client, body)


def kept_message(db: Connection, task: str, number: int, stage: str, client: int) -> bytes | None:
    """What a client sent for a stage, None if nothing."""
    which = {"task": task, "round": number, "stage": stage, "client": client}
    found: bytes | None = db.scalar(_body_of, which)
    return found


def open_rounds(db: Connection, task: str | None = None) -> list[Row[Any]]:
    """The rows of all open rounds, or of one task's, the oldest first."""
    if task is None:
        return list(db.execute(_still_open).all())
    return list(db.execute(_still_open_of, {"task": task}).all())


def of_session(db: Connection, session: str) -> Row[Any] | None:
    """The row of a session's round."""
    return db.execute(_of_session, {"session": session}).first()


def of_round(db: Connection, task: str, number: int) -> Row[Any] | None:
    """The row of a round."""
    return db.execute(_round, {"task": task, "number": number}).first()


def keep_deadline(db: Connection, task: str, number: int, deadline: float) -> None:
    """Move the end of the stage."""
    this = (table.c.task == task) & (table.c.number == number)
    db.execute(update(table).where(this).values(deadline=deadline))


def keep_stage(
    db: Connection, live: LiveRound, ended: str, revocations: RevocationList, now: float
) -> None:
    """Keep that a stage is over, and what became public by that."""
    session = live.session
    assert session is not None, "no stage ends without a cohort"
    values: dict[str, Any] = {
        "stage": live.stage,
        "deadline": live.deadline,
        "stage_started": live.stage_started,
        "seconds": json.dumps(live.seconds),
        "session": session.id.hex(),
    }
    if ended == "advertise":
        values["revocations"] = revocations.to_bytes()
    db.execute(update(table).where(_this(live.context)).values(**values))
    transcript.append(db, live.context.task, live.number, now, ended, **_public(live, ended))


def close_round(db: Connection, live: LiveRound, stage: str, summary: dict[str, Any]) -> None:
    """Keep the outcome. Of the messages only who uploaded a vector is still known afterwards."""
    values = {"stage": stage, "summary": json.dumps(summary)}
    db.execute(update(table).where(_this(live.context)).values(**values))
    db.execute(delete(messages).where(_of_round(live.context) & (messages.c.stage != "vector")))
    of_round = (parts.c.task == live.context.task) & (parts.c.round == live.number)
    db.execute(delete(parts).where(of_round))


def drop_parts(db: Connection, task: str, number: int, client: int) -> None:
    """Forget the parts of a client's vector."""
    db.execute(_drop_parts, {"of_task": task, "of_round": number, "of_client": client})


def drop_vectors(store: Store, context: Context) -> None:
    """Remove the files of a round that is over."""
    store.files.remove(vectors_of(context.task, context.round))


def vectors_of(task: str, number: int) -> str:
    """The folder of a round's vectors and of their parts."""
    return f"vectors/{task}/{number}"


def counts(db: Connection, task: str, number: int) -> dict[str, int]:
    """How many clients have sent the message of each stage that has begun."""
    of_round = (messages.c.task == task) & (messages.c.round == number)
    query = select(messages.c.stage, func.count()).where(of_round).group_by(messages.c.stage)
    found = {row[0]: int(row[1]) for row in db.execute(query)}
    return {stage: found[stage] for stage in STAGES if stage in found}


def has_spent(db: Connection, task: str, weights: bytes, client: int) -> bool:
    """Whether a client has uploaded an update of these weights of this task, whose model is one."""
    which = {"task": task, "client": client, "weights": weights}
    return db.execute(_spent, which).first() is not None


def took_vector(db: Connection, session: str, client: int) -> bool:
    """Whether a client's vector was taken in the round of a session."""
    same = (
        (table.c.session == session)
        & (messages.c.task == table.c.task)
        & (messages.c.round == table.c.number)
        & (messages.c.client == client)
        & (messages.c.stage == "vector")
    )
    return db.execute(select(messages.c.client).where(same)).first() is not None


def stages(db: Connection, task: str) -> dict[str, int]:
    """How many rounds of a task are in each stage, over ones among them."""
    query = select(table.c.stage, func.count()).where(table.c.task == task)
    return {row[0]: int(row[1]) for row in db.execute(query.group_by(table.c.stage))}


def last_summary(db: Connection, task: str) -> dict[str, Any]:
    """The figures of a task's newest finished round, empty before there is one."""
    over = (table.c.task == task) & (table.c.stage == FINISHED)
    query = select(table.c.summary).where(over).order_by(table.c.number.desc()).limit(1)
    found: dict[str, Any] = json.loads(db.scalar(query) or "{}")
    return found


def next_clip_norm(db: Connection, task: str, number: int) -> float | None:
    """The clip norm of updates of the weights that a round made; None if it does not say."""
    text = db.scalar(_summary_of, {"task": task, "number": number})
    found: float | None = json.loads(text or "{}").get("next_clip_norm")
    return found


def bytes_up(db: Connection, live: LiveRound) -> int:
    """The bytes of all messages that a round has taken."""
    whole = select(func.sum(func.length(messages.c.body))).where(
        _of_round(live.context) & (messages.c.stage != "vector")
    )
    session, senders = live.session, live.senders("vector")
    vectors = sum(session.session_of(i).params.vector_size for i in senders) if session else 0
    return int(db.scalar(whole) or 0) + vectors


def finished(db: Connection, task: str) -> int:
    """How many rounds of a task are finished."""
    over = (table.c.task == task) & (table.c.stage == FINISHED)
    return int(db.scalar(select(func.count()).where(over)) or 0)


def ended(db: Connection, task: str) -> int:
    """How many rounds of a task are over."""
    over = (table.c.task == task) & table.c.stage.in_((FINISHED, FAILED))
    return int(db.scalar(select(func.count()).where(over)) or 0)


def failures_in_a_row(db: Connection, task: str) -> int:
    """Rounds that failed since the last one that finished, those without a cohort left out."""
    over = (table.c.task == task) & table.c.stage.in_((FINISHED, FAILED))
    count = 0
    for row in db.execute(select(table).where(over).order_by(table.c.number.desc())):
        if row.stage == FINISHED:
            break
        count += bool(json.loads(row.summary).get("counted"))
    return count


def blamed(db: Connection, task: str) -> set[int]:
    """Whom evidence has named in any round of a task."""
    summaries = db.scalars(select(table.c.summary).where(table.c.task == task))
    return {client for text in summaries for client in json.loads(text).get("blamed", ())}


def summary(db: Connection, live: LiveRound, mean: Mean, total: Sum) -> dict[str, Any]:
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
        "bytes_up": bytes_up(db, live),
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
    """The rounds of a task, oldest first; the open one with who has sent what."""
    with store.read() as db:
        rows = db.execute(select(table).where(table.c.task == task).order_by(table.c.number)).all()
        return [_entry(db, row) for row in rows]


def _entry(db: Connection, row: Row[Any]) -> dict[str, Any]:
    entry = {
        "number": row.number,
        "stage": row.stage,
        "session": row.session,
        "opened_at": row.opened_at,
        **json.loads(row.summary),
    }
    if row.stage in STAGES:
        entry |= {"counts": counts(db, row.task, row.number), "deadline": row.deadline}
    return entry


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


def _vector_name(context: Context, client: int, digest: bytes) -> str:
    """A name for each vector: one that is refused must not replace the one that was taken."""
    place = f"{vectors_of(context.task, context.round)}/{client}"
    return f"{place}.{digest.hex()}" if digest else place  # servers before kept no digest
