"""Federated averaging on Fashion-MNIST: a run that goes on where it was stopped, and both means."""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import pytest

from bench.fashion import CLIENTS, Secure, plain_mean, run
from fl_server.secagg.encode import Update


@pytest.fixture
def data(tmp_path: Path) -> Path:
    for part, count in (("train", 200), ("t10k", 40)):
        label = np.arange(count, dtype=np.uint8) % 10
        pixels = np.random.default_rng(count).integers(0, 60, (count, 28, 28)).astype(np.uint8)
        pixels[np.arange(count), 2 * label] = 255  # a line whose place is the class
        for name, array in (("images-idx3", pixels), ("labels-idx1", label)):
            head = bytes([0, 0, 8, array.ndim]) + np.array(array.shape, ">u4").tobytes()
            (tmp_path / f"{part}-{name}-ubyte").write_bytes(head + array.tobytes())
    return tmp_path


def options(data: Path, rounds: int, output: str, strategy: str) -> argparse.Namespace:
    return argparse.Namespace(
        split="iid",
        rounds=rounds,
        epochs=1,
        seed=0,
        strategy=strategy,
        set=["learning_rate=0.5"],
        secure=False,
        data=data,
        output=data / output,
    )


@pytest.mark.parametrize("strategy", ["fedavg", "fedavgm"])
def test_a_run_that_was_stopped_goes_on_as_if_it_had_not_been(data, strategy):
    run(options(data, 1, "stopped.json", strategy))
    stopped = run(options(data, 2, "stopped.json", strategy))
    whole = run(options(data, 2, "whole.json", strategy))
    for name in ("accuracy", "loss", "examples"):
        assert stopped[name] == whole[name]
    assert len(whole["accuracy"]) == 2
    assert (data / "stopped.f32").read_bytes() == (data / "whole.f32").read_bytes()


def test_the_secure_mean_is_the_plain_one_weighted_by_examples():
    rng = np.random.default_rng(0)
    updates = {
        i + 1: Update(rng.normal(0, 0.05, 300).astype(np.float32), weight=int(w))
        for i, w in enumerate(rng.integers(500, 9000, CLIENTS))
    }
    plain, secure = plain_mean(updates, 3), Secure(300).mean(updates, 3)
    # Rounding errs by a step of 8 / 65535 at the most.
    np.testing.assert_allclose(secure.delta, plain.delta, atol=8 / 65535)
    assert not np.array_equal(secure.delta, plain.delta)
    assert secure.weight == plain.weight
