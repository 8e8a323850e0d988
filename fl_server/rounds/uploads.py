"""Masked vectors that come in parts, each acknowledged once it is kept, the last with the whole.

The digest of the whole is fixed by the first part: whoever begins with one vector cannot go on with
another. A part goes where the ones before it end; a device that does not know where that is asks.
"""

from __future__ import annotations

import hashlib
import threading
from typing import Any

from sqlalchemy import Row, bindparam, select
from sqlalchemy.exc import IntegrityError

from fl_server.access.clients import Caller
from fl_server.errors import Gone, Malformed, StageReplayed, WrongOffset
from fl_server.messages import Part
from fl_server.rounds import record
from fl_server.rounds.rounds import Rounds
from fl_server.storage.store import Store
from fl_server.storage.tables import parts
from fl_server.storage.tables import rounds as table

_LOCKS = 64
_of_client = (
    select(parts)
    .where(
        (parts.c.task == bindparam("task"))
        & (parts.c.round == bindparam("round"))
        & (parts.c.client == bindparam("client"))
    )
    .order_by(parts.c.first)
)
_stage_of = (
    select(table.c.stage)
    .where((table.c.task == bindparam("task")) & (table.c.number == bindparam("number")))
    .with_for_update(read=True)
)
_keep = parts.insert()


class Uploads:
    """A vector on its way is a row for each part, whose bytes lie in a file of their own."""

    def __init__(self, rounds: Rounds, store: Store) -> None:
        self._rounds = rounds
        self._store = store
        # Two requests of one client write one after the other; most others do not wait for them.
        self._locks = [threading.Lock() for _ in range(_LOCKS)]

    def offset(self, caller: Caller, session: str) -> int | None:
        """How many bytes of a vector are here; None if it was taken.     raises Gone, NotFound"""
        place = self._rounds.vector_place(session, caller.id)
        return None if place is None else _end(self._kept(place, caller.id))

    def put(
        self, caller: Caller, session: str, part: Part, body: bytes, own_digest: bytes = b""
    ) -> None:
        """Keep a part; the last one hands the vector over to the round, which keeps the whole.

        own_digest: the part's own SHA-256, where that is known
        raises WrongOffset, StageReplayed, Malformed, Gone, NotFound
        """
        with self._locks[caller.id % _LOCKS]:
            place = self._rounds.vector_place(session, caller.id)
            if place is None:
                return
            kept = self._kept(place, caller.id)
            # It came before, to a server that kept the last part too and went away.
            again = _end(kept) == part.total == part.last + 1
            if not again:
                if part.first != _end(kept):
                    raise WrongOffset(f"the part begins at byte {part.first}, want {_end(kept)}")
                if len(body) != part.size:
                    raise Malformed(f"a part of {len(body)} bytes, {part.size} were announced")
                if kept and kept[0].digest != part.digest:
                    raise StageReplayed("the parts are of another vector than the first one was")
            if part.last + 1 < part.total:
                own_digest = own_digest or hashlib.sha256(body).digest()
                self._keep(place, caller.id, part, body, own_digest)
                return
            vector = self._whole(place, caller.id, kept, b"" if again else body, part.digest)
            self._rounds.put(caller, session, "vector", vector, part.digest)
            self._store.files.remove(_folder(place, caller.id))

    def _kept(self, place: tuple[str, int], client: int) -> list[Row[Any]]:
        which = {"task": place[0], "round": place[1], "client": client}
        with self._store.read() as db:
            return list(db.execute(_of_client, which).all())

    def _keep(
        self, place: tuple[str, int], client: int, part: Part, body: bytes, digest: bytes
    ) -> None:
        """Have the part kept when this returns.     raises Gone, WrongOffset"""
        task, number = place
        name = _name(place, client, part.first, digest)
        self._store.files.write(name, body)
        row = {"task": task, "round": number, "client": client, "first": part.first}
        row |= {"size": len(body), "digest": part.digest, "own_digest": digest}
        try:
            with self._store.begin() as db:
                # The round may have ended, and its files be gone, while the part was written.
                stage = db.scalar(_stage_of, {"task": task, "number": number})
                if stage != "vector":
                    raise Gone("stage vector is over")
                db.execute(_keep, row)
        except IntegrityError:
            raise WrongOffset(f"a part that begins at byte {part.first} is here") from None
        except Gone:
            self._store.files.remove(name)
            raise

    def _whole(
        self, place: tuple[str, int], client: int, kept: list[Row[Any]], last: bytes, digest: bytes
    ) -> bytes:
        """The vector of the parts; one that was not promised is dropped.     raises Malformed"""
        names = [_name(place, client, row.first, row.own_digest) for row in kept]
        vector = b"".join([*map(self._store.files.read, names), last])
        if hashlib.sha256(vector).digest() != digest:
            self._drop(place, client)
            raise Malformed("the parts do not have the digest that they were announced with")
        return vector

    def _drop(self, place: tuple[str, int], client: int) -> None:
        with self._store.begin() as db:
            record.drop_parts(db, *place, client)
        self._store.files.remove(_folder(place, client))


def _end(kept: list[Row[Any]]) -> int:
    """Where the parts that are here end."""
    return kept[-1].first + kept[-1].size if kept else 0


def _folder(place: tuple[str, int], client: int) -> str:
    return f"{record.vectors_of(*place)}/{client}.parts"


def _name(place: tuple[str, int], client: int, first: int, digest: bytes) -> str:
    return f"{_folder(place, client)}/{first}.{digest.hex()}"
