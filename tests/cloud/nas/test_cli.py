"""ms-library: its commands, what they print, exit codes, and errors of one line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cloud.nas import Library, device_id
from cloud.nas.cli import main
from cloud.nas.library import INDEX
from tests.cloud.nas.models import file_of

RECIPE = "tests.cloud.nas.models:recipe"
Capture = pytest.CaptureFixture[str]


@pytest.fixture
def built(tmp_path: Path) -> Path:
    """A library whose two models take 1 and 10 ms on this device, so the index says."""
    folder = tmp_path / "library"
    library = Library(folder)
    library.add("small", file_of(4), task="toy", accuracy=0.7)
    library.add("large", file_of(64), task="toy", accuracy=0.9)
    content = json.loads((folder / INDEX).read_text())
    for row in content["models"]:
        row["latency_ms"] = {device_id(1): 1.0 if row["name"] == "small" else 10.0}
    (folder / INDEX).write_text(json.dumps(content))
    return folder


def fails(capsys: Capture, *argv: object) -> str:
    """The one line of a command that exits with 1 and prints no result."""
    assert main([str(a) for a in argv]) == 1
    out, error = capsys.readouterr()
    assert out == ""
    assert error.startswith("ms-library: ")
    assert error.count("\n") == 1
    return error


def misused(capsys: Capture, *argv: str) -> str:
    """What a command says that exits with 2."""
    with pytest.raises(SystemExit) as exit_:
        main(argv)
    assert exit_.value.code == 2
    return capsys.readouterr().err


def test_build_adds_all_that_the_recipe_yields(tmp_path: Path, capsys: Capture) -> None:
    folder = tmp_path / "library"
    assert main(["build", str(folder), "--recipe", RECIPE]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["small", "large"]
    assert "accuracy 0.900" in lines[1]
    assert f"ms on {device_id(1)}" in lines[1]
    assert set(Library(folder).entries) == {"small", "large"}


def test_build_with_json_prints_one_document(tmp_path: Path, capsys: Capture) -> None:
    assert main(["build", str(tmp_path / "library"), "--recipe", RECIPE, "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["name"] for row in rows] == ["small", "large"]
    assert all(row["latency_ms"][device_id(1)] > 0 for row in rows)


def test_a_recipe_that_fails_halfway_leaves_what_it_yielded(
    tmp_path: Path, capsys: Capture
) -> None:
    folder = tmp_path / "library"
    assert main(["build", str(folder), "--recipe", "tests.cloud.nas.models:failing_recipe"]) == 1
    error = capsys.readouterr().err
    assert "RuntimeError: no data for the second" in error
    assert error.count("\n") == 1
    assert list(Library(folder).entries) == ["small"]


@pytest.mark.parametrize(
    "recipe",
    [
        "no.such.module:f",
        "tests.cloud.nas.models:nothing",
        "tests.cloud.nas.models:file_of",
        "tests.cloud.nas.models:uneven_recipe",
        "json",
        ":",
        "",
    ],
)
def test_what_is_no_recipe_is_refused(tmp_path: Path, capsys: Capture, recipe: str) -> None:
    error = fails(capsys, "build", tmp_path / "library", "--recipe", recipe)
    assert f"recipe {recipe!r}: " in error
    assert "want MODULE:FUNCTION" in error


def test_add_takes_a_file_and_show_lists_the_most_accurate_first(
    built: Path, tmp_path: Path, capsys: Capture
) -> None:
    path = tmp_path / "m.ms"
    path.write_bytes(file_of(8))
    add = ["add", str(built), str(path), "--name", "mine", "--task", "toy", "--accuracy", "0.8"]
    assert main([*add, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["name"] == "mine"
    assert main(add) == 0
    assert capsys.readouterr().err == "replaced the model that was called mine\n"
    assert main(["show", str(built)]) == 0
    shown = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert shown == ["large", "mine", "small"]
    assert main(["show", str(built), "--json"]) == 0
    assert [row["name"] for row in json.loads(capsys.readouterr().out)] == shown


@pytest.mark.parametrize(("limit", "name"), [("10", "large"), ("9.9", "small"), ("1", "small")])
def test_search_gives_the_most_accurate_model_within_the_latency_ready_to_run(
    built: Path, capsys: Capture, limit: str, name: str
) -> None:
    assert main(["search", str(built), "--latency-ms", limit]) == 0
    line, path = capsys.readouterr().out.splitlines()
    assert line.split()[0] == name
    assert Path(path).read_bytes() == file_of(4 if name == "small" else 64)
    assert main(["search", str(built), "--latency-ms", limit, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["name"], found["path"]) == (name, path)


def test_search_says_how_fast_the_fastest_is_when_nothing_fits(
    built: Path, capsys: Capture
) -> None:
    error = fails(capsys, "search", built, "--latency-ms", "0.5")
    assert "none of 2 models fits; the fastest takes 1.0000 ms" in error
    error = fails(capsys, "search", built, "--latency-ms", "5", "--device", "a_phone-1t")
    assert f"no times on a_phone-1t; there are times on {device_id(1)}" in error
    assert "no times on a_phone-1t" in fails(capsys, "search", built, "--device", "a_phone-1t")
    fails(capsys, "search", built, "--min-accuracy", "0.95")
    fails(capsys, "search", built, "--max-size-kb", "0.1")
    fails(capsys, "search", built, "--task", "other")


def test_search_measures_what_was_never_measured_here(built: Path, capsys: Capture) -> None:
    text = (built / INDEX).read_text().replace(device_id(1), "elsewhere-1t")
    (built / INDEX).write_text(text)
    assert main(["search", str(built), "--latency-ms", "60000"]) == 0
    assert capsys.readouterr().out.startswith("large")
    assert Library(built).entries["small"].latency_ms[device_id(1)] > 0


def test_export_copies_a_model_out(built: Path, tmp_path: Path, capsys: Capture) -> None:
    target = tmp_path / "out.ms"
    assert main(["export", str(built), "small", "-o", str(target)]) == 0
    assert capsys.readouterr().out == f"{target}\n"
    assert target.read_bytes() == file_of(4)
    assert "no model 'none'" in fails(capsys, "export", built, "none", "-o", target)


@pytest.mark.parametrize("command", [["show"], ["search"], ["export", "m"]])
def test_a_folder_without_a_library_is_an_error(
    tmp_path: Path, capsys: Capture, command: list[str]
) -> None:
    name, *rest = command
    assert "no library there" in fails(capsys, name, tmp_path / "nowhere", *rest)
    assert not (tmp_path / "nowhere").exists()


def test_errors_of_the_library_are_one_line(built: Path, tmp_path: Path, capsys: Capture) -> None:
    model = tmp_path / "m.ms"
    model.write_text("no model")
    add = ["--task", "toy", "--accuracy", "0.5", "--name"]
    assert "m.ms" in fails(capsys, "add", built, tmp_path / "gone" / "m.ms", *add, "m")
    fails(capsys, "add", built, model, *add, "m")
    assert "'../up'" in fails(capsys, "add", built, model, *add, "../up")
    (built / "large.ms").write_text("changed")
    assert "not the file that was added" in fails(capsys, "search", built)
    (built / INDEX).write_text("{")
    assert "not a library index" in fails(capsys, "show", built)


def test_wrong_usage_exits_with_2(tmp_path: Path, capsys: Capture) -> None:
    folder = str(tmp_path)
    misused(capsys)
    misused(capsys, "sort", folder)
    misused(capsys, "build", folder)
    for value in ("fast", "nan", "inf", "-1"):
        error = misused(capsys, "search", folder, f"--latency-ms={value}")
        assert f"invalid finite number, 0 or more value: '{value}'" in error
