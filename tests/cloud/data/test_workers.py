"""The processes of a pipeline end, whatever ends the iteration."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cloud import data
from tests.helpers import ROOT

SCRIPT = """
import os, sys, time
import numpy as np
from cloud import data

def slow(item):
    time.sleep(0.05)
    return item

if __name__ == "__main__":
    items = data.arrays(x=np.arange(1000)).map(slow).prefetch(3).epoch(0)
    next(items)
    print("started", flush=True)
    for item in items:
        pass
"""


def square(item: dict[str, Any]) -> dict[str, Any]:
    return {"x": item["x"] ** 2}


def group_size(group: int) -> int:
    """How many living processes a process group has."""
    count = 0
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            count += int(fields[2]) == group and fields[0] != "Z"
    return count


def wait_until_empty(group: int, timeout_s: float = 60.0) -> int:
    end = time.monotonic() + timeout_s
    while (left := group_size(group)) and time.monotonic() < end:
        os.sched_yield()
    return left


@pytest.fixture
def running(tmp_path: Path) -> Any:
    """A script that reads items made by three processes, in a process group of its own."""
    script = tmp_path / "read.py"
    script.write_text(SCRIPT)
    process = subprocess.Popen(
        [sys.executable, str(script)], cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stdout.readline() == "started\n"
    yield process
    process.kill()
    process.wait()
    for stream in (process.stdout, process.stderr):
        assert stream is not None
        stream.close()


linux = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


@linux
def test_ctrl_c_ends_the_processes_and_speaks_once(running: Any) -> None:
    assert group_size(running.pid) == 4
    os.killpg(running.pid, signal.SIGINT)  # as a terminal does: to all of them
    _, error = running.communicate(timeout=60)
    assert running.returncode in (-signal.SIGINT, 130)
    assert error.count("Traceback") == 1
    assert error.rstrip().endswith("KeyboardInterrupt")
    assert wait_until_empty(running.pid) == 0


@linux
def test_processes_end_when_their_parent_is_killed(running: Any) -> None:
    assert group_size(running.pid) == 4
    running.kill()
    running.wait()
    assert wait_until_empty(running.pid) == 0


def test_leaving_a_loop_early_ends_the_processes() -> None:
    items = data.arrays(x=np.arange(100)).map(square).prefetch(2).epoch(0)
    next(items)
    assert len(multiprocessing.active_children()) == 2
    items.close()  # type: ignore[attr-defined]
    assert not multiprocessing.active_children()


def test_an_error_ends_the_processes() -> None:
    with pytest.raises(data.DataError):
        list(data.arrays(x=np.arange(100)).map(lambda item: item["y"]).prefetch(2))
    assert not multiprocessing.active_children()


def test_new_processes_in_place_of_copies_give_the_same() -> None:
    rows = data.arrays(x=np.arange(9)).map(square).batch(2)
    spawned = list(rows.prefetch(1, method="spawn"))
    for a, b in zip(spawned, rows, strict=True):
        np.testing.assert_array_equal(a["x"], b["x"])


def test_a_function_that_new_processes_cannot_know_is_refused() -> None:
    with pytest.raises(ValueError, match="want functions that other modules can import"):
        list(data.arrays(x=np.arange(9)).map(lambda i: i).prefetch(1, method="spawn"))
    assert not multiprocessing.active_children()


def test_large_items_pass_whole() -> None:
    big = np.random.default_rng(0).random((6, 300, 1000))
    for i, item in enumerate(data.arrays(x=big).prefetch(2)):
        np.testing.assert_array_equal(item["x"], big[i])
