"""What a device holds to by itself: its limits of an offer, and that its folder is its own."""

from __future__ import annotations

import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx
import pytest
from fl_fleet import FLOOR, MODEL, fleet_of, serving, task_settings
from fl_world import START, NeverTrains, identity_of

from fl_server import errors
from fl_server import messages as wire
from fl_server.device import Device, Policy
from fl_server.device.http import Http
from fl_server.device.journal import Journal
from fl_server.device.linear import synthetic_device
from fl_server.errors import Malformed, SettingsError
from fl_server.rounds import record
from fl_server.rounds.turn import Turn
from fl_server.secagg.keys import Identity
from fl_server.simulation import simulate as run_simulation
from fl_server.task_settings import TaskSettings


@pytest.mark.parametrize("name", ["clip_norm", "clip_value", "max_weight"])
def test_a_looser_encoding_than_the_device_allows_is_declined_before_it_trains(tmp_path, name):
    said = []
    stop = threading.Event()

    def tell(text):
        said.append(text)
        if "declined" in text:
            stop.set()

    with serving(tmp_path) as server, server.operator() as operator:
        operator.create_task("loose", MODEL, START, **task_settings(3, **{name: 50}))
        arguments = server.url, tmp_path / "careful", NeverTrains(), server.authority
        limits = Policy(FLOOR, **{name: 49})
        options = {"policy": limits, "stop": stop, "tell": tell}
        with Device(*arguments, server.enrol_token, **options) as device:
            assert list(device.run()) == []
        assert fleet_of(server, tmp_path, 3).run()
        assert operator.status("loose")["rounds"][0]["stage"] == "finished"
    assert said[-1] == (
        f"round 1 of loose declined: {name} 50 is offered, this device's limit is 49"
    )


def test_an_update_is_spent_whatever_the_plan_says(tmp_path, monkeypatch):
    """A server that has the sum says that the round failed, forgets who was in it, and asks for the
    same update under another plan."""
    plan, said, stop = TaskSettings.plan, [], threading.Event()

    def fail(turn, live, total, now):
        monkeypatch.setattr(TaskSettings, "plan", lambda *begun: replace(plan(*begun), kept=0.75))
        turn.fail(errors.RoundFailed("a lie"))

    def tell(text):
        said.extend([text] if "declined" in text else [])
        if len(said) == 3:
            stop.set()

    monkeypatch.setattr(Turn, "_finish", fail)
    monkeypatch.setattr(record, "has_spent", lambda *_: False)
    with serving(tmp_path) as server, server.operator() as operator:
        operator.create_task("t", MODEL, START, **task_settings(3, rounds=9, max_failures=9))

        def part(i: int) -> list[str]:
            arguments = server.url, tmp_path / f"device-{i}", synthetic_device(i), server.authority
            options = {"policy": Policy(3), "stop": stop, "tell": tell}
            with Device(*arguments, server.enrol_token, **options) as device:
                return [report.outcome for report in device.run()]

        with ThreadPoolExecutor(3) as pool:
            list(pool.map(part, range(3)))
        assert [entry["counts"] for entry in operator.status("t")["rounds"]][1:] == [{}]
    assert len(said) == 3
    assert all("round 2 of t declined: task t: the update of model" in text for text in said)


def test_two_devices_never_share_a_folder(tmp_path):
    arguments = "http://127.0.0.1:9", tmp_path / "device", NeverTrains(), bytes(32)
    with (
        Device(*arguments),
        pytest.raises(SettingsError, match="device is in use by another device"),
    ):
        Device(*arguments)
    with Device(*arguments):
        pass


@pytest.mark.parametrize(
    ("answer", "wrong"),
    [
        (b"Content-Encoding: gzip\r\nContent-Length: 2\r\n\r\nab", "compressed"),
        (b"Content-Length: %d\r\n\r\n%s" % (1 << 29, bytes(1 << 29)), "more than"),
    ],
)
def test_an_answer_that_would_fill_the_memory_is_refused(answer, wrong):
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer_once():
            connection, _ = listener.accept()
            with connection, suppress(OSError):
                connection.recv(65536)
                connection.sendall(b"HTTP/1.1 200 OK\r\n" + answer)

        threading.Thread(target=answer_once, daemon=True).start()
        http = Http(f"http://127.0.0.1:{listener.getsockname()[1]}", Identity(bytes(32)), 1.0)
        with pytest.raises(Malformed, match=wrong):
            http.call("GET", "/models/x", signed=False)
        http.close()


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
    whole = path.read_text()
    for text in (whole[:-3], "[" * 100_000, "{}", "9" * 5000, "\ufeff" + whole):
        path.write_text(text)
        with pytest.raises(errors.SettingsError, match="damaged"):
            Journal(path)


def test_a_damaged_certificate_is_named(tmp_path):
    (tmp_path / "certificate").write_bytes(b"no certificate")
    arguments = "http://127.0.0.1:9", tmp_path, NeverTrains(), bytes(32)
    with Device(*arguments) as device, pytest.raises(errors.SettingsError, match=r"te is damaged"):
        device.enrol()


@pytest.mark.parametrize("asked", [0.0, -1.0, 0.01, 2.5, 1e9])
def test_a_server_that_answers_at_once_is_not_asked_without_a_pause(server_that_waits, asked):
    http = Http(server_that_waits, identity_of(b"x"))
    begun = time.monotonic()
    http.call("POST", "/checkin", signed=False)
    wait = http.wait_s(asked)
    assert begun + 0.1 - time.monotonic() <= wait <= max(0.1, min(asked, 3600))
    assert wait >= min(asked, 3600)
    http.close()


def test_the_questions_to_a_server_that_says_come_again_at_once_are_few(server_that_waits):
    """It answers each GET with 204 and no wait; a loop without a floor would ask until stopped."""
    stop = threading.Event()
    http = Http(server_that_waits, identity_of(b"x"), stop=stop)
    timer = threading.Timer(0.5, stop.set)
    timer.start()
    with pytest.raises(errors.ServerUnreachable, match="stopped"):
        http.poll("/sessions/00/adverts")
    timer.join()
    assert len(asked_of[server_that_waits]) <= 6
    http.close()


asked_of: dict[str, list[str]] = {}


@pytest.fixture
def server_that_waits():
    """Its address: a server that answers whatever comes with 204 and `x-retry-ms: 0`."""

    class Answer(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self):
            asked.append(self.path)
            self.send_response(204)
            self.send_header(wire.RETRY_MS, "0")
            self.end_headers()

        do_POST = do_GET

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Answer) as server:
        url = f"http://127.0.0.1:{server.server_port}"
        asked = asked_of[url] = []
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield url
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("text", ["soon", "nan", "1e300", "-1", "9" * 30])
def test_a_header_that_is_no_bounded_number_is_malformed(monkeypatch, text):
    answer = httpx.Response(401, headers={wire.LAST_COUNTER: text})
    http = Http("http://127.0.0.1:9", identity_of(b"x"))
    monkeypatch.setattr(http, "_send_once", lambda *_: answer)
    with pytest.raises(errors.Malformed, match="whole number"):
        http.call("GET", "/x")
    http.close()


def test_a_device_that_declines_two_tasks_is_offered_the_third(tmp_path):
    said, offers = [], []
    with serving(tmp_path) as server, server.operator() as operator:
        check_in = server.service.rounds.check_in

        def counted(caller, *arguments):
            reply = check_in(caller, *arguments)
            if reply is not None and reply.kind == wire.OFFER:
                offers.append((caller.id, wire.Offer.from_bytes(reply.body).context.task))
            return reply

        server.service.rounds.check_in = counted
        for name in ("loose", "wide", "fine"):
            settings = task_settings(3) if name == "fine" else task_settings(3, clip_norm=200.0)
            operator.create_task(name, MODEL, START, **settings)
        fleet = [
            Device(server.url, tmp_path / f"d{i}", synthetic_device(i), server.authority,
                   server.enrol_token, policy=Policy(3), tell=said.append)
            for i in range(3)
        ]  # fmt: skip
        with ThreadPoolExecutor(3) as pool:
            reports = list(pool.map(lambda device: next(device.run(1)), fleet))
        for device in fleet:
            device.close()
    assert [(report.task, report.outcome) for report in reports] == [("fine", "done")] * 3
    assert sum("declined" in text for text in said) == 6
    for device in (1, 2, 3):
        assert [task for who, task in offers if who == device] == ["loose", "wide", "fine"]


def test_what_a_header_says_is_declined_is_read_strictly():
    places = [(f"t-{i}", i) for i in range(40)]
    text = wire.declined_text([*places, ("a b", 1), ("x\r\ny", 2), ("", 3)])
    assert wire.declined_of(text) == frozenset(places[-wire.MOST_DECLINED :])
    assert wire.declined_of("") == frozenset()
    for bad in ("t", "t/-1", "t/1,u/2", "t/1, ", "/1", f"{text}, t/1", "t/1\n"):
        with pytest.raises(Malformed, match="x-declined"):
            wire.declined_of(bad)


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
