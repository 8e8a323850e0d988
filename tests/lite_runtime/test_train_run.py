"""A training loop inside of one call: losses, the end of data, errors, cancellation, sums."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

import lite_runtime as lite
from cloud import models, nn
from cloud.nn.loss import softmax_cross_entropy
from cloud.train import Adam
from cloud.train.graphs import training_model
from tests.lite_runtime.models import cnn_batch, indices, open_model, small_cnn, two_weights


def same_weights(a: lite.Session, b: lite.Session) -> bool:
    pairs = zip(a.weights().values(), b.weights().values(), strict=True)
    return all(np.array_equal(x, y) for x, y in pairs)


def test_a_training_loop_is_the_same_as_single_steps() -> None:
    looped, stepped = open_model(small_cnn()), open_model(small_cnn())
    losses = looped.train_run(6, lambda step: cnn_batch(4 + step % 2, step))
    want = [stepped.run(cnn_batch(4 + i % 2, i), "train")["loss"] for i in range(6)]
    assert (losses.dtype, losses.shape) == (np.float32, (6,))
    np.testing.assert_array_equal(losses, want)
    assert same_weights(looped, stepped)


def test_training_ends_where_the_feeder_has_no_more() -> None:
    looped, stepped = open_model(small_cnn()), open_model(small_cnn())
    losses = looped.train_run(1000, lambda step: cnn_batch(4, step) if step < 3 else None)
    assert len(losses) == 3
    for step in range(3):
        stepped.run(cnn_batch(4, step), "train")
    assert same_weights(looped, stepped)
    assert looped.train_run(0, lambda step: 1 / 0).shape == (0,)


def broken(step: int) -> Any:
    if step == 2:
        raise KeyError("no such record")
    return cnn_batch(4, step)


@pytest.mark.parametrize(
    ("feeder", "error", "words"),
    [
        (broken, KeyError, "no such record"),
        (lambda step: {"image": 1}, lite.LiteError, "^input label is missing"),
        (lambda step: "batch", lite.LiteError, "^one array for 3 inputs"),
        (
            lambda step: {**cnn_batch(4), "label": np.full(4, 9 * (step == 2))},
            lite.LiteError,
            r"^step 2: entry train, node \d+ \(softmax_cross_entropy.*out of range$",
        ),
        (
            lambda step: {**cnn_batch(4 + step), "label": np.zeros(4, np.int32)},
            lite.LiteError,
            r"^step 1: input image: shape \[5,8,8,3\], want \[4,8,8,3\] ",
        ),
        (lambda step: ("no such", {}), lite.LiteError, "^entry no such: the model has"),
        (lambda step: ("infer", cnn_batch(4)["image"]), lite.LiteError, "^step 0: entry infer: "),
    ],
)
def test_a_step_that_fails_ends_the_training_and_says_which(
    feeder: Any, error: type[Exception], words: str
) -> None:
    session = open_model(small_cnn())
    with pytest.raises(error, match=words):
        session.train_run(5, feeder)
    assert len(session.train_run(2, lambda step: cnn_batch(4))) == 2  # and goes on


def test_a_step_that_is_not_finite_changes_no_weight() -> None:
    session = open_model(two_weights(), check_finite=True)
    before = session.weights()
    with pytest.raises(lite.LiteError, match=r"^step 1: .*NaN or infinite$"):
        session.train_run(3, lambda step: {"x": np.float32(1e30 * step), "lr": 0.0})
    for name, w in session.weights().items():
        np.testing.assert_array_equal(w, before[name])


def test_another_thread_cancels_a_training() -> None:
    session, running = open_model(small_cnn()), threading.Event()

    def feed(step: int) -> dict[str, np.ndarray]:
        if step == 3:
            running.set()
        return cnn_batch(4, step)

    canceller = threading.Thread(target=lambda: (running.wait(), session.cancel()))
    canceller.start()
    with pytest.raises(lite.LiteError, match=r"^step \d+: .*cancelled$"):
        session.train_run(10**9, feed)
    canceller.join()
    assert len(session.train_run(1, feed)) == 1


def test_the_session_answers_other_threads_between_steps_and_the_feeder_itself() -> None:
    session, seen, stop = open_model(small_cnn()), [], threading.Event()
    started = threading.Event()

    def look() -> None:
        while not stop.is_set():
            seen.append(session.peak_bytes("train"))  # waits for its turn without the interpreter
            started.set()

    def feed(step: int) -> dict[str, np.ndarray] | None:
        logits = session.run(cnn_batch(2)["image"], "infer")
        assert logits.shape == (2, 5)
        return cnn_batch(4, step)

    thread = threading.Thread(target=look)
    thread.start()
    started.wait()
    assert len(session.train_run(50, feed)) == 50
    stop.set()
    thread.join()


def test_the_first_output_must_be_a_loss() -> None:
    session = open_model(indices())
    with pytest.raises(lite.LiteError, match=r"^step 0: entry infer: .*want one f32$"):
        session.train_run(1, lambda step: np.zeros(2, np.int32), "infer")


def test_gradients_of_parts_add_up_to_a_step_of_the_whole_batch() -> None:
    net = nn.Sequential(nn.Flatten(), models.mlp((64, 16, 5), rng=np.random.default_rng(0)))
    shapes = {"image": ("batch", 8, 8, 1)}
    model = training_model(net, softmax_cross_entropy, Adam(0.01), shapes, accumulate=True)
    rng = np.random.default_rng(1)
    image = rng.random((3, 12, 8, 8, 1), np.float32)
    label = rng.integers(0, 5, (3, 12)).astype(np.int32)
    whole, parts = open_model(model), open_model(model)

    def feed_whole(step: int) -> dict[str, Any]:
        return {"image": image[step], "label": label[step], "lr": 0.01}

    def feed_parts(step: int) -> tuple[str, dict[str, Any]]:
        batch, part = divmod(step, 4)
        if part == 3:
            return "apply", {"lr": 0.01}
        rows = slice(4 * part, 4 * part + 4)
        data = {"image": image[batch, rows], "label": label[batch, rows]}
        return "accumulate", {**data, "share": 1 / 3}

    want = whole.train_run(3, feed_whole)
    found = parts.train_run(12, feed_parts).reshape(3, 4)
    np.testing.assert_allclose(found[:, :3].mean(axis=1), want, rtol=1e-5)
    for (name, a), b in zip(parts.weights(True).items(), whole.weights(True).values(), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-5, err_msg=name)
    assert parts.peak_bytes("accumulate") < 0.7 * whole.peak_bytes("train")
