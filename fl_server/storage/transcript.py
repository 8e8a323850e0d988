"""The public record of a task's rounds: lines of JSON, each with the hash of the one before.

Devices and auditors read it; a line changed, dropped or moved breaks every hash after it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from sqlalchemy import Connection, select

from fl_server.errors import ProtocolError
from fl_server.secagg import labels
from fl_server.secagg.keys import hashed
from fl_server.storage.tables import transcript as table

START = "0" * 64


class BrokenTranscript(ProtocolError):
    """A line does not carry the hash of the line before it."""


def append(db: Connection, task: str, number: int, at: float, event: str, **public: Any) -> None:
    """Add a line, in the caller's transaction. Everything in it is public."""
    last = db.execute(
        select(table).where(table.c.task == task).order_by(table.c.position.desc()).limit(1)
    ).first()
    fields = {
        "task": task,
        "round": number,
        "at": round(at, 3),
        "event": event,
        "previous": START if last is None else line_hash(last.line),
        **public,
    }
    line = json.dumps(fields, sort_keys=True, separators=(",", ":"))
    position = 0 if last is None else last.position + 1
    db.execute(table.insert().values(task=task, position=position, round=number, line=line))


def lines(db: Connection, task: str, number: int) -> list[str]:
    """The lines of one round, in order."""
    this = (table.c.task == task) & (table.c.round == number)
    return list(db.scalars(select(table.c.line).where(this).order_by(table.c.position)))


def line_hash(line: str) -> str:
    """64 hexadecimal digits."""
    return hashed(labels.TRANSCRIPT, line.encode()).hex()


def verify(given: Iterable[str], previous: str | None = None) -> str:
    """The hash of the last line, by which the next round begins.     raises BrokenTranscript

    previous: the hash that the first line must carry; None where it is not known
    """
    for count, line in enumerate(given):
        carried = json.loads(line)["previous"]
        if previous is not None and carried != previous:
            raise BrokenTranscript(f"line {count} does not follow the line before it")
        previous = line_hash(line)
    return START if previous is None else previous
