"""What an authority has signed: a file with a line of JSON for each client's newest certificate."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import Any

from fl_server.errors import SettingsError
from fl_server.storage.files import write_file

# Lines that newer ones have replaced are dropped when they are so many, and half of all.
_MOST_STALE = 1000


class Issued:
    """One number is one device's for ever.     raises SettingsError where a line is damaged"""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._owners: dict[int, str] = {}
        self._newest: dict[int, bytes] = {}
        data = path.read_bytes() if path.exists() else b""
        whole = data[: data.rfind(b"\n") + 1]
        if whole != data:
            # A line that was cut off is of a certificate that nobody has been given.
            os.truncate(path, len(whole))
        lines = whole.splitlines()
        for count, line in enumerate(lines, 1):
            self._take(line, f"{path}, line {count}")
        self._stale = len(lines) - len(self._newest)
        self._compact()

    def __len__(self) -> int:
        return len(self._newest)

    def owner(self, client: int) -> str | None:
        """The key of the device that has this number, in hexadecimal."""
        return self._owners.get(client)

    def until(self, client: int) -> float:
        """When a device's newest certificate runs out; never where that is not known."""
        entry = json.loads(self._newest.get(client, b"{}"))
        try:
            return float(entry["at"]) + float(entry["days"]) * 86400
        except (KeyError, ValueError, TypeError):
            return math.inf

    def add(self, entry: dict[str, Any]) -> None:
        """Note a certificate; the line is on the disk when this returns."""
        line = json.dumps(entry).encode()
        with self._path.open("ab") as file:
            file.write(line + b"\n")
            file.flush()
            os.fsync(file.fileno())
        self._stale += entry["client"] in self._newest
        self._take(line, str(self._path))
        self._compact()

    def _take(self, line: bytes, where: str) -> None:
        try:
            entry = json.loads(line)
            client, owner = int(entry["client"]), str(entry["public_key"])
        except (ValueError, KeyError, TypeError, RecursionError):
            raise SettingsError(f"{where}: not a certificate that was issued") from None
        self._owners[client], self._newest[client] = owner, line

    def _compact(self) -> None:
        if self._stale > max(_MOST_STALE, len(self._newest)):
            write_file(self._path, b"".join(line + b"\n" for line in self._newest.values()))
            self._stale = 0
