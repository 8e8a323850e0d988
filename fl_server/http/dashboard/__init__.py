"""The dashboard: pages made on the server, which renew themselves while they are looked at.

A page is HTML without a build step; a few lines of script fetch its middle again every two seconds.
Whoever looks has logged in with a token of scope rounds:read, which a cookie holds.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

from fastapi import APIRouter, Request
from fastapi.responses import FileResponse, RedirectResponse, Response
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from fl_server.access.tokens import Actor
from fl_server.errors import FlError, Forbidden, NotFound, Unauthorised
from fl_server.http.admission import address_of
from fl_server.http.dashboard.view import overview, task_page
from fl_server.service import Service
from fl_server.storage import audit

_HERE = Path(__file__).parent
_COOKIE = "ms_dashboard"
# A part of a page is asked for with this header, the whole without.
_PART = "x-part"
_STATIC = {"style.css": "text/css", "live.js": "text/javascript"}
_HEADERS = {
    "content-security-policy": (
        "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; "
        "img-src 'self' data:; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "cache-control": "no-store",
}


def routes(service: Service) -> APIRouter:
    """The pages under /dashboard."""
    router = APIRouter(prefix="/dashboard", tags=["dashboard"])
    loader = FileSystemLoader(_HERE / "templates")
    pages = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True)

    def page(name: str, request: Request, code: int = 200, **values: Any) -> Response:
        part = _PART in request.headers
        html = pages.get_template(name).render(
            layout="part.html" if part else "page.html", **values
        )
        return Response(html, code, _HEADERS, "text/html; charset=utf-8")

    def show(name: str, request: Request, values: Any) -> Response:
        try:
            actor = _actor(service, request)
        except (Unauthorised, Forbidden) as error:
            if _PART in request.headers:
                raise
            told = "" if _COOKIE not in request.cookies else str(error)
            return page("login.html", request, 401, error=told)
        return page(name, request, actor=actor.name, **values(actor))

    @router.get("")
    def index(request: Request) -> Response:
        return show("overview.html", request, lambda actor: overview(service, actor))

    @router.get("/tasks/{name}")
    def task(request: Request, name: str) -> Response:
        try:
            return show("task.html", request, lambda actor: task_page(service, actor, name))
        except NotFound as error:
            return page("missing.html", request, 404, error=str(error))

    @router.post("/login")
    async def login(request: Request) -> Response:
        form = parse_qs((await request.body()).decode("latin-1"))
        token = form.get("token", [""])[0].strip()
        try:
            await asyncio.to_thread(_log_in, service, token, address_of(request))
        except FlError as error:
            return page("login.html", request, 401, error=str(error))
        answer = RedirectResponse("/dashboard", 303)
        answer.set_cookie(_COOKIE, token, **_flags(request))
        return answer

    @router.post("/logout")
    def logout(request: Request) -> Response:
        answer = RedirectResponse("/dashboard", 303)
        answer.delete_cookie(_COOKIE, **_flags(request))
        return answer

    @router.get("/static/{name}")
    def static(name: str) -> Response:
        if name not in _STATIC:
            raise NotFound(f"there is no {name}")
        # Asked for anew by its tag, else a newer server's page has an older one's style.
        headers = {**_HEADERS, "cache-control": "no-cache"}
        return FileResponse(_HERE / "static" / name, headers=headers, media_type=_STATIC[name])

    return router


def _log_in(service: Service, token: str, address: str) -> None:
    """raises Unauthorised, Forbidden"""
    actor = service.tokens.actor(token)
    actor.check("rounds:read")
    now, told = service.settings.clock(), {"from": address}
    with service.store.begin() as db:
        audit.append(service.store, db, now, actor.name, "logged in to the dashboard", **told)


def _flags(request: Request) -> dict[str, Any]:
    """Of the cookie: for no script, no other site, and where there is TLS for no plain request."""
    secure = request.scope["scheme"] == "https"
    return {"httponly": True, "samesite": "strict", "path": "/dashboard", "secure": secure}


def _actor(service: Service, request: Request) -> Actor:
    """Whose token the cookie holds.     raises Unauthorised, Forbidden"""
    actor = service.tokens.actor(request.cookies.get(_COOKIE, ""))
    actor.check("rounds:read")
    return actor
