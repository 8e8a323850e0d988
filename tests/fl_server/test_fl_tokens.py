"""Tokens with scopes, tenants, the audit log, and how often one may ask."""

from __future__ import annotations

import asyncio
import json
import time
from contextlib import closing

import httpx
import pytest
from fl_fleet import MODEL, Fleet, fleet_of, serving, task_settings
from fl_world import START, World, enrolment, identity_of, signed_headers
from sqlalchemy import text
from starlette.datastructures import URL

from fl_server import errors
from fl_server import messages as wire
from fl_server.access.limits import Buckets
from fl_server.access.scopes import SCOPES
from fl_server.access.tokens import Tokens
from fl_server.cli import serve
from fl_server.device.http import Http
from fl_server.http.app import create_app
from fl_server.operator import Operator
from fl_server.secagg.keys import Identity
from fl_server.settings import Settings
from fl_server.storage import audit, transcript

# What each scope alone lets one do.
CALLS = {
    "rounds:read": ("GET", "/admin/tasks"),
    "tasks:write": ("POST", "/admin/tasks/none/stop"),
    "models:read": ("GET", "/admin/tasks/open/weights"),
    "models:write": ("POST", "/admin/blobs"),
    "clients:write": ("POST", "/admin/clients/999/revoke"),
    "tokens": ("GET", "/admin/tokens"),
    "audit:read": ("GET", "/admin/audit"),
}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("tokens"), poll_s=0.2) as server:
        with server.operator() as operator:
            operator.create_task("open", MODEL, START, **task_settings(50))
        yield server


@pytest.mark.parametrize("scope", CALLS)
def test_a_token_is_good_for_its_scopes_and_nothing_else(server, scope):
    with server.operator() as operator:
        token = operator.create_token(f"only {scope}", [scope])
    headers = {"authorization": f"Bearer {token}"}
    for other, (method, path) in CALLS.items():
        answer = httpx.request(method, server.url + path, headers=headers)
        if other == scope:
            assert answer.status_code in (200, 404), answer.text
        else:
            assert answer.status_code == 403
            assert answer.text == f"Forbidden: token only {scope} is not good for {other}\n"


def test_a_token_that_is_revoked_or_has_run_out_is_refused(tmp_path, database, opened):
    world = opened(World(tmp_path, database))
    tokens = Tokens(world.store, world.settings, "admin", "enrol")
    secret, short = (
        tokens.create("a", ["metrics"], "", None),
        tokens.create("b", ["metrics"], "", 1),
    )
    assert tokens.actor(secret).name == "a"
    assert tokens.actor(short).scopes == {"metrics"}
    world.now += 86400
    tokens.revoke("a")
    for given, what in ((secret, "token a is revoked"), (short, "token b is expired")):
        with pytest.raises(errors.Unauthorised, match=what):
            tokens.actor(given)
    with pytest.raises(errors.Unauthorised, match="a token of this server is needed"):
        tokens.actor("ms_guess")
    with pytest.raises(errors.ProtocolError, match="there is a token a already"):
        tokens.create("a", ["metrics"], "", None)
    with pytest.raises(errors.SettingsError, match="no scope 'all'; there are"):
        tokens.create("c", ["all"], "", None)
    with world.store.read() as db:
        kept = str(db.execute(text("SELECT * FROM tokens")).all())
    assert secret not in kept


def test_nobody_hands_on_what_they_do_not_have(server):
    with server.operator() as operator:
        token = operator.create_token("clerk", ["tokens", "metrics"])
    with Operator(server.url, token) as clerk:
        clerk.create_token("fine", ["metrics"])
        with pytest.raises(errors.ServerRefused, match="clerk is not good for tasks:write"):
            clerk.create_token("more", ["metrics", "tasks:write"])


def test_tenants_see_their_own_and_their_devices_train_their_own(tmp_path):
    with serving(tmp_path) as server, server.operator() as operator:
        scopes = ["rounds:read", "tasks:write", "models:write", "models:read"]
        both = [Operator(server.url, operator.create_token(t, scopes, t)) for t in ("a", "b")]
        for tenant, theirs in zip("ab", both, strict=True):
            theirs.create_task(f"task-{tenant}", MODEL, START, **task_settings(3))
            assert [task["name"] for task in theirs.tasks()] == [f"task-{tenant}"]
        a, b = both
        for refused in (a.status, a.stop, a.weights):
            with pytest.raises(errors.ServerRefused, match="there is no task task-b"):
                refused("task-b")
        assert len(operator.tasks()) == 2
        token = operator.create_token("devices of b", ["enrol"], "b")
        reports = Fleet(server.url, server.authority, token, tmp_path, 3).run()
        assert {r.task for device in reports for r in device} == {"task-b"}
        assert b.status("task-b")["state"] == "finished"
        assert a.status("task-a")["rounds"][0]["counts"] == {}
        for each in both:
            each.close()


def test_an_identity_of_one_tenant_does_not_become_anothers(tmp_path, database, opened):
    world = opened(World(tmp_path, database))
    tokens = world.clients._tokens
    secrets = [tokens.create(t, ["enrol"], t, None) for t in ("a", "b")]
    identity = Identity(b"i" * 32)
    first = world.clients.enrol(enrolment(identity, secrets[0].encode()))
    assert first.certificate.subject.tenant == "a"
    with pytest.raises(errors.Unauthorised, match="another tenant's"):
        world.clients.enrol(enrolment(identity, secrets[1].encode()))
    secret = tokens.create("c", ["metrics"], "", None)
    with pytest.raises(errors.Forbidden, match="not good for enrol"):
        world.clients.enrol(enrolment(identity, secret.encode()))


def test_the_audit_log_vouches_for_who_asked_and_for_every_transcript(tmp_path, database):
    with serving(tmp_path, database_url=database) as server, server.operator() as operator:
        operator.create_task("t", MODEL, START, **task_settings(3, rounds=2))
        fleet_of(server, tmp_path, 3).run()
        operator.wait("t")
        lines = operator.audit()
        transcripts = [operator.transcript("t", number) for number in (1, 2)]
    assert transcript.verify(lines, transcript.START)
    entries = [json.loads(line) for line in lines]
    asked = [entry["what"] for entry in entries if entry["who"] == "admin.token"]
    assert [what.partition("?")[0] for what in asked] == ["POST /admin/blobs"] * 2 + [
        "POST /admin/tasks"
    ]
    assert len({e["client"] for e in entries if e["who"] == "enrol.token"}) == 3
    ends = [e["transcript"] for e in entries if e["what"] == "a round ended"]
    assert ends == [transcript.line_hash(found[-1]) for found in transcripts]


def test_a_changed_line_of_the_audit_log_is_found(tmp_path, capsys):
    with serving(tmp_path) as server:
        folder = server.service.settings.folder
        place = ["--server", server.url, "--folder", str(folder)]
        assert serve(["token", "create", "a", "--scope", "metrics", *place]) == 0
        assert capsys.readouterr().out.startswith("ms_")
        assert serve(["token", "revoke", "a", *place]) == 0
        assert serve(["token", "list", *place]) == 0
        assert capsys.readouterr().out == "a: revoked, metrics\n"
        assert serve(["token", "revoke", *place]) == 1
        assert "token revoke: want a name" in capsys.readouterr().err
        assert serve(["audit", *place]) == 0
        out = capsys.readouterr().out
        assert "admin.token: POST /admin/tokens/a/revoke" in out
        with server.service.store.begin() as db:
            first = audit.lines(db, 0, 1)[0].replace("admin.token", "admin.tokem")
            db.execute(text("UPDATE audit SET line = :x WHERE position = 0"), {"x": first})
        assert serve(["audit", *place]) == 1
        assert "does not follow the line before it" in capsys.readouterr().err


def test_buckets_let_a_burst_through_and_then_the_rate():
    now = [0.0]
    buckets = Buckets(2.0, 4, lambda: now[0])
    for _ in range(4):
        buckets.take("a")
    with pytest.raises(errors.TooMany) as caught:
        buckets.take("a")
    assert caught.value.retry_s == 0.5
    buckets.take("b")
    now[0] += 0.5
    buckets.take("a")
    with pytest.raises(errors.TooMany):
        buckets.take("a")
    now[0] += 1000
    for _ in range(4):
        buckets.take("a")


def test_a_caller_above_its_rate_is_told_when_to_come_again(tmp_path):
    with serving(tmp_path, rate_per_s=0.2) as server:
        *first, last = (httpx.post(f"{server.url}/enrol") for _ in range(3))
    assert [answer.status_code for answer in first] == [400] * 2
    assert last.status_code == 429
    assert 0 < int(last.headers["x-retry-ms"]) <= 5000
    assert last.text == "TooMany: above 0.2 requests a second\n"


def test_devices_above_their_rate_wait_and_the_round_is_finished(tmp_path):
    with serving(tmp_path, client_rate_per_s=2.0) as server, server.operator() as operator:
        operator.create_task("t", MODEL, START, **task_settings(3))
        reports = fleet_of(server, tmp_path, 3).run()
    assert [[r.outcome for r in device] for device in reports] == [["done"]] * 3


def test_every_scope_is_told_apart(server):
    with server.operator() as operator:
        operator.create_token("all", sorted(SCOPES))
        (found,) = [t for t in operator.tokens() if t["name"] == "all"]
    assert found["scopes"] == sorted(SCOPES)


def answered(app, method: str, path: str, host: bytes) -> int:
    """The status of a request whose scope is made by hand: no server looks at its Host first."""
    sent: list[dict] = []
    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": method,
        "scheme": "http", "path": path, "raw_path": path.encode(), "query_string": b"",
        "root_path": "", "headers": [(b"host", host)], "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 1),
    }  # fmt: skip

    async def receive() -> dict:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: dict) -> None:
        sent.append(message)

    asyncio.run(app(scope, receive, send))
    return sent[0]["status"]


@pytest.mark.parametrize("host", [b"x", b"x?", b"x#", b"x/dashboard?", b"x/dashboard/", b""])
@pytest.mark.parametrize("path", ["/metrics", "/admin/clients", "/admin/tasks", "/admin/tokens"])
def test_no_host_header_opens_a_guarded_route(tmp_path, host, path, monkeypatch):
    # What versions of Starlette that look at no Host header make of it.
    url = property(lambda request: URL(f"http://{host.decode()}{path}"))
    monkeypatch.setattr("starlette.requests.HTTPConnection.url", url)
    app = create_app(Settings(tmp_path))
    assert answered(app, "GET", path, host) in (400, 401)
    app.state.service.store.close()


def test_a_guarded_route_is_closed_to_whom_nothing_has_admitted(tmp_path, monkeypatch):
    async def admits_all(*_: object) -> None:
        return None

    monkeypatch.setattr("fl_server.http.app.admit", admits_all)
    app = create_app(Settings(tmp_path))
    for path in ("/metrics", "/admin/clients", "/admin/ca/requests", "/admin/audit"):
        assert answered(app, "GET", path, b"x") == 401
    app.state.service.store.close()


def status_for_device(server, path: str, name: bytes, client: int) -> int:
    headers = signed_headers(name, client, time.time_ns(), "GET", path)
    return httpx.get(server.url + path, headers=headers).status_code


def test_models_weights_and_transcripts_are_of_their_tenants_devices_and_operators(tmp_path):
    with serving(tmp_path) as server, server.operator() as operator:
        operator.create_task("of-a", MODEL, START, tenant="a", **task_settings(3))
        line = json.loads(operator.transcript("of-a", 1)[0])
        paths = [f"/models/{line['model']}", f"/models/{line['weights']}"]
        paths += ["/tasks/of-a/rounds/1/transcript"]
        for tenant, wanted in (("a", 200), ("b", 404)):
            name, token = tenant.encode(), operator.create_token(tenant, ["enrol"], tenant)
            enrolled = server.service.clients.enrol(enrolment(identity_of(name), token.encode()))
            client = enrolled.certificate.subject.client
            assert [status_for_device(server, path, name, client) for path in paths] == [wanted] * 3
        scopes = ["tasks:write", "models:write", "rounds:read"]
        with Operator(server.url, operator.create_token("op b", scopes, "b")) as theirs:
            digests = {"model": line["model"], "weights": line["weights"]}
            body = {"name": "stolen", **task_settings(3)}
            with pytest.raises(errors.ServerRefused, match="nothing is kept under"):
                theirs._call("POST", "/admin/tasks", params=digests, json=body)
            with pytest.raises(errors.ServerRefused, match="makes tasks of b alone"):
                theirs.create_task("stolen", MODEL, START, tenant="a", **task_settings(3))
            # Whoever has the bytes may use them.
            theirs.create_task("of-b", MODEL, START, **task_settings(3))
            theirs.evaluate("of-b-too", "of-b", **task_settings(3))
        assert status_for_device(server, paths[0], name, client) == 200
        # To a device of b a task of a is one that is not there.
        with closing(Http(server.url, identity_of(b"b"), patience_s=1)) as device:
            device.client_id = client
            for task in ("of-a", "none"):
                join = wire.CheckIn(task, 1, bytes(148)).to_bytes()
                with pytest.raises(errors.ServerRefused, match=f"there is no task {task}"):
                    device.call("POST", "/checkin", join)
