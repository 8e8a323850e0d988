"""Who may enter before a body is read: how often, with which token, for what."""

from __future__ import annotations

import asyncio
import re

from starlette.requests import Request

from fl_server.access.tokens import bearer
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
    path = request.url.path
    if path.startswith("/dashboard"):
        return  # its pages look at a cookie themselves, and change nothing
    if path.startswith(_GUARDED):
        await asyncio.to_thread(_admit_actor, service, request, f"{request.method} {path}")


def _admit_actor(service: Service, request: Request, asked: str) -> None:
    actor = service.tokens.actor(bearer(request.headers.get(AUTHORIZATION, "")))
    actor.check(next((s for pattern, s in _SCOPES if re.fullmatch(pattern, asked)), "*"))
    request.state.actor = actor
    if request.method != "GET":
        query = f"?{request.url.query}" if request.url.query else ""
        with service.store.begin() as db:
            now = service.settings.clock()
            audit.append(service.store, db, now, actor.name, asked + query)
