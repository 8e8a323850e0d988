"""The service against callers that are hostile, late, or not who they say."""

from __future__ import annotations

import json
import re
import socket
import stat
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import httpx
import numpy as np
import pytest
from fl_fleet import LENGTH, MODEL, fleet_of, serving, task_settings
from fl_people import seeded
from sqlalchemy.exc import IntegrityError

from fl_server import errors, record
from fl_server import messages as wire
from fl_server.cli import serve, simulate
from fl_server.clients import Caller, Clients, StaleCounter
from fl_server.device import Device
from fl_server.device.cli import client
from fl_server.device.http import Http
from fl_server.device.journal import Journal
from fl_server.device.linear import synthetic_device
from fl_server.enrolment import Authority
from fl_server.operator import Operator
from fl_server.rounds import Rounds
from fl_server.secagg import labels
from fl_server.secagg.client import Member, join
from fl_server.secagg.encode import Update
from fl_server.secagg.keys import Identity
from fl_server.secagg.policy import Memory, Policy
from fl_server.settings import Settings, TaskSettings
from fl_server.simulation import simulate as run_simulation
from fl_server.store import Store

START = np.zeros(LENGTH, np.float32)


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


def identity_of(name: bytes) -> Identity:
    return Identity(name.ljust(32, b"."))


def enrolment(identity: Identity, evidence: bytes, signer: Identity | None = None) -> wire.Enrol:
    unsigned = wire.Enrol(identity.public, "default", evidence, bytes(64))
    signature = (signer or identity).sign(labels.ENROL, unsigned.signed)
    return replace(unsigned, signature=signature)


def signed_headers(name: bytes, client: int, counter: int, method: str, path: str, body=b""):
    signed = wire.request_signed(method, path, counter, body)
    signature = identity_of(name).sign(labels.REQUEST, signed).hex()
    return {"authorization": f"MS1 {client} {counter} {signature}"}


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
                method, server.url + path, content=draw(size), headers=header, timeout=10
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
        with socket.create_connection((address[0], int(address[1])), timeout=10) as caller:
            head = f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n\r\n"
            caller.sendall(head.encode())
            answer = caller.recv(4096)
        assert answer.split()[1] == code
        assert b"connection: close" in answer


def test_a_body_that_does_not_come_is_not_waited_for(tmp_path):
    with serving(tmp_path, body_s=0.2) as server:
        port = int(server.url.rpartition(":")[2])
        with socket.create_connection(("127.0.0.1", port), timeout=10) as caller:
            caller.sendall(b"POST /enrol HTTP/1.1\r\nHost: x\r\nContent-Length: 600\r\n\r\nA")
            assert caller.recv(4096).split()[1] == b"408"


def test_the_server_publishes_no_description_of_its_routes(server):
    for path in ("/docs", "/redoc", "/openapi.json"):
        assert httpx.get(server.url + path).status_code == 404


def test_a_replayed_request_is_refused_and_a_changed_one_too(server, connect):
    body, counter, http = wire.CheckIn("", 0, b"").to_bytes(), 2**62, connect(b"replay")
    headers = signed_headers(b"replay", http.client_id, counter, "POST", "/checkin", body)

    def send(path: str = "/checkin", content: bytes = body) -> httpx.Response:
        return httpx.post(server.url + path, content=content, headers=headers, timeout=10)

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
        ({"value_bits": 32, "max_weight": 2**31 - 1, "target_cohort": 256}, "takes 71 bits"),
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


class Broken:
    """A trainer whose data is gone."""

    def train(self, weights, model):
        raise ArithmeticError("the data is gone")


def test_training_that_raises_fails_one_device_and_not_the_others(tmp_path):
    with serving(tmp_path) as server, server.operator() as operator:
        operator.create_task("broken", MODEL, START, **task_settings(3))
        arguments = server.url, tmp_path / "broken", Broken(), server.authority
        with Device(*arguments, server.enrol_token, policy=Policy(3)) as device:
            rounds = device.run()
            assert next(rounds).error == "TrainingFailed: ArithmeticError: the data is gone"
            with pytest.raises(errors.TrainingFailed):
                next(rounds)
        reports = fleet_of(server, tmp_path, 3).run()
    assert [[r.outcome for r in device] for device in reports] == [["done"]] * 3


def test_a_simulation_whose_device_breaks_ends_and_says_why():
    trainers = [synthetic_device(0), synthetic_device(1), Broken()]
    with pytest.raises(errors.TrainingFailed, match="the data is gone"):
        run_simulation(trainers, MODEL, START, cohort_floor=3)


def test_a_server_that_is_not_there_is_named_within_the_patience(tmp_path):
    arguments = "http://127.0.0.1:9", tmp_path, synthetic_device(0), bytes(32)
    device = Device(*arguments, patience_s=0.2)
    with device, pytest.raises(errors.ServerUnreachable, match=r"no answer within 0.2 s"):
        next(device.run())


def test_a_damaged_journal_is_an_error_and_not_a_fresh_start(tmp_path):
    path = tmp_path / "journal.json"
    journal = Journal(path)
    journal.join("task", 3)
    journal.spend("task", bytes(32), b"y" * 32)
    again = Journal(path)
    with pytest.raises(errors.StaleRound):
        again.join("task", 3)
    with pytest.raises(errors.SpentUpdate):
        again.check_unspent("task", bytes(32))
    path.write_text(path.read_text()[:-3])
    with pytest.raises(errors.SettingsError, match="damaged"):
        Journal(path)


@pytest.mark.parametrize("text", ["soon", "nan", "1e300", "-1", "9" * 30])
def test_a_header_that_is_no_bounded_number_is_malformed(monkeypatch, text):
    answer = httpx.Response(401, headers={wire.LAST_COUNTER: text})
    http = Http("http://127.0.0.1:9", identity_of(b"x"))
    monkeypatch.setattr(http, "_send_once", lambda *_: answer)
    with pytest.raises(errors.Malformed, match="whole number"):
        http.call("GET", "/x")
    http.close()


# Below: the rounds without HTTP, so that the clock is the test's own.


class World:
    """A store, its rounds and some enrolled members; `now` is set by the test."""

    def __init__(self, folder: Path, **task: object) -> None:
        self.now = 1000.0
        self.settings = Settings(folder, clock=lambda: self.now, random=seeded("world"))
        self.store = Store(folder)
        self.authority = Authority(bytes(32))
        self.restart()
        self.digest = self.store.put_blob(MODEL)
        self.rounds.create_task(TaskSettings(name="t", **task), self.digest, START)

    def restart(self) -> None:
        arguments = self.store, self.authority, self.settings, "token"
        self.clients = Clients(*arguments)
        self.rounds = Rounds(self.store, self.clients, self.settings)

    def enrol(self, i: int) -> tuple[Member, Caller]:
        identity = Identity(bytes([i + 1]) * 32)
        certificate = self.clients.enrol(enrolment(identity, b"token")).certificate
        member = Member(identity, certificate, self.authority.public)
        return member, Caller(member.id, "default", certificate)

    def join(self, i: int):
        """Advertise for the open round; the state of the client comes out."""
        member, caller = self.enrol(i)
        reply = self.rounds.check_in(caller, wire.CheckIn("", 0, b""))
        offer = wire.Offer.from_bytes(reply.body)
        arguments = Policy(2), Memory(), seeded(i)
        state = join(member, offer.context, offer.encoding, *arguments)
        context = offer.context
        answer = self.rounds.check_in(
            caller, wire.CheckIn(context.task, context.round, state.message)
        )
        return caller, state, answer

    def stages(self) -> list[str]:
        return [entry["stage"] for entry in record.of_task(self.store, "t")]


def test_a_round_that_too_few_join_fails_and_another_opens(tmp_path):
    world = World(tmp_path, min_cohort=3, target_cohort=5, join_s=60)
    for i in range(2):
        world.join(i)
    world.now += 59
    assert world.rounds.tick() == 1060
    assert world.stages() == ["advertise"]
    world.now += 1
    world.rounds.tick()
    assert world.stages() == ["failed", "advertise"]
    assert world.rounds.tasks.get("t").state == "running"


def test_a_round_that_nobody_joins_stays_open(tmp_path):
    world = World(tmp_path, join_s=60)
    for _ in range(5):
        world.now += 61
        world.rounds.tick()
    assert world.stages() == ["advertise"]


def test_a_cohort_above_the_least_goes_ahead_at_the_deadline(tmp_path):
    world = World(tmp_path, min_cohort=2, target_cohort=5)
    caller, state, answer = world.join(0)
    assert answer is None
    world.join(1)
    world.now += 601
    world.rounds.tick()
    check_in = wire.CheckIn("t", 1, state.message)
    reply = world.rounds.check_in(caller, check_in)
    assert reply.kind == wire.SESSION
    assert world.rounds.get(caller, reply.body.hex(), "advertise") is not None


def test_an_advert_that_comes_twice_is_taken_once_and_another_one_is_refused(tmp_path):
    world = World(tmp_path, min_cohort=2, target_cohort=3)
    caller, state, _ = world.join(0)
    assert world.rounds.check_in(caller, wire.CheckIn("t", 1, state.message)) is None
    other = state.message[:-64] + bytes(64)
    with pytest.raises(errors.StageReplayed):
        world.rounds.check_in(caller, wire.CheckIn("t", 1, other))
    with pytest.raises(errors.Gone, match="round 9 of task t is over"):
        world.rounds.check_in(caller, wire.CheckIn("t", 9, state.message))


def test_a_client_whose_update_was_taken_is_not_offered_the_same_model_again(tmp_path):
    world = World(tmp_path, min_cohort=3, target_cohort=3, max_failures=5)
    joined = [world.join(i) for i in range(3)]
    session = joined[-1][2].body.hex()
    shared = []
    for caller, state, _ in joined:
        state = state.receive_cohort(world.rounds.get(caller, session, "advertise"), world.now)
        world.rounds.put(caller, session, "share", state.message)
        shared.append((caller, state))
    caller, state = shared[0]
    boxes = world.rounds.get(caller, session, "share")
    masked = state.receive_shares(boxes, Update(START))
    world.rounds.put(caller, session, "vector", masked.message)
    world.now += 121
    world.rounds.tick()
    assert world.stages() == ["failed", "advertise"]
    with pytest.raises(errors.Gone, match="the round failed: 1 of 3 clients uploaded"):
        world.rounds.get(caller, session, "vector")
    ask = wire.CheckIn("", 0, b"")
    assert world.rounds.check_in(caller, ask) is None
    assert world.rounds.check_in(shared[1][0], ask).kind == wire.OFFER
    with pytest.raises(errors.Gone, match="has been taken"):
        world.rounds.check_in(caller, wire.CheckIn("t", 2, bytes(148)))


def test_a_task_ends_when_too_many_rounds_in_a_row_fail(tmp_path):
    world = World(tmp_path, min_cohort=2, target_cohort=2, max_failures=1)
    for _ in range(2):
        for i in range(2):
            world.join(i)
        world.now += 31
        world.rounds.tick()
    assert world.stages() == ["failed", "failed"]
    task = world.rounds.tasks.get("t")
    assert task.state == "failed"
    assert "2 rounds in a row failed" in task.error


def test_a_store_that_fails_loses_nothing_that_was_acknowledged(tmp_path):
    world = World(tmp_path, min_cohort=2, target_cohort=3)
    world.join(0)
    member, caller = world.enrol(1)
    full = "CREATE TRIGGER full BEFORE INSERT ON messages BEGIN SELECT RAISE(ABORT, 'full'); END"
    with world.store.begin() as db:
        db.exec_driver_sql(full)
    live = world.rounds.live("t")
    offer = wire.Offer(live.context, live.model, live.weights, live.encoding, 2, 3)
    state = join(member, offer.context, offer.encoding, Policy(2), Memory(), seeded(1))
    message = wire.CheckIn("t", 1, state.message)
    with pytest.raises(IntegrityError, match="full"):
        world.rounds.check_in(caller, message)
    with world.store.begin() as db:
        db.exec_driver_sql("DROP TRIGGER full")
    # The advert that was not kept is taken as new; the one that was kept is still there.
    assert world.rounds.check_in(caller, message) is None
    assert world.rounds.live("t").counts() == {"advertise": 2}
    world.restart()
    assert world.rounds.live("t").counts() == {"advertise": 2}


def test_a_certificate_that_ran_out_is_renewed_under_the_same_name(tmp_path):
    world = World(tmp_path)
    (first, _), (again, _) = world.enrol(0), world.enrol(0)
    assert first.certificate == again.certificate
    world.now += 366 * 86400
    renewed, _ = world.enrol(0)
    assert renewed.id == first.id
    assert renewed.certificate.subject.not_after > world.now


def test_counters_are_taken_once_over_restarts(tmp_path):
    world = World(tmp_path)
    member, _ = world.enrol(0)

    def call(counter: int) -> Caller:
        signed = wire.request_signed("GET", "/x", counter, b"")
        signature = member.identity.sign(labels.REQUEST, signed).hex()
        header = f"MS1 {member.id} {counter} {signature}"
        return world.clients.authenticate(header, "GET", "/x", b"")

    assert call(5).id == member.id
    call(7)
    for counter in (7, 6, 5):
        with pytest.raises(StaleCounter):
            call(counter)
    world.restart()
    with pytest.raises(StaleCounter) as caught:
        call(8)
    call(caught.value.last + 1)


# Commands.


@pytest.mark.parametrize("command", [serve, simulate, client])
def test_commands_have_help_with_examples_and_a_version(command, capsys):
    for flag, text in (("--help", "examples:"), ("--version", "ms-")):
        with pytest.raises(SystemExit) as caught:
            command([flag])
        assert caught.value.code == 0
        assert text in capsys.readouterr().out
    with pytest.raises(SystemExit) as caught:
        command(["--no-such-flag"])
    assert caught.value.code == 2


def test_a_command_that_fails_says_one_line_and_returns_one(tmp_path, capsys):
    missing = ["status", "--server", "http://127.0.0.1:9", "--folder", str(tmp_path)]
    assert serve(missing) == 1
    assert "admin.token: not there; want the server's --folder" in capsys.readouterr().err
    assert serve([*missing, "--token", "t"]) == 1
    error = capsys.readouterr().err
    assert error.startswith("ms-serve status: http://127.0.0.1:9")
    assert error.count("\n") == 1
    data = tmp_path / "d.npz"
    data.write_bytes(b"not a zip file")
    options = ["--server", "http://127.0.0.1:9", "--folder", str(tmp_path)]
    assert client([*options, "--authority", "ab" * 32, "--data", str(data)]) == 1
    assert "no .npz file" in capsys.readouterr().err
    assert serve(["task", "t", "--model", str(data), "--folder", str(tmp_path)]) == 1
    assert "the model does not load" in capsys.readouterr().err
    np.savez(data, x=np.zeros((2, 2)))
    assert client([*options, "--authority", "no", "--data", str(data)]) == 1
    assert "64 hexadecimal digits" in capsys.readouterr().err
    np.save(tmp_path / "x.npy", np.zeros((2, 2)))
    assert client([*options, "--authority", "no", "--data", f"{tmp_path}/x.npy"]) == 1
    assert "is one array without a name" in capsys.readouterr().err
    assert serve(["task", "t", "--model", f"{tmp_path}/none.ms"]) == 1
    assert capsys.readouterr().err == (
        f"ms-serve task: {tmp_path}/none.ms: No such file or directory\n"
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--set", "oops"], "want NAME=VALUE"),
        (["--set", "foo=1"], "no setting 'foo'; there are name, population, rounds, min_cohort"),
        (["--set", "min_cohort=1"], "setting min_cohort is 1, want greater than or equal to 2"),
        (["--set", "rounds=many"], "setting rounds is 'many', want"),
        (["--devices", "1"], "1 devices and 3 rounds, want"),
        (["--model", "m.ms"], "--model needs --data"),
    ],
)
def test_wrong_usage_of_simulate_exits_with_2(arguments, message, capsys):
    with pytest.raises(SystemExit) as caught:
        simulate(arguments)
    assert caught.value.code == 2
    assert message in capsys.readouterr().err


def test_a_wrong_setting_of_a_task_is_refused_with_the_settings_there_are(tmp_path, capsys):
    model = tmp_path / "model.ms"
    model.write_bytes(MODEL)
    weights = tmp_path / "weights"
    weights.write_bytes(START.tobytes())
    with serving(tmp_path / "server") as server:
        options = ["--server", server.url, "--folder", str(server.service.settings.folder)]
        task = ["task", "t", "--model", str(model), "--weights", str(weights), *options]
        assert serve([*task, "--set", "foo=1"]) == 1
        assert capsys.readouterr().err.startswith("ms-serve task: no setting 'foo'; there are name")
        assert serve([*task, "--set", "clip_norm=-1"]) == 1
        message = "setting clip_norm is -1, want greater than 0"
        assert capsys.readouterr().err == f"ms-serve task: {message}\n"


def test_every_option_is_explained(capsys):
    for command in ([serve], [serve, "task"], [serve, "status"], [client], [simulate]):
        with pytest.raises(SystemExit):
            command[0]([*command[1:], "--help"])
        options = capsys.readouterr().out.split("examples:")[0].split("options:")[1]
        entries = re.split(r"\n  (?=-)", options)[1:]
        assert len(entries) >= 4
        for entry in entries:
            explained = re.split(r" {2,}", entry.strip().replace("\n", "  "))[1:]
            assert "".join(explained), entry


class NeverTrains:
    def train(self, weights, model):
        raise AssertionError("a task that is declined was trained")


def test_a_device_declines_a_task_below_its_floor_before_it_trains_and_the_round_goes_on(tmp_path):
    said = []
    with serving(tmp_path) as server, server.operator() as operator:
        operator.create_task("few", MODEL, START, **task_settings(3))
        arguments = server.url, tmp_path / "careful", NeverTrains(), server.authority
        stop = threading.Event()

        def tell(text):
            said.append(text)
            if "declined" in text:
                stop.set()

        with Device(*arguments, server.enrol_token, stop=stop, tell=tell) as device:
            assert list(device.run()) == []
        assert fleet_of(server, tmp_path, 3).run()
        assert operator.status("few")["rounds"][0]["stage"] == "finished"
    assert said == [
        "enrolled as device 1",
        "round 1 of few declined: may begin with 3 clients, this device's floor is 20",
    ]


def test_simulate_reports_figures_as_json(capsys):
    assert simulate(["--devices", "4", "--rounds", "1", "--json"]) == 0
    figures = json.loads(capsys.readouterr().out)
    assert figures["status"]["state"] == "finished"
    assert [device[0]["outcome"] for device in figures["devices"]] == ["done"] * 4


def test_the_server_imports_neither_ir_nor_cloud_nor_converter():
    root = Path(__file__).parents[2]
    code = (
        "import sys, fl_server.app, fl_server.cli, fl_server.device, fl_server.simulation;"
        "print([m for m in ('ir','cloud','converter','lite_runtime') if m in sys.modules])"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_protocol_works_without_the_web_framework():
    root = Path(__file__).parents[2]
    code = (
        "import sys, fl_server.secagg.run;"
        "print([m for m in ('fastapi','sqlalchemy','httpx','uvicorn') if m in sys.modules])"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
