"""What a task's releases have cost in privacy, in a file beside the database: one that is put back
to an earlier state does not get back what was spent."""

from __future__ import annotations

import hashlib
import math
import re
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import Connection, delete, select

from fl_server.errors import LedgerDamaged
from fl_server.storage.files import sync_folder, write_file
from fl_server.storage.tables import facts

# A noise multiplier, what was released, and a hash over the line and that of the line before; lines
# of servers that kept no hashes end with the digest of what was released, and get one at the start.
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

    def noises(self, least: int = 0, last: str = "") -> list[float]:
        """The noise multipliers of all releases, of which the database knows at least so many, and
        the hash of the last of them.     raises LedgerDamaged
        """
        releases, hashes = self._read()
        if len(releases) < least:
            known = f"the database knows of {least}"
            raise LedgerDamaged(f"{self._path}: {len(releases)} releases, {known}")
        if last and last not in hashes:  # one more may be here, whose transaction was lost
            raise LedgerDamaged(
                f"{self._path}: no line has the hash {last}, which the database knows"
            )
        return [release.noise_multiplier for release in releases]

    def add(self, noise_multiplier: float, what: str) -> str:
        """Have a release on the disk when this returns; its hash.     raises LedgerDamaged"""
        return self._write([*self._read()[0], Release(noise_multiplier, what)])

    def hash_of(self, what: str) -> str:
        """The hash of a release, empty where it is not there.     raises LedgerDamaged"""
        pairs = zip(*self._read(), strict=True)
        return next((kept for release, kept in pairs if release.what == what), "")

    def adopt(self) -> str:
        """Add hashes to the lines of a server that kept none; the last, empty where nothing was
        released.     raises LedgerDamaged"""
        releases, hashes = self._read(older=True)
        return hashes[-1] if all(hashes) and hashes else self._write(releases)

    def _write(self, releases: list[Release]) -> str:
        if not releases:
            return ""
        lines, before = [], ""
        for release in releases:
            body = _body(release)
            before = _hash(before, body)
            lines.append(f"{body} {before}\n")
        write_file(self._path, "".join(lines).encode())
        if len(releases) == 1:
            sync_folder(self._path.parent.parent)  # its folder's name, too
        return before

    def _read(self, older: bool = False) -> tuple[list[Release], list[str]]:
        """All releases and their hashes, which may be missing from the first lines of `older`."""
        try:
            text = self._path.read_bytes().decode("ascii", "replace")
        except FileNotFoundError:
            return [], []
        except OSError as error:
            raise LedgerDamaged(f"{self._path}: {error.strerror}") from None
        releases: list[Release] = []
        hashes: list[str] = []
        for number, line in enumerate(text.splitlines(keepends=True), 1):
            found = _parsed(line, hashes[-1] if hashes else "")
            if found is None or not (found[1] or older):
                want = "a noise multiplier, a round, its digest, and the hash over what is before"
                raise LedgerDamaged(f"{self._path}: line {number} is damaged, want {want}")
            releases.append(found[0])
            hashes.append(found[1])
        return releases, hashes


def kept_hash(db: Connection, task: str) -> str:
    """The hash of a task's last release, empty where the database knows of none."""
    return db.scalar(select(facts.c.value).where(facts.c.name == _fact(task))) or ""


def keep_hash(db: Connection, task: str, last: str) -> None:
    """Keep it in the caller's transaction."""
    db.execute(delete(facts).where(facts.c.name == _fact(task)))
    db.execute(facts.insert().values(name=_fact(task), value=last))


def _fact(task: str) -> str:
    return f"ledger {hashlib.sha256(task.encode()).hexdigest()[:32]}"


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
