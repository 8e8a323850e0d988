"""Whole rounds over real HTTP: exact sums with drop-outs, lost connections, a server that dies."""

from __future__ import annotations

import json
import threading

import numpy as np
import pytest
from fl_fleet import (
    LENGTH,
    MODEL,
    FlakyProxy,
    Fleet,
    Killable,
    fleet_of,
    serving,
    task_settings,
)
from fl_world import World

from fl_server.secagg.encode import Mean, decode
from fl_server.secagg.params import complete_graph
from fl_server.secagg.run import Stage
from fl_server.storage import transcript
from fl_server.strategy import STRATEGIES
from fl_server.strategy.average import FedAvg
from fl_server.task_settings import TaskSettings

START = np.zeros(LENGTH, np.float32)


def expected_mean(
    fleet: Fleet, survivors: list[int], cohort: int, session: bytes, index: int = 0
) -> Mean:
    """The mean of what the survivors encoded, summed as integers without any mask."""
    encoding = TaskSettings(name="t").encoding(LENGTH)
    params = complete_graph(cohort, encoding)
    words = [fleet.encoded(i, params, session, index).astype(np.uint64) for i in survivors]
    total = np.sum(words, axis=0, dtype=np.uint64) & np.uint64(2**params.ring_bits - 1)
    return decode(total.astype(np.uint32), len(survivors), params, session)


def expected_weights(
    fleet: Fleet, survivors: list[int], cohort: int, session: bytes, before: np.ndarray, index=0
) -> np.ndarray:
    """Plain FedAvg of what the survivors encoded."""
    mean = expected_mean(fleet, survivors, cohort, session, index)
    strategy = FedAvg()
    return strategy.apply(before, mean, strategy.start(LENGTH))[0]


def test_the_new_weights_are_plain_federated_averaging_bit_for_bit_with_drop_outs(tmp_path):
    vanish = {0: Stage.ADVERTISE, 1: Stage.SHARE, 2: Stage.VECTOR}
    with serving(tmp_path) as server, server.operator() as operator:
        settings = task_settings(12, share_s=5, vector_s=5)
        operator.create_task("sum", MODEL, START, **settings)
        fleet = fleet_of(server, tmp_path, 12, stop_after=vanish)
        reports = fleet.run()
        status = operator.status("sum")
        after = operator.weights("sum")
        lines = operator.transcript("sum", 1)
    (entry,) = status["rounds"]
    assert status["state"] == "finished"
    assert entry["counts"] == {"advertise": 12, "share": 11, "vector": 10, "agree": 9, "reveal": 9}
    survivors = [i for i in range(12) if i not in (0, 1)]
    session = bytes.fromhex(entry["session"])
    np.testing.assert_array_equal(after, expected_weights(fleet, survivors, 12, session, START))
    assert after.dtype == np.float32
    assert np.abs(after).max() > 0.1
    outcomes = [[report.outcome for report in device] for device in reports]
    assert outcomes == [["stopped"]] * 3 + [["done"]] * 9
    assert [device[0].stage for device in reports[:3]] == ["advertise", "share", "vector"]
    assert transcript.verify(lines, transcript.START)
    events = [json.loads(line)["event"] for line in lines]
    assert events == ["opened", "advertise", "share", "vector", "agree", "finished"]


def test_a_cohort_in_shards_gives_the_average_over_all_of_them(tmp_path):
    with serving(tmp_path) as server, server.operator() as operator:
        settings = task_settings(10, shard_size=5, share_s=6, vector_s=6)
        operator.create_task("shards", MODEL, START, **settings)
        fleet = fleet_of(server, tmp_path, 10, stop_after={3: Stage.SHARE})
        reports = fleet.run()
        (entry,) = operator.status("shards")["rounds"]
        after = operator.weights("shards")
        lines = [json.loads(line) for line in operator.transcript("shards", 1)]
    assert (entry["shards"], entry["lost"], entry["survivors"]) == (2, [], 9)
    place = {device.id: i for i, device in enumerate(fleet.devices)}
    means = []
    for shard in lines[1]["shards"]:
        alive = [place[client] for client in shard["clients"] if place[client] != 3]
        means.append(expected_mean(fleet, alive, 5, bytes.fromhex(shard["session"])))
    expected = sum(mean.delta * mean.clients for mean in means) / 9
    np.testing.assert_allclose(after, expected, rtol=0, atol=1e-7)
    assert [len(signed) > 0 for signed in lines[4]["signed"]] == [True, True]
    assert [device[0].outcome for i, device in enumerate(reports) if i != 3] == ["done"] * 9


def test_shards_are_the_same_when_a_server_comes_back(tmp_path):
    world = World(tmp_path, min_cohort=8, target_cohort=8, shard_size=4)
    joined = [world.join(i) for i in range(8)]
    before = world.rounds.live("t").session
    replies = [world.rounds.get(caller, before.id.hex(), "advertise") for caller, *_ in joined]
    world.restart()
    after = world.rounds.live("t").session
    assert after.id == before.id
    assert [s.id for s in after.sessions] == [s.id for s in before.sessions]
    assert len(before.sessions) == 2
    again = [world.rounds.get(caller, after.id.hex(), "advertise") for caller, *_ in joined]
    assert again == replies
    assert len(set(replies)) == 2


@pytest.mark.parametrize(("clip_value", "warned"), [(0.01, True), (5.0, False)])
def test_an_operator_is_told_where_updates_are_clamped(tmp_path, caplog, clip_value, warned):
    with serving(tmp_path) as server, server.operator() as operator:
        settings = task_settings(3, clip_value=clip_value)
        operator.create_task("narrow", MODEL, START, **settings)
        fleet_of(server, tmp_path, 3).run()
        (entry,) = operator.status("narrow")["rounds"]
    assert (entry["saturated"] > 0) == warned
    line = f"round 1: {entry['saturated']} coordinates of 3 clients were clamped to 0.01"
    assert (line in caplog.text) == warned


def test_rounds_follow_each_other_and_the_loss_falls(tmp_path):
    with serving(tmp_path) as server, server.operator() as operator:
        operator.create_task("learn", MODEL, START, **task_settings(4, rounds=3))
        fleet = fleet_of(server, tmp_path, 4)
        reports = fleet.run()
        status = operator.wait("learn")
        weights = [operator.weights("learn", version) for version in range(4)]
        chain = [line for n in (1, 2, 3) for line in operator.transcript("learn", n)]
    losses = [entry["loss"] for entry in status["rounds"]]
    assert losses[0] > 3 * losses[1] > 3 * losses[2]
    assert all([report.outcome for report in device] == ["done"] * 3 for device in reports)
    for index, entry in enumerate(status["rounds"]):
        session = bytes.fromhex(entry["session"])
        expected = expected_weights(fleet, [0, 1, 2, 3], 4, session, weights[index], index)
        np.testing.assert_array_equal(weights[index + 1], expected)
    transcript.verify(chain, transcript.START)
    changed = chain[3].replace('"round":1', '"round":2')
    with pytest.raises(transcript.BrokenTranscript):
        transcript.verify([*chain[:3], changed, *chain[4:]], transcript.START)


def test_the_model_is_downloaded_once_and_a_vector_is_as_small_as_designed(tmp_path):
    with serving(tmp_path) as server, server.operator() as operator:
        large = MODEL + bytes(30_000)
        operator.create_task("size", large, START, **task_settings(3, rounds=2))
        fleet = fleet_of(server, tmp_path, 3)
        (first, second), *_ = fleet.run()
    assert first.bytes_down > len(large) > second.bytes_down
    # ceil((16 + 7) * 18 / 8) = 52 bytes of vector, 276 + 148 k of protocol, check-ins of 24 to 230.
    assert 52 + 276 + 148 * 2 < second.bytes_up < 1200


def test_a_connection_that_breaks_again_and_again_changes_nothing(tmp_path):
    with serving(tmp_path) as server, server.operator() as operator:
        operator.create_task("flaky", MODEL, START, **task_settings(5, rounds=2))
        proxy = FlakyProxy(int(server.url.rpartition(":")[2]))
        fleet = Fleet(proxy.url, server.authority, server.enrol_token, tmp_path, 5)
        reports = fleet.run()
        status = operator.status("flaky")
        proxy.close()
        after = [operator.weights("flaky", version) for version in range(3)]
    assert proxy.cut > 20
    assert [entry["survivors"] for entry in status["rounds"]] == [5, 5]
    assert all([r.outcome for r in device] == ["done", "done"] for device in reports)
    for index, entry in enumerate(status["rounds"]):
        session = bytes.fromhex(entry["session"])
        expected = expected_weights(fleet, list(range(5)), 5, session, after[index], index)
        np.testing.assert_array_equal(after[index + 1], expected)


def test_a_server_killed_in_every_stage_resumes_and_the_round_is_exact(tmp_path, database):
    count = 4
    server = Killable(tmp_path / "server", *(["--database", database] if database else []))
    lock, seen = threading.Lock(), dict.fromkeys(Stage, 0)

    def kill_halfway(i: int, stage: Stage) -> None:
        # Half of the devices have an acknowledgement, the others have not sent or are waiting.
        with lock:
            seen[stage] += 1
            if seen[stage] == count // 2 and stage < Stage.REVEAL:
                server.kill()
                server.start()

    try:
        with server.operator() as operator:
            operator.create_task("crash", MODEL, START, **task_settings(count))
        url = f"http://127.0.0.1:{server.port}"
        token = server.read("enrol.token")
        fleet = Fleet(url, server.authority, token, tmp_path, count, on_stage=kill_halfway)
        reports = fleet.run()
        with server.operator() as operator:
            status = operator.status("crash")
            after = operator.weights("crash")
            transcript.verify(operator.transcript("crash", 1), transcript.START)
    finally:
        server.kill()
    (entry,) = status["rounds"]
    assert (entry["stage"], entry["survivors"]) == ("finished", count)
    assert [[report.outcome for report in device] for device in reports] == [["done"]] * count
    session = bytes.fromhex(entry["session"])
    expected = expected_weights(fleet, list(range(count)), count, session, START)
    np.testing.assert_array_equal(after, expected)


@pytest.mark.parametrize("name", ["fedavgm", "fedyogi"])
def test_a_strategy_goes_on_from_its_moments_when_the_server_was_killed(tmp_path, name):
    server, joined = Killable(tmp_path / "server"), []

    def kill_once(i: int, stage: Stage) -> None:
        joined.append((i, stage))
        if len(joined) == 4 * 5 * 2 - 1:  # the second round is as good as over
            server.kill()
            server.start()

    try:
        with server.operator() as operator:
            task = task_settings(4, rounds=3, strategy=name, momentum=0.5)
            operator.create_task("moments", MODEL, START, **task)
        url, token = f"http://127.0.0.1:{server.port}", server.read("enrol.token")
        fleet = Fleet(url, server.authority, token, tmp_path, 4, on_stage=kill_once)
        fleet.run()
        with server.operator() as operator:
            rounds = operator.status("moments")["rounds"]
            found = [operator.weights("moments", version) for version in range(4)]
    finally:
        server.kill()
    strategy = STRATEGIES[name](momentum=0.5)
    weights, moments = START, strategy.start(LENGTH)
    for index, entry in enumerate(rounds):
        mean = expected_mean(fleet, [0, 1, 2, 3], 4, bytes.fromhex(entry["session"]), index)
        weights, moments = strategy.apply(weights, mean, moments)
        np.testing.assert_array_equal(found[index + 1], weights)
    assert np.abs(moments).max() > 0
