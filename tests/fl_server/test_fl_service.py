"""The service against callers that are hostile, slow, or not who they say."""

from __future__ import annotations

import socket
import stat
import threading
import time
from contextlib import suppress

import httpx
import numpy as np
import pytest
from fl_fleet import MODEL, serving, task_settings
from fl_people import seeded
from fl_world import START, connection, enrolment, identity_of, signed_headers

from fl_server import errors
from fl_server import messages as wire
from fl_server.device import Device
from fl_server.device.http import Http
from fl_server.device.linear import synthetic_device
from fl_server.operator import Operator
from fl_server.secagg.keys import Identity


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("service")
    with serving(folder, poll_s=0.2) as server:
        with server.operator() as operator:
            operator.create_task("open", MODEL, START, **task_settings(50))
        yield server


@pytest.fixture(scope="module")
def connect(server):
    """Gives the signed connection of an identity that is enrolled."""
    opened = []

    def connect(name: bytes) -> Http:
        http = Http(server.url, identity_of(name), patience_s=1)
        opened.append(http)
        message = enrolment(identity_of(name), server.enrol_token.encode())
        answer = http.call("POST", "/enrol", message.to_bytes(), signed=False)
        http.client_id = wire.Enrolled.from_bytes(answer).certificate.subject.client
        return http

    yield connect
    for http in opened:
        http.close()


@pytest.fixture(scope="module")
def enrolled(connect):
    return connect(b"enrolled")


ROUTES = [
    ("POST", "/enrol"),
    ("POST", "/checkin"),
    ("GET", "/sessions/00/adverts"),
    ("GET", "/sessions/00/nothing"),
    ("PUT", "/sessions/00/shares"),
    ("PUT", f"/sessions/{'ab' * 32}/vector"),
    ("PUT", "/sessions/00/agree"),
    ("PUT", "/sessions/%00/reveal"),
    ("GET", "/models/zz"),
    ("GET", "/models/..%2f..%2fca.key"),
    ("GET", f"/models/{'00' * 32}"),
    ("GET", "/tasks/open/rounds/99/transcript"),
    ("GET", "/tasks/open/rounds/x/transcript"),
    ("GET", f"/tasks/open/rounds/{10**30}/transcript"),
    ("POST", "/admin/tasks"),
    ("POST", "/admin/blobs"),
    ("GET", "/admin/tasks"),
    ("DELETE", "/checkin"),
    ("GET", "/nowhere"),
]


@pytest.mark.parametrize(("method", "path"), ROUTES)
def test_a_hostile_request_gets_one_line_and_a_code_below_500(server, enrolled, method, path):
    draw = seeded(path)
    headers = [
        {},
        {"authorization": "Bearer wrong"},
        {"authorization": f"MS1 {enrolled.client_id} 1 {'0' * 128}"},
        {"authorization": f"MS1 {10**9} {10**18} {'0' * 128}"},
        {"authorization": "MS1 \u00b2 1 x".encode()},
    ]
    for size in (0, 1, 148, 5000):
        for header in headers:
            answer = httpx.request(
                method, server.url + path, content=draw(size), headers=header, timeout=60
            )
            assert 400 <= answer.status_code < 500, answer.text
            assert answer.text.count("\n") == 1
    with pytest.raises(errors.ServerRefused) as caught:
        enrolled.call(method, path, draw(77))
    assert 400 <= caught.value.status < 500
    assert "\n" not in str(caught.value)


def test_random_messages_of_an_enrolled_device_are_refused(server, enrolled):
    draw = seeded("fuzz")
    honest = wire.CheckIn("open", 1, bytes(148)).to_bytes()
    for i in range(60):
        body = bytearray(honest)
        body[draw(1)[0] % len(body)] ^= 1 << i % 8
        with pytest.raises(errors.ServerRefused) as caught:
            enrolled.call("POST", "/checkin", bytes(body[: len(body) - i // 2]))
        assert 400 <= caught.value.status < 500


@pytest.mark.parametrize("number", [2**31, 2**63, 2**64 - 1])
def test_the_number_of_a_round_that_no_database_holds_is_refused(server, enrolled, number):
    message = wire.CheckIn("open", number, bytes(148)).to_bytes()
    with pytest.raises(errors.ServerRefused) as caught:
        enrolled.call("POST", "/checkin", message)
    assert 400 <= caught.value.status < 500


def test_what_a_request_names_is_no_control_character_in_the_answer(server):
    with server.operator() as operator, pytest.raises(errors.ServerRefused) as caught:
        operator.status("a\x00\x1b[31mb")
    assert caught.value.reason == "there is no task a\\x00\\x1b[31mb"


def test_a_body_that_is_no_json_is_said_to_be_none(server):
    headers = {"authorization": f"Bearer {server.service.admin_token}"}
    for body in (b"{", b"[1,", b"x"):
        headers["content-type"] = "application/json"
        answer = httpx.post(f"{server.url}/admin/tokens", content=body, headers=headers)
        assert (answer.status_code, answer.text) == (422, "Malformed: the body is no JSON\n")


def test_a_body_that_is_too_long_is_cut_off(server, enrolled):
    with pytest.raises(errors.ServerRefused) as caught:
        enrolled.call("POST", "/checkin", bytes(70_000))
    assert (caught.value.status, caught.value.kind) == (413, "TooLarge")


def test_a_body_is_refused_before_it_is_read(server):
    address = server.url.removeprefix("http://").split(":")
    for path, length, code in (
        ("/admin/tasks", 10, b"401"),
        ("/admin/blobs", 400 << 20, b"401"),
        ("/enrol", 400 << 20, b"413"),
    ):
        with socket.create_connection((address[0], int(address[1])), timeout=60) as caller:
            head = f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n\r\n"
            caller.sendall(head.encode())
            answer = caller.recv(4096)
        assert answer.split()[1] == code
        assert b"connection: close" in answer


def test_a_body_that_does_not_come_is_not_waited_for(tmp_path):
    with serving(tmp_path, body_s=0.2) as server:
        port = int(server.url.rpartition(":")[2])
        with socket.create_connection(("127.0.0.1", port), timeout=60) as caller:
            caller.sendall(b"POST /enrol HTTP/1.1\r\nHost: x\r\nContent-Length: 600\r\n\r\nA")
            assert caller.recv(4096).split()[1] == b"408"


@pytest.mark.parametrize("sent", [b"", b"GET /", b"GET /x HTTP/1.1\r\nHost: x\r\nX-A: "])
def test_a_connection_that_asks_for_nothing_is_cut(tmp_path, sent):
    with serving(tmp_path, header_s=0.3) as server:
        with connection(server) as caller:
            caller.sendall(sent)
            assert caller.recv(4096) == b""
        with connection(server) as caller:  # after a whole request, too
            caller.sendall(b"GET /none HTTP/1.1\r\nHost: x\r\n\r\n")
            answer = b""
            while not answer.endswith(b"Not Found\n"):
                answer += caller.recv(4096)
            caller.sendall(b"GET /again HT")
            assert caller.recv(4096) == b""


def test_headers_that_come_a_byte_at_a_time_are_not_waited_for(tmp_path):
    with serving(tmp_path, header_s=0.5) as server, connection(server) as caller:
        caller.settimeout(0.05)
        caller.sendall(b"GET /x HTTP/1.1\r\nX-A: ")
        answer = None
        for _ in range(200):  # ten seconds; a byte starts no new wait
            with suppress(TimeoutError, BrokenPipeError):
                caller.sendall(b"a")
                answer = caller.recv(1)
                break
        assert answer == b""


def test_an_answer_that_nobody_reads_ends_the_connection(tmp_path):
    with serving(tmp_path, read_s=0.3) as server:
        with server.operator() as operator:
            digest = operator.create_task("t", bytes(1 << 24), START, **task_settings(3))["model"]
        http = Http(server.url, identity_of(b"slow"), patience_s=1)
        message = enrolment(identity_of(b"slow"), server.enrol_token.encode())
        answer = http.call("POST", "/enrol", message.to_bytes(), signed=False)
        http.close()
        client = wire.Enrolled.from_bytes(answer).certificate.subject.client
        path = f"/models/{digest}"
        headers = signed_headers(b"slow", client, 1 << 62, "GET", path)
        head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        with connection(server) as caller:
            caller.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\n{head}\r\n".encode())
            assert caller.recv(16).startswith(b"HTTP/1.1 200")
            # Only the server knows when it has given up; what its kernel holds comes all the same.
            open_, end = server._server.server_state.connections, time.monotonic() + 60
            while open_ and time.monotonic() < end:
                threading.Event().wait(0.01)
            assert not open_
            rest = 0
            while part := caller.recv(1 << 20):
                rest += len(part)
            assert rest < 1 << 24


def test_the_server_publishes_no_description_of_its_routes(server):
    for path in ("/docs", "/redoc", "/openapi.json"):
        assert httpx.get(server.url + path).status_code == 404


def test_a_replayed_request_is_refused_and_a_changed_one_too(server, connect):
    body, counter, http = wire.CheckIn("", 0, b"").to_bytes(), 2**62, connect(b"replay")
    headers = signed_headers(b"replay", http.client_id, counter, "POST", "/checkin", body)

    def send(path: str = "/checkin", content: bytes = body) -> httpx.Response:
        return httpx.post(server.url + path, content=content, headers=headers, timeout=60)

    assert send(content=body + b"x").status_code == 401
    assert send("/enrol?x=1").status_code == 400
    assert send().status_code == 200
    replay = send()
    assert replay.status_code == 401
    assert "is a replay" in replay.text
    assert replay.headers[wire.LAST_COUNTER] == str(counter)
    # The device itself goes on above the counter that it is told.
    assert http.call("POST", "/checkin", body) is not None


def test_enrolment_needs_the_token_and_the_key(server):
    identity = Identity(b"x" * 32)
    token = server.enrol_token.encode()
    for evidence, signer in ((b"guess", identity), (token, Identity(b"y" * 32))):
        message = enrolment(identity, evidence, signer)
        answer = httpx.post(f"{server.url}/enrol", content=message.to_bytes())
        assert answer.status_code in (401, 409)


def test_enrolling_twice_gives_the_same_certificate(connect):
    assert connect(b"twice").client_id == connect(b"twice").client_id


def test_a_revoked_device_gets_in_no_longer(server, connect):
    http = connect(b"revoked")
    with server.operator() as operator:
        operator.revoke(http.client_id)
    with pytest.raises(errors.ServerRefused, match="not of an enrolled client"):
        http.call("POST", "/checkin", wire.CheckIn("", 0, b"").to_bytes())
    with pytest.raises(errors.ServerRefused, match="revoked"):
        connect(b"revoked")


def test_a_model_can_be_fetched_in_ranges(server, enrolled):
    with server.operator() as operator:
        digest = operator.status("open")["model"]
    path, name = f"/models/{digest}", b"enrolled"
    assert enrolled.call("GET", path) == MODEL
    headers = signed_headers(name, enrolled.client_id, 2**62, "GET", path)
    answer = httpx.get(server.url + path, headers=headers | {"range": "bytes=2-6"})
    assert (answer.status_code, answer.content) == (206, MODEL[2:7])
    assert answer.headers["etag"] == f'"{digest}"'


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"min_cohort": 1}, "min_cohort"),
        ({"min_cohort": 30, "target_cohort": 20}, "below min_cohort 30"),
        ({"value_bits": 32, "max_weight": 2**31 - 1, "target_cohort": 256}, "takes 70 bits"),
        ({"shard_size": 2}, "shard_size"),  # of three clients one would be alone
        ({"colour": "red"}, "colour"),
        ({"clip_norm": -1}, "clip_norm"),
        ({"population": "x" * 65}, "population"),
    ],
)
def test_a_task_that_cannot_work_is_refused(server, settings, message):
    with server.operator() as operator, pytest.raises(errors.ServerRefused, match=message):
        operator.create_task("bad", MODEL, START, **settings)


def test_weights_that_are_not_finite_or_a_second_task_of_a_name_are_refused(server):
    with server.operator() as operator:
        with pytest.raises(errors.ServerRefused, match="not finite"):
            operator.create_task("nan", MODEL, np.array([np.nan], np.float32))
        with pytest.raises(errors.ServerRefused, match="already"):
            operator.create_task("open", MODEL, START)


def test_a_wrong_admin_token_is_refused(server):
    with Operator(server.url, "guess") as operator, pytest.raises(errors.ServerRefused) as caught:
        operator.tasks()
    assert caught.value.status == 401


def test_a_device_refuses_a_server_whose_authority_it_does_not_know(server, tmp_path):
    trainer, stranger = synthetic_device(0), Identity(bytes(32)).public
    device = Device(server.url, tmp_path, trainer, stranger, server.enrol_token)
    with device, pytest.raises(errors.BadCertificate):
        device.enrol()
    assert not (tmp_path / "certificate").exists()


def test_a_device_keeps_its_identity_to_itself_and_over_restarts(server, tmp_path):
    ids = []
    for _ in range(2):
        arguments = server.url, tmp_path, synthetic_device(0), server.authority
        with Device(*arguments, server.enrol_token) as device:
            device.enrol()
            ids.append(device.id)
    assert ids[0] == ids[1] > 0
    assert stat.S_IMODE((tmp_path / "identity.key").stat().st_mode) == 0o600
    assert stat.S_IMODE(server.service.settings.folder.stat().st_mode) == 0o700
    secrets = ("ca.key", "admin.token", "enrol.token", "state.sqlite")
    folder = server.service.settings.folder
    assert all(stat.S_IMODE((folder / name).stat().st_mode) == 0o600 for name in secrets)
