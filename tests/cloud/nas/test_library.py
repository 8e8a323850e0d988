"""The library: what goes in comes out, the search keeps its word, hostile files are refused."""

from __future__ import annotations

import json
import math
import os
import threading
from pathlib import Path

import pytest

import lite_runtime as lite
from cloud.nas import Entry, Library, LibraryError, device_id
from cloud.nas.library import INDEX
from tests.cloud.nas.models import file_of

HERE = device_id(1)


@pytest.fixture
def library(tmp_path: Path) -> Library:
    return Library(tmp_path / "library")


def measured(name: str, accuracy: float, ms: float, size: int = 1000, **more: object) -> Entry:
    """An entry with a given latency on this device."""
    return Entry(name, "toy", accuracy, size, "0" * 64, {HERE: ms}, **more)


def holding(library: Library, *entries: Entry) -> Library:
    library.entries = {e.name: e for e in entries}
    return library


def names(entries: list[Entry]) -> list[str]:
    return [e.name for e in entries]


def tampered(library: Library, **changes: object) -> None:
    """Write an index whose only model has these fields changed."""
    row = {
        "name": "m",
        "task": "toy",
        "accuracy": 0.5,
        "size_bytes": 10,
        "sha256": "0" * 64,
        "latency_ms": {},
        "facts": {},
    }
    content = {"format": 1, "models": [row | changes]}
    library.folder.mkdir(exist_ok=True)
    (library.folder / INDEX).write_text(json.dumps(content))


def test_an_added_model_is_measured_kept_and_found_by_the_next_who_opens(library: Library) -> None:
    data = file_of()
    library.add("m", data, task="toy", accuracy=0.5, threads=(1, 2), facts={"hidden": "4"})
    again = Library(library.folder)
    (entry,) = again.search()
    assert (entry.name, entry.task, entry.accuracy, entry.facts) == (
        "m",
        "toy",
        0.5,
        {"hidden": "4"},
    )
    assert entry.size_bytes == len(data)
    assert set(entry.latency_ms) == {device_id(1), device_id(2)}
    assert all(ms > 0 for ms in entry.latency_ms.values())
    assert again.path(entry).read_bytes() == data
    assert lite.load(again.path(entry)).entries == ["infer"]


def test_a_model_can_be_added_from_a_file_and_replaces_its_namesake(
    library: Library, tmp_path: Path
) -> None:
    library.add("m", file_of(4), task="toy", accuracy=0.5)
    path = tmp_path / "better.ms"
    path.write_bytes(file_of(8))
    library.add("m", path, task="toy", accuracy=0.6)
    (entry,) = Library(library.folder).search()
    assert entry.accuracy == 0.6
    assert library.read(entry) == file_of(8)


def test_an_exported_file_is_the_added_one(library: Library, tmp_path: Path) -> None:
    library.add("m", file_of(), task="toy", accuracy=0.5)
    target = tmp_path / "out.ms"
    target.write_text("older")
    assert library.export("m", target) == target
    assert target.read_bytes() == file_of()


def test_nothing_is_exported_under_a_name_that_is_not_there_or_to_a_place_that_is_not(
    library: Library, tmp_path: Path
) -> None:
    library.add("m", file_of(), task="toy", accuracy=0.5)
    with pytest.raises(LibraryError, match=r"no model 'other'; has \['m'\]"):
        library.export("other", tmp_path / "x.ms")
    for target in (tmp_path / "nowhere" / "x.ms", library.folder):
        with pytest.raises(LibraryError, match=str(target)):
            library.export("m", target)


def test_the_search_honours_latency_accuracy_size_and_task(library: Library) -> None:
    large = measured("large", 0.9, 8.0, 50_000)
    other = measured("other", 0.99, 0.1)
    other.task = "another"
    holding(
        library, measured("small", 0.7, 1.0, 2000), measured("mid", 0.8, 4.0, 9000), large, other
    )
    assert names(library.search(task="toy")) == ["large", "mid", "small"]
    assert names(library.search(task="toy", latency_ms=4.0)) == ["mid", "small"]
    assert names(library.search(task="toy", latency_ms=3.9)) == ["small"]
    assert names(library.search(task="toy", min_accuracy=0.8)) == ["large", "mid"]
    assert names(library.search(task="toy", max_size_kb=9)) == ["mid", "small"]
    assert names(library.search(task="toy", latency_ms=4, min_accuracy=0.85)) == []
    assert names(library.search())[0] == "other"


def test_of_equally_accurate_models_the_faster_comes_first_then_the_smaller(
    library: Library,
) -> None:
    holding(
        library,
        measured("slow", 0.8, 2.0, 10),
        measured("fat", 0.8, 1.0, 30),
        measured("slim", 0.8, 1.0, 20),
        measured("best", 0.81, 9.0, 99),
    )
    assert names(library.search()) == ["best", "slim", "fat", "slow"]


def test_a_model_never_measured_on_a_device_fits_no_latency_there(library: Library) -> None:
    holding(library, measured("m", 0.8, 1.0))
    assert names(library.search(latency_ms=1e9, device="a_phone-1t")) == []
    assert names(library.search(device="a_phone-1t")) == ["m"]


def test_measure_fills_in_what_is_missing_and_leaves_what_is_known(library: Library) -> None:
    library.add("m", file_of(), task="toy", accuracy=0.5, threads=(2,))
    with library._changing():  # as if it had been measured on a slower day
        library.entries["m"].latency_ms[device_id(2)] = 123.0
    library.measure(1)
    library.measure(2)
    kept = Library(library.folder).entries["m"].latency_ms
    assert kept[device_id(2)] == 123.0
    assert kept[HERE] > 0
    library.measure(2, again=True)
    assert Library(library.folder).entries["m"].latency_ms[device_id(2)] != 123.0


def test_measuring_where_all_is_known_writes_nothing(library: Library) -> None:
    library.add("m", file_of(), task="toy", accuracy=0.5)
    before = (library.folder / INDEX).stat()
    library.measure()
    after = (library.folder / INDEX).stat()
    assert (before.st_ino, before.st_mtime_ns) == (after.st_ino, after.st_mtime_ns)


def test_models_added_at_once_by_many_are_all_there(tmp_path: Path) -> None:
    folder, data = tmp_path / "library", file_of()
    adders = [Library(folder) for _ in range(8)]  # each opened before any had added
    threads = [
        threading.Thread(
            target=lib.add, args=(f"m{i}", data), kwargs={"task": "t", "accuracy": 0.5}
        )
        for i, lib in enumerate(adders)
    ]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    library = Library(folder)
    assert sorted(library.entries) == [f"m{i}" for i in range(8)]
    assert all(library.read(e) == data for e in library.entries.values())
    left = {p.name for p in folder.iterdir()} - {f"m{i}.ms" for i in range(8)}
    assert left == {INDEX, ".lock"}


@pytest.mark.parametrize("change", [b"", b"other bytes"])
def test_a_file_that_changed_is_not_given_out(
    library: Library, tmp_path: Path, change: bytes
) -> None:
    entry = library.add("m", file_of(), task="toy", accuracy=0.5)
    (library.folder / entry.file).write_bytes(change)
    for use in (library.path, library.read, lambda e: library.export(e.name, tmp_path / "x")):
        with pytest.raises(LibraryError, match=r"m\.ms: not the file that was added"):
            use(entry)
    assert not (tmp_path / "x").exists()


def test_a_file_that_is_gone_is_one_line_that_names_it(library: Library) -> None:
    entry = library.add("m", file_of(), task="toy", accuracy=0.5)
    (library.folder / entry.file).unlink()
    with pytest.raises(LibraryError, match=r"m\.ms: No such file"):
        library.path(entry)


@pytest.mark.parametrize(
    "name",
    [
        "",
        ".",
        "..",
        ".hidden",
        "-flag",
        "a/b",
        "../up",
        "/etc/passwd",
        "a\\b",
        "a b",
        "a\n",
        "é",
        "x" * 101,
    ],
)
def test_a_name_that_is_no_plain_file_name_is_refused(library: Library, name: str) -> None:
    with pytest.raises(LibraryError, match="want up to 100 of letters"):
        library.add(name, file_of(), task="toy", accuracy=0.5)
    assert not library.folder.exists()
    tampered(library, name=name)
    with pytest.raises(LibraryError, match="not a library index"):
        Library(library.folder)


@pytest.mark.parametrize("accuracy", [-0.1, 1.1, math.nan, math.inf])
def test_an_accuracy_that_is_no_share_is_refused(library: Library, accuracy: float) -> None:
    with pytest.raises(LibraryError, match=r"accuracy is .*, want 0 to 1"):
        library.add("m", file_of(), task="toy", accuracy=accuracy)
    assert not library.folder.exists()


def test_what_is_no_model_is_not_taken_in(library: Library, tmp_path: Path) -> None:
    for data in (b"", b"no model", tmp_path / "nowhere.ms"):
        with pytest.raises(LibraryError):
            library.add("m", data, task="toy", accuracy=0.5)
    assert not library.folder.exists()


@pytest.mark.parametrize(
    "change",
    [
        {"name": 7},
        {"name": None},
        {"task": 7},
        {"accuracy": math.nan},
        {"accuracy": math.inf},
        {"accuracy": 1.5},
        {"accuracy": "0.5"},
        {"accuracy": True},
        {"size_bytes": -1},
        {"size_bytes": 10**30},
        {"size_bytes": 1.5},
        {"sha256": "../../etc/passwd"},
        {"sha256": 0},
        {"latency_ms": {"d": math.nan}},
        {"latency_ms": {"d": 0}},
        {"latency_ms": {"d": -1.0}},
        {"latency_ms": {"d": 10**400}},
        {"latency_ms": [1]},
        {"facts": {"a": 1}},
        {"facts": "a"},
        {"unknown": 1},
    ],
    ids=str,
)
def test_an_index_with_an_impossible_value_is_refused(
    library: Library, change: dict[str, object]
) -> None:
    tampered(library)
    assert list(Library(library.folder).entries) == ["m"]  # so it is the change that is refused
    tampered(library, **change)
    with pytest.raises(LibraryError, match=rf"{INDEX}: not a library index") as error:
        Library(library.folder)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "null",
        "{}",
        '{"format": 1}',
        '{"format": 2, "models": []}',
        '{"format": 1, "models": 5}',
        '{"format": 1, "models": [[]]}',
        '{"format": 1, "models": [{"name": "m"}]}',
        "[" * 100_000,
        "\xff",
    ],
    ids=lambda text: text[:30],
)
def test_a_damaged_index_is_refused_and_not_overwritten(library: Library, text: str) -> None:
    library.folder.mkdir()
    (library.folder / INDEX).write_bytes(text.encode("latin-1"))
    with pytest.raises(LibraryError, match=rf"{INDEX}: not a library index"):
        Library(library.folder)
    with pytest.raises(LibraryError, match=rf"{INDEX}: not a library index"):
        library.add("m", file_of(), task="toy", accuracy=0.5)  # opened before the damage
    assert (library.folder / INDEX).read_bytes() == text.encode("latin-1")


def test_two_models_of_one_name_are_refused(library: Library) -> None:
    tampered(library)
    content = json.loads((library.folder / INDEX).read_text())
    content["models"].append(content["models"][0] | {"name": "M"})
    (library.folder / INDEX).write_text(json.dumps(content))
    with pytest.raises(LibraryError, match="2 models have 1 names"):
        Library(library.folder)


def test_a_folder_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(LibraryError, match="cannot write: Not a directory"):
        Library(tmp_path / "file" / "library").add("m", file_of(), task="toy", accuracy=0.5)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_library_that_may_only_be_read_can_be_searched(library: Library) -> None:
    library.add("m", file_of(), task="toy", accuracy=0.5)
    library.folder.chmod(0o500)
    try:
        readable = Library(library.folder)
        readable.measure()
        assert names(readable.search(latency_ms=1e9)) == ["m"]
        with pytest.raises(LibraryError, match="cannot write: Permission denied"):
            readable.add("n", file_of(), task="toy", accuracy=0.5)
    finally:
        library.folder.chmod(0o700)
