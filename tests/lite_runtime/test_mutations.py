"""Damaged and hostile files: no crash, no hang, no silent run. They are opened in processes of
their own, so that a crash is one failed test."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
from pathlib import Path

import pytest

import lite_runtime as lite
from ir import model_file
from ir.graph import Model
from ir.index_reader import segment_rows
from tests.helpers import ROOT
from tests.lite_runtime.forgeries import FORGERIES
from tests.lite_runtime.fuzz import clang, fuzz
from tests.lite_runtime.models import linear_model, odd_model
from tests.native import fuzz_build


@pytest.mark.parametrize("seed", range(4))
def test_no_mutation_of_a_model_file_crashes_hangs_or_runs_silently(seed: int) -> None:
    command = [sys.executable, "-m", "tests.lite_runtime.mutations", "500", "500", str(seed)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["silent"] == []
    counts = report["counts"]
    assert counts["plain refused"] + counts.get("plain same", 0) == 500
    assert counts["forged ran"] > 0  # some changes are to what a file may well hold
    assert counts["forged refused"] > 300
    known = {f"{k} {f}" for k in ("plain", "forged") for f in ("refused", "same", "failed", "ran")}
    assert counts.keys() <= known  # another one is an error of more than one line


def test_no_file_with_a_lie_in_it_crashes_hangs_or_runs_where_it_may_not() -> None:
    command = [sys.executable, "-m", "tests.lite_runtime.mutations", "0", "0", "7", "150"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["silent"] == []
    counts = report["counts"]
    assert sum(counts.values()) == 1500
    for forgery in FORGERIES:
        refused = f"structured {forgery.__name__} refused"
        failed = f"structured {forgery.__name__} failed"
        assert counts.get(refused, 0) + counts.get(failed, 0) > 20, forgery.__name__
    outcomes = {key.split()[-1] for key in counts}
    assert outcomes <= {"refused", "failed", "ran", "same", "without"}


@pytest.mark.timeout(900)  # the build
def test_a_fuzzer_that_learns_finds_nothing_in_a_moment(tmp_path: Path) -> None:
    compiler = clang()
    if compiler is None:
        pytest.skip("no clang with libFuzzer: apt-get install clang-19 libclang-rt-19-dev")
    done = fuzz(fuzz_build(compiler) / "bin/fuzz_model", 1000, tmp_path)
    assert done.returncode == 0, "\n".join(done.stderr.splitlines()[-40:])
    assert "number_of_executed_units: 1000" in done.stderr


@pytest.mark.parametrize("model", [linear_model(), odd_model()])
def test_every_single_byte_counts(model: Model) -> None:
    file = model_file.write(model)
    for at in range(len(file)):
        damaged = bytearray(file)
        damaged[at] ^= 0x10
        with pytest.raises(lite.LiteError):
            lite.load(damaged)


def test_every_truncation_is_refused() -> None:
    file = model_file.write(linear_model())
    for size in range(len(file)):
        with pytest.raises(lite.LiteError):
            lite.load(file[:size])


@pytest.mark.parametrize(
    ("at", "words"),
    [
        (20, r"^index: damaged, the root hash does not match$"),
        (-190, r"^(padding|segment|trailer)"),
        (-184, r"^trailer: no MSPNTAIL 184 bytes before the end; not a whole model file$"),
        (-1, r"^trailer: damaged, its hash does not match$"),
    ],
)
def test_damage_is_named_by_its_place(at: int, words: str) -> None:
    damaged = bytearray(model_file.write(linear_model()))
    damaged[at] ^= 1
    with pytest.raises(lite.LiteError, match=words):
        lite.load(damaged)


def test_a_damaged_segment_is_named() -> None:
    file = model_file.write(linear_model())
    index_size = struct.unpack_from("<Q", file, len(file) - 176)[0]
    (offset, _, _), *_ = segment_rows(file[:index_size])
    damaged = bytearray(file)
    damaged[offset] ^= 1
    with pytest.raises(lite.LiteError, match=r"^segment 0: damaged, its hash does not match$"):
        lite.load(damaged)
