"""Saving where there is no room or no permission: the old file stays, whole, and nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import lite_runtime as lite
from ir import model_file
from tests.helpers import ROOT
from tests.lite_runtime.models import small_cnn

# Trains a step and saves over the file, under a limit of the size of files or as another user.
SAVE = """
import os, resource, signal, sys
import lite_runtime as lite
from tests.lite_runtime.models import cnn_batch
how, path = sys.argv[1:]
session = lite.load(path)
session.run(cnn_batch(4), "train")
if how == "full":
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    size = os.path.getsize(path) // 2
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
elif how == "stranger":
    os.chdir(os.path.dirname(path))  # the folders above it may be closed to others
    path = os.path.basename(path)
    os.setgid(65534)
    os.setuid(65534)
try:
    session.save(path)
except lite.LiteError as error:
    print(error)
else:
    print("saved")
session.run(cnn_batch(4), "train")  # goes on
"""


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "model.ms"
    model_file.save(small_cnn(), path)
    path.chmod(0o644)
    return path


def save(how: str, path: Path) -> str:
    command = [sys.executable, "-c", SAVE, how, str(path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_a_save_with_room_replaces_the_file(model: Path) -> None:
    before = model.read_bytes()
    assert save("well", model) == "saved"
    assert model.read_bytes() != before
    lite.load(model)
    assert os.listdir(model.parent) == ["model.ms"]


def test_a_full_disk_leaves_the_old_file_whole_and_nothing_beside_it(model: Path) -> None:
    before = model.read_bytes()
    assert save("full", model).endswith(": File too large")
    assert model.read_bytes() == before
    assert os.listdir(model.parent) == ["model.ms"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become a stranger")
def test_a_folder_that_may_not_be_written_leaves_the_old_file_whole(model: Path) -> None:
    model.parent.chmod(0o755)
    before = model.read_bytes()
    assert save("stranger", model) == "model.ms: Permission denied"
    assert model.read_bytes() == before
    assert os.listdir(model.parent) == ["model.ms"]


def test_a_folder_that_is_not_there_is_named(model: Path) -> None:
    with pytest.raises(lite.LiteError, match=r"gone/model\.ms: No such file or directory$"):
        lite.load(model).save(model.parent / "gone/model.ms")
