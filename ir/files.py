"""Files on disk: written whole or not at all."""

from __future__ import annotations

import secrets
from pathlib import Path


def write_whole(path: str | Path, data: bytes) -> None:
    """Write `data` beside `path`, then rename: nobody ever sees a part of it.

    Raises OSError; then nothing is left behind and an older file is as it was.
    """
    path = Path(path)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        temporary.write_bytes(data)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
