"""Signed requests to the server, repeated with the same body until one of them is answered."""

from __future__ import annotations

import math
import random
import ssl
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import httpx

from fl_server import messages as wire
from fl_server.address import tls_context, url_of
from fl_server.console import printable
from fl_server.errors import Malformed, ServerRefused, ServerUnreachable
from fl_server.secagg import labels
from fl_server.secagg.keys import Identity

# A server holds a request for well below this.
_TIMEOUT_S = 90.0
_FIRST_DELAY_S, _LONGEST_DELAY_S = 0.05, 5.0
# Whatever the server says, a question is asked again no sooner and no later than this.
_LEAST_WAIT_S, _LONGEST_WAIT_S = 0.1, 3600.0
# A larger vector goes up in parts of this size: what a lost connection costs at the most.
_PART_BYTES = 1 << 20
# No model is larger, and no stage lasts longer, than a server may set.
_MOST_BYTES, _LONGEST_STAGE_S = 1 << 28, 86400


@dataclass
class Traffic:
    """Bytes of bodies; headers and what TLS adds are not counted."""

    up: int = 0
    down: int = 0


class Http:
    """One device's connection.

    patience_s: how long a lost connection is tried again · stop: set to give up early ·
    tls: how the server is known, and the device to it
    """

    def __init__(
        self,
        server: str,
        identity: Identity,
        patience_s: float = 120.0,
        stop: threading.Event | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.client_id = 0
        self.traffic = Traffic()
        self._identity = identity
        self._patience_s = patience_s
        self._stop = stop or threading.Event()
        self._counter = 0
        self._asked = -math.inf
        verify = tls or tls_context(None)
        self._client = httpx.Client(base_url=url_of(server), timeout=_TIMEOUT_S, verify=verify)

    def close(self) -> None:
        self._client.close()

    def call(
        self,
        method: str,
        path: str,
        body: bytes = b"",
        signed: bool = True,
        told: Mapping[str, str] | None = None,
    ) -> bytes | None:
        """The answer's body, None for 204.     raises ServerRefused, ServerUnreachable

        told: headers besides, which no signature covers
        Repeating is safe: a stage's message has one encoding and the server takes it once.
        """
        response = self._until_answered(lambda: self._send(method, path, body, signed, told=told))
        if response.status_code == 204:
            return None
        return response.content

    def enrol(self, message: bytes) -> bytes:
        """The answer to an enrolment, which may wait for an authority apart from the server."""
        while True:
            response = self._until_answered(lambda: self._send("POST", "/enrol", message, False))
            if response.status_code != 204:
                return response.content
            self.pause(_number(response, wire.RETRY_MS, "1000", 3_600_000) / 1000)

    def upload(self, path: str, body: bytes, digest: bytes) -> None:
        """PUT a body, whose SHA-256 is given, a large one in parts; where a connection was lost, it
        goes on from what the server has.     raises ServerRefused, ServerUnreachable"""
        if len(body) <= _PART_BYTES:
            self.call("PUT", path, body)
            return
        first = 0
        give_up = time.monotonic() + _LONGEST_STAGE_S
        while first < len(body):
            if time.monotonic() > give_up:
                raise ServerUnreachable(f"{path}: not taken within {_LONGEST_STAGE_S} s")
            data = body[first : first + _PART_BYTES]
            part = wire.Part(first, first + len(data) - 1, len(body), digest)
            first = self._put_part(path, data, part)

    def _put_part(self, path: str, data: bytes, part: wire.Part) -> int:
        """How much of the body the server has then."""
        try:
            self._until_answered(lambda: self._send("PUT", path, data, True, part))
        except ServerRefused as refused:
            if refused.kind != "WrongOffset":
                raise
            # It has taken the part, and the answer was lost; or it has lost what it had not kept.
            answer = self._until_answered(lambda: self._send("HEAD", path, b"", True))
            there = _number(answer, wire.UPLOAD_OFFSET, str(part.total), part.total)
            if there == part.first:
                raise
            return there
        return part.last + 1

    def poll(self, path: str) -> bytes:
        """The answer to a GET once there is one; the server says when to ask again."""
        give_up = time.monotonic() + _LONGEST_STAGE_S
        while time.monotonic() < give_up:
            response = self._until_answered(lambda: self._send("GET", path, b"", True))
            if response.status_code != 204:
                return response.content
            self.pause(_number(response, wire.RETRY_MS, "1000", 3_600_000) / 1000)
        raise ServerUnreachable(f"{path}: no answer within {_LONGEST_STAGE_S} s")

    def pause(self, seconds: float) -> None:
        """Wait as the server asked.     raises ServerUnreachable if the device is to stop"""
        self._sleep(self.wait_s(seconds))

    def wait_s(self, seconds: float) -> float:
        """How long to wait before the last question is asked again: what the server asked for, but
        long enough that one which answers at once is not asked without a pause."""
        least = _LEAST_WAIT_S - (time.monotonic() - self._asked)
        return max(min(seconds, _LONGEST_WAIT_S), least)

    def _sleep(self, seconds: float) -> None:
        if self._stop.wait(seconds):
            raise ServerUnreachable("the device was stopped")

    def _until_answered(self, send: Callable[[], httpx.Response]) -> httpx.Response:
        give_up = time.monotonic() + self._patience_s
        delay = _FIRST_DELAY_S
        self._asked = time.monotonic()
        while True:
            try:
                response = send()
                if response.status_code < 500 and response.status_code != 429:
                    return self._checked(response)
                why = f"{response.status_code} {response.text.strip()}"
                delay = max(delay, _number(response, wire.RETRY_MS, "0", 3_600_000) / 1000)
            except httpx.TransportError as error:
                why = str(error) or type(error).__name__
            # Not all devices of a server that comes back should call at once.
            wait = delay * random.uniform(0.5, 1.0)
            if time.monotonic() + wait > give_up:
                raise ServerUnreachable(f"no answer within {self._patience_s:g} s: {why}")
            self._sleep(wait)
            delay = min(2 * delay, _LONGEST_DELAY_S)

    def _send(
        self,
        method: str,
        path: str,
        body: bytes,
        signed: bool,
        part: wire.Part | None = None,
        told: Mapping[str, str] | None = None,
    ) -> httpx.Response:
        response = self._send_once(method, path, body, signed, part, told or {})
        last = response.headers.get(wire.LAST_COUNTER)
        if response.status_code == 401 and last is not None:
            # The clock went back, or a repeated request overtook this one.
            self._counter = _number(response, wire.LAST_COUNTER, "", 2**63 - 2)
            response = self._send_once(method, path, body, signed, part, told or {})
        self.traffic.up += len(body)
        self.traffic.down += len(response.content)
        return response

    def _send_once(
        self,
        method: str,
        path: str,
        body: bytes,
        signed: bool,
        part: wire.Part | None,
        told: Mapping[str, str],
    ) -> httpx.Response:
        headers = {"content-type": wire.MEDIA_TYPE, "accept-encoding": "identity", **told}
        headers |= part.headers if part else {}
        if signed:
            # Time makes the counter grow over restarts too, without a file.
            self._counter = max(self._counter + 1, time.time_ns())
            message = wire.request_signed(method, path, self._counter, body, part)
            signature = self._identity.sign(labels.REQUEST, message).hex()
            headers[wire.AUTHORIZATION] = (
                f"{wire.SCHEME} {self.client_id} {self._counter} {signature}"
            )
        with self._client.stream(method, path, content=body, headers=headers) as answer:
            return _whole(answer)

    def _checked(self, response: httpx.Response) -> httpx.Response:
        if response.is_error:
            text = response.text.strip()[:300] or response.reason_phrase  # none with HEAD
            raise ServerRefused(response.status_code, printable(text))
        return response


def _whole(answer: httpx.Response) -> httpx.Response:
    """The answer with its body, as sent and of bounded size.     raises Malformed"""
    if answer.headers.get("content-encoding", "identity") != "identity":
        raise Malformed("the answer is compressed, which nobody asked for")
    parts, size = [], 0
    for part in answer.iter_raw():
        parts.append(part)
        size += len(part)
        if size > _MOST_BYTES:
            raise Malformed(f"the answer has more than {_MOST_BYTES} bytes")
    return httpx.Response(answer.status_code, headers=answer.headers, content=b"".join(parts))


def _number(response: httpx.Response, name: str, missing: str, most: int) -> int:
    """A header that is a whole number from 0 to `most`.     raises Malformed"""
    text = response.headers.get(name, missing)
    if not (text.isascii() and text.isdecimal() and len(text) < 20 and int(text) <= most):
        raise Malformed(f"{name} is not a whole number from 0 to {most}")
    return int(text)
