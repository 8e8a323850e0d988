"""Arrays from `.npy` and `.npz` files that may lie about their sizes, and files written whole."""

from __future__ import annotations

import contextlib
import math
import os
import secrets
import stat
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import numpy as np

from lite_runtime._core import LiteError

MOST_ARRAY_BYTES = 1 << 32  # of all arrays of a file together, unless a caller says otherwise
_MAGIC = b"\x93NUMPY"
_HEADERS = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}


def read_array(path: str | Path, most_bytes: int = MOST_ARRAY_BYTES) -> np.ndarray:
    """The array of an `.npy` file. Nothing is unpickled, and memory is taken only for elements that
    are there. Raises LiteError, OSError."""
    with _open(path) as file:
        try:
            return _array(file, os.fstat(file.fileno()).st_size, most_bytes)
        except Exception as error:  # whatever numpy's parsers raise on bytes that are none
            raise LiteError(f"{path}: not a .npy file ({_reason(error)})") from None


def read_arrays(path: str | Path, most_bytes: int = MOST_ARRAY_BYTES) -> dict[str, np.ndarray]:
    """The arrays of an `.npz` file by name. The sizes that the archive and its arrays declare are
    compared with each other and with `most_bytes` before memory is taken, so that neither a lie nor
    a small archive of much fills it. Nothing is unpickled. Raises LiteError, OSError."""
    with _open(path) as file:
        if file.read(len(_MAGIC)) == _MAGIC:
            raise LiteError(f"{path}: one array without a name, want an .npz file of arrays")
        try:
            with zipfile.ZipFile(file) as archive:
                return _members(archive, most_bytes)
        except Exception as error:  # the archive's readers have kinds of their own
            raise LiteError(f"{path}: not an .npz file of arrays ({_reason(error)})") from None


def read_file(path: str | Path, most_bytes: int | None = None) -> bytes:
    """The bytes of a file, which are at most so many: a key or a list of settings is short.
    Raises LiteError, OSError."""
    with _open(path) as file:
        size = os.fstat(file.fileno()).st_size
        if most_bytes is not None and size > most_bytes:
            raise LiteError(f"{path}: {size} bytes, which is more than its kind has ({most_bytes})")
        return file.read()


def write_whole(path: Path, save: Callable[[IO[bytes]], Any]) -> None:
    """Let `save` write beside the path, then rename: no part of a file is ever seen or left, and
    file and name are on the disk when this returns. Raises LiteError."""
    if path.exists() and not path.is_file() and not path.is_dir():
        raise LiteError(f"{path}: a device or a pipe, want a file")  # which a rename would replace
    part = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        with part.open("xb") as file:
            save(file)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except OSError as error:
        raise LiteError(f"{path}: {error.strerror or error}") from None
    finally:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)
    with contextlib.suppress(OSError):  # of a file system whose folders cannot be synchronised
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _open(path: str | Path) -> IO[bytes]:
    """The file, if it is one: a device has no end, and a pipe may have no beginning."""
    try:
        kind = Path(path).stat().st_mode
    except ValueError as error:  # a name that no file can have
        raise LiteError(f"{path}: {error}") from None
    if not stat.S_ISREG(kind) and not stat.S_ISDIR(kind):
        raise LiteError(f"{path}: a device or a pipe, want a file")
    return Path(path).open("rb")


def _members(archive: zipfile.ZipFile, most_bytes: int) -> dict[str, np.ndarray]:
    arrays: dict[str, np.ndarray] = {}
    left = most_bytes
    for member in archive.infolist():
        if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise ValueError(f"{member.filename} is compressed in a way that numpy does not use")
        with archive.open(member) as file:
            array = _array(file, member.file_size, left)
        arrays[member.filename.removesuffix(".npy")] = array
        left -= array.nbytes
    return arrays


def _array(file: IO[bytes], size_bytes: int, most_bytes: int) -> np.ndarray:
    """The array of an .npy file of `size_bytes`, which its header has to explain."""
    start = file.tell()
    version = np.lib.format.read_magic(file)
    if version not in _HEADERS:
        raise ValueError(f"format {version[0]}.{version[1]}, want 1.0 or 2.0")
    shape, _, dtype = _HEADERS[version](file)
    if dtype.hasobject:
        raise ValueError("it holds Python objects, want plain numbers")
    there = size_bytes - (file.tell() - start)
    wanted = math.prod(shape) * dtype.itemsize
    if min(shape, default=0) < 0 or wanted > there:
        raise ValueError(f"{dtype}{list(shape)} is {wanted} bytes, {there} are there")
    if wanted > most_bytes:
        raise ValueError(f"{dtype}{list(shape)} is {wanted} bytes, {most_bytes} at most are read")
    file.seek(start)
    return np.lib.format.read_array(file, allow_pickle=False)


def _reason(error: BaseException) -> str:
    return " ".join(str(error).split())[:300] or type(error).__name__
