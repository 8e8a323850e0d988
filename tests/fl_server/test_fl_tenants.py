"""What a tenant sees: its own alone, by its operators' tokens and by its devices."""

from __future__ import annotations

import json
import time
from contextlib import closing

import httpx
import pytest
from fl_fleet import MODEL, Fleet, serving, task_settings
from fl_world import START, World, enrolment, identity_of, signed_headers

from fl_server import errors
from fl_server import messages as wire
from fl_server.device.http import Http
from fl_server.operator import Operator
from fl_server.secagg.keys import Identity


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


def test_figures_of_one_tenant_tell_nothing_of_another(tmp_path):
    with serving(tmp_path) as server, server.operator() as operator:
        for tenant, count in (("a", 1), ("b", 2)):
            settings = task_settings(3, tenant=tenant)
            operator.create_task(f"task-{tenant}", MODEL, START, **settings)
            token = operator.create_token(f"devices {tenant}", ["enrol"], tenant).encode()
            for i in range(count):
                identity = identity_of(f"{tenant}{i}".encode())
                server.service.clients.enrol(enrolment(identity, token))
        fleets = {}
        for tenant, count in (("a", 1), ("b", 2), ("", 3)):
            scopes = ["metrics", "rounds:read"]
            token = operator.create_token(f"reads {tenant}", scopes, tenant)
            headers = {"authorization": f"Bearer {token}"}
            answer = httpx.get(f"{server.url}/admin/clients", headers=headers)
            assert answer.json() == {"enrolled": count}
            told = httpx.get(f"{server.url}/metrics", headers=headers).text
            assert f"mindspan_clients {float(count)}\n" in told
            tasks = {name for name in ("task-a", "task-b") if f'task="{name}"' in told}
            assert tasks == ({f"task-{tenant}"} if tenant else {"task-a", "task-b"})
            assert ("mindspan_request_seconds" in told) == (not tenant)
            fleets[tenant] = server.service.clients.fleet(tenant)["enrolled"]
            page = httpx.get(f"{server.url}/dashboard", cookies={"ms_dashboard": token}).text
            assert ("task-b" in page) == (tenant != "a")
        assert fleets == {"a": 1, "b": 2, "": 3}
