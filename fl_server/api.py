"""The routes. They read, check who calls, hand over, and answer; they decide nothing."""

from __future__ import annotations

import asyncio
import re
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request
from fastapi.responses import FileResponse, PlainTextResponse, Response
from prometheus_client import CONTENT_TYPE_LATEST
from pydantic import BaseModel, ConfigDict

from fl_server import audit, record, transcript
from fl_server import messages as wire
from fl_server.clients import Caller, claimed_client
from fl_server.conditions import Conditions
from fl_server.errors import Forbidden, Malformed, NotFound
from fl_server.guard import SMALL_BODY
from fl_server.live import FAILED, FINISHED
from fl_server.metrics import Metrics
from fl_server.service import Service
from fl_server.settings import Settings, TaskSettings
from fl_server.tasks import Task
from fl_server.tokens import Actor, bearer
from fl_server.weights import weights_vector

# What fits every database's integer.
_Count = Annotated[int, Path(ge=0, lt=2**31)]
_Version = Annotated[int, Query(ge=-1, lt=2**31)]
_First = Annotated[int, Query(ge=0, lt=2**31)]
_AUDIT_LINES = 1000


def device_routes(service: Service) -> APIRouter:
    """What devices call. Each request but an enrolment is signed (messages.request_signed)."""
    router = APIRouter(tags=["device"])
    _add_check_in(router, service)
    _add_session(router, service)
    _add_downloads(router, service)
    return router


def admin_routes(service: Service) -> APIRouter:
    """What an operator calls; whoever gets here has shown a token that is good for it."""
    router = APIRouter(prefix="/admin", tags=["admin"])
    _add_tasks(router, service)
    _add_weights(router, service)
    _add_clients(router, service)
    _add_tokens(router, service)
    _add_authority(router, service)
    return router


def metric_routes(metrics: Metrics) -> APIRouter:
    """What a Prometheus asks for."""
    router = APIRouter(tags=["metrics"])

    @router.get("/metrics")
    def text() -> Response:
        return Response(metrics.text(), media_type=CONTENT_TYPE_LATEST)

    return router


def body_limit(settings: Settings, method: str, path: str) -> int:
    """The most bytes that any request of this method and path may carry."""
    large = path == "/admin/blobs" or (path.startswith("/sessions/") and path.endswith("/vector"))
    return settings.max_model_bytes if large and method in ("POST", "PUT") else SMALL_BODY


async def _called(service: Service, request: Request) -> tuple[Caller, bytes]:
    """Who signed the request, and its body.     raises Unauthorised"""
    header = request.headers.get(wire.AUTHORIZATION, "")
    claimed_client(header)
    body, part = await request.body(), _part(request)
    query = f"?{request.url.query}" if request.url.query else ""
    arguments = header, request.method, request.url.path + query, body, part
    caller = await asyncio.to_thread(service.clients.authenticate, *arguments)
    service.by_client.take(caller.id)
    return caller, body


def _part(request: Request) -> wire.Part | None:
    """Which part of a body the request carries, None if all of it.     raises Malformed"""
    place = request.headers.get(wire.CONTENT_RANGE)
    if place is None:
        return None
    return wire.Part.from_headers(place, request.headers.get(wire.REPR_DIGEST, ""))


def _add_check_in(router: APIRouter, service: Service) -> None:
    @router.post("/enrol")
    async def enrol(request: Request) -> Response:
        message = wire.Enrol.from_bytes(await request.body())
        enrolled = await asyncio.to_thread(service.clients.enrol, message)
        if enrolled is None:
            again = str(int(1000 * service.settings.retry_s))
            return Response(status_code=204, headers={wire.RETRY_MS: again})
        return _binary(enrolled.to_bytes())

    @router.get("/authority")
    def authority() -> Response:
        return _binary(service.registry.chain())

    @router.post("/checkin")
    async def check_in(request: Request) -> Response:
        caller, body = await _called(service, request)
        message = wire.CheckIn.from_bytes(body)
        device = Conditions.from_query(request.query_params)
        rounds, poll_s = service.rounds, service.settings.poll_s
        reply = await service.bell.until(lambda: rounds.check_in(caller, message, device), poll_s)
        return _binary((reply or rounds.wait_reply()).to_bytes())


def _add_session(router: APIRouter, service: Service) -> None:
    rounds = service.rounds

    @router.get("/sessions/{session}/{stage}")
    async def reply(request: Request, session: str, stage: str) -> Response:
        caller, _ = await _called(service, request)
        follows = {"adverts": "advertise", "shares": "share"}
        follows |= {"survivors": "vector", "agreements": "agree"}
        if stage not in follows:
            raise NotFound(f"there is no {stage} to get")
        found = await service.bell.until(
            lambda: rounds.get(caller, session, follows[stage]), service.settings.poll_s
        )
        if found is None:
            return Response(status_code=204, headers={wire.RETRY_MS: "0"})
        return _binary(found)

    @router.put("/sessions/{session}/{stage}")
    async def message(request: Request, session: str, stage: str) -> Response:
        stages = {"shares": "share", "vector": "vector", "agree": "agree", "reveal": "reveal"}
        if stage not in stages:
            raise NotFound(f"there is no {stage} to put")
        part = _part(request) if stage == "vector" else None
        if stage == "vector":
            # The signature covers the body; who cannot be of the session need not send one.
            client = claimed_client(request.headers.get(wire.AUTHORIZATION, ""))
            size = await asyncio.to_thread(rounds.vector_size, session, client)
            wanted, total = (size, size) if part is None else (part.size, part.total)
            given = request.headers.get("content-length")
            if size is not None and (total != size or given != str(wanted)):
                raise Malformed(f"a vector of this session has {size} bytes")
        caller, body = await _called(service, request)
        if part is not None:
            await asyncio.to_thread(service.uploads.put, caller, session, part, body)
        else:
            await asyncio.to_thread(rounds.put, caller, session, stages[stage], body)
        return Response(status_code=204)

    @router.head("/sessions/{session}/vector")
    async def offset(request: Request, session: str) -> Response:
        caller, _ = await _called(service, request)
        kept = await asyncio.to_thread(service.uploads.offset, caller, session)
        headers = {} if kept is None else {wire.UPLOAD_OFFSET: str(kept)}
        return Response(status_code=204, headers=headers)


def _add_downloads(router: APIRouter, service: Service) -> None:
    @router.get("/models/{digest}")
    async def model(request: Request, digest: str) -> Response:
        await _called(service, request)
        return await asyncio.to_thread(_blob, service, request, _digest(digest))

    @router.get("/tasks/{task}/rounds/{number}/transcript")
    async def round_transcript(request: Request, task: str, number: _Count) -> Response:
        if token := bearer(request.headers.get(wire.AUTHORIZATION, "")):
            actor = await asyncio.to_thread(service.tokens.actor, token)
            actor.check("rounds:read")
            _seen(service, actor, task)
        else:
            await _called(service, request)
        with service.store.read() as db:
            found = transcript.lines(db, task, number)
        if not found:
            raise NotFound(f"task {task} has no round {number}")
        return PlainTextResponse("\n".join(found) + "\n", media_type="application/x-ndjson")


def _seen(service: Service, actor: Actor, name: str) -> Task:
    """The task, if it is of a tenant that the actor sees.     raises NotFound"""
    task = service.rounds.tasks.get(name)
    if not actor.sees(task.settings.tenant or service.settings.tenant):
        raise NotFound(f"there is no task {name}")
    return task


def _status(service: Service, name: str) -> dict[str, Any]:
    """A task with all its rounds; the open one with who has sent what."""
    rounds = service.rounds
    task = rounds.tasks.get(name)
    listed = record.of_task(service.store, name)
    return {
        "name": name,
        "state": task.state,
        "error": task.error,
        "model": task.model.hex(),
        "settings": task.settings.model_dump(),
        "version": rounds.weights.latest(name).version,
        "privacy": rounds.spent(task),
        "rounds": listed,
    }


def _add_tasks(router: APIRouter, service: Service) -> None:
    rounds = service.rounds

    @router.post("/tasks")
    async def create_task(
        request: Request, settings: TaskSettings, model: str, weights: str
    ) -> dict[str, Any]:
        actor: Actor = request.state.actor
        if actor.tenant:
            settings = settings.model_copy(update={"tenant": actor.tenant})
        initial = weights_vector(service.store.get_blob(_digest(weights)))
        await asyncio.to_thread(rounds.create_task, settings, _digest(model), initial)
        return _status(service, settings.name)

    @router.get("/tasks")
    def list_tasks(request: Request) -> list[dict[str, Any]]:
        actor, own = request.state.actor, service.settings.tenant
        listed = [t for t in rounds.tasks.all() if actor.sees(t.settings.tenant or own)]
        return [_status(service, task.name) for task in listed]

    @router.get("/tasks/{name}")
    async def show_task(request: Request, name: str, after: _Version = -1) -> dict[str, Any]:
        """The status; with `after`, held until more rounds than that are over, or the task is."""
        await asyncio.to_thread(_seen, service, request.state.actor, name)

        def look() -> dict[str, Any] | None:
            found = _status(service, name)
            over = sum(entry["stage"] in (FINISHED, FAILED) for entry in found["rounds"])
            return found if over > after or found["state"] != "running" else None

        found = await service.bell.until(look, service.settings.poll_s)
        return found or _status(service, name)

    @router.post("/tasks/{name}/rollback")
    def roll_back(request: Request, name: str, version: _First) -> dict[str, Any]:
        _seen(service, request.state.actor, name)
        rounds.roll_back(name, version)
        return _status(service, name)

    @router.get("/tasks/{name}/versions")
    def versions(request: Request, name: str) -> list[dict[str, Any]]:
        _seen(service, request.state.actor, name)
        return [
            {"version": found.version, "digest": found.digest.hex(), "round": found.round}
            for found in rounds.weights.versions(name)
        ]

    @router.post("/tasks/{name}/stop")
    def stop_task(request: Request, name: str) -> dict[str, Any]:
        _seen(service, request.state.actor, name)
        rounds.stop_task(name)
        return _status(service, name)


def _add_weights(router: APIRouter, service: Service) -> None:
    @router.post("/blobs")
    async def add_blob(request: Request) -> dict[str, str]:
        digest = await asyncio.to_thread(service.store.put_blob, await request.body())
        return {"digest": digest.hex()}

    @router.get("/tasks/{name}/weights")
    def get_weights(request: Request, name: str, version: _Version = -1) -> Response:
        _seen(service, request.state.actor, name)
        versions = service.rounds.weights.versions(name)
        if not -1 <= version < len(versions):
            raise NotFound(f"task {name} has weights 0 to {len(versions) - 1}, not {version}")
        return _binary(service.store.get_blob(versions[version].digest))


def _add_clients(router: APIRouter, service: Service) -> None:
    @router.get("/clients")
    def count_clients() -> dict[str, int]:
        return {"enrolled": service.clients.count()}

    @router.post("/clients/{client}/revoke")
    def revoke_client(request: Request, client: _Count) -> dict[str, int]:
        tenant = service.clients.certificate(client).subject.tenant
        if not request.state.actor.sees(tenant):
            raise NotFound(f"there is no client {client}")
        service.clients.revoke(client)
        return {"revoked": client}


class TokenRequest(BaseModel):
    """A token to make; without `days` it does not run out."""

    model_config = ConfigDict(extra="forbid")

    name: str
    scopes: list[str]
    tenant: str = ""
    days: float | None = None


def _add_tokens(router: APIRouter, service: Service) -> None:
    @router.post("/tokens")
    def create_token(request: Request, wanted: TokenRequest) -> dict[str, str]:
        actor: Actor = request.state.actor
        for scope in wanted.scopes:
            actor.check(scope)  # nobody hands on what they do not have
        tenant = actor.tenant or wanted.tenant
        token = service.tokens.create(wanted.name, wanted.scopes, tenant, wanted.days)
        return {"name": wanted.name, "token": token}

    @router.get("/tokens")
    def list_tokens(request: Request) -> list[dict[str, Any]]:
        return service.tokens.listed(request.state.actor.tenant)

    @router.post("/tokens/{name}/revoke")
    def revoke_token(request: Request, name: str) -> dict[str, str]:
        service.tokens.revoke(name, request.state.actor.tenant)
        return {"revoked": name}

    @router.get("/audit")
    def audit_lines(request: Request, first: _First = 0) -> Response:
        if request.state.actor.tenant:
            raise Forbidden("the audit log is of all tenants")
        with service.store.read() as db:
            found = audit.lines(db, first, _AUDIT_LINES)
        return PlainTextResponse("".join(f"{line}\n" for line in found))


class Published(BaseModel):
    """Of an authority: its handovers and its list of who is revoked, in hexadecimal."""

    handovers: str
    revocations: str


class Answered(BaseModel):
    """Of an authority: certificates in hexadecimal, and clients who get none."""

    certificates: list[str]
    refused: list[int]


def _add_authority(router: APIRouter, service: Service) -> None:
    registry = service.registry

    @router.get("/ca/requests")
    def requests() -> dict[str, Any]:
        _check_apart(service)
        return registry.requests()

    @router.post("/ca/publish")
    def publish(published: Published) -> dict[str, bool]:
        _check_apart(service)
        changed = registry.publish(_hex(published.handovers), _hex(published.revocations))
        if changed:
            service.rounds.begin_anew("the enrolment authority has another key")
        return {"changed": changed}

    @router.post("/ca/certificates")
    def certificates(answered: Answered) -> dict[str, int]:
        _check_apart(service)
        registry.answer([_hex(text) for text in answered.certificates], answered.refused)
        return {"certificates": len(answered.certificates)}


def _check_apart(service: Service) -> None:
    if not service.settings.authority_public:
        raise NotFound("this server has the authority's key itself")


def _hex(text: str) -> bytes:
    try:
        return bytes.fromhex(text)
    except ValueError:
        raise Malformed("want hexadecimal digits") from None


def _blob(service: Service, request: Request, digest: bytes) -> Response:
    """What is kept under a digest, or the range of it that is asked for."""
    size, kind = service.store.blob_size(digest), "application/octet-stream"
    headers = {"etag": f'"{digest.hex()}"', "accept-ranges": "bytes"}
    path = service.store.blob_path(digest)
    if path is not None:
        return FileResponse(path, media_type=kind, headers=headers)
    wanted = re.fullmatch(r"bytes=([0-9]{1,12})-([0-9]{0,12})", request.headers.get("range", ""))
    if wanted is None:
        return Response(service.store.get_blob(digest), media_type=kind, headers=headers)
    first, last = int(wanted[1]), min(int(wanted[2] or size), size - 1)
    if first > last:
        return Response(status_code=416, headers={"content-range": f"bytes */{size}"})
    headers["content-range"] = f"bytes {first}-{last}/{size}"
    return Response(service.store.get_blob(digest, first, last + 1), 206, headers, kind)


def _digest(text: str) -> bytes:
    try:
        digest = bytes.fromhex(text)
    except ValueError:
        digest = b""
    if len(digest) != 32 or digest.hex() != text:
        raise Malformed("a digest is 64 lower-case hexadecimal digits")
    return digest


def _binary(data: bytes) -> Response:
    return Response(data, media_type=wire.MEDIA_TYPE)
