"""FedPer: named weights stay on the device, and are why people who differ are served."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from fl_fleet import serving, task_settings

import lite_runtime as lite
from cloud import nn
from cloud.nn.loss import softmax_cross_entropy
from cloud.train.graphs import training_model
from cloud.train.optim import SGD
from fl_server import task_checks
from fl_server.device import Device, LiteTrainer, Policy, initial_weights
from fl_server.device.linear import synthetic_device
from fl_server.device.local import LocalWeights
from fl_server.device.trainer import Work
from fl_server.device.weights import flatten, split_names
from fl_server.errors import SettingsError, TrainingFailed
from fl_server.simulation import simulate
from fl_server.storage.weights import digest_of
from fl_server.task_settings import TaskSettings
from ir import model_file

LOCAL = ("2.*",)
CENTRES = np.array([[2, 0, 0, 1], [0, 2, 1, 0], [-1, -1, 2, 0]], np.float32)


@pytest.fixture(scope="module")
def model() -> bytes:
    rng = np.random.default_rng(0)
    module = nn.Sequential(nn.Linear(4, 8, rng=rng), nn.ReLU(), nn.Linear(8, 3, rng=rng))
    made = training_model(module, softmax_cross_entropy, SGD(0.3), {"x": ("batch", 4)})
    return model_file.write(made)


def examples(person: int, count: int = 48, draw: int = 0) -> dict[str, np.ndarray]:
    """Clusters that all see alike, and each person calls by other names."""
    names = np.random.default_rng(person).permutation(3)
    rng = np.random.default_rng([person, draw])
    cluster = rng.integers(0, 3, count)
    x = CENTRES[cluster] + 0.4 * rng.normal(size=(count, 4))
    return {"x": x.astype(np.float32), "label": names[cluster].astype(np.int32)}


def kept(folder, i: int, model: bytes) -> np.ndarray:
    own = LocalWeights(folder / f"device-{i}" / "local").load("simulated", digest_of(model))
    assert own is not None
    return own


def test_local_heads_serve_people_whom_one_model_cannot(model, tmp_path):
    trainers = [LiteTrainer(examples(i), epochs=3, seed=i) for i in range(4)]
    later = [LiteTrainer(examples(i, 200, draw=1)) for i in range(4)]
    start = initial_weights(model, LOCAL)
    settings = task_settings(4, local=list(LOCAL))
    found = simulate(
        trainers, model, start, rounds=3, cohort_floor=3, settings=settings, folder=tmp_path
    )
    personal = [
        t.evaluate(found.weights, model, Work(local=LOCAL, own=kept(tmp_path, i, model)))
        for i, t in enumerate(later)
    ]
    one = initial_weights(model)
    for _ in range(3):
        deltas = [LiteTrainer(examples(i), 3, seed=i).train(one, model).delta for i in range(4)]
        one = one + np.mean(deltas, axis=0, dtype=np.float32)
    common = [t.evaluate(one, model) for t in later]
    assert np.mean(personal) > 0.9 > 0.7 > np.mean(common)
    # The server's file has the shared weights alone, and no device's head is another's.
    assert found.weights.size == start.size == 4 * 8 + 8
    heads = [kept(tmp_path, i, model) for i in range(4)]
    assert {head.size for head in heads} == {8 * 3 + 3}
    assert min(np.abs(heads[i] - heads[j]).max() for i in range(4) for j in range(i)) > 0
    mode = next((tmp_path / "device-0" / "local").iterdir()).stat().st_mode
    assert mode & 0o077 == 0
    first = found.status["rounds"][0]
    assert first["bytes_up"] < 4 * 4 * initial_weights(model).size * 4


def test_an_evaluation_is_of_each_devices_own_model(model, tmp_path):
    trainers = [LiteTrainer(examples(i), epochs=3, seed=i) for i in range(3)]
    start = initial_weights(model, LOCAL)
    with serving(tmp_path) as server, server.operator() as operator:

        def part(i: int) -> None:
            arguments = server.url, tmp_path / f"device-{i}", trainers[i], server.authority
            with Device(*arguments, server.enrol_token, policy=Policy(3)) as device:
                list(device.run(until_idle=True))

        def all_take_part() -> None:
            with ThreadPoolExecutor(3) as pool:
                list(pool.map(part, range(3)))

        operator.create_task("train", model, start, **task_settings(3, local=LOCAL))
        all_take_part()
        operator.evaluate("look", "train", **task_settings(3))
        all_take_part()
        (entry,) = operator.status("look")["rounds"]
        weights = operator.weights("train")
    own = [
        LocalWeights(tmp_path / f"device-{i}" / "local").load("train", digest_of(model))
        for i in range(3)
    ]
    each = [
        t.measure_own(weights, model, Work(None, LOCAL, o))
        for t, o in zip(trainers, own, strict=True)
    ]
    assert entry["correct"] == sum(update.correct for update in each) > 100
    common = [t.measure_own(weights, model, Work(None, LOCAL, own[0])) for t in trainers]
    assert entry["correct"] > sum(update.correct for update in common)


def test_what_leaves_the_device_has_the_shared_weights_alone(model):
    trainer, start = LiteTrainer(examples(0), epochs=2), initial_weights(model, LOCAL)
    session = lite.load(model)
    shared, own = split_names(session, LOCAL)
    first = trainer.follow(start, model, Work(local=LOCAL))
    assert first.update.delta.shape == start.shape
    np.testing.assert_array_equal(start, flatten(session, shared))
    assert np.abs(first.own - flatten(session, own)).max() > 0
    # The next round begins from the device's own head: it knows its person already.
    again = LiteTrainer(examples(0)).follow(
        start + first.update.delta, model, Work(local=LOCAL, own=first.own)
    )
    assert again.update.loss < first.update.loss / 2
    assert again.update.correct > first.update.correct


def test_local_weights_of_another_model_are_never_used(tmp_path):
    """A task of another server may have the same name, and a model of the same shape."""
    local, own = LocalWeights(tmp_path), np.arange(3, dtype=np.float32)
    local.keep("t", digest_of(b"one"), own)
    assert local.load("t", digest_of(b"other")) is None
    np.testing.assert_array_equal(local.load("t", digest_of(b"one")), own)
    local.keep("t", digest_of(b"other"), own + 1)
    assert local.load("t", digest_of(b"one")) is None


def test_names_that_make_no_sense_are_refused(model):
    with pytest.raises(SettingsError, match=r"local 'head\.\*' names no weight; there are"):
        initial_weights(model, ("head.*",))
    with pytest.raises(SettingsError, match="leaves no weight to share"):
        initial_weights(model, ("*",))
    with pytest.raises(SettingsError, match="local has more than 256 bytes"):
        task_checks.check(TaskSettings.checked(name="t", local=["x" * 300]), 4)
    assert TaskSettings.checked(name="t", local="2.*,head.*").local == ("2.*", "head.*")
    with pytest.raises(SettingsError, match="a linear model names no weights"):
        synthetic_device(0).follow(np.zeros(16, np.float32), b"", Work(local=LOCAL))


def test_a_plan_that_fits_no_weight_ends_the_device_with_its_reason(model):
    trainers = [LiteTrainer(examples(i)) for i in range(2)]
    settings = task_settings(2, local=["head.*"], min_cohort=2)
    with pytest.raises(TrainingFailed, match=r"local 'head\.\*' names no weight"):
        simulate(trainers, model, initial_weights(model), cohort_floor=2, settings=settings)
