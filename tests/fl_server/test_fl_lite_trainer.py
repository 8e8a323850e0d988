"""Devices that train a real model file with the lite runtime."""

from __future__ import annotations

import numpy as np
import pytest
from fl_fleet import serving, task_settings

import lite_runtime as lite
from cloud import nn, ops
from cloud.nn.loss import softmax_cross_entropy
from cloud.train.graphs import training_model
from cloud.train.optim import SGD
from fl_server.device import LiteTrainer, initial_weights
from fl_server.device.cli import client
from fl_server.device.trainer import Work
from fl_server.device.weights import assign, flatten, save_model
from fl_server.errors import EncodingError, SettingsError
from fl_server.simulation import simulate
from ir import model_file
from ir.dtype import DType
from ir.graph import Constant, Graph, Model, Value, substitute
from ir.symbol import symbol


@pytest.fixture(scope="module")
def model() -> bytes:
    rng = np.random.default_rng(0)
    module = nn.Sequential(nn.Linear(4, 8, rng=rng), nn.ReLU(), nn.Linear(8, 3, rng=rng))
    made = training_model(module, softmax_cross_entropy, SGD(0.3), {"x": ("batch", 4)})
    return model_file.write(made)


def examples(device: int, count: int = 60) -> dict[str, np.ndarray]:
    """Three clusters; each device sees its own draw of them."""
    rng = np.random.default_rng(device)
    label = rng.integers(0, 3, count).astype(np.int32)
    centres = np.array([[2, 0, 0, 1], [0, 2, 1, 0], [-1, -1, 2, 0]], np.float32)
    x = centres[label] + 0.5 * rng.normal(size=(count, 4))
    return {"x": x.astype(np.float32), "label": label}


def test_the_vector_is_the_trainable_weights_in_order_of_their_names(model):
    session = lite.load(model)
    weights = initial_weights(model)
    names = sorted(session.weights(trainable=True))
    sizes = [session.weights()[name].size for name in names]
    assert weights.shape == (sum(sizes),) == (4 * 8 + 8 + 8 * 3 + 3,)
    moved = weights + np.arange(len(weights), dtype=np.float32)
    assign(session, moved)
    np.testing.assert_array_equal(flatten(session), moved)
    first = session.weights(trainable=True)[names[0]]
    np.testing.assert_array_equal(first.ravel(), moved[: sizes[0]])
    with pytest.raises(EncodingError, match="for 67 trainable values"):
        assign(session, moved[1:])


def test_training_repeats_bit_for_bit_and_improves(model):
    weights, data = initial_weights(model), examples(0)
    updates = [LiteTrainer(data, epochs=5, seed=3).train(weights, model) for _ in range(2)]
    np.testing.assert_array_equal(updates[0].delta, updates[1].delta)
    assert updates[0].examples == 60
    trainer = LiteTrainer(data)
    after = trainer.train(weights + updates[0].delta, model)
    assert after.loss < updates[0].loss / 2
    assert after.correct > updates[0].correct
    assert trainer.evaluate(weights + updates[0].delta, model) == after.correct / 60


def test_measuring_changes_no_weight_and_gives_what_training_gives_before_it_trains(model):
    weights, trainer = initial_weights(model), LiteTrainer(examples(0))
    measured, trained = trainer.measure(weights, model), trainer.train(weights, model)
    assert measured.delta.shape == (0,)
    assert (measured.correct, measured.examples) == (trained.correct, 60)
    assert measured.loss == trained.loss > 0


def test_an_evaluation_of_a_real_model_tells_the_accuracy_on_all_devices(model):
    weights, trainers = initial_weights(model), [LiteTrainer(examples(i)) for i in range(3)]
    settings = task_settings(3, kind="evaluate")
    result = simulate(trainers, model, weights, cohort_floor=3, settings=settings)
    (entry,) = result.status["rounds"]
    assert entry["correct"] == sum(t.measure(weights, model).correct for t in trainers)
    assert entry["examples"] == 180
    np.testing.assert_array_equal(result.weights, weights)


def stepped(model, weights, data, rate, beside):
    """The weights after two epochs of plain SGD on the gradient and what stands beside it."""
    session, rng, now = lite.load(model), np.random.default_rng([3, 0]), weights
    for order in (rng.permutation(48), rng.permutation(48)):
        for rows in order.reshape(3, 16):
            assign(session, now)
            batch = {name: array[rows] for name, array in data.items()}
            session.run({**batch, "lr": np.float32(rate)}, entry="train")
            gradient = (now - flatten(session)) / rate  # of the loss alone
            now = now - rate * (gradient + beside(now))
    return now


def test_the_proximal_term_is_the_gradient_step_of_fedprox(model):
    weights, data, mu, rate = initial_weights(model), examples(0, 48), 0.5, 0.3
    found = LiteTrainer(data, epochs=2, seed=3, proximal=mu).train(weights, model).delta
    want = stepped(model, weights, data, rate, lambda now: mu * (now - weights))
    np.testing.assert_allclose(found, want - weights, atol=2e-6)
    plain = LiteTrainer(data, epochs=2, seed=3).train(weights, model).delta
    assert np.linalg.norm(found) < 0.95 * np.linalg.norm(plain)


def test_a_correction_is_the_gradient_step_of_scaffold(model):
    weights, data, rate = initial_weights(model), examples(0, 48), 0.3
    correction = np.random.default_rng(1).normal(scale=0.1, size=weights.size).astype(np.float32)
    found = LiteTrainer(data, epochs=2, seed=3).follow(weights, model, Work(correction))
    want = stepped(model, weights, data, rate, lambda _: correction)
    np.testing.assert_allclose(found.update.delta, want - weights, atol=2e-6)
    assert found.travel == pytest.approx(6 * rate)
    plain = LiteTrainer(data, epochs=2, seed=3).train(weights, model).delta
    assert np.abs(found.update.delta - plain).max() > 0.01


def test_a_proximal_term_without_a_rate_is_refused(model):
    made = model_file.read(model)
    train = made.entries["train"]
    *inputs, rate = sorted(train.inputs, key=lambda v: v.name == "lr")
    roots = substitute(train.roots, {rate: Constant(np.float32(0.3))})
    outputs, changed = roots[: len(train.outputs)], roots[len(train.outputs) :]
    updates = tuple((w, v) for (w, _), v in zip(train.updates, changed, strict=True))
    fixed = Graph(tuple(inputs), outputs, train.output_names, updates)
    data = model_file.write(Model({"train": fixed, "infer": made.entries["infer"]}))
    with pytest.raises(SettingsError, match="takes a learning rate"):
        LiteTrainer(examples(0), proximal=1.0).train(initial_weights(data), data)
    start = initial_weights(data)
    with pytest.raises(SettingsError, match="a correction needs a `train` entry that takes a"):
        LiteTrainer(examples(0)).follow(start, data, Work(np.zeros_like(start)))


def test_a_model_of_a_server_may_take_only_so_much_memory_and_time(model):
    weights = initial_weights(model)
    with pytest.raises(lite.LiteError, match="memory"):
        LiteTrainer(examples(0), most_memory_bytes=64).train(weights, model)
    x, y = (Value((symbol("batch"),), name=name) for name in ("x", None))
    endless = ops.while_loop(
        x,
        condition=Graph(
            (y,), (ops.less(ops.reduce_sum(y, axes=(0,)), Constant(1.0, dtype=DType.f32)),)
        ),
        body=Graph((y,), (y * Constant(0.5, dtype=DType.f32),)),
    )
    for_ever = model_file.write(Model({"infer": Graph((x,), endless, ("y",))}))
    trainer = LiteTrainer({"x": np.zeros((4,), np.float32)}, timeout_s=0.1)
    with pytest.raises(lite.LiteError, match=r"stopped after 0\.1 s"):
        trainer.evaluate(initial_weights(for_ever), for_ever)
    for limits in ({"most_memory_bytes": 0}, {"timeout_s": 0}, {"timeout_s": float("nan")}):
        with pytest.raises(SettingsError, match="want numbers above 0"):
            LiteTrainer(examples(0), **limits)


def test_a_device_without_examples_or_with_uneven_arrays_is_refused():
    with pytest.raises(SettingsError, match="examples"):
        LiteTrainer({"x": np.zeros((3, 4)), "label": np.zeros(2)})
    with pytest.raises(SettingsError, match="examples"):
        LiteTrainer({"x": np.zeros((0, 4))})
    with pytest.raises(SettingsError, match="lr is a single number, want one for each example"):
        LiteTrainer({"x": np.zeros((3, 4)), "lr": np.float32(1)})


def test_a_saved_model_holds_the_global_weights(model, tmp_path):
    weights = initial_weights(model) + 1
    save_model(model, weights, str(tmp_path / "global.ms"))
    np.testing.assert_array_equal(initial_weights((tmp_path / "global.ms").read_bytes()), weights)
    LiteTrainer(examples(0)).personalise(weights, model, str(tmp_path / "mine.ms"))
    mine = initial_weights((tmp_path / "mine.ms").read_bytes())
    assert np.abs(mine - weights).max() > 0


def test_federated_rounds_of_a_real_model_learn(model):
    trainers = [LiteTrainer(examples(i, 40 + 5 * i), epochs=2, seed=i) for i in range(4)]
    start = initial_weights(model)
    settings = task_settings(4, max_weight=1) | {"share_s": 20}
    result = simulate(trainers, model, start, rounds=3, cohort_floor=3, settings=settings)
    judge = LiteTrainer(examples(99, 300))
    assert judge.evaluate(result.weights, model) > judge.evaluate(start, model) + 0.2
    rounds = result.status["rounds"]
    assert rounds[2]["loss"] < rounds[0]["loss"]
    assert rounds[0]["examples"] == sum(40 + 5 * i for i in range(4))


def test_a_client_that_stays_goes_on_after_a_model_that_does_not_train(model, tmp_path, capsys):
    np.savez(tmp_path / "data.npz", **examples(0))
    with serving(tmp_path) as server, server.operator() as operator:
        operator.create_task("broken", model, np.zeros(3, np.float32), **task_settings(3))
        operator.create_task("sound", model, initial_weights(model), **task_settings(3))
        given = ["--server", server.url, "--folder", f"{tmp_path}/device", "--cohort-floor", "3"]
        given += ["--authority", server.authority.hex(), "--enrol-token", server.enrol_token]
        given += ["--data", f"{tmp_path}/data.npz", "--stop-after", "advertise"]
        assert client([*given, "--rounds", "1"]) == 1
        assert "TrainingFailed" in capsys.readouterr().out
        assert client(given) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert "TrainingFailed" in first
    assert "stopped" in second
