"""What time does to rounds: stages end, and what is wrong with one round keeps no other waiting."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

from sqlalchemy import Row
from sqlalchemy.exc import SQLAlchemyError

from fl_server.errors import RoundFailed
from fl_server.rounds import record
from fl_server.rounds.turn import Desk, Turn

_log = logging.getLogger(__name__)

_Place: TypeAlias = tuple[str, int | None]  # of an open round: its task and number


class Deadlines:
    """Those of all open rounds."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        # Those whose last turn here broke.
        self._failing: set[_Place] = set()

    def tick(self, now: float) -> float | None:
        """End what is over; when to call again comes out, None if nothing has a deadline."""
        rows = self._open_rows()
        self._failing.intersection_update(map(_place, rows))  # the others are over

        def end(turn: Turn) -> None:
            self._end(turn, now)

        self._each([_place(row) for row in rows if now >= row.deadline], end)
        left = [row.deadline for row in self._open_rows() if _place(row) not in self._failing]
        return min(left, default=None)

    def resume(self) -> None:
        """Give every open stage its whole time, and open what is to be open."""
        self._each([_place(row) for row in self._open_rows()], _extend)
        tasks = self._desk.tasks.all()
        # Buffers open when a device asks.
        without = [(task.name, None) for task in tasks if not task.settings.max_staleness]
        self._each(without, Turn.open)

    def begin_anew(self, why: str) -> None:
        """End all open rounds, which another opens after."""

        def end(turn: Turn) -> None:
            if turn.live is not None:
                turn.fail(RoundFailed(why), counts=False)

        self._each([_place(row) for row in self._open_rows()], end)

    def _open_rows(self) -> list[Row[Any]]:
        with self._desk.store.read() as db:
            return record.open_rounds(db)

    def _each(self, places: Iterable[_Place], work: Callable[[Turn], None]) -> None:
        """A turn at each of these rounds.

        raises SQLAlchemyError where the database is away, which is there for all of them
        """
        for place in places:
            try:
                with self._desk.turn(*place) as turn:
                    work(turn)
            except SQLAlchemyError:
                raise
            except Exception as error:
                self._failing.add(place)
                _log.error("task %s: %s", place[0], " ".join(str(error).split()))
            else:
                self._failing.discard(place)

    def _end(self, turn: Turn, now: float) -> None:
        """End a stage that is due; one that could not be ended before has its whole time again, in
        which those come who could not either."""
        live = turn.live
        if live is not None and (turn.task.name, live.number) in self._failing:
            turn.extend()
        else:
            turn.end_if_due(now)


def _place(row: Row[Any]) -> _Place:
    return row.task, row.number


def _extend(turn: Turn) -> None:
    if turn.live is not None:
        turn.extend()
