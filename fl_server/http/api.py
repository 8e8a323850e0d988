"""The routes. They read, check who calls, hand over, and answer; they decide nothing."""

from __future__ import annotations

import asyncio
import hashlib
import re
from typing import Annotated, NamedTuple

from fastapi import APIRouter, Depends, Path, Request
from fastapi.responses import FileResponse, PlainTextResponse, Response
from prometheus_client import CONTENT_TYPE_LATEST

from fl_server import messages as wire
from fl_server.access.clients import Caller, claimed_client
from fl_server.access.tokens import Actor, bearer
from fl_server.conditions import Conditions
from fl_server.errors import Malformed, NotFound
from fl_server.http.admission import address_of, must_be_admitted, target
from fl_server.http.guard import SMALL_BODY
from fl_server.http.metrics import Metrics
from fl_server.service import Service
from fl_server.settings import Settings
from fl_server.storage import transcript
from fl_server.tasks import Task

# What fits every database's integer.
_Count = Annotated[int, Path(ge=0, lt=2**31)]
# 65,535 numbers of who is revoked in hexadecimal, and the chain of some thousand keys.
_LIST_BODY = 1 << 21


def device_routes(service: Service) -> APIRouter:
    """What devices call. Each request but an enrolment is signed (messages.request_signed)."""
    router = APIRouter(tags=["device"])
    _add_check_in(router, service)
    _add_session(router, service)
    _add_downloads(router, service)
    return router


def metric_routes(metrics: Metrics) -> APIRouter:
    """What a Prometheus asks for."""
    router = APIRouter(tags=["metrics"], dependencies=[Depends(must_be_admitted)])

    @router.get("/metrics")
    def text(request: Request) -> Response:
        return Response(metrics.text(request.state.actor), media_type=CONTENT_TYPE_LATEST)

    return router


def body_limit(settings: Settings, method: str, path: str) -> int:
    """The most bytes that any request of this method and path may carry."""
    if (method, path) == ("POST", "/admin/ca/publish"):
        return _LIST_BODY
    large = path == "/admin/blobs" or (path.startswith("/sessions/") and path.endswith("/vector"))
    return settings.max_model_bytes if large and method in ("POST", "PUT") else SMALL_BODY


class _Signed(NamedTuple):
    """Who signed a request, its body, and that one's SHA-256."""

    caller: Caller
    body: bytes
    digest: bytes


async def _called(service: Service, request: Request) -> _Signed:
    """raises Unauthorised"""
    header = request.headers.get(wire.AUTHORIZATION, "")
    claimed_client(header)
    body, part = await request.body(), _part(request)
    where = request.method, target(request)

    def authenticated() -> _Signed:
        digest = hashlib.sha256(body).digest()
        caller = service.clients.authenticate(header, *where, digest, part)
        return _Signed(caller, body, digest)

    signed = await asyncio.to_thread(authenticated)
    service.by_client.take(signed.caller.id)
    return signed


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
        if service.attestor:
            _, tenant = await asyncio.to_thread(service.clients.sponsor, message)
            await service.attestor.check(message.asked, tenant)
        arguments = message, address_of(request)
        enrolled = await asyncio.to_thread(service.clients.enrol, *arguments)
        if enrolled is None:
            again = str(int(1000 * service.settings.retry_s))
            return Response(status_code=204, headers={wire.RETRY_MS: again})
        return binary(enrolled.to_bytes())

    @router.get("/authority")
    def authority() -> Response:
        return binary(service.registry.chain())

    @router.post("/checkin")
    async def check_in(request: Request) -> Response:
        caller, body, _ = await _called(service, request)
        message = wire.CheckIn.from_bytes(body)
        if message.advert:  # who joins names a task
            await asyncio.to_thread(seen, service, caller, message.task)
        device = Conditions.from_query(request.query_params)
        declined = wire.declined_of(request.headers.get(wire.DECLINED, ""))
        rounds, poll_s = service.rounds, service.settings.poll_s
        arguments = caller, message, device, declined
        reply = await service.bell.until(lambda: rounds.check_in(*arguments), poll_s)
        if reply is None:
            reply = await asyncio.to_thread(rounds.wait_reply)
        return binary(reply.to_bytes())


def _add_session(router: APIRouter, service: Service) -> None:
    rounds = service.rounds

    @router.get("/sessions/{session}/{stage}")
    async def reply(request: Request, session: str, stage: str) -> Response:
        caller, *_ = await _called(service, request)
        follows = {"adverts": "advertise", "shares": "share"}
        follows |= {"survivors": "vector", "agreements": "agree"}
        if stage not in follows:
            raise NotFound(f"there is no {stage} to get")
        found = await service.bell.until(
            lambda: rounds.get(caller, session, follows[stage]), service.settings.poll_s
        )
        if found is None:
            return Response(status_code=204, headers={wire.RETRY_MS: "0"})
        return binary(found)

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
        caller, body, digest = await _called(service, request)
        if part is not None:
            await asyncio.to_thread(service.uploads.put, caller, session, part, body, digest)
        else:
            await asyncio.to_thread(rounds.put, caller, session, stages[stage], body, digest)
        return Response(status_code=204)

    @router.head("/sessions/{session}/vector")
    async def offset(request: Request, session: str) -> Response:
        caller, *_ = await _called(service, request)
        kept = await asyncio.to_thread(service.uploads.offset, caller, session)
        headers = {} if kept is None else {wire.UPLOAD_OFFSET: str(kept)}
        return Response(status_code=204, headers=headers)


def _add_downloads(router: APIRouter, service: Service) -> None:
    @router.get("/models/{digest}")
    async def model(request: Request, digest: str) -> Response:
        caller, *_ = await _called(service, request)
        wanted = digest_in(digest)
        await asyncio.to_thread(service.blobs.check_device, wanted, caller.tenant)
        if base := request.query_params.get("base"):
            known = digest_in(base)
            await asyncio.to_thread(service.blobs.check_device, known, caller.tenant)
            await asyncio.to_thread(service.rounds.check_begun_from, wanted)
            return binary(await service.differences.of(known, wanted))
        return await asyncio.to_thread(_blob, service, request, wanted)

    @router.get("/tasks/{task}/rounds/{number}/transcript")
    async def round_transcript(request: Request, task: str, number: _Count) -> Response:
        if token := bearer(request.headers.get(wire.AUTHORIZATION, "")):
            actor = await asyncio.to_thread(service.tokens.actor, token)
            actor.check("rounds:read")
            await asyncio.to_thread(seen, service, actor, task)
        else:
            caller, *_ = await _called(service, request)
            await asyncio.to_thread(seen, service, caller, task)

        def lines() -> list[str]:
            with service.store.read() as db:
                return transcript.lines(db, task, number)

        found = await asyncio.to_thread(lines)
        if not found:
            raise NotFound(f"task {task} has no round {number}")
        return PlainTextResponse("\n".join(found) + "\n", media_type="application/x-ndjson")


class _File(FileResponse):
    """In larger pieces than by default, each of which costs a turn of the loop and of a thread, and
    which a caller who reads 16 KiB/s takes before it is cut (Settings.read_s)."""

    chunk_size = 1 << 18


def _blob(service: Service, request: Request, digest: bytes) -> Response:
    """What is kept under a digest, or the range of it that is asked for."""
    size, kind = service.store.blob_size(digest), "application/octet-stream"
    headers = {"etag": f'"{digest.hex()}"', "accept-ranges": "bytes"}
    path = service.store.blob_path(digest)
    if path is not None:
        return _File(path, media_type=kind, headers=headers)
    wanted = re.fullmatch(r"bytes=([0-9]{1,12})-([0-9]{0,12})", request.headers.get("range", ""))
    if wanted is None:
        return Response(service.store.get_blob(digest), media_type=kind, headers=headers)
    first, last = int(wanted[1]), min(int(wanted[2] or size), size - 1)
    if first > last:
        return Response(status_code=416, headers={"content-range": f"bytes */{size}"})
    headers["content-range"] = f"bytes {first}-{last}/{size}"
    return Response(service.store.get_blob(digest, first, last + 1), 206, headers, kind)


def digest_in(text: str) -> bytes:
    try:
        digest = bytes.fromhex(text)
    except ValueError:
        digest = b""
    if len(digest) != 32 or digest.hex() != text:
        raise Malformed("a digest is 64 lower-case hexadecimal digits")
    return digest


def binary(data: bytes) -> Response:
    return Response(data, media_type=wire.MEDIA_TYPE)


def seen(service: Service, actor: Actor | Caller, name: str) -> Task:
    """The task, if it is of a tenant that who asks sees.     raises NotFound"""
    task = service.rounds.tasks.get(name)
    if not actor.sees(task.settings.tenant or service.settings.tenant):
        raise NotFound(f"there is no task {name}")
    return task
