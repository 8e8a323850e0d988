"""The C and the C++ face, as someone sees them who has only the installed library."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import numpy as np
import pytest

import lite_runtime as lite
from ir import model_file
from tests.lite_runtime.models import linear_model, small_cnn
from tests.native import aarch64_build, native_build, run_tool, sanitized_build

CONSUMER = Path(__file__).parent / "consumer"


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of `consumer/`, built against an installed library with find_package(lite)."""
    where = tmp_path_factory.mktemp("consumer")
    build = native_build("lite")
    run_tool(
        "cmake", "--install", str(build), "--prefix", str(where / "lite"), "--component", "lite"
    )
    run_tool(
        "cmake", f"-S{CONSUMER}", f"-B{where}/build", "-GNinja", f"-DCMAKE_PREFIX_PATH={where}/lite"
    )
    run_tool("cmake", "--build", str(where / "build"))
    return where / "build"


@pytest.mark.parametrize("program", ["train_c", "train_cpp"])
def test_a_program_trains_saves_and_opens_again(
    programs: Path, program: str, tmp_path: Path
) -> None:
    model, saved = tmp_path / "model.ms", tmp_path / "saved.ms"
    model.write_bytes(model_file.write(linear_model()))
    done = subprocess.run(
        [programs / program, model, saved], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    loss, y = map(float, re.search(r"loss ([\d.]+) y ([-\d.]+)", done.stdout).groups())
    session = lite.load(model)
    data = np.array([[1, 0], [0, 1], [1, 1], [2, 1]], np.float32)
    for _ in range(200):
        inputs = {"x": data, "target": np.float32([3, -1, 2, 5]), "lr": 0.1}
        want = session.run(inputs, "train")["loss"]
    assert loss == pytest.approx(float(want), abs=1e-6)
    assert y == pytest.approx(float(session.run([[10, 1]])[0]), abs=1e-4)
    assert saved.read_bytes() == session.to_bytes()
    wanted = "input x is not set" if program == "train_c" else "no input z"
    assert wanted in done.stdout


def test_a_program_says_which_weight_a_model_has_not(programs: Path, tmp_path: Path) -> None:
    model = tmp_path / "model.ms"
    model.write_bytes(model_file.write(linear_model(weight="v")))
    command = [programs / "train_cpp", model, tmp_path / "saved.ms"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (1, "train_cpp: no weight w\n")


def test_a_program_says_why_a_file_does_not_open(programs: Path, tmp_path: Path) -> None:
    damaged = bytearray(model_file.write(linear_model()))
    damaged[40] ^= 1
    path = tmp_path / "damaged.ms"
    path.write_bytes(damaged)
    for program, file in (("train_c", path), ("train_cpp", tmp_path / "nothing.ms")):
        done = subprocess.run([programs / program, file, "x"], capture_output=True, text=True)
        assert done.returncode == 1
        assert len(done.stderr.splitlines()) == 1
        assert ("root hash" if file is path else "No such file") in done.stderr


def test_the_parts_behind_the_interface_hold_and_any_allocation_may_fail(tmp_path: Path) -> None:
    model = tmp_path / "cnn.ms"
    model.write_bytes(model_file.write(small_cnn()))
    tests = native_build("lite_unit_tests") / "bin/lite_unit_tests"
    done = subprocess.run([tests, model], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


@pytest.mark.timeout(900)  # the build
@pytest.mark.parametrize("sanitizer", ["thread", "address,undefined"])
def test_the_parts_behind_the_interface_hold_under_a_sanitizer(
    sanitizer: str, tmp_path: Path
) -> None:
    """Two sessions in two threads with two each, cancelled by others: no data race, no leak."""
    model = tmp_path / "cnn.ms"
    model.write_bytes(model_file.write(small_cnn()))
    tests = sanitized_build(sanitizer, "lite_unit_tests") / "bin/lite_unit_tests"
    done = subprocess.run([tests, model], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout


def test_the_parts_behind_the_interface_hold_on_aarch64() -> None:
    tests = aarch64_build("lite_unit_tests") / "bin/lite_unit_tests"
    done = subprocess.run(["qemu-aarch64", tests], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
