"""`ms-serve` as a process of its own, for as long as a block lasts."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

END_S = 10


class ServerFailed(Exception):
    """ms-serve did not start; the message is one line."""


@dataclass(frozen=True)
class Server:
    """Where a running server is, the key that devices pin, and the folder with its tokens."""

    url: str
    authority: bytes
    folder: Path

    def token(self, name: str) -> str:
        return (self.folder / f"{name}.token").read_text().strip()


@contextmanager
def serving(folder: Path) -> Iterator[Server]:
    """A server on a free port of this machine. What it says is in `folder`/ms-serve.log."""
    folder.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "fl_server", "serve", "--folder", str(folder), "--port", "0"]
    # A group of its own: Ctrl-C reaches the demo alone, which ends its devices, then the server.
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, process_group=0)
    assert process.stderr is not None
    with process.stderr as said, (folder / "ms-serve.log").open("w") as log:
        keep = threading.Thread(target=_copy, args=(said, log), daemon=True)
        try:
            line = said.readline()
            log.write(line)
            found = re.search(r"(http://\S+:\d+), .* authority ([0-9a-f]{64})", line)
            if not found:
                raise ServerFailed(f"ms-serve did not start: {line.strip() or 'no output'}")
            keep.start()
            yield Server(found[1], bytes.fromhex(found[2]), folder)
        finally:
            _end(process)
            if keep.ident is not None:
                keep.join()


def _copy(said: IO[str], log: IO[str]) -> None:
    """Read on, so that the server never waits for its words to be read."""
    for line in said:
        log.write(line)
        log.flush()


def _end(process: subprocess.Popen[str]) -> None:
    process.terminate()
    try:
        process.wait(END_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
