"""ms-simulate on data that are divided among devices, and the pictures of it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from cloud import nn
from cloud.nn.loss import softmax_cross_entropy
from cloud.train.graphs import training_model
from cloud.train.optim import SGD
from fl_server.cli import simulate
from ir import model_file

CENTRES = np.array([[2, 0, 0, 1], [0, 2, 1, 0], [-1, -1, 2, 0]], np.float32)


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Path:
    """A model, and 240 examples of 8 users in three clusters, with 90 that are held out."""
    folder = tmp_path_factory.mktemp("simulate")
    rng = np.random.default_rng(0)
    net = nn.Sequential(nn.Linear(4, 3, rng=rng))
    made = training_model(net, softmax_cross_entropy, SGD(0.3), {"x": ("batch", 4)})
    (folder / "model.ms").write_bytes(model_file.write(made))
    arrays = {"user": np.arange(240) % 8}
    for prefix, count in (("", 240), ("test_", 90)):
        label = rng.integers(0, 3, count).astype(np.int32)
        x = CENTRES[label] + 0.4 * rng.normal(size=(count, 4))
        arrays |= {f"{prefix}x": x.astype(np.float32), f"{prefix}label": label}
    np.savez(folder / "data.npz", **arrays)
    return folder


def given(place: Path, split: str, *more: str) -> list[str]:
    files = ["--model", str(place / "model.ms"), "--data", str(place / "data.npz")]
    return [*files, "--split", split, "--rounds", "3", "--epochs", "2", "--json", *more]


@pytest.mark.parametrize("split", ["iid", "dirichlet:1", "labels:2", "user"])
def test_divided_data_train_a_model_that_is_measured_on_what_was_held_out(place, capsys, split):
    assert simulate(given(place, split, "--timed", "--devices", "6")) == 0
    told = capsys.readouterr()
    points = json.loads(told.out)["points"]
    assert points[-1]["accuracy"] > 0.9
    assert [(p["clients"], p["joined"]) for p in points] == [(6, 6)] * 3
    assert "6 devices of " in told.err


def test_pictures_of_equal_runs_are_equal_files(place, capsys, tmp_path):
    pytest.importorskip("matplotlib")
    for kind, head in (("png", b"\x89PNG"), ("svg", b"<?xml")):
        files = [tmp_path / f"{name}.{kind}" for name in "ab"]
        for file in files:
            more = ["--timed", "--devices", "4", "--plot", str(file)]
            assert simulate(given(place, "iid", *more)) == 0
        drawn = [file.read_bytes() for file in files]
        assert drawn[0] == drawn[1]
        assert drawn[0].startswith(head)
    wrong = ["--devices", "4", "--plot", str(tmp_path / "a.pdf")]
    assert simulate(given(place, "iid", *wrong)) == 1
    assert "a.pdf: want a file name that ends in .png or .svg" in capsys.readouterr().err


def test_divided_data_and_pictures_over_http(place, capsys, tmp_path):
    pytest.importorskip("matplotlib")
    more = ["--devices", "4", "--plot", str(tmp_path / "a.svg")]
    assert simulate(given(place, "user", *more)) == 0
    rounds = json.loads(capsys.readouterr().out)["status"]["rounds"]
    assert [entry["examples"] for entry in rounds] == [120] * 3
    assert rounds[-1]["loss"] < rounds[0]["loss"]
    assert b"round" in (tmp_path / "a.svg").read_bytes()


def test_data_that_cannot_be_divided_so_are_refused_in_a_line(place, capsys):
    for split, devices, message in (
        ("user", 9, "8 users have 10 examples or more, want 9, the devices"),
        ("labels:4", 9, "labels:4 of 3 classes on 9 devices"),
        ("thirds", 4, "split 'thirds': want iid, dirichlet:ALPHA, labels:K or user"),
    ):
        assert simulate(given(place, split, "--devices", str(devices))) == 1
        assert capsys.readouterr().err.startswith(f"ms-simulate: {message}")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--split", "iid"], "--split divides --data among devices that train --model"),
        (["--workers", "2"], "--workers 2: want 1 or more, with --engine ray"),
        (["--drop-out", "0.1"], "--drop-out 0.1 needs --timed; without it there is --drop"),
        (["--timed", "--drop", "share"], "--timed has no --drop, which is of one device"),
        (["--devices", "300"], "300 devices and 3 rounds, want 2 to 256 and 1 or more; more"),
        (["--timed", "--devices", "10001"], "want 2 to 10000 and 1 or more"),
    ],
)
def test_options_that_go_with_no_others_are_wrong_usage(arguments, message, capsys):
    with pytest.raises(SystemExit) as caught:
        simulate(arguments)
    assert caught.value.code == 2
    assert message in capsys.readouterr().err
