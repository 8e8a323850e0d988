"""Who may enter before a body is read: how often, with which token, for what."""

from __future__ import annotations

import asyncio
import re

from starlette.requests import Request

from fl_server.access.tokens import Actor, bearer
from fl_server.errors import Unauthorised
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


async def admit(service: Service, request: Request) -> None:
    """Nothing, if the request may go on; `request.state.actor` is then whose token it has shown.

    What it asks for is in the audit log before it is done.     raises FlError
    """
    address = request.client.host if request.client else ""
    service.by_address.take(address)
    # Never request.url: that is made of the caller's Host header, routes are found by this.
    path: str = request.scope["path"]
    if path.startswith("/dashboard"):
        return  # its pages look at a cookie themselves, and change nothing
    if path.startswith(_GUARDED):
        await asyncio.to_thread(_admit_actor, service, request, f"{request.method} {path}")


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


def _admit_actor(service: Service, request: Request, asked: str) -> None:
    actor = service.tokens.actor(bearer(request.headers.get(AUTHORIZATION, "")))
    actor.check(next((s for pattern, s in _SCOPES if re.fullmatch(pattern, asked)), "*"))
    request.state.actor = actor
    if request.method != "GET":
        with service.store.begin() as db:
            now = service.settings.clock()
            audit.append(service.store, db, now, actor.name, f"{request.method} {target(request)}")
