"""HTTP connections that nobody is waited on for long: not for a request, and not to read an answer.

uvicorn has a limit for the time between two requests alone; that of bodies is in `guard.py`.
"""

from __future__ import annotations

import asyncio

from uvicorn.protocols.http.h11_impl import H11Protocol

MOST_HEADER_BYTES = 16384


class Connection(H11Protocol):
    """uvicorn's connection, which is cut where the headers of a request have not come `header_s`
    after it was opened, or after their first byte, or where what was sent has not been read for
    `read_s`."""

    header_s, read_s = 10.0, 20.0
    _heard: asyncio.TimerHandle | None = None
    _unread: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        # Whatever the other side has not taken counts, the last bytes of an answer too.
        # A TLS transport of asyncio pauses at the limit, not above it: with 0 it never resumes.
        transport.set_write_buffer_limits(high=1 if transport.get_extra_info("sslcontext") else 0)
        self._await_request()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._is_served():
            self._request_is_there()
        else:
            self._await_request()

    def connection_lost(self, exc: Exception | None) -> None:
        self._request_is_there()
        self.resume_writing()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._unread is None:
            self._unread = self.loop.call_later(self.read_s, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None

    def _is_served(self) -> bool:
        """Whether a whole head of a request is there that has not been answered."""
        return self.cycle is not None and not self.cycle.response_complete

    def _await_request(self) -> None:
        if self._heard is None:
            self._heard = self.loop.call_later(self.header_s, self.transport.abort)

    def _request_is_there(self) -> None:
        if self._heard is not None:
            self._heard.cancel()
            self._heard = None


def connection_of(header_s: float, read_s: float) -> type[Connection]:
    """A class of connections with these limits, as uvicorn wants it."""
    return type("Connection", (Connection,), {"header_s": header_s, "read_s": read_s})
