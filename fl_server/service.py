"""What the server is made of, without HTTP: the store, the clients, the rounds and their clock."""

from __future__ import annotations

import asyncio
import logging

from fl_server.bell import Bell
from fl_server.clients import Clients
from fl_server.enrolment import load_authority
from fl_server.rounds import Rounds
from fl_server.settings import Settings
from fl_server.store import Store
from fl_server.uploads import Uploads

_log = logging.getLogger(__name__)

# A deadline is noticed at most this late if the clock jumps.
_LONGEST_NAP_S = 5.0


class Service:
    """Everything that the routes use."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.store = Store(settings.folder, settings.database_url)
        self.admin_token = self._token("admin.token", settings.admin_token)
        self.enrol_token = self._token("enrol.token", settings.enrol_token)
        self.authority_file = settings.authority_key or settings.folder / "ca.key"
        self.authority = load_authority(self.authority_file, settings.random)
        self.clients = Clients(self.store, self.authority, settings, self.enrol_token)
        self.rounds = Rounds(self.store, self.clients, settings)
        self.uploads = Uploads(self.rounds)
        self.bell = Bell()
        self.rounds.on_change = self.bell.ring

    async def keep_time(self) -> None:
        """Let deadlines end stages, as long as the server runs."""
        while True:
            try:
                next_deadline = await asyncio.to_thread(self.rounds.tick)
            except Exception:
                # Without the clock no round would ever end again.
                _log.exception("the clock goes on after an error")
                next_deadline = None
            left = _LONGEST_NAP_S
            if next_deadline is not None:
                left = min(left, next_deadline - self.settings.clock())
            await self.bell.pause(left)

    def _token(self, name: str, given: str) -> str:
        return self.store.secret(name, given, self.settings.random(24).hex())
