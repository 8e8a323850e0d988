"""What a task's releases have cost in privacy, in a file beside the database: one that is put back
to an earlier state does not get back what was spent."""

from __future__ import annotations

import hashlib
import math
import re
from dataclasses import dataclass
from pathlib import Path

from fl_server.errors import LedgerDamaged
from fl_server.storage.files import sync_folder, write_file

# A noise multiplier, what was released, and a hash over the line and that of the line before; lines
# of servers that kept no hashes end with the digest of what was released.
_LINE = re.compile(r"(\d\S*) (round \d+ [0-9a-f]{64})(?: ([0-9a-f]{32}))?\n")


@dataclass(frozen=True)
class Release:
    """noise_multiplier: of the noise in it · what: the round, and the digest of the weights"""

    noise_multiplier: float
    what: str


class Ledger:
    """The releases of one task, a line each, the oldest first. The file is written whole or not at
    all, so that a line which does not hold is damage, and never a release that was cut short."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def noises(self, least: int = 0) -> list[float]:
        """The noise multipliers of all releases, of which the database knows at least so many.

        raises LedgerDamaged
        """
        releases = self._read()
        if len(releases) < least:
            known = f"the database knows of {least}"
            raise LedgerDamaged(f"{self._path}: {len(releases)} releases, {known}")
        return [release.noise_multiplier for release in releases]

    def add(self, noise_multiplier: float, what: str) -> None:
        """Have a release on the disk when this returns.     raises LedgerDamaged"""
        releases = [*self._read(), Release(noise_multiplier, what)]
        lines, before = [], ""
        for release in releases:
            body = _body(release)
            before = _hash(before, body)
            lines.append(f"{body} {before}\n")
        write_file(self._path, "".join(lines).encode())
        if len(releases) == 1:
            sync_folder(self._path.parent.parent)  # its folder's name, too

    def _read(self) -> list[Release]:
        try:
            text = self._path.read_bytes().decode("ascii", "replace")
        except FileNotFoundError:
            return []
        except OSError as error:
            raise LedgerDamaged(f"{self._path}: {error.strerror}") from None
        releases, before = [], ""
        for number, line in enumerate(text.splitlines(keepends=True), 1):
            found = _parsed(line, before)
            if found is None:
                want = "a noise multiplier, a round, its digest, and the hash over what is before"
                raise LedgerDamaged(f"{self._path}: line {number} is damaged, want {want}")
            release, before = found
            releases.append(release)
        return releases


def _parsed(line: str, before: str) -> tuple[Release, str] | None:
    """The release of a line and its hash, None if it is not what was written.

    before: the hash of the line before, empty where that has none
    """
    found = _LINE.fullmatch(line)
    if found is None:
        return None
    try:
        release = Release(float(found[1]), found[2])
    except ValueError:
        return None
    kept = found[3] or ""
    wanted = _hash(before, _body(release)) if kept or before else ""
    if kept != wanted or not 0 < release.noise_multiplier < math.inf:
        return None
    return release, kept


def _body(release: Release) -> str:
    return f"{release.noise_multiplier!r} {release.what}"


def _hash(before: str, body: str) -> str:
    return hashlib.sha256(f"{before} {body}".encode()).hexdigest()[:32]
