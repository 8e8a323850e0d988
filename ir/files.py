"""Files on disk: written whole or not at all."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
from pathlib import Path


def write_whole(path: str | Path, data: bytes) -> None:
    """Write `data` beside `path`, then rename: nobody ever sees a part of it.

    File and name are on the disk when this returns, so that a power cut leaves the old file or the
    new one. Raises OSError; then nothing is left behind and an older file is as it was.
    """
    path = Path(path)
    check_target(path)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        with temporary.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    sync_folder(path.parent)


def check_target(path: Path) -> None:
    """Raises OSError where a rename would take the place of a device, a pipe or a socket."""
    if path.exists() and not path.is_file() and not path.is_dir():
        raise FileExistsError(errno.EEXIST, "a device or a pipe, want a file", str(path))


def sync_folder(folder: Path) -> None:
    """Bring a folder's names to the disk, where its file system can."""
    with contextlib.suppress(OSError):  # the files themselves are whole and in their places
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
