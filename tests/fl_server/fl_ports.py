"""Ports for servers that are ended and started again where they were."""

from __future__ import annotations

import itertools
import os
import socket
from contextlib import suppress

FIRST, EACH, WORKERS = 20_000, 1_000, 12  # below those that the kernel hands out

_worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % WORKERS
_ports = itertools.cycle(range(FIRST + _worker * EACH, FIRST + (_worker + 1) * EACH))


def unused_port() -> int:
    """A port of 127.0.0.1 that nobody listens on, and that no other worker of pytest-xdist takes
    nor the kernel gives to a socket that asks for any: it stays free while its server is down."""
    for port in itertools.islice(_ports, EACH):
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
    raise OSError(f"no port is free from {FIRST + _worker * EACH} on")
