"""The routes of operators. Whoever gets here has shown a token that is good for the request."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path, Query, Request
from fastapi.responses import PlainTextResponse, Response
from pydantic import BaseModel, ConfigDict, Field

from fl_server import task_checks
from fl_server.access.tokens import Actor
from fl_server.authority.registry import BATCH
from fl_server.errors import Forbidden, Malformed, NotFound
from fl_server.http.admission import must_be_admitted, tell
from fl_server.http.api import binary, digest_in, seen
from fl_server.rounds import record
from fl_server.rounds.live import FAILED, FINISHED
from fl_server.service import Service
from fl_server.storage import audit
from fl_server.storage.weights import weights_vector
from fl_server.task_settings import TaskSettings

# What fits every database's integer.
_Count = Annotated[int, Path(ge=0, lt=2**31)]
_Version = Annotated[int, Query(ge=-1, lt=2**31)]
_First = Annotated[int, Query(ge=0, lt=2**31)]
_AUDIT_LINES = 1000


def admin_routes(service: Service) -> APIRouter:
    """What an operator calls; whoever gets here has shown a token that is good for it."""
    router = APIRouter(prefix="/admin", tags=["admin"], dependencies=[Depends(must_be_admitted)])
    _add_tasks(router, service)
    _add_weights(router, service)
    _add_clients(router, service)
    _add_tokens(router, service)
    _add_authority(router, service)
    return router


def _add_tasks(router: APIRouter, service: Service) -> None:
    rounds = service.rounds

    @router.post("/tasks")
    async def create_task(
        request: Request, settings: TaskSettings, model: str, weights: str
    ) -> dict[str, Any]:
        actor: Actor = request.state.actor
        if actor.tenant:
            if settings.tenant not in ("", actor.tenant):
                raise Forbidden(f"token {actor.name} makes tasks of {actor.tenant} alone")
            settings = settings.model_copy(update={"tenant": actor.tenant})
        digests = digest_in(model), digest_in(weights)
        for digest in digests:
            await asyncio.to_thread(service.blobs.check_operator, digest, actor.tenant)
        tell(request, task=settings.name, tenant=settings.tenant)
        initial = weights_vector(service.store.get_blob(digests[1]))
        await asyncio.to_thread(rounds.create_task, settings, digests[0], initial)
        return _status(service, settings.name)

    @router.get("/tasks")
    def list_tasks(request: Request) -> list[dict[str, Any]]:
        actor, own = request.state.actor, service.settings.tenant
        listed = [t for t in rounds.tasks.all() if actor.sees(t.settings.tenant or own)]
        return [_status(service, task.name) for task in listed]

    @router.get("/tasks/{name}")
    async def show_task(request: Request, name: str, after: _Version = -1) -> dict[str, Any]:
        """The status; with `after`, held until more rounds than that are over, or the task is."""
        await asyncio.to_thread(seen, service, request.state.actor, name)

        def look() -> dict[str, Any] | None:
            found = _status(service, name)
            over = sum(entry["stage"] in (FINISHED, FAILED) for entry in found["rounds"])
            return found if over > after or found["state"] != "running" else None

        found = await service.bell.until(look, service.settings.poll_s)
        return found or _status(service, name)

    @router.post("/tasks/{name}/rollback")
    def roll_back(request: Request, name: str, version: _First) -> dict[str, Any]:
        seen(service, request.state.actor, name)
        rounds.roll_back(name, version)
        return _status(service, name)

    @router.get("/tasks/{name}/versions")
    def versions(request: Request, name: str) -> list[dict[str, Any]]:
        seen(service, request.state.actor, name)
        return [
            {"version": found.version, "digest": found.digest.hex(), "round": found.round}
            for found in rounds.weights.versions(name)
        ]

    @router.post("/tasks/{name}/stop")
    def stop_task(request: Request, name: str) -> dict[str, Any]:
        seen(service, request.state.actor, name)
        rounds.stop_task(name)
        return _status(service, name)


def _add_weights(router: APIRouter, service: Service) -> None:
    @router.post("/blobs")
    async def add_blob(request: Request) -> dict[str, str]:
        body, tenant = await request.body(), request.state.actor.tenant
        digest = await asyncio.to_thread(service.blobs.upload, body, tenant)
        tell(request, digest=digest.hex())
        return {"digest": digest.hex()}

    @router.get("/tasks/{name}/weights")
    def get_weights(request: Request, name: str, version: _Version = -1) -> Response:
        seen(service, request.state.actor, name)
        versions = service.rounds.weights.versions(name)
        if not -1 <= version < len(versions):
            raise NotFound(f"task {name} has weights 0 to {len(versions) - 1}, not {version}")
        return binary(service.store.get_blob(versions[version].digest))


def _add_clients(router: APIRouter, service: Service) -> None:
    @router.get("/clients")
    def count_clients(request: Request) -> dict[str, int]:
        return {"enrolled": service.clients.count(request.state.actor.tenant)}

    @router.post("/clients/{client}/revoke")
    def revoke_client(request: Request, client: _Count) -> dict[str, int]:
        tenant = service.clients.tenant(client)
        if not request.state.actor.sees(tenant):
            raise NotFound(f"there is no client {client}")
        tell(request, client=client, tenant=tenant)
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
        token = service.tokens.create(wanted.name, wanted.scopes, wanted.tenant, wanted.days, actor)
        tell(request, token=wanted.name, scopes=wanted.scopes, tenant=actor.tenant or wanted.tenant)
        return {"name": wanted.name, "token": token}

    @router.get("/tokens")
    def list_tokens(request: Request) -> list[dict[str, Any]]:
        return service.tokens.listed(request.state.actor.tenant)

    @router.post("/tokens/{name:path}/revoke")  # names of before may have a /
    def revoke_token(request: Request, name: str) -> dict[str, str]:
        service.tokens.revoke(name, request.state.actor.tenant)
        return {"revoked": name}

    @router.get("/audit")
    def audit_lines(first: _First = 0) -> Response:
        with service.store.read() as db:
            found = audit.lines(db, first, _AUDIT_LINES)
        return PlainTextResponse("".join(f"{line}\n" for line in found))


class Published(BaseModel):
    """Of an authority: its handovers and its list of who is revoked, in hexadecimal."""

    handovers: str
    revocations: str


class Answered(BaseModel):
    """Of an authority: certificates in hexadecimal, and clients who get none."""

    certificates: list[str] = Field(max_length=BATCH)
    refused: list[Annotated[int, Field(ge=0, lt=2**31)]] = Field(max_length=BATCH)


def _add_authority(router: APIRouter, service: Service) -> None:
    registry = service.registry

    @router.get("/ca/requests")
    def requests(after: _Version = -1) -> dict[str, Any]:
        _check_apart(service)
        return registry.requests(after)

    @router.post("/ca/publish")
    def publish(request: Request, published: Published) -> dict[str, bool]:
        _check_apart(service)
        changed = registry.publish(_hex(published.handovers), _hex(published.revocations))
        tell(request, key=registry.public().hex(), changed=changed)
        if changed:
            service.rounds.begin_anew("the enrolment authority has another key")
        return {"changed": changed}

    @router.post("/ca/certificates")
    def certificates(request: Request, answered: Answered) -> dict[str, int]:
        _check_apart(service)
        given = [_hex(text) for text in answered.certificates]
        tell(request, certified=registry.answer(given, answered.refused), refused=answered.refused)
        return {"certificates": len(answered.certificates)}


def _check_apart(service: Service) -> None:
    if not service.settings.authority_public:
        raise NotFound("this server has the authority's key itself")


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
        "warnings": task_checks.warnings(task.settings),
        "version": rounds.weights.latest(name).version,
        "privacy": rounds.spent(task),
        "rounds": listed,
    }


def _hex(text: str) -> bytes:
    try:
        return bytes.fromhex(text)
    except ValueError:
        raise Malformed("want hexadecimal digits") from None
