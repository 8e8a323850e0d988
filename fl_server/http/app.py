"""The server as a FastAPI application: its routes, its guard, and what happens to errors."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import PlainTextResponse, Response
from sqlalchemy.exc import DataError, SQLAlchemyError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from fl_server import messages
from fl_server.access.clients import StaleCounter
from fl_server.errors import FlError
from fl_server.http import admin, api, dashboard
from fl_server.http.admission import admit
from fl_server.http.guard import Guard, refusal, store_away
from fl_server.http.metrics import Metrics, Timed
from fl_server.service import Service
from fl_server.settings import Settings
from fl_server.task_settings import problem


def create_app(settings: Settings) -> FastAPI:
    """A FastAPI app; `app.state.service` is what it is made of."""
    service = Service(settings)

    @contextlib.asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        service.bell.attach()
        service.store.listen(service.bell.ring)
        clock = asyncio.create_task(service.keep_time())
        try:
            yield
        finally:
            clock.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await clock
            service.attestor.close()
            service.differences.close()
            service.store.close()

    app = FastAPI(title="MindSpan federated server", lifespan=lifespan, openapi_url=None)
    app.state.service = service
    app.include_router(api.device_routes(service))
    app.include_router(admin.admin_routes(service))
    app.add_middleware(
        Guard,
        admit=lambda request: admit(service, request),
        limit_of=lambda method, path: api.body_limit(settings, method, path),
        body_s=settings.body_s,
    )
    metrics = Metrics(service)
    app.include_router(api.metric_routes(metrics))
    app.include_router(dashboard.routes(service))
    app.add_middleware(Timed, metrics=metrics)
    app.add_exception_handler(FlError, _refuse)
    app.add_exception_handler(ClientDisconnect, _nobody_there)
    app.add_exception_handler(RequestValidationError, _refuse_request)
    app.add_exception_handler(HTTPException, _refuse_http)
    app.add_exception_handler(DataError, _refuse_value)
    app.add_exception_handler(OverflowError, _refuse_value)  # what SQLite's driver raises for it
    app.add_exception_handler(SQLAlchemyError, _come_again)
    app.add_exception_handler(OSError, _come_again)
    return app


def _refuse(_: Request, error: Exception) -> Response:
    assert isinstance(error, FlError)
    answer = refusal(error)
    if isinstance(error, StaleCounter):
        answer.headers[messages.LAST_COUNTER] = str(error.last)
    return answer


def _refuse_request(_: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    if first["type"] == "json_invalid":
        return _line("Malformed: the body is no JSON", 422)
    if first["loc"][0] == "body" and len(first["loc"]) == 2:
        return _line(f"Malformed: {problem(first)}", 422)
    where = ".".join(str(part) for part in first["loc"])
    return _line(f"Malformed: {where}: {first['msg']}", 422)


def _refuse_http(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return _line(f"{error.detail}", error.status_code)


def _nobody_there(_: Request, __: Exception) -> Response:
    return Response(status_code=400)


def _refuse_value(_: Request, __: Exception) -> Response:
    return _line("Malformed: a value is larger, or of another kind, than the database holds", 400)


def _come_again(_: Request, error: Exception) -> Response:
    return store_away(error)


def _line(text: str, status: int) -> Response:
    return PlainTextResponse(" ".join(text.split()) + "\n", status)
