"""What breaks beside the server: its disk, its database, its clock. Nothing it took is lost."""

from __future__ import annotations

import subprocess
import threading
import time

import numpy as np
import pytest
from fl_fleet import LENGTH, MODEL, fleet_of, serving, task_settings
from fl_world import World
from sqlalchemy import event
from sqlalchemy.exc import OperationalError
from test_fl_rounds import expected_weights

from fl_server.secagg.run import Stage
from fl_server.service import Watch

START = np.zeros(LENGTH, np.float32)


def all_done(reports) -> bool:
    return all(r.outcome == "done" for device in reports for r in device)


def test_a_server_that_starts_anew_after_each_message_has_them_all(tmp_path, database, opened):
    world = opened(World(tmp_path, database, min_cohort=3, target_cohort=4))
    for i in range(4):
        world.join(i)
        world.restart()

    def call(work):
        answer = work()
        world.restart()
        return answer

    world.play(call)
    assert world.stages() == ["finished"]
    assert record_of(world)["survivors"] == 4


def record_of(world: World) -> dict:
    from fl_server.rounds import record

    return record.of_task(world.store, "t")[0]


class Breaks:
    """Makes the database fail at its n-th statement from now on, commits among them."""

    def __init__(self, engine) -> None:
        self.left = 0
        event.listen(engine, "before_cursor_execute", self._count)
        event.listen(engine, "commit", self._count)

    def _count(self, *_: object) -> None:
        self.left -= 1
        if self.left == 0:
            raise OperationalError("a statement", {}, OSError("the connection is lost"))


def test_a_database_that_fails_at_any_statement_loses_and_doubles_nothing(
    tmp_path, database, opened
):
    """Each call fails at its first statement, then at its second, and so on until it is answered,
    as a device's would."""
    world = opened(World(tmp_path, database, min_cohort=2, target_cohort=3))
    for i in range(3):
        world.join(i)
    breaks, failures = Breaks(world.store._engine), 0

    def call(work):
        nonlocal failures
        for statement in range(1, 100):
            breaks.left = statement
            try:
                answer = work()
            except OperationalError:
                failures += 1
                continue
            finally:
                breaks.left = 0
            return answer
        raise AssertionError("never answered")

    world.play(call)
    assert failures > 100
    assert world.stages() == ["finished"]
    entry = record_of(world)
    assert entry["survivors"] == 3
    assert world.rounds.weights.latest("t").version == 1
    mean = world.rounds.weights.values(world.rounds.weights.latest("t"))
    np.testing.assert_allclose(mean, 0.25, atol=1e-4)


def test_a_round_survives_a_database_that_is_killed_and_comes_back(tmp_path, postgres):
    database = postgres.database("gone")
    lock, seen = threading.Lock(), dict.fromkeys(Stage, 0)

    def take_the_database_away(i: int, stage: Stage) -> None:
        with lock:
            seen[stage] += 1
            if seen[stage] == 2 and stage in (Stage.SHARE, Stage.VECTOR):
                postgres.kill()
                postgres.start()

    with serving(tmp_path, database_url=database) as server, server.operator() as operator:
        operator.create_task("t", MODEL, START, **task_settings(4))
        fleet = fleet_of(server, tmp_path, 4, on_stage=take_the_database_away)
        reports = fleet.run()
        (entry,) = operator.wait("t")["rounds"]
        after = operator.weights("t")
    assert all_done(reports)
    expected = expected_weights(fleet, list(range(4)), 4, bytes.fromhex(entry["session"]), START)
    np.testing.assert_array_equal(after, expected)


@pytest.fixture
def small_disk(tmp_path):
    """A folder on a disk of two megabytes."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(folder)]
    if subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("no disk can be mounted here: that wants root")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_a_round_survives_a_disk_that_is_full_for_a_while(tmp_path, small_disk):
    lock, filled = threading.Lock(), threading.Event()
    ballast = small_disk / "ballast"

    def fill(i: int, stage: Stage) -> None:
        with lock:
            if stage != Stage.SHARE or filled.is_set():
                return
            filled.set()
            with ballast.open("wb", buffering=0) as file:
                try:
                    while True:
                        file.write(bytes(4096))
                except OSError:
                    pass
            threading.Timer(0.7, ballast.unlink).start()

    with serving(small_disk) as server, server.operator() as operator:
        operator.create_task("t", MODEL, START, **task_settings(4))
        reports = fleet_of(server, tmp_path, 4, on_stage=fill).run()
        (entry,) = operator.wait("t")["rounds"]
        assert not [p for p in small_disk.rglob(".*") if p.is_file()]  # nothing half-written
    assert filled.is_set()
    assert all_done(reports)
    assert (entry["stage"], entry["survivors"]) == ("finished", 4)


@pytest.mark.parametrize("jump_s", [86400.0, -86400.0])
def test_a_round_survives_a_clock_that_jumps_by_a_day(tmp_path, jump_s):
    ahead = [0.0]

    def jump(i: int, stage: Stage) -> None:
        if i == 0 and stage in (Stage.SHARE, Stage.AGREE):
            ahead[0] += jump_s if stage == Stage.SHARE else -jump_s

    clock = {"clock": lambda: time.time() + ahead[0]}
    with serving(tmp_path, **clock) as server, server.operator() as operator:
        operator.create_task("t", MODEL, START, **task_settings(4))
        reports = fleet_of(server, tmp_path, 4, on_stage=jump).run()
        (entry,) = operator.wait("t")["rounds"]
    assert all_done(reports)
    assert (entry["stage"], entry["survivors"]) == ("finished", 4)


def test_a_watch_tells_jumps_and_absences_once():
    watch = Watch(1000.0, 5.0)
    assert not watch.has_jumped(1060.0, 65.0)
    assert not watch.has_jumped(1063.0, 65.0)  # it was set right by a little
    assert watch.has_jumped(5000.0, 66.0)
    assert not watch.has_jumped(5010.0, 76.0)
    assert watch.has_jumped(1000.0, 77.0)
    watch.was_away()
    assert watch.has_jumped(1001.0, 78.0)
    assert not watch.has_jumped(1002.0, 79.0)


def test_after_a_jump_or_an_absence_the_open_stage_has_its_whole_time(tmp_path, database, opened):
    world = opened(World(tmp_path, database, min_cohort=2, target_cohort=3, join_s=60))
    world.join(0)
    world.now += 86400
    world.rounds.resume()
    assert world.rounds.tick() == world.now + 60
    assert world.stages() == ["advertise"]
    world.now -= 2 * 86400
    world.rounds.resume()
    assert world.rounds.tick() == world.now + 60
