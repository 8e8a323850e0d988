"""Who may enter before a body is read: how often, with which token, for what."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable
from typing import Any

from sqlalchemy.exc import SQLAlchemyError
from starlette.requests import Request

from fl_server.access.tokens import Actor, bearer
from fl_server.errors import Forbidden, Unauthorised
from fl_server.messages import AUTHORIZATION
from fl_server.service import Service
from fl_server.storage import audit

# The scope of a request, by method and path; the first that fits.
_SCOPES = [
    (r"GET /admin/tasks/[^/]+/weights", "models:read"),
    (r"GET /admin/(tasks|clients).*", "rounds:read"),
    (r"POST /admin/tasks.*", "tasks:write"),
    (r"POST /admin/blobs", "models:write"),
    (r"POST /admin/clients/.*", "clients:write"),
    (r"\w+ /admin/tokens.*", "tokens"),
    (r"GET /admin/audit", "audit:read"),
    (r"\w+ /admin/ca.*", "ca"),
    (r"GET /metrics", "metrics"),
]
_GUARDED = ("/admin/", "/metrics")
# Reading changes nothing, but weights that have left are out.
_LOGGED_READS = ("models:read",)
# Told the code of an answer before it goes out.
Outcome = Callable[[int], Awaitable[None]]

_log = logging.getLogger(__name__)


async def admit(service: Service, request: Request) -> Outcome | None:
    """Nothing, if the request may go on; `request.state.actor` is then whose token it has shown.

    What it asks for is in the audit log before it is done; the code of its answer is to be told to
    what comes out. What a token is not good for is logged, too.     raises FlError
    """
    address = address_of(request)
    service.by_address.take(address)
    # Never request.url: that is made of the caller's Host header, routes are found by this.
    path: str = request.scope["path"]
    if path.startswith(_GUARDED):
        return await asyncio.to_thread(_admit_actor, service, request, f"{request.method} {path}")
    return None  # of a device, which signs; or a page, which looks at a cookie and changes nothing


def must_be_admitted(request: Request) -> None:
    """Nothing, if `admit` has seen whose token this is: a route behind this is closed otherwise.

    raises Unauthorised
    """
    if not isinstance(getattr(request.state, "actor", None), Actor):
        raise Unauthorised("a token of this server is needed")


def target(request: Request) -> str:
    """The path and the query of a request, as routes are found by them."""
    path, query = request.scope["path"], request.scope["query_string"].decode("latin-1")
    return f"{path}?{query}" if query else path


def address_of(request: Request) -> str:
    """Where a request comes from, empty where that is not known."""
    return request.client.host if request.client else ""


def tell(request: Request, **facts: Any) -> None:
    """Have the audit log say this of a request where it says what came of it."""
    request.state.told = {**getattr(request.state, "told", {}), **facts}


def _admit_actor(service: Service, request: Request, asked: str) -> Outcome | None:
    actor = service.tokens.actor(bearer(request.headers.get(AUTHORIZATION, "")))
    scope = next((s for pattern, s in _SCOPES if re.fullmatch(pattern, asked)), "*")

    def log(what: str, **more: Any) -> int:
        now = service.settings.clock()
        told = {"from": address_of(request), **more}
        with service.store.begin() as db:
            return audit.append(service.store, db, now, actor.name, what, **told)

    try:
        actor.check(scope)
    except Forbidden as error:
        log(f"{request.method} {target(request)}", code=error.status, why=str(error))
        raise
    request.state.actor = actor
    if request.method == "GET" and scope not in _LOGGED_READS:
        return None
    line = log(f"{request.method} {target(request)}")

    async def outcome(code: int) -> None:
        told = getattr(request.state, "told", {})
        try:
            await asyncio.to_thread(log, "was answered", line=line, code=code, **told)
        except (SQLAlchemyError, OSError) as error:  # what was done is done, and is to be told
            _log.error("the audit log has no outcome of line %d: %s", line, type(error).__name__)

    return outcome
