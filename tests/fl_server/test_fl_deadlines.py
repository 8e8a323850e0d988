"""The rounds of a task without HTTP: deadlines, failures, a store that fails, restarts."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace

import pytest
from fl_people import seeded
from fl_world import START, World
from sqlalchemy.exc import IntegrityError

from fl_server import errors
from fl_server import messages as wire
from fl_server.access.clients import Caller, StaleCounter
from fl_server.rounds import record
from fl_server.secagg import labels
from fl_server.secagg.client import join
from fl_server.secagg.encode import Update
from fl_server.secagg.messages import BAD_SHARE, Reveal
from fl_server.secagg.policy import Memory, Policy
from fl_server.storage import transcript


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
        return world.clients.authenticate(header, "GET", "/x", hashlib.sha256().digest())

    assert call(5).id == member.id
    call(7)
    for counter in (7, 6, 5):
        with pytest.raises(StaleCounter):
            call(counter)
    world.restart()
    with pytest.raises(StaleCounter) as caught:
        call(8)
    call(caught.value.last + 1)


def test_a_failed_round_keeps_who_was_named_and_who_said_what_of_whom(tmp_path):
    """One sends noise for its vector, so the round fails; one says of another that its share is
    bad, which stays; one reveals a share that is wrong, which its own message proves."""
    world = World(tmp_path, min_cohort=5, target_cohort=5)
    joined = [world.join(i) for i in range(5)]
    session = joined[-1][2].body.hex()

    def all_send(stage: str, after: str, step, change=lambda i, message: message) -> None:
        for i, (caller, state, _) in enumerate(joined):
            state = step(state, world.rounds.get(caller, session, after))
            joined[i] = caller, state, None
            if world.rounds.live("t").number == 1:  # all that is needed may be there
                world.rounds.put(caller, session, stage, change(i, state.message))

    def noise(i: int, message: bytes) -> bytes:
        return seeded("noise")(8) + message[8:] if i == 4 else message

    def said(i: int, message: bytes) -> bytes:
        first, *rest = Reveal.from_bytes(message).shares
        if i == 0:
            first = replace(first, kind=BAD_SHARE)
        if i == 1:
            first = replace(first, share=bytes(33))
        return Reveal((first, *rest)).to_bytes()

    all_send("share", "advertise", lambda state, reply: state.receive_cohort(reply, world.now))
    update = Update(START)
    all_send("vector", "share", lambda state, reply: state.receive_shares(reply, update), noise)
    all_send("agree", "vector", lambda state, reply: state.receive_survivors(reply))
    all_send("reveal", "agree", lambda state, reply: state.receive_agreements(reply), said)
    first, second = record.of_task(world.store, "t")
    assert (first["stage"], first["kind"]) == ("failed", "ChecksumMismatch")
    ids = [caller.id for caller, *_ in joined]
    assert first["blamed"] == [ids[1]]
    assert first["accusations"] == [[ids[0], ids[1]]]
    with world.store.begin() as db:
        assert json.loads(transcript.lines(db, "t", 1)[-1])["accusations"] == first["accusations"]
    assert second["stage"] == "advertise"
    assert world.rounds.check_in(joined[1][0], wire.CheckIn("", 0, b"")) is None


@pytest.mark.parametrize("jump_s", [600.0, -600.0])
def test_no_stage_ends_by_a_clock_that_is_set_while_deadlines_are_looked_at(tmp_path, jump_s):
    world = World(tmp_path, min_cohort=2, target_cohort=2, share_s=20)
    asked = world.now
    world.now += jump_s
    for i in range(2):
        world.join(i)  # the stage that follows has its deadline by the clock that was set
    world.rounds.tick(asked)
    world.now = asked
    world.rounds.tick(asked + jump_s)
    assert world.stages() == ["share"]
    world.now += jump_s + 20
    world.rounds.tick()
    assert world.stages()[0] == "failed"
