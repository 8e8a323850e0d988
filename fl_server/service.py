"""What the server is made of, without HTTP: the store, the clients, the rounds and their clock."""

from __future__ import annotations

import asyncio
import logging
import time

from fl_server.access.blobs import Blobs
from fl_server.access.clients import Clients
from fl_server.access.limits import Buckets
from fl_server.access.tokens import Tokens
from fl_server.authority.attestation import Attestor
from fl_server.authority.enrolment import Authority, load_authority
from fl_server.authority.registry import Registry
from fl_server.rounds.bell import Bell
from fl_server.rounds.rounds import Rounds
from fl_server.rounds.uploads import Uploads
from fl_server.settings import Settings
from fl_server.storage.differences import Differences
from fl_server.storage.store import Store

_log = logging.getLogger(__name__)

# A deadline is noticed at most this late if the clock jumps.
_LONGEST_NAP_S = 5.0
# A clock that is set right by less than this moves deadlines by as much, and no more happens.
_JUMP_S = 10.0


class Service:
    """Everything that the routes use."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.attestor = Attestor(settings.attest, settings.attest_s)
        self.store = Store(settings.folder, settings.database_url, settings.files_url)
        self.admin_token = self._token("admin.token", settings.admin_token)
        self.enrol_token = self._token("enrol.token", settings.enrol_token)
        self.authority_file = settings.authority_key or settings.folder / "ca.key"
        self.registry = Registry(self.store, settings.authority_public)
        self.authority: Authority | Registry = self.registry
        if not settings.authority_public:
            self.authority = load_authority(self.authority_file, settings.random)
        self.tokens = Tokens(self.store, settings, self.admin_token, self.enrol_token)
        self.clients = Clients(self.store, self.authority, settings, self.tokens)
        bursts = 10 * settings.rate_per_s, 10 * settings.client_rate_per_s
        self.by_address = Buckets(settings.rate_per_s, bursts[0], time.monotonic)
        self.by_client = Buckets(settings.client_rate_per_s, bursts[1], time.monotonic)
        self.rounds = Rounds(self.store, self.clients, settings)
        self.uploads = Uploads(self.rounds, self.store)
        self.differences = Differences(self.store)
        self.blobs = Blobs(self.store, self.rounds.tasks, settings.tenant)
        self.bell = Bell()
        self.rounds.on_change(self.bell.ring)

    def start(self) -> None:
        """Before any worker serves: open rounds go on.     raises SettingsError"""
        self.store.lock_folder()
        self.rounds.adopt_ledgers()
        self.rounds.resume()

    async def keep_time(self) -> None:
        """Let deadlines end stages, as long as the server runs."""
        clock = Watch(self.settings.clock(), time.monotonic())
        while True:
            try:
                now = self.settings.clock()  # once: it may be set between two questions
                if clock.has_jumped(now, time.monotonic()):
                    await asyncio.to_thread(self.rounds.resume)
                next_deadline = await asyncio.to_thread(self.rounds.tick, now)
            except Exception as error:
                # Without the clock no round would ever end again.
                _log.error("the clock goes on after an error: %s", " ".join(str(error).split()))
                clock.was_away()
                next_deadline = None
            left = _LONGEST_NAP_S
            if next_deadline is not None:
                left = min(left, next_deadline - self.settings.clock())
            await self.bell.pause(left)

    def _token(self, name: str, given: str) -> str:
        return self.store.secret(name, given, self.settings.random(24).hex())


class Watch:
    """Whether deadlines still mean what they meant: the wall clock, by which they are kept, may be
    set while the server runs, and time in which the store was away is nobody's fault."""

    def __init__(self, wall: float, steady: float) -> None:
        self._offset = wall - steady
        self._away = False

    def was_away(self) -> None:
        """Nothing could be kept, and so nothing be sent."""
        self._away = True

    def has_jumped(self, wall: float, steady: float) -> bool:
        """Whether deadlines must be set anew, said once."""
        jumped = abs(wall - steady - self._offset) > _JUMP_S or self._away
        if jumped:
            self._offset, self._away = wall - steady, False
        return jumped
