"""A server over real HTTP: in this thread for an operator, in another for simulations and tests."""

from __future__ import annotations

import gc
import logging
import os
import resource
import socket
import sys
import tempfile
import threading
from functools import partial
from types import TracebackType
from typing import Self

import uvicorn

from fl_server.console import exit_code
from fl_server.errors import SettingsError
from fl_server.http import logs
from fl_server.http.app import create_app
from fl_server.http.connection import MOST_HEADER_BYTES, connection_of
from fl_server.http.metrics import SHARED_DIR
from fl_server.http.workers import CANNOT_START, keep_working
from fl_server.operator import Operator
from fl_server.service import Service
from fl_server.settings import Settings

_log = logging.getLogger(__name__)


class Serving:
    """`with Serving(settings) as server:` serves at `server.url` until the block ends."""

    def __init__(self, settings: Settings, host: str = "127.0.0.1", port: int = 0) -> None:
        app = create_app(settings)
        self.service: Service = app.state.service
        self._socket = listen(host, port)
        self.url = f"http://{host}:{self._socket.getsockname()[1]}"
        self._server = server_of(app, settings)
        self._thread = threading.Thread(target=self._run, name="ms-serve", daemon=True)

    @property
    def authority(self) -> bytes:
        """The key that devices pin."""
        return self.service.clients.authority_public()

    @property
    def enrol_token(self) -> str:
        return self.service.enrol_token

    def operator(self) -> Operator:
        """A connection with the admin token."""
        return Operator(self.url, self.service.admin_token)

    def __enter__(self) -> Self:
        self.service.start()
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._server.should_exit = True
        self._thread.join()
        self._socket.close()

    def _run(self) -> None:
        self._server.run(sockets=[self._socket])


def serve_forever(settings: Settings, host: str, port: int, options: dict[str, object]) -> None:
    """Serve until a signal ends it; says on standard error where.

    raises SettingsError, OSError
    """
    logs.set_up(*settings.log)
    app = create_app(settings)
    service: Service = app.state.service
    if settings.workers > 1 and not service.store.is_shared:
        raise SettingsError(
            f"{settings.workers} workers need --database postgresql://…; SQLite is for one"
        )
    service.start()
    listener = listen(host, port)
    scheme, port = "https" if options else "http", listener.getsockname()[1]
    where = f"{scheme}://{host}:{port}, state in {settings.folder}"
    _log.info("%s, authority %s", where, service.clients.authority_public().hex())
    beside = service.authority_file.parent.resolve() == settings.folder.resolve()
    if not settings.authority_public and beside:
        _log.warning(
            "warning: the enrolment key %s lies with the state; "
            "whoever has both can invent clients. Keep it apart: --ca-key FILE",
            service.authority_file,
        )
    with listener:
        if settings.workers == 1:
            _settle()
            server_of(app, settings, **options).run(sockets=[listener])
            return
        service.store.close()
        with tempfile.TemporaryDirectory(prefix="ms-serve-") as shared:
            os.environ[SHARED_DIR] = shared
            work = partial(_work, settings, options, listener)
            if not keep_working(settings.workers, work):
                raise SettingsError("a worker cannot start")


def _work(settings: Settings, options: dict[str, object], listener: socket.socket) -> None:
    """One of several workers, in a process of its own."""
    logs.set_up(*settings.log)

    def work() -> int:
        server = server_of(create_app(settings), settings, **options)
        _settle()
        server.run(sockets=[listener])
        return 0

    if exit_code("ms-serve", work):
        sys.exit(CANNOT_START)


def _settle() -> None:
    """What is there by now stays as long as the process, which is its own: it need not be looked
    through for garbage again and again."""
    gc.collect()
    gc.freeze()


def listen(host: str, port: int) -> socket.socket:
    """A socket that takes connections from now on; those before the loop runs wait in its queue."""
    return socket.create_server((host, port), backlog=2048)


def server_of(app: object, settings: Settings, **options: object) -> uvicorn.Server:
    """A uvicorn server that ends quickly when told to, even while requests are held open, and
    that waits for no caller without end."""
    open_files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    config = uvicorn.Config(
        app,  # type: ignore[arg-type]
        # Files, the database and the model's downloads need descriptors too.
        limit_concurrency=max(64, min(settings.max_connections, open_files - 256)),
        http=connection_of(settings.header_s, settings.read_s),
        h11_max_incomplete_event_size=MOST_HEADER_BYTES,
        ws="none",
        log_config=None,  # else it closes every handler of the program that it is part of
        log_level="warning",
        access_log=False,
        timeout_graceful_shutdown=1,
        **options,  # type: ignore[arg-type]
    )
    return uvicorn.Server(config)
