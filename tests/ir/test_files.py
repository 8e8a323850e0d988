"""Files are written whole or not at all."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from ir.files import write_whole


def test_a_file_takes_the_place_of_an_older_one(tmp_path: Path) -> None:
    write_whole(tmp_path / "f", b"old")
    write_whole(str(tmp_path / "f"), b"new")
    assert (tmp_path / "f").read_bytes() == b"new"
    assert [p.name for p in tmp_path.iterdir()] == ["f"]


def test_a_failure_leaves_everything_as_it_was(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError, match="directory"):
        write_whole(tmp_path / "folder", b"data")
    with pytest.raises(OSError, match="directory"):
        write_whole(tmp_path / "none" / "f", b"data")
    assert [p.name for p in tmp_path.iterdir()] == ["folder"]


def test_the_file_is_on_the_disk_before_its_name_and_then_the_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen, sync = [], os.fsync

    def noted(handle: int) -> None:
        seen.append((stat.S_ISDIR(os.fstat(handle).st_mode), (tmp_path / "f").exists()))
        sync(handle)

    monkeypatch.setattr(os, "fsync", noted)
    write_whole(tmp_path / "f", b"data")
    assert seen == [(False, False), (True, True)]


def test_a_rename_takes_the_place_of_no_pipe_or_device(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(FileExistsError, match="a device or a pipe, want a file"):
        write_whole(tmp_path / "pipe", b"data")
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)
