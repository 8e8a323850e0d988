"""The device in Java: it passes the vectors, and takes part in a round beside devices in Python."""

from __future__ import annotations

import re
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from fl_fleet import LENGTH, MODEL, fleet_of, serving, task_settings
from fl_vectors import FOLDER as GOLDEN

from fl_server.secagg.encode import Update, decode, encode
from fl_server.secagg.params import complete_graph
from fl_server.secagg.run import Stage
from fl_server.strategy.average import FedAvg
from fl_server.task_settings import TaskSettings

ROOT = Path(__file__).parents[2] / "android_demo" / "protocol"
JUNIT = [
    Path("/usr/share/java") / f"{name}.jar"
    for name in (
        "junit-jupiter-api",
        "junit-jupiter-engine",
        "junit-platform-commons",
        "junit-platform-console",
        "junit-platform-engine",
        "junit-platform-launcher",
        "junit-platform-reporting",
        "opentest4j",
        "opentest4j-reporting-events",
        "apiguardian-api",
        "picocli",
    )
]
COMPILER = ["javac", "--release", "17", "-Xlint:all", "-Werror", "-d"]

pytestmark = pytest.mark.skipif(
    shutil.which("javac") is None, reason="no javac: apt-get install openjdk-17-jdk-headless"
)


def sources(*folders: str) -> list[str]:
    return [str(path) for folder in folders for path in sorted((ROOT / folder).rglob("*.java"))]


def checks_in_the_sources() -> int:
    """Names that are put into the list of checks, written out."""
    return sum(
        len(re.findall(r'\.put\("', Path(path).read_text()))
        for path in sources("test")
        if path.endswith("Checks.java")
    )


@pytest.fixture(scope="module")
def classes(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("classes")
    subprocess.run([*COMPILER, str(folder), *sources("src", "test")], check=True)
    return folder


def test_it_passes_every_check_and_vector(classes):
    command = ["java", "-cp", str(classes), "mindspan.Checks", str(GOLDEN)]
    done = subprocess.run(command, capture_output=True, text=True)
    lines = done.stdout.splitlines()
    assert [line for line in lines if not line.startswith("ok ")] == []
    assert (done.returncode, done.stderr) == (0, "")
    rounds = len(list(GOLDEN.glob("round_*.json")))
    # The rounds are one line of source for all.
    assert len(lines) == checks_in_the_sources() - 1 + rounds > 40


def test_it_needs_no_class_of_android_nor_any_library():
    for path in sources("src"):
        for name in re.findall(r"^import (?:static )?([a-z]+)\.", Path(path).read_text(), re.M):
            assert name in ("java", "javax", "mindspan"), path


def test_its_checks_are_tests_of_junit_too(classes, tmp_path):
    missing = [jar.name for jar in JUNIT if not jar.exists()]
    if missing:
        pytest.skip(f"no {missing[0]}: apt-get install junit5")
    path = ":".join(map(str, [classes, tmp_path, *JUNIT]))
    lint = ["javac", "--release", "17", "-d", str(tmp_path), "-cp", path, *sources("junit")]
    subprocess.run(lint, check=True)
    command = ["java", f"-Dgolden={GOLDEN}", "-cp", path]
    command += ["org.junit.platform.console.ConsoleLauncher", "--scan-classpath", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    assert int(re.search(r"(\d+) tests successful", done.stdout)[1]) > 40


def test_it_joins_a_round_beside_devices_in_python_and_the_sum_is_exact(classes, tmp_path):
    known = np.linspace(-1.1, 0.9, LENGTH).astype(np.float32)
    start = np.zeros(LENGTH, np.float32)
    with serving(tmp_path) as server, server.operator() as operator:
        settings = task_settings(6, min_cohort=6, share_s=10, vector_s=3)
        operator.create_task("mixed", MODEL, start, **settings)
        fleet = fleet_of(server, tmp_path, 5, stop_after={4: Stage.SHARE})
        java = ["java", "-cp", str(classes), "mindspan.device.JoinRound"]
        java += [server.url, str(tmp_path / "java"), server.authority.hex(), server.enrol_token]
        command = [*java, "2", *map(repr, map(float, known))]
        with ThreadPoolExecutor(1) as pool:
            others = pool.submit(fleet.run)
            done = subprocess.run(command, capture_output=True, text=True, timeout=60)
            others.result()
        (entry,) = operator.status("mixed")["rounds"]
        after = operator.weights("mixed")
    assert done.stderr == ""
    outcome, seed = done.stdout.split()
    assert (outcome, entry["stage"], entry["survivors"]) == ("true", "finished", 5)
    params = complete_graph(6, TaskSettings(name="t").encoding(LENGTH))
    session = bytes.fromhex(entry["session"])
    words = [fleet.encoded(i, params, session) for i in range(4)]
    update = Update(known, weight=1, loss=0.25, correct=3, examples=4)
    words.append(encode(update, params, session, bytes.fromhex(seed)))
    total = np.sum(words, axis=0, dtype=np.uint32) & np.uint32(2**params.ring_bits - 1)
    mean = decode(total, 5, params, session)
    expected, _ = FedAvg().apply(start, mean, FedAvg().start(LENGTH))
    np.testing.assert_array_equal(after, expected)
    assert np.abs(after).max() > 0.1
    # The known update's first coordinate was beyond the clip value.
    assert entry["saturated"] == mean.saturated >= 1
