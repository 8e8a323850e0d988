"""Bytes by name, in a folder or in any store that fsspec knows (s3://, gs://, memory://)."""

from __future__ import annotations

import os
import secrets
import shutil
from pathlib import Path
from typing import Any, Protocol

from fl_server.errors import MissingExtra, SettingsError


class Files(Protocol):
    """Names are paths with `/`. What is written is there, whole, when `write` returns.

    Every method raises OSError where the store is away, `read` and `size` FileNotFoundError.
    """

    def write(self, name: str, data: bytes) -> None: ...

    def read(self, name: str, first: int = 0, end: int | None = None) -> bytes: ...

    def size(self, name: str) -> int: ...

    def exists(self, name: str) -> bool: ...

    def remove(self, name: str) -> None:
        """Drop a file, or a folder with all that is in it; nothing if there is none."""
        ...


def open_files(place: str, folder: Path) -> Files:
    """The files of an fsspec URL, or those of `folder` if none is given.

    raises SettingsError, MissingExtra
    """
    if "://" in place:
        return Remote(place)
    if place:
        folder = Path(place)
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise SettingsError(f"--files {place}: {error.strerror}") from None
    return Folder(folder)


class Folder:
    """Files of a folder on this machine; all workers there may share it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def write(self, name: str, data: bytes) -> None:
        write_file(self._folder / name, data)

    def read(self, name: str, first: int = 0, end: int | None = None) -> bytes:
        with self.path(name).open("rb") as file:
            file.seek(first)
            return file.read() if end is None else file.read(end - first)

    def size(self, name: str) -> int:
        return self.path(name).stat().st_size

    def exists(self, name: str) -> bool:
        return self.path(name).is_file()

    def remove(self, name: str) -> None:
        path = self.path(name)
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)

    def path(self, name: str) -> Path:
        return self._folder / name


class Remote:
    """Files of an fsspec file system; an object appears whole or not at all."""

    def __init__(self, url: str) -> None:
        try:
            import fsspec
        except ImportError as error:
            raise MissingExtra(f"pip install 'mindspan[store]': {error}") from None
        try:
            system, root = fsspec.core.url_to_fs(url)
        except (ImportError, ValueError, OSError) as error:
            kind = url.partition("://")[0]
            raise SettingsError(f"files at {kind}://…: {error}") from None
        self._system: Any = system
        self._root = root.rstrip("/")

    def write(self, name: str, data: bytes) -> None:
        # Object stores write an object whole; what only looks like a folder is made if need be.
        self._system.makedirs(self._at(name).rpartition("/")[0], exist_ok=True)
        self._system.pipe_file(self._at(name), data)

    def read(self, name: str, first: int = 0, end: int | None = None) -> bytes:
        return bytes(self._system.cat_file(self._at(name), start=first, end=end))

    def size(self, name: str) -> int:
        return int(self._system.size(self._at(name)))

    def exists(self, name: str) -> bool:
        self._system.invalidate_cache()  # others write, too
        return bool(self._system.isfile(self._at(name)))

    def remove(self, name: str) -> None:
        self._system.invalidate_cache()
        if self._system.exists(self._at(name)):
            self._system.rm(self._at(name), recursive=True)

    def _at(self, name: str) -> str:
        return f"{self._root}/{name}"


def write_file(path: Path, data: bytes, mode: int = 0o600) -> None:
    """Write all or nothing, and have it on the disk when this returns."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    handle = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)  # the name, too


def sync_folder(folder: Path) -> None:
    """Have the names in a folder on the disk when this returns."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
