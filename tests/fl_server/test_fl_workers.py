"""Several workers behind one address, and processes and databases that die."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import numpy as np
from fl_fleet import LENGTH, MODEL, Fleet, Killable, task_settings
from test_fl_rounds import expected_weights

from fl_server.secagg.run import Stage

START = np.zeros(LENGTH, np.float32)


def workers_of(server: Killable) -> list[int]:
    """The processes of a server's workers: those of its children that serve."""
    command = ["pgrep", "-P", str(server.process.pid), "-f", "spawn_main"]
    found = subprocess.run(command, capture_output=True, text=True).stdout
    return [int(line) for line in found.split()]


def test_rounds_go_on_while_workers_behind_one_address_are_killed(tmp_path, postgres):
    database = postgres.database("killed")
    options = "--database", database, "--workers", "2"
    server = Killable(tmp_path / "server", *options)
    killed = []

    def kill_one(i: int, stage: object) -> None:
        if i == 0 and stage in (Stage.ADVERTISE, Stage.VECTOR):
            workers = workers_of(server)
            os.kill(workers[len(killed) % len(workers)], signal.SIGKILL)
            killed.append(stage)

    try:
        with server.operator() as operator:
            operator.create_task("t", MODEL, START, **task_settings(5, rounds=1))
        url, token = f"http://127.0.0.1:{server.port}", server.read("enrol.token")
        fleet = Fleet(url, server.authority, token, tmp_path, 5, on_stage=kill_one)
        reports = fleet.run()
        with server.operator() as operator:
            (entry,) = operator.wait("t")["rounds"]
            after = operator.weights("t")
    finally:
        server.process.send_signal(signal.SIGTERM)
        server.process.wait()
        server.process.stderr.close()
    assert len(killed) == 2
    assert [[r.outcome for r in device] for device in reports] == [["done"]] * 5
    assert (entry["stage"], entry["survivors"]) == ("finished", 5)
    expected = expected_weights(fleet, list(range(5)), 5, bytes.fromhex(entry["session"]), START)
    np.testing.assert_array_equal(after, expected)


def test_workers_end_with_the_process_that_started_them_however_that_ends(tmp_path, postgres):
    database = postgres.database("orphans")
    server = Killable(tmp_path / "server", "--database", database, "--workers", "2")
    with server.operator() as operator:
        operator.tasks()  # one of them serves
    workers = workers_of(server)
    server.kill()
    end = time.monotonic() + 60
    while any(Path(f"/proc/{pid}").exists() for pid in workers) and time.monotonic() < end:
        os.sched_yield()
    assert len(workers) == 2
    assert not [pid for pid in workers if Path(f"/proc/{pid}").exists()]


def test_a_worker_that_cannot_start_ends_the_server(tmp_path, postgres):
    """It would fail again in the same way."""
    database = postgres.database("broken")
    folder = tmp_path / "server"
    server = Killable(folder, "--database", database, "--workers", "2")
    with server.operator() as operator:
        operator.tasks()  # one of them serves
    os.kill(workers_of(server)[0], signal.SIGKILL)
    (folder / "ca.key").write_bytes(b"short")
    assert server.process.wait(20) == 1
    assert "an authority's key has 32" in server.process.stderr.read()
    server.process.stderr.close()
