"""Entries that train: weights move as in numpy, are read, set, saved and opened again."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import numpy as np
import pytest

import lite_runtime as lite
from cloud import interpreter
from ir import model_file
from ir.graph import Graph, Model, Value, Weight
from ir.op import OPS
from tests.lite_runtime.models import cnn_batch, linear_model, open_model, small_cnn
from tests.random_graphs import random_arrays, random_training_graph

X = np.array([[1, 0], [0, 1], [1, 1], [2, 1]], np.float32)
TARGET = np.array([3, -1, 2, 5], np.float32)


def train(session: lite.Session, steps: int) -> float:
    for _ in range(steps):
        loss = session.run({"x": X, "target": TARGET, "lr": 0.1}, "train")["loss"]
    return float(loss)


def test_weights_move_as_in_numpy() -> None:
    session = open_model(linear_model())
    w = np.zeros(2)
    for _ in range(30):
        error = X @ w - TARGET
        loss = train(session, 1)
        assert loss == pytest.approx(np.mean(error**2), rel=1e-4)
        w -= 0.1 * 2 * X.T @ error / 4
    np.testing.assert_allclose(session.weights()["w"].ravel(), w, rtol=1e-5)
    np.testing.assert_allclose(session.run(X), X @ w, rtol=1e-4, atol=1e-4)


def test_a_network_trains_as_the_interpreter_does() -> None:
    model = small_cnn()
    session, weights = open_model(model), {w: w.data for w in model.weights}
    for seed in range(5):
        batch = cnn_batch(8, seed)
        (loss,), new = interpreter.step(model.entries["train"], *batch.values(), weights=weights)
        weights |= new
        found = session.run(batch, "train")["loss"]
        np.testing.assert_allclose(found, loss, rtol=1e-5)
    for w, data in weights.items():
        np.testing.assert_allclose(session.weights()[w.name], data, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("seed", range(30))
def test_updates_of_a_random_graph_are_those_of_the_interpreter(seed: int) -> None:
    graph = random_training_graph(seed)
    session = open_model(Model({"train": graph}))
    arrays = random_arrays(graph, seed)
    inputs = {v.name: a for v, a in zip(graph.inputs, arrays, strict=True)}
    weights = {w: w.data for w in graph.weights}
    for _ in range(2):
        with np.errstate(all="ignore"):  # numbers may grow beyond all bounds
            weights |= interpreter.step(graph, *arrays, weights=weights)[1]
        session.run(inputs)
    found = session.weights()
    for w, data in weights.items():
        np.testing.assert_allclose(found[w.name], data, rtol=1e-4, atol=1e-5)


def test_an_update_does_not_change_what_read_the_old_value() -> None:
    w = Weight(np.array([1, 2], np.float32), name="w")
    g, lr = Value((2,), name="g"), Value((), name="lr")
    new = OPS["sgd_step"](w, g, lr)
    graph = Graph((g, lr), (OPS["exp"](w), new), ("old", "new"), ((w, new),))
    found = open_model(graph).run({"g": [1, 1], "lr": 1})
    np.testing.assert_allclose(found["old"], np.exp([1, 2]), rtol=1e-6)
    assert found["new"].tolist() == [0, 1]


def test_a_saved_model_goes_on_where_it_stopped(tmp_path: Path) -> None:
    path = tmp_path / "today.ms"
    session = open_model(small_cnn())
    session.run(cnn_batch(8), "train")
    session.save(path)
    again = lite.load(path)
    for name, data in session.weights().items():
        np.testing.assert_array_equal(again.weights()[name], data)
    for seed in (1, 2):
        batch = cnn_batch(8, seed)
        assert again.run(batch, "train") == session.run(batch, "train")
    assert list(tmp_path.iterdir()) == [path]  # nothing half-written is left


def test_a_saved_file_is_one_that_the_python_reader_takes(tmp_path: Path) -> None:
    session = open_model(linear_model())
    train(session, 3)
    (w,) = model_file.read(session.to_bytes()).weights
    np.testing.assert_array_equal(w.data, session.weights()["w"])
    session.save(tmp_path / "m.ms")
    assert (tmp_path / "m.ms").read_bytes() == session.to_bytes()


def test_an_untrained_model_saves_to_the_same_bytes_but_for_the_signature() -> None:
    file = model_file.write(small_cnn())
    assert lite.load(file).to_bytes() == file
    signed = model_file.sign(file, bytes(range(32)))
    assert signed != file
    assert lite.load(signed).to_bytes() == file


def test_a_model_can_be_saved_over_its_own_file(tmp_path: Path) -> None:
    path = tmp_path / "m.ms"
    path.write_bytes(model_file.write(linear_model()))
    session = lite.load(path)
    train(session, 3)
    session.save(path)
    train(session, 3)  # the old file is still mapped
    assert not np.array_equal(lite.load(path).weights()["w"], session.weights()["w"])


def test_sessions_that_save_to_one_path_at_once_leave_one_whole_file(tmp_path: Path) -> None:
    file = model_file.write(small_cnn())
    path, wrong = tmp_path / "m.ms", []

    def save() -> None:
        session = lite.load(file)
        for _ in range(40):
            session.save(path)

    def look() -> None:
        while any(t.is_alive() for t in writers):
            if path.exists() and path.read_bytes() != file:
                wrong.append("torn")

    writers = [threading.Thread(target=save) for _ in range(4)]
    threads = [*writers, threading.Thread(target=look)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(threading, "excepthook", lambda failed: wrong.append(str(failed.exc_value)))
        for t in threads:
            t.start()
        for t in threads:
            t.join()
    assert not wrong
    assert list(tmp_path.iterdir()) == [path]
    assert path.read_bytes() == file


def test_a_link_that_waits_beside_a_file_is_not_followed(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (tmp_path / f"m.ms.{os.getpid()}.part").symlink_to(victim)
    (tmp_path / "m.ms").symlink_to(victim)
    session = open_model(linear_model())
    session.save(tmp_path / "m.ms")
    assert victim.read_text() == "precious"
    assert not (tmp_path / "m.ms").is_symlink()
    assert (tmp_path / "m.ms").read_bytes() == session.to_bytes()


def test_saving_to_nowhere_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(lite.LiteError, match=r"m\.ms: No such file or directory$"):
        open_model(linear_model()).save(tmp_path / "no" / "m.ms")


def test_weights_are_copies_and_can_be_chosen() -> None:
    session = open_model(small_cnn())
    session.weights()["0.weight"][:] = 0
    assert session.weights()["0.weight"].any()
    trainable = session.weights(trainable=True)
    assert "1.running_mean" in session.weights()
    assert "1.running_mean" not in trainable
    assert not [name for name in trainable if name.startswith("optimizer")]


def test_set_weights_replaces_all_or_none() -> None:
    session = open_model(small_cnn())
    before = session.weights()
    session.set_weights({"5.bias": range(5), "1.running_mean": np.ones(6)})
    assert session.weights()["5.bias"].tolist() == [0, 1, 2, 3, 4]
    good = {"5.bias": np.zeros(5)}
    for bad, words in (
        ({"6.bias": 1}, r"weight 6\.bias: not one that can be set; those are 0\.weight"),
        ({"0.bias": np.zeros(7)}, r"weight 0\.bias: shape \[7\], want \[6\]"),
        ({"0.bias": np.zeros(6, int)}, r"weight 0\.bias: int64\[6\], want float32"),
    ):
        with pytest.raises(lite.LiteError, match=f"^{words}"):
            session.set_weights(good | bad)
    assert session.weights()["5.bias"].tolist() == [0, 1, 2, 3, 4]
    session.set_weights(before)
    assert session.to_bytes() == open_model(small_cnn()).to_bytes()


def test_a_frozen_weight_cannot_be_set() -> None:
    w = Weight(np.ones(2, np.float32), name="w", trainable=False)
    x = Value((2,), name="x")
    session = open_model(Graph((x,), (x * w,)))
    assert session.weights() == {"w": pytest.approx(np.ones(2))}
    with pytest.raises(lite.LiteError, match=r"^weight w: not one that can be set; those are none"):
        session.set_weights({"w": np.zeros(2)})
