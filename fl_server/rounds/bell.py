"""Wakes the requests that wait for a round to move on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


class Bell:
    """Rung from any thread, heard in the event loop in which `attach` was called."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._event: asyncio.Event | None = None

    def attach(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._event = asyncio.Event()

    def ring(self) -> None:
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._wake)

    async def until(self, look: Callable[[], T | None], seconds: float) -> T | None:
        """What `look` gives, run in a thread again after each ring; None after `seconds`."""
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        while True:
            # Taken before looking, so that a ring in between is not missed.
            event = self._event
            found = await asyncio.to_thread(look)
            if found is not None or event is None or self._loop is None:
                return found
            if not await self.heard(event, end - loop.time()):
                return None

    async def heard(self, event: asyncio.Event, seconds: float) -> bool:
        """Whether the bell rings within `seconds`."""
        try:
            await asyncio.wait_for(event.wait(), max(seconds, 0))
        except TimeoutError:
            return False
        return True

    async def pause(self, seconds: float) -> None:
        """Wait for a ring, at most `seconds`."""
        if self._event is not None:
            await self.heard(self._event, seconds)

    def _wake(self) -> None:
        if self._event is not None:
            event, self._event = self._event, asyncio.Event()
            event.set()
