"""Tokens with scopes, guarded routes, and how often one may ask."""

from __future__ import annotations

import asyncio

import httpx
import pytest
from fl_fleet import MODEL, fleet_of, serving, task_settings
from fl_world import START, World
from sqlalchemy import text
from starlette.datastructures import URL

from fl_server import errors
from fl_server.access.limits import Buckets
from fl_server.access.scopes import SCOPES
from fl_server.access.tokens import Tokens
from fl_server.http.app import create_app
from fl_server.operator import Operator
from fl_server.settings import Settings

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


def test_no_token_outlives_the_one_that_made_it(server):
    with server.operator() as operator:
        secret = operator.create_token("today", ["tokens", "metrics"], "a", days=1)
        with Operator(server.url, secret) as clerk:
            with pytest.raises(errors.ServerRefused, match="today runs out 1 days before"):
                clerk.create_token("longer", ["metrics"], days=2)
            with pytest.raises(errors.ServerRefused, match="makes tokens of a alone"):
                clerk.create_token("elsewhere", ["metrics"], "b")
            clerk.create_token("shorter", ["metrics"], days=0.5)
            with Operator(server.url, clerk.create_token("second", ["tokens"])) as second:
                second.create_token("third", ["tokens"])
        made = {token["name"]: token for token in operator.tokens()}
    ends = [made[name]["expires_at"] for name in ("today", "second", "third")]
    assert ends == [ends[0]] * 3
    assert made["shorter"]["expires_at"] < ends[0]
    assert {made[name]["tenant"] for name in ("second", "third", "shorter")} == {"a"}


def test_what_was_made_with_a_token_ends_with_it(tmp_path, database, opened):
    world = opened(World(tmp_path, database))
    tokens = Tokens(world.store, world.settings, "admin", "enrol")
    made: dict[str, str] = {}

    def make(name: str, maker: str) -> None:
        by = tokens.actor(made.get(maker, "admin"))
        made[name] = tokens.create(name, ["tokens", "metrics"], "", None, by)

    for name, maker in [("a", ""), ("b", "a"), ("c", "b"), ("d", "b")]:
        make(name, maker)
    stale = tokens.actor(made["c"])
    assert {token["name"]: token["maker"] for token in tokens.listed()}["c"] == "b"
    assert [tokens.actor(made[name]).name for name in "abcd"] == ["a", "b", "c", "d"]
    tokens.revoke("b")
    assert tokens.actor(made["a"]).name == "a"
    for name in "bcd":
        with pytest.raises(errors.Unauthorised, match=f"token {name} is revoked"):
            tokens.actor(made[name])
    with pytest.raises(errors.Unauthorised, match="token c is revoked"):
        tokens.create("e", ["metrics"], "", None, stale)  # a call that had begun before
    assert "e" not in {token["name"] for token in tokens.listed()}


@pytest.mark.parametrize("name", ["admin.token", "enrol.token", "server"])
def test_no_token_is_called_what_the_audit_log_calls_another(server, name):
    with server.operator() as operator, pytest.raises(errors.ServerRefused, match="audit log"):
        operator.create_token(name, ["metrics"])


@pytest.mark.parametrize("name", ["a/b", "/", ".", ".."])
def test_no_token_has_a_name_by_which_nobody_could_revoke_it(server, name):
    with server.operator() as operator, pytest.raises(errors.ServerRefused, match="without /"):
        operator.create_token(name, ["metrics"])


def test_a_token_of_before_with_a_slash_in_its_name_can_be_revoked(server):
    tokens, table = server.service.tokens, "UPDATE tokens SET name = 'old/one' WHERE name = 'old'"
    secret = tokens.create("old", ["metrics"], "", None)
    with server.service.store.begin() as db:
        db.execute(text(table))
    with server.operator() as operator:
        operator.revoke_token("old/one")
    with pytest.raises(errors.Unauthorised, match="token old/one is revoked"):
        tokens.actor(secret)


@pytest.mark.parametrize("scope", ["ca", "audit:read"])
def test_what_is_of_all_tenants_is_no_tenants(server, scope):
    with server.operator() as operator:
        with pytest.raises(errors.ServerRefused, match=f"scope {scope} is of all tenants"):
            operator.create_token(f"{scope} of a", [scope], "a")
        secret = operator.create_token(f"{scope} of all", [scope])
    # One from before that was so.
    with server.service.store.begin() as db:
        change = "UPDATE tokens SET tenant = 'a' WHERE name = :name"
        db.execute(text(change), {"name": f"{scope} of all"})
    headers = {"authorization": f"Bearer {secret}"}
    path = {"ca": "/admin/ca/requests", "audit:read": "/admin/audit"}[scope]
    answer = httpx.get(server.url + path, headers=headers)
    assert answer.status_code == 403
    assert answer.text == f"Forbidden: token {scope} of all is of one tenant, {scope} of all\n"


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


@pytest.mark.parametrize("table", ["tokens", "audit"])
def test_a_database_that_fails_before_a_route_is_found_is_told_as_in_it(tmp_path, table, caplog):
    with serving(tmp_path) as server, server.operator() as operator:
        token = operator.create_token("t", ["tasks:write"])
        with server.service.store.begin() as db:
            db.execute(text(f"ALTER TABLE {table} RENAME TO away"))
        headers = {"authorization": f"Bearer {token}"}
        answer = httpx.post(f"{server.url}/admin/tasks/none/stop", headers=headers)
    assert (answer.status_code, answer.headers["x-retry-ms"]) == (503, "1000")
    assert answer.text == "the store is not available; come again\n"
    assert "the store failed: OperationalError: no such table" in caplog.text
    assert "Traceback" not in caplog.text
