"""Rounds as buffers (FedBuff): updates of older weights are taken, together with their like."""

from __future__ import annotations

import threading
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx
import numpy as np
import pytest
from fl_fleet import LENGTH, MODEL, Keeping, fleet_of, serving, task_settings
from fl_people import seeded
from fl_world import START, World

from fl_server import messages as wire
from fl_server import task_checks
from fl_server.device import Device
from fl_server.device.linear import synthetic_device
from fl_server.errors import Gone, SettingsError
from fl_server.rounds import record
from fl_server.secagg.client import join
from fl_server.secagg.encode import Update
from fl_server.secagg.policy import Memory, Policy
from fl_server.task_settings import TaskSettings

UPDATE = Update(np.full(LENGTH, 0.25, np.float32), 1, 0.5, 1, 2)
ASK = wire.CheckIn("", 0, b"")


class Trained:
    """A device that has been offered a round and is through with its training."""

    def __init__(self, world: World, i: int) -> None:
        self.world, self.memory, self.random = world, Memory(), seeded(i)
        self.member, self.caller = world.enrol(i)
        self.state = None
        self.ask()

    def ask(self) -> None:
        self.offer = wire.Offer.from_bytes(self.world.rounds.check_in(self.caller, ASK).body)

    @property
    def round(self) -> int:
        return self.offer.context.round

    def advertise(self) -> wire.CheckInReply | None:
        arguments = Policy(2), self.memory, self.random
        self.state = join(self.member, self.offer.context, self.offer.encoding, *arguments)
        return self.again()

    def again(self) -> wire.CheckInReply | None:
        message = wire.CheckIn("t", self.round, self.state.message)
        return self.world.rounds.check_in(self.caller, message)

    def join(self) -> wire.CheckInReply | None:
        """Into the round that was offered, or one that is offered in its place."""
        reply = self.again() if self.state is not None else self.advertise()
        if reply is not None and reply.kind == wire.OFFER:
            later = wire.Offer.from_bytes(reply.body)
            assert later.context.model == self.offer.context.model
            self.offer = later
            reply = self.advertise()
        return reply


def go_through(world: World, devices: list[Trained]) -> None:
    """The rest of a round whose cohort these are."""
    (session,) = {device.again().body.hex() for device in devices}
    for before, stage, step in (
        ("advertise", "share", lambda s, r: s.receive_cohort(r, world.now)),
        ("share", "vector", lambda s, r: s.receive_shares(r, UPDATE)),
        ("vector", "agree", lambda s, r: s.receive_survivors(r)),
        ("agree", "reveal", lambda s, r: s.receive_agreements(r)),
    ):
        for device in devices:
            reply = world.rounds.get(device.caller, session, before)
            device.state = step(device.state, reply)
        for device in devices:
            world.rounds.put(device.caller, session, stage, device.state.message)


def value(world: World) -> float:
    weights = world.rounds.weights
    return float(weights.values(weights.latest("t"))[0])


def world_of(folder, database="", **task) -> World:
    settings = {"min_cohort": 2, "target_cohort": 2, "rounds": 9, "max_staleness": 1} | task
    return World(folder, database, **settings)


def test_late_updates_fill_a_buffer_of_their_own_and_count_for_less(tmp_path, database, opened):
    world = opened(world_of(tmp_path, database))
    fast, slow = ([Trained(world, i) for i in group] for group in ((0, 1), (2, 3)))
    for device in fast:
        device.join()
    go_through(world, fast)
    assert value(world) == pytest.approx(0.25, abs=1e-4)
    for device in slow:
        assert device.round == 1
        world.restart()  # what is open follows from what is kept
        device.join()
        assert device.round == 2
    go_through(world, slow)
    assert value(world) == pytest.approx(0.25 + 0.25 / 2**0.5, abs=2e-4)
    rounds = record.of_task(world.store, "t")
    assert [(r["stage"], r.get("staleness")) for r in rounds] == [("finished", 0), ("finished", 1)]


def test_buffers_of_several_versions_are_open_side_by_side(tmp_path):
    world = world_of(tmp_path, max_staleness=3)
    first, second, late = ([Trained(world, i) for i in g] for g in ((0, 1), (2, 3), (4, 5)))
    for device in [*first, *second, late[0]]:
        device.join()
    assert [device.round for device in (*second, late[0])] == [2, 2, 3]
    fresh = Trained(world, 6)  # on the newest weights, which nobody has changed yet
    assert fresh.round == 3
    go_through(world, second)  # the later one is through first
    go_through(world, first)
    assert value(world) == pytest.approx(0.25 + 0.25 / 2**0.5, abs=2e-4)
    fresh = [Trained(world, i) for i in (7, 8)]
    assert [device.round for device in fresh] == [4, 4]
    for device in fresh:
        device.join()
    assert world.stages() == ["finished", "finished", "advertise", "share"]
    late[1].join()
    assert late[1].round == 3
    go_through(world, fresh)
    go_through(world, late)
    rounds = record.of_task(world.store, "t")
    assert [r["staleness"] for r in rounds] == [1, 0, 3, 0]
    wanted = 0.25 * (1 + 2**-0.5 + 1 + 4**-0.5)
    assert value(world) == pytest.approx(wanted, abs=4e-4)
    world.close()


def test_updates_that_are_too_old_are_refused_and_those_who_wait_with_them_let_go(tmp_path):
    world = world_of(tmp_path)
    old, older = Trained(world, 10), Trained(world, 11)
    for pair in ((0, 1), (2, 3)):
        devices = [Trained(world, i) for i in pair]
        for device in devices:
            device.join()
        go_through(world, devices)
        if pair == (0, 1):
            assert old.join() is None  # it waits for one more of its like
            assert world.stages() == ["finished", "advertise"]
    assert world.stages() == ["finished", "failed", "finished"]
    for device in (old, older):
        with pytest.raises(Gone, match="2 versions old, at most 1 are taken"):
            device.again() if device is old else device.join()
        device.ask()
        assert device.round == 4
    world.close()


def test_an_update_outlasts_a_buffer_that_too_few_have_joined(tmp_path):
    world = world_of(tmp_path, join_s=60)
    alone = Trained(world, 0)
    assert alone.join() is None
    world.now += 61
    world.rounds.tick()
    assert world.stages() == ["failed"]
    assert alone.join() is None
    assert alone.round == 2
    other = Trained(world, 1)
    other.join()
    go_through(world, [alone, other])
    assert world.stages() == ["failed", "finished"]
    world.close()


def test_the_last_buffer_of_a_task_ends_all_others(tmp_path):
    world = world_of(tmp_path, rounds=1)
    first, second = ([Trained(world, i) for i in g] for g in ((0, 1), (2, 3)))
    for device in (*first, *second):
        device.join()
    go_through(world, first)
    assert world.stages() == ["finished", "failed"]
    assert world.rounds.tasks.get("t").state == "finished"
    with pytest.raises(Gone):
        go_through(world, second)
    assert value(world) == pytest.approx(0.25, abs=1e-4)
    world.close()


def test_stopping_and_rolling_back_end_every_buffer(tmp_path):
    world = world_of(tmp_path)
    for i in range(3):
        Trained(world, i).join()
    assert world.stages() == ["share", "advertise"]
    world.rounds.roll_back("t", 0)
    assert world.stages() == ["failed", "failed"]
    Trained(world, 5)
    world.rounds.stop_task("t")
    assert world.stages() == ["failed"] * 3
    world.close()


def test_devices_that_train_for_long_have_their_update_taken_over_http(tmp_path):
    released, reports = threading.Event(), []
    with serving(tmp_path) as server, server.operator() as operator:
        settings = task_settings(3, rounds=2, max_staleness=5)
        operator.create_task("t", MODEL, START, **settings)
        fleet = fleet_of(server, tmp_path, 6)
        begun = [threading.Event() for _ in range(3)]

        class Slow(Keeping):
            def train(self, weights, model):
                begun[self.place].set()
                released.wait(20)
                return super().train(weights, model)

        for i in range(3):
            slow = fleet.devices[i]._learning._trainer = Slow(fleet.trainers[i].trainer)
            slow.place = i

        def take_part(device):
            with device:
                reports.extend(device.run(1))

        threads = [threading.Thread(target=take_part, args=(d,)) for d in fleet.devices]
        for thread in threads[:3]:
            thread.start()
        for event in begun:
            event.wait(20)
        for thread in threads[3:]:
            thread.start()
        operator.status("t", after=0)  # once a round is over
        released.set()
        status = operator.wait("t")
        for thread in threads:
            thread.join(30)
    assert [r["staleness"] for r in status["rounds"]] == [0, 1]
    assert [report.outcome for report in reports] == ["done"] * 6
    assert sorted(report.round for report in reports) == [1, 1, 1, 2, 2, 2]


@pytest.mark.parametrize(
    ("changes", "refused"),
    [
        ({"context": {"model": bytes(32)}}, "ModelMismatch: the round offered in its place"),
        ({"context": {"task": "another"}}, "ModelMismatch: the round offered in its place"),
        ({"encoding": {"value_bits": 17}}, "EncodingMismatch: the round offered in its place"),
        ({"encoding": {"clip_norm": 99.0}}, "EncodingMismatch: the round offered in its place"),
        ({"min_cohort": 2}, "CohortTooSmall: may begin with 2 clients, this device's floor is 3"),
        ({"context": {"round": 1}}, "StaleRound: task t: round 1 comes after round 1"),
    ],
)
def test_a_server_moves_an_update_into_no_round_that_is_not_its_like(tmp_path, changes, refused):
    """A server that lies answers each advert with the offer of another round."""
    with serving(tmp_path) as server, server.operator() as operator:
        operator.create_task("t", MODEL, START, **task_settings(3, max_staleness=5))
        offers = []

        class Lies(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                body = self.rfile.read(int(self.headers.get("content-length", 0)))
                headers = {k: v for k, v in self.headers.items() if k.lower() != "host"}
                if self.path == "/checkin" and wire.CheckIn.from_bytes(body).advert:
                    answer = wire.CheckInReply(wire.OFFER, 0, lie(offers[0]).to_bytes()).to_bytes()
                else:
                    where = self.command, server.url + self.path
                    answer = httpx.request(*where, content=body, headers=headers).content
                    if self.path == "/checkin":
                        reply = wire.CheckInReply.from_bytes(answer)
                        offers.append(wire.Offer.from_bytes(reply.body))
                self.send_response(200)
                self.send_header("content-length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            do_POST = do_PUT = do_GET

            def log_message(self, *_):
                pass

        def lie(offer):
            context = replace(offer.context, **{"round": 2} | changes.get("context", {}))
            encoding = replace(offer.encoding, **changes.get("encoding", {}))
            least = changes.get("min_cohort", offer.min_cohort)
            return replace(offer, context=context, encoding=encoding, min_cohort=least)

        with ThreadingHTTPServer(("127.0.0.1", 0), Lies) as liar:
            thread = threading.Thread(target=liar.serve_forever)
            thread.start()
            url = f"http://127.0.0.1:{liar.server_port}"
            arguments = Keeping(synthetic_device(0, LENGTH)), server.authority, server.enrol_token
            with Device(url, tmp_path / "d", *arguments, policy=Policy(3)) as device:
                report = next(device.run())
            liar.shutdown()
            thread.join()
    assert report.outcome == "failed"
    assert report.error.startswith(refused)


def test_an_evaluation_has_no_staleness():
    with pytest.raises(SettingsError, match="want max_staleness 0"):
        task_checks.check(TaskSettings.checked(name="t", kind="evaluate", max_staleness=3), LENGTH)
