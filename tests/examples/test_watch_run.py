"""Runs of the demo: reuse, interruption, and failures of one line."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cloud.nas import Library
from examples.package_data import DataError
from examples.watch import data, federate, recipe, server
from examples.watch.__main__ import main
from examples.watch.run import Demo, Settings, fingerprint
from fl_server.errors import TrainingFailed
from tests.cloud.nas.models import file_of
from tests.examples.results import seed_result

ROOT = Path(__file__).resolve().parents[2]
SEED = 0
WINDOWS = data.Windows(np.zeros((16, 100, 1, 6), np.float32), np.arange(16, dtype=np.int32) % 7)
DEVICES = tuple(data.DeviceData(f"d{i}", i, "left", "a", WINDOWS, WINDOWS) for i in range(20))
Capture = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def keep_signals() -> Iterator[None]:
    kept = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, kept)


@pytest.fixture
def finished(tmp_path: Path) -> Path:
    """The folder of a run that is complete and up to date, but for the report."""
    mark = fingerprint(SEED, Settings())
    folder = tmp_path / "demo"
    (folder / f"seed{SEED}").mkdir(parents=True)
    kept = seed_result(SEED) | {"mark": mark}
    (folder / f"seed{SEED}" / "result.json").write_text(json.dumps(kept))
    library = Library(folder / "library")
    for name, hidden, accuracy in (("small", 4, 0.7), ("large", 2048, 0.9)):
        library.add(name, file_of(hidden), task=recipe.TASK, accuracy=accuracy)
    kept = {"mark": mark, "seconds": 1.0}
    (folder / "library" / "result.json").write_text(json.dumps(kept))
    return folder


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An untrained device model: a frozen int8 base and a head that trains."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((64, 100, 1, 6)).astype(np.float32)
    cloud = data.Windows(x, np.arange(64, dtype=np.int32) % 7)
    watch = data.WatchData(cloud, cloud, DEVICES, x[0, 0, 0], x[0, 0, 0], (1,), (2,))
    path = tmp_path_factory.mktemp("model") / "device.ms"
    return recipe.export_for_devices(recipe.student(rng), watch, path, rng)


def demo(folder: Path, *more: str, cache: str = "nowhere") -> int:
    return main(["--out", str(folder), "--data", cache, "--seeds", str(SEED), *more])


def fails(capsys: Capture, code: int) -> str:
    assert code == 1
    error = capsys.readouterr().err
    assert error.startswith("demo: ")
    assert error.count("\n") == 1
    return error


def test_a_run_that_is_up_to_date_is_reused_without_the_data(
    finished: Path, capsys: Capture
) -> None:
    assert demo(finished) == 0
    said = capsys.readouterr().out
    assert f"seed {SEED}: unchanged since the last run, reused" in said
    assert "small, accuracy 0.700" in said  # the library's search by latency
    first = {p: (finished / p).read_bytes() for p in ("report.html", "report.json", "report.txt")}
    assert demo(finished) == 0
    assert first == {p: (finished / p).read_bytes() for p in first}


def test_fresh_or_another_mark_or_a_damaged_result_is_run_again(
    finished: Path, tmp_path: Path, capsys: Capture
) -> None:
    cache = tmp_path / "file"
    cache.write_text("in the way")  # whoever asks for the data fails
    fresh = Demo(finished, cache, print, fresh=True)
    for part in (fresh.seed, fresh.library):
        with pytest.raises(DataError, match="cannot write in"):
            part(SEED)
    assert "cannot write in" in fails(capsys, demo(finished, "--fresh", cache=str(cache)))
    kept = finished / f"seed{SEED}" / "result.json"
    for text in (kept.read_text()[:-10], kept.read_text().replace('"mark": "', '"mark": "0'), "[]"):
        whole = kept.read_text()
        kept.write_text(text)
        assert "cannot write in" in fails(capsys, demo(finished, cache=str(cache)))
        kept.write_text(whole)
    assert demo(finished, cache=str(cache)) == 0
    assert kept.exists()  # what failed early has deleted nothing


def test_the_settings_and_the_seed_are_part_of_the_fingerprint() -> None:
    other = Settings(plan=federate.Plan(rounds=1))
    marks = {fingerprint(0, Settings()), fingerprint(1, Settings()), fingerprint(0, other)}
    assert len(marks) == 3
    assert fingerprint(0, Settings()) in marks


def test_a_damaged_library_is_one_line(finished: Path, capsys: Capture) -> None:
    (finished / "library" / "library.json").write_text("{")
    assert "not a library index" in fails(capsys, demo(finished))
    assert not (finished / "report.html").exists()


def test_an_out_folder_that_cannot_be_made_is_one_line(
    watch_file: Path, tmp_path: Path, capsys: Capture
) -> None:
    (tmp_path / "file").write_text("in the way")
    code = demo(tmp_path / "file" / "demo", cache=str(watch_file.parent))
    assert "Not a directory" in fails(capsys, code)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.usefixtures("watch_file")
def test_an_interrupted_run_leaves_no_report(tmp_path: Path, number: signal.Signals) -> None:
    command = [sys.executable, "-m", "examples.watch", "--out", str(tmp_path), "--seeds", "0"]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT
    )
    assert process.stdout is not None
    assert "cloud people" in process.stdout.readline()
    process.send_signal(number)
    _, error = process.communicate(timeout=60)
    assert process.returncode == 130
    assert error == "demo: interrupted; finished seeds are kept\n"
    assert [p.name for p in tmp_path.iterdir()] == ["seed0"]
    assert not (tmp_path / "seed0" / "result.json").exists()


class Stopped(federate.Fleet):
    """The demo's fleet; where its server was is kept."""

    seen: server.Server
    before: set[threading.Thread]

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        Stopped.seen, Stopped.before = self.server, set(threading.enumerate())


def over(fleet: type[Stopped]) -> bool:
    """Whether neither the server nor a thread of a device is left."""
    port = int(fleet.seen.url.rpartition(":")[2])
    with socket.socket() as probe:
        refused = probe.connect_ex(("127.0.0.1", port)) != 0
    return refused and set(threading.enumerate()) <= fleet.before


def test_an_interrupt_between_rounds_ends_server_and_devices(model: Path, tmp_path: Path) -> None:
    def interrupted(line: str) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        federate.federate(model, DEVICES, WINDOWS, tmp_path, 0, interrupted, fleet=Stopped)
    assert over(Stopped)
    assert not (tmp_path / "federated.ms").exists()


class Broken(Stopped):
    """Device 7 cannot train."""

    def trainer(self, i: int) -> Any:
        class Fails:
            def train(self, weights: np.ndarray, model: bytes) -> None:
                raise ValueError("no memory")

        return Fails() if i == 7 else super().trainer(i)


def test_a_device_that_breaks_ends_the_task_and_is_named(model: Path, tmp_path: Path) -> None:
    with pytest.raises(TrainingFailed, match="ValueError: no memory"):
        federate.federate(model, DEVICES, WINDOWS, tmp_path, 0, print, fleet=Broken)
    assert over(Broken)


def test_a_server_that_does_not_start_says_why(tmp_path: Path) -> None:
    (tmp_path / "server").mkdir()
    (tmp_path / "server" / "ca.key").write_text("too short")
    with pytest.raises(server.ServerFailed, match=r"ms-serve did not start: ms-serve: .+"):
        server.serving(tmp_path / "server").__enter__()


def test_what_the_server_says_is_kept(tmp_path: Path) -> None:
    with server.serving(tmp_path) as running:
        assert len(running.token("admin")) > 20
    assert running.url in (tmp_path / "ms-serve.log").read_text()


def test_nothing_is_made_before_the_data_is_there(tmp_path: Path) -> None:
    cache = tmp_path / "file"
    cache.write_text("in the way")
    said: list[str] = []
    with pytest.raises(DataError):
        Demo(tmp_path / "out", cache, said.append).seed(SEED)
    assert not (tmp_path / "out").exists()
