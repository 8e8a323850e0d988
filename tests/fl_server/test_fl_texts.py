"""Names and numbers that no database holds, in all that a caller may send."""

from __future__ import annotations

from contextlib import closing

import httpx
import pytest
from fl_fleet import serving
from fl_world import enrolment, identity_of

from fl_server import errors
from fl_server import messages as wire
from fl_server.device.http import Http


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/admin/tokens/%00/revoke", None),
        ("GET", "/admin/tasks/%00", None),
        ("POST", "/admin/tokens", {"name": "\0", "scopes": ["metrics"]}),
        ("POST", "/admin/tokens", {"name": "n", "scopes": ["metrics"], "tenant": "a\0"}),
        ("POST", "/admin/tokens", {"name": "n", "scopes": ["metrics"], "tenant": "\u00e9" * 40}),
        ("POST", "/admin/tokens", {"name": "x" * 50_000, "scopes": ["metrics"]}),
        ("POST", "/admin/tokens", {"name": "n", "scopes": ["x" * 50_000]}),
        ("POST", f"/admin/tasks?model={'0' * 64}&weights={'0' * 64}", {"tenant": "t\0"}),
        ("POST", f"/admin/tasks?model={'0' * 64}&weights={'0' * 64}", {"tenant": "t" * 9000}),
        ("POST", f"/admin/tasks?model={'0' * 64}&weights={'0' * 64}", {"population": "t\0"}),
        ("POST", f"/admin/tasks?model={'%00' * 64}&weights={'0' * 64}", {}),
    ],
)
def test_text_that_no_database_holds_is_refused_in_one_short_line(
    tmp_path, postgres, method, path, body
):
    url = postgres.database("texts")
    with serving(tmp_path, database_url=url) as server:
        headers = {"authorization": f"Bearer {server.service.admin_token}"}
        if body is not None and "scopes" not in body:
            body = {"name": "t", **body}
        answer = httpx.request(method, server.url + path, headers=headers, json=body)
        assert 400 <= answer.status_code < 500, answer.text
        assert len(answer.text) < 400


def test_messages_whose_text_no_database_holds_are_refused(tmp_path, postgres):
    with serving(tmp_path, database_url=postgres.database("names")) as server:
        identity, token = identity_of(b"d"), server.enrol_token.encode()
        made = wire.Enrol.of(identity, "\0", token)
        answer = httpx.post(f"{server.url}/enrol", content=made.to_bytes())
        assert answer.text == "SettingsError: population '\\x00': want 1 to 64 bytes of text\n"
        enrolled = server.service.clients.enrol(enrolment(identity, token))
        with closing(Http(server.url, identity, patience_s=1)) as device:
            device.client_id = enrolled.certificate.subject.client
            with pytest.raises(errors.ServerRefused) as caught:
                device.call("POST", "/checkin", wire.CheckIn("\0", 1, bytes(148)).to_bytes())
        assert caught.value.status == 400
