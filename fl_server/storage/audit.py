"""The log of who asked the server for what, from where, and what came of it, each line with the
hash of the one before it.

The end of each round is a line, too, with the hash of the round's own transcript: who keeps the
last line of this log can tell whether any line of any transcript was changed.
"""

from __future__ import annotations

import json
from typing import Any

from sqlalchemy import Connection, select

from fl_server.storage.store import Store
from fl_server.storage.tables import audit as table
from fl_server.storage.transcript import START, line_hash

# Who did what nobody asked for.
SERVER = "server"


def append(store: Store, db: Connection, at: float, who: str, what: str, **more: Any) -> int:
    """Add a line, in the caller's transaction; its number comes out."""
    store.lock(db, "audit")
    last = db.execute(select(table).order_by(table.c.position.desc()).limit(1)).first()
    fields = {
        "at": round(at, 3),
        "who": who,
        "what": what,
        "previous": START if last is None else line_hash(last.line),
        **more,
    }
    line = json.dumps(fields, sort_keys=True, separators=(",", ":"))
    position = 0 if last is None else last.position + 1
    db.execute(table.insert().values(position=position, line=line))
    return position


def lines(db: Connection, first: int, most: int) -> list[str]:
    """Up to `most` lines from number `first` on; `transcript.verify` checks their chain."""
    query = select(table.c.line).where(table.c.position >= first).order_by(table.c.position)
    return list(db.scalars(query.limit(most)))
