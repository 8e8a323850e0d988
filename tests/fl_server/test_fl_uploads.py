"""Vectors that come in parts: lost connections, a server that dies, devices that play foul."""

from __future__ import annotations

import hashlib
import threading

import httpx
import numpy as np
import pytest
from fl_fleet import LENGTH, MODEL, FlakyProxy, Fleet, Killable, fleet_of, serving, task_settings
from fl_people import seeded
from fl_world import START, World, enrolment, identity_of

from fl_server import errors
from fl_server import messages as wire
from fl_server.device import http
from fl_server.secagg import labels
from fl_server.secagg.encode import Update


@pytest.fixture
def small_parts(monkeypatch):
    """A vector of these tests has 52 bytes: three parts and a short one."""
    monkeypatch.setattr(http, "_PART_BYTES", 16)


def test_rounds_whose_vectors_come_in_parts_are_those_of_whole_ones(tmp_path, monkeypatch):
    found = []
    for size in (1 << 20, 16):
        monkeypatch.setattr(http, "_PART_BYTES", size)
        folder = tmp_path / str(size)
        with serving(folder) as server, server.operator() as operator:
            operator.create_task("parts", MODEL, START, **task_settings(4, rounds=2))
            reports = fleet_of(server, folder, 4).run()
            found.append(operator.weights("parts"))
        assert all([r.outcome for r in device] == ["done", "done"] for device in reports)
        assert not list((folder / "server/vectors").rglob("*.parts/*"))
    # Rounding is drawn anew in each session: the two means differ by less than two of its steps.
    np.testing.assert_allclose(found[0], found[1], atol=2 * 2 * 2 / (2**16 - 1))
    assert np.abs(found[0]).max() > 0.1


@pytest.mark.usefixtures("small_parts")
def test_parts_whose_answers_are_lost_are_not_taken_twice(tmp_path):
    with serving(tmp_path) as server, server.operator() as operator:
        operator.create_task("flaky", MODEL, START, **task_settings(5))
        proxy = FlakyProxy(int(server.url.rpartition(":")[2]))
        reports = Fleet(proxy.url, server.authority, server.enrol_token, tmp_path, 5).run()
        (entry,) = operator.status("flaky")["rounds"]
        proxy.close()
    assert proxy.cut > 10
    assert [[r.outcome for r in device] for device in reports] == [["done"]] * 5
    assert (entry["stage"], entry["survivors"]) == ("finished", 5)  # the checksum was right


@pytest.mark.usefixtures("small_parts")
def test_a_server_killed_between_parts_goes_on_from_what_it_acknowledged(
    tmp_path, monkeypatch, database
):
    server = Killable(tmp_path / "server", *(["--database", database] if database else []))
    put_part, lock, begun = http.Http._put_part, threading.Lock(), []

    def dies_now_and_then(self, path, data, part):
        with lock:
            begun.append(part.first)
            if len(begun) in (3, 7):
                server.kill()
                server.start()
        return put_part(self, path, data, part)

    monkeypatch.setattr(http.Http, "_put_part", dies_now_and_then)
    try:
        with server.operator() as operator:
            operator.create_task("crash", MODEL, START, **task_settings(3))
        url, token = f"http://127.0.0.1:{server.port}", server.read("enrol.token")
        reports = Fleet(url, server.authority, token, tmp_path, 3).run()
        with server.operator() as operator:
            (entry,) = operator.status("crash")["rounds"]
    finally:
        server.kill()
    assert [[r.outcome for r in device] for device in reports] == [["done"]] * 3
    assert (entry["stage"], entry["survivors"]) == ("finished", 3)
    assert sorted(begun) == sorted([0, 16, 32, 48] * 3)  # no part was sent again from the start


def masked_world(folder, database=""):
    """A world whose round awaits vectors, its session, and three callers with their states."""
    world = World(folder, database, min_cohort=2, target_cohort=3)
    joined = [world.join(i) for i in range(3)]
    for caller, state, _ in joined:
        again = wire.CheckIn("t", 1, state.message)
        session = world.rounds.check_in(caller, again).body.hex()
    shared = []
    for caller, state, _ in joined:
        cohort = world.rounds.get(caller, session, "advertise")
        shared.append((caller, state.receive_cohort(cohort, world.now)))
        world.rounds.put(caller, session, "share", shared[-1][1].message)
    states = []
    for caller, state in shared:
        boxes = world.rounds.get(caller, session, "share")
        update = Update(np.full(LENGTH, 0.25, np.float32), 1, 0.5, 1, 2)
        states.append((caller, state.receive_shares(boxes, update)))
    return world, session, states


@pytest.fixture
def masked(tmp_path):
    return masked_world(tmp_path)


@pytest.fixture
def open_round(masked):
    """The same with the callers' vectors alone."""
    world, session, states = masked
    return world, session, [(caller, state.message) for caller, state in states]


def part(vector: bytes, first: int, last: int, whole: bytes | None = None) -> wire.Part:
    digest = hashlib.sha256(vector if whole is None else whole).digest()
    return wire.Part(first, last - 1, len(vector), digest)


def test_what_was_acknowledged_is_there_after_a_restart(open_round):
    world, session, ((caller, vector), *others) = open_round
    world.uploads.put(caller, session, part(vector, 0, 20), vector[:20])
    world.restart()
    uploads = world.uploads
    assert uploads.offset(caller, session) == 20
    uploads.put(caller, session, part(vector, 20, len(vector)), vector[20:])
    assert uploads.offset(caller, session) is None
    uploads.put(caller, session, part(vector, 20, len(vector)), vector[20:])  # it is harmless
    for other, whole in others:
        world.rounds.put(other, session, "vector", whole)
    assert world.rounds.live("t").stage == "agree"


def test_a_server_that_dies_before_the_round_has_the_vector_takes_the_last_part_again(open_round):
    world, session, ((caller, vector), *_) = open_round
    uploads, put = world.uploads, world.rounds.put
    uploads.put(caller, session, part(vector, 0, 20), vector[:20])

    def dies(*_: object) -> None:
        raise OSError("no space left on device")

    world.rounds.put = dies
    with pytest.raises(OSError, match="no space"):
        uploads.put(caller, session, part(vector, 20, len(vector)), vector[20:])
    world.rounds.put = put
    assert caller.id not in world.rounds.live("t").senders("vector")
    uploads.put(caller, session, part(vector, 20, len(vector)), vector[20:])
    assert caller.id in world.rounds.live("t").senders("vector")


def test_a_part_that_is_written_while_the_round_ends_leaves_nothing(open_round, monkeypatch):
    world, session, ((caller, vector), *_) = open_round
    write = world.store.files.write

    def slow(name, body):
        world.rounds.stop_task("t")
        write(name, body)

    monkeypatch.setattr(world.store.files, "write", slow)
    with pytest.raises(errors.Gone):
        world.uploads.put(caller, session, part(vector, 0, 8), vector[:8])
    assert not [path for path in world.store.folder.rglob("*.parts/*") if path.is_file()]


def test_a_refusal_without_a_body_says_what_it_is(tmp_path):
    with serving(tmp_path) as server:
        device = http.Http(server.url, identity_of(b"nobody"), patience_s=1)
        with pytest.raises(errors.ServerRefused, match="Unauthorized"):
            device._until_answered(lambda: device._send("HEAD", "/sessions/00/vector", b"", True))
        device.close()


def test_a_part_goes_where_the_ones_before_it_end(open_round):
    world, session, ((caller, vector), *_) = open_round
    uploads = world.uploads
    with pytest.raises(errors.WrongOffset, match="begins at byte 8, want 0"):
        uploads.put(caller, session, part(vector, 8, 16), vector[8:16])
    uploads.put(caller, session, part(vector, 0, 8), vector[:8])
    with pytest.raises(errors.WrongOffset, match="begins at byte 0, want 8"):
        uploads.put(caller, session, part(vector, 0, 8), vector[:8])
    with pytest.raises(errors.Malformed, match="a part of 7 bytes, 8 were announced"):
        uploads.put(caller, session, part(vector, 8, 16), vector[8:15])
    assert uploads.offset(caller, session) == 8


def test_the_first_part_fixes_the_vector(open_round):
    world, session, ((caller, vector), *_) = open_round
    uploads, other = world.uploads, bytes(len(vector))
    uploads.put(caller, session, part(vector, 0, 8), vector[:8])
    with pytest.raises(errors.StageReplayed, match="of another vector"):
        uploads.put(caller, session, part(other, 8, len(other)), other[8:])
    uploads.put(caller, session, part(vector, 8, len(vector)), vector[8:])
    with pytest.raises(errors.StageReplayed):
        world.rounds.put(caller, session, "vector", other)


def test_parts_without_their_digest_begin_anew(open_round):
    world, session, ((caller, vector), *_) = open_round
    uploads, damaged = world.uploads, bytes(len(vector))
    with pytest.raises(errors.Malformed, match="do not have the digest"):
        uploads.put(caller, session, part(damaged, 0, len(vector), whole=vector), damaged)
    assert uploads.offset(caller, session) == 0
    assert caller.id not in world.rounds.live("t").senders("vector")
    uploads.put(caller, session, part(vector, 0, len(vector)), vector)
    assert caller.id in world.rounds.live("t").senders("vector")


def test_a_part_that_comes_when_the_stage_is_over_is_refused(open_round):
    world, session, ((late, vector), *others) = open_round
    uploads = world.uploads
    uploads.put(late, session, part(vector, 0, 8), vector[:8])
    for other, whole in others:
        world.rounds.put(other, session, "vector", whole)
    world.now += 10_000
    world.rounds.tick()
    with pytest.raises(errors.Gone):
        uploads.put(late, session, part(vector, 8, len(vector)), vector[8:])
    with pytest.raises(errors.Gone):
        uploads.offset(late, session)


def test_a_vector_that_is_in_the_sum_may_come_again_when_the_round_is_finished(masked):
    world, session, states = masked
    rounds, vector = world.rounds, states[0][1].message
    for caller, state in states:
        rounds.put(caller, session, "vector", state.message)
    agreed = [(c, s.receive_survivors(rounds.get(c, session, "vector"))) for c, s in states]
    for caller, state in agreed:
        rounds.put(caller, session, "agree", state.message)
    revealed = [(c, s.receive_agreements(rounds.get(c, session, "agree"))) for c, s in agreed]
    for caller, state in revealed:
        rounds.put(caller, session, "reveal", state.message)
    assert world.stages() == ["finished"]
    uploads, (caller, _), stranger = world.uploads, states[0], world.enrol(7)[1]
    last = part(vector, 32, len(vector))
    uploads.put(caller, session, last, vector[32:])
    rounds.put(caller, session, "vector", vector)
    assert uploads.offset(caller, session) is None
    for again in (
        lambda: uploads.put(stranger, session, last, vector[32:]),
        lambda: rounds.put(stranger, session, "vector", vector),
        lambda: uploads.offset(stranger, session),
    ):
        with pytest.raises(errors.RoundFinished):
            again()


BAD_HEADERS = [
    {"content-range": "bytes 0-7"},
    {"content-range": "bytes 9-7/52"},
    {"content-range": "bytes 0-52/52"},
    {"content-range": f"bytes 0-{10**13}/{10**14}"},
    {"content-range": "items 0-7/52"},
    {"repr-digest": ""},
    {"repr-digest": "sha-256=:AAAA:"},
    {"repr-digest": f"sha-256=:{'=' * 44}:"},
    {"repr-digest": "md5=:AAAA:"},
]


@pytest.mark.parametrize("changed", BAD_HEADERS)
def test_headers_that_name_no_part_are_refused_in_one_line(tmp_path, changed):
    good = wire.Part(0, 7, 52, bytes(32)).headers
    assert wire.Part.from_headers(*good.values()) == wire.Part(0, 7, 52, bytes(32))
    with pytest.raises(errors.Malformed) as caught:
        wire.Part.from_headers(*(good | changed).values())
    assert "\n" not in str(caught.value)


def test_where_a_part_goes_is_signed(tmp_path):
    with serving(tmp_path) as server, server.operator() as operator:
        operator.create_task("t", MODEL, START, **task_settings(3))
        device = http.Http(server.url, identity_of(b"signs"), patience_s=1)
        message = enrolment(device._identity, server.enrol_token.encode())
        answer = device.call("POST", "/enrol", message.to_bytes(), signed=False)
        device.client_id = wire.Enrolled.from_bytes(answer).certificate.subject.client
        place = wire.Part(0, 7, 52, seeded("digest")(32))
        for sent in ({}, wire.Part(8, 15, 52, place.digest).headers):
            signed = wire.request_signed("GET", "/models/00", 10**18, b"", place)
            signature = device._identity.sign(labels.REQUEST, signed).hex()
            headers = {"authorization": f"MS1 {device.client_id} {10**18} {signature}"} | sent
            found = httpx.get(f"{server.url}/models/00", headers=headers)
            assert (found.status_code, found.text.partition(":")[0]) == (401, "Unauthorised")
        device.close()
