"""The log of who asked for what, and what came of it."""

from __future__ import annotations

import json

import httpx
import pytest
from fl_fleet import MODEL, fleet_of, serving, task_settings
from fl_world import START, enrolment, identity_of
from sqlalchemy import text

from fl_server import errors
from fl_server.cli import serve
from fl_server.operator import Operator
from fl_server.storage import audit, transcript


def test_the_audit_log_vouches_for_who_asked_and_for_every_transcript(tmp_path, database):
    with serving(tmp_path, database_url=database) as server, server.operator() as operator:
        operator.create_task("t", MODEL, START, **task_settings(3, rounds=2))
        fleet_of(server, tmp_path, 3).run()
        operator.wait("t")
        lines = operator.audit()
        transcripts = [operator.transcript("t", number) for number in (1, 2)]
    assert transcript.verify(lines, transcript.START)
    entries = [json.loads(line) for line in lines]
    asked = [entry for entry in entries if entry["who"] == "admin.token"]
    told = [entry["what"].partition("?")[0] for entry in asked]
    assert told[::2] == ["POST /admin/blobs"] * 2 + ["POST /admin/tasks"]
    assert told[1::2] == ["was answered"] * 3
    assert len({e["client"] for e in entries if e["who"] == "enrol.token"}) == 3
    ends = [e["transcript"] for e in entries if e["what"] == "a round ended"]
    assert ends == [transcript.line_hash(found[-1]) for found in transcripts]


def test_the_audit_log_tells_who_asked_from_where_for_what_and_what_came_of_it(tmp_path):
    with serving(tmp_path) as server, server.operator() as operator:
        secret = operator.create_token("clerk", ["models:read"], days=1)
        operator.create_task("t", MODEL, START, tenant="a", **task_settings(3))
        enrolled = server.service.clients.enrol(
            enrolment(identity_of(b"d"), server.enrol_token.encode()), "192.0.2.7"
        )
        client = enrolled.certificate.subject.client
        operator.revoke(client)
        httpx.post(f"{server.url}/dashboard/login", data={"token": server.service.admin_token})
        with pytest.raises(errors.ServerRefused, match="there is no task none"):
            operator.stop("none")
        with Operator(server.url, secret) as clerk:
            clerk.weights("t")
            with pytest.raises(errors.ServerRefused, match="not good for tasks:write"):
                clerk.stop("t")
        entries = [json.loads(line) for line in operator.audit()]
    from_ = {"from": "127.0.0.1"}
    by_what: dict[str, dict] = {}
    for line, entry in enumerate(entries):
        what = entry["what"].partition("?")[0]
        if what == "was answered":
            continue
        outcome = [e for e in entries if e.get("line") == line]
        by_what[what] = entry | (outcome[0] if outcome else {})
        if entry["who"] != "enrol.token":
            assert entry.items() >= from_.items()
    expected = {
        "POST /admin/tokens": {"code": 200, "token": "clerk", "scopes": ["models:read"]},
        "POST /admin/tasks": {"code": 200, "task": "t", "tenant": "a"},
        f"POST /admin/clients/{client}/revoke": {"code": 200, "client": client},
        "POST /admin/tasks/none/stop": {"code": 404},
        "POST /admin/tasks/t/stop": {"code": 403, "who": "clerk"},
        "GET /admin/tasks/t/weights": {"code": 200, "who": "clerk"},
        "logged in to the dashboard": {"who": "admin.token"},
        "enrolled a client": {"who": "enrol.token", "from": "192.0.2.7", "client": client},
    }
    for what, told in expected.items():
        assert by_what[what].items() >= told.items(), what
    assert secret not in str(entries)


def test_an_answer_is_not_lost_with_the_line_that_would_tell_of_it(tmp_path, monkeypatch, caplog):
    append = audit.append

    def fails(store, db, at, who, what, **more):
        if what == "was answered":
            raise OSError("disk full")
        return append(store, db, at, who, what, **more)

    monkeypatch.setattr("fl_server.storage.audit.append", fails)
    with serving(tmp_path) as server, server.operator() as operator:
        assert operator.create_token("a", ["metrics"]).startswith("ms_")
    assert "the audit log has no outcome of line 0: OSError" in caplog.text


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
