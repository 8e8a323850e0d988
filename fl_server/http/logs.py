"""Logs, as lines of text or of JSON. Nothing of a body, a token or a key is ever logged."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime

_requests = logging.getLogger("fl_server.requests")
# What a record has by itself; all else was given with `extra`.
_USUAL = set(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName", "color_message"}


def set_up(form: str, level: str) -> None:
    """Write to standard error what is at `level` or above; form: "text" or "json"."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Json() if form == "json" else _Text())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    # Where the server is, and that a worker is replaced, is said whatever the level.
    for name in ("serving", "workers"):
        logging.getLogger(f"fl_server.http.{name}").setLevel(logging.INFO)
    for chatty in ("httpx", "httpcore", "alembic", "uvicorn.error"):
        logging.getLogger(chatty).setLevel(logging.WARNING)


def log_request(method: str, route: str, code: int, seconds: float) -> None:
    """One request, by its route's pattern."""
    told = {"method": method, "route": route, "code": code, "ms": round(1000 * seconds, 1)}
    level = logging.WARNING if code >= 500 else logging.DEBUG
    _requests.log(level, "request", extra=told)


class _Json(logging.Formatter):
    """One object a line: at, level, logger, message, and what was given beside it."""

    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        entry: dict[str, object] = {
            "at": at,
            "level": record.levelname.lower(),
            "logger": record.name,
        }
        entry |= {"message": record.getMessage(), **_extra(record)}
        if record.exc_info:
            entry["exception"] = self.formatException(record.exc_info)
        return json.dumps(entry, default=str)


class _Text(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        extra = " ".join(f"{name}={value}" for name, value in _extra(record).items())
        text = " ".join(f"ms-serve: {record.getMessage()} {extra}".split())
        return f"{text}\n{self.formatException(record.exc_info)}" if record.exc_info else text


def _extra(record: logging.LogRecord) -> dict[str, object]:
    return {name: value for name, value in vars(record).items() if name not in _USUAL}
