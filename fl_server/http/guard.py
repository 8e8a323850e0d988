"""What stands before the routes: how large and how slow a body may be, and who may send one at all.

A request that fails here costs the server its headers only.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Awaitable, Callable

from fastapi.responses import PlainTextResponse, Response
from sqlalchemy.exc import SQLAlchemyError
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from fl_server.console import printable
from fl_server.errors import FlError, TooLarge, TooMany, TooSlow
from fl_server.messages import RETRY_MS

SMALL_BODY = 65536
# After its first seconds a body must have come at this pace on average.
_LEAST_BYTES_PER_S = 16384
_STORE_AWAY_MS = 1000

_log = logging.getLogger(__name__)


class Guard:
    """Wraps the application.

    admit: raises FlError where the sender of these headers may not use this path; what comes out is
    told the code of the answer before that goes out · limit_of: the
    most bytes of a body for a method and a path · body_s: how long any body may take
    """

    def __init__(
        self,
        app: ASGIApp,
        admit: Callable[[Request], Awaitable[Callable[[int], Awaitable[None]] | None]],
        limit_of: Callable[[str, str], int],
        body_s: float,
    ) -> None:
        self._app = app
        self._admit = admit
        self._limit_of = limit_of
        self._body_s = body_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = {name: value.decode("latin-1") for name, value in scope["headers"]}
        limit = self._limit_of(scope["method"], scope["path"])
        body = _Body(receive, send, limit, self._body_s, headers)
        try:
            body.outcome = await self._admit(Request(scope))
            body.check_length()
        except (FlError, SQLAlchemyError, OSError) as error:
            answer = refusal(error) if isinstance(error, FlError) else store_away(error)
            await answer(scope, body.receive, body.send)
            return
        await self._app(scope, body.receive, body.send)


def refusal(error: FlError) -> Response:
    """The answer to a request that is refused: one line, and what its sender may do."""
    headers = {}
    if isinstance(error, TooMany):
        headers[RETRY_MS] = str(math.ceil(1000 * error.retry_s))
    text = printable(" ".join(f"{type(error).__name__}: {error}".split()))
    return PlainTextResponse(f"{text}\n", error.status, headers)


def store_away(error: Exception) -> Response:
    """The answer where the database or the disk failed, which the log says; come again."""
    cause = getattr(error, "orig", None) or error
    # Without the statement, and without the values that PostgreSQL tells below.
    first = (str(cause).splitlines() or [""])[0]
    _log.error("the store failed: %s: %s", type(cause).__name__, first)
    return PlainTextResponse(
        "the store is not available; come again\n", 503, {RETRY_MS: str(_STORE_AWAY_MS)}
    )


class _Body:
    """One request's body while it is read."""

    def __init__(
        self, receive: Receive, send: Send, limit: int, seconds: float, headers: dict[bytes, str]
    ) -> None:
        self.outcome: Callable[[int], Awaitable[None]] | None = None
        self._receive, self._send = receive, send
        self._limit, self._seconds = limit, seconds
        self._length = headers.get(b"content-length", "0")
        self._more = self._length != "0" or b"transfer-encoding" in headers
        self._size = 0
        self._start = time.monotonic()

    def check_length(self) -> None:
        """Nothing, if the announced length is allowed.     raises TooLarge"""
        if not self._length.isdecimal() or int(self._length[:20]) > self._limit:
            raise TooLarge(f"the body is longer than {self._limit} bytes")

    async def receive(self) -> Message:
        """The next part.     raises TooLarge, TooSlow"""
        if not self._more:
            return await self._receive()
        end = self._start + self._seconds + self._size / _LEAST_BYTES_PER_S
        try:
            async with asyncio.timeout(max(end - time.monotonic(), 0)):
                message = await self._receive()
        except TimeoutError:
            raise TooSlow(f"{self._size} bytes of the body came in time, and no more") from None
        self._size += len(message.get("body", b""))
        if self._size > self._limit:
            raise TooLarge(f"the body is longer than {self._limit} bytes")
        self._more = message.get("more_body", False)
        return message

    async def send(self, message: Message) -> None:
        """Pass an answer on; where the body was not read to its end, the connection ends too."""
        if message["type"] == "http.response.start":
            if self.outcome is not None:
                await self.outcome(message["status"])
            if self._more:
                message["headers"] = [*message.get("headers", ()), (b"connection", b"close")]
        await self._send(message)
