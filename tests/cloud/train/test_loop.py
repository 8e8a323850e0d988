"""fit and evaluate: learning, history, callbacks, interrupts, checkpoints; on both engines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cloud import nn
from cloud.nn.loss import distillation, mean_squared_error
from cloud.train import (
    SGD,
    Adam,
    ArrayDataset,
    History,
    Momentum,
    Trainer,
    add_noise,
    batches,
    checkpoint,
    evaluate,
    fit,
    schedule,
)
from ir.errors import FormatError, GraphError
from ir.model_file import write

ENGINES = ["lite", "interpreter"]


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest) -> str:
    if request.param == "lite":
        pytest.importorskip("lite_runtime")
    return str(request.param)


def spirals(n: int, seed: int = 0) -> ArrayDataset:
    """Points of two spirals that wind around each other: no line parts them."""
    rng = np.random.default_rng(seed)
    label = rng.integers(0, 2, n)
    t = rng.uniform(0.3, 1.0, n)
    angle = 8 * t + np.pi * label
    point = np.stack([t * np.cos(angle), t * np.sin(angle)], 1)
    return ArrayDataset(point=2 * point + rng.normal(0, 0.04, point.shape), label=label)


def bars(n: int, seed: int = 0) -> ArrayDataset:
    """Noisy 8x8 images with a bright row or a bright column somewhere."""
    rng = np.random.default_rng(seed)
    image, label = rng.normal(0, 0.3, (n, 8, 8, 1)), rng.integers(0, 2, n)
    for x, y, at in zip(image, label, rng.integers(0, 8, n), strict=True):
        x[at if y else slice(None), slice(None) if y else at] += 1
    return ArrayDataset(image=image, label=label)


def perceptron() -> nn.Module:
    rng = np.random.default_rng(0)
    return nn.Sequential(
        nn.Linear(2, 32, rng=rng),
        nn.Tanh(),
        nn.Linear(32, 32, rng=rng),
        nn.Tanh(),
        nn.Linear(32, 2, rng=rng),
    )


def cnn() -> nn.Module:
    """With every kind of state: running statistics and a random key."""
    rng = np.random.default_rng(0)
    return nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1, bias=False, rng=rng), nn.BatchNorm(4), nn.ReLU(),
        nn.MaxPool2d(2), nn.Flatten(), nn.Dropout(0.1, rng=rng), nn.Linear(64, 2, rng=rng),
    )  # fmt: skip


def quick(net: nn.Module, engine: str, **options: Any) -> History:
    given: dict[str, Any] = {"optimizer": Momentum(0.05), "epochs": 3, "progress": False, **options}
    return fit(net, bars(96), engine=engine, **given)


def weights_of(net: nn.Module) -> dict[str, bytes]:
    return {name: a.tobytes() for name, a in net.state_dict().items()}


def test_a_perceptron_learns_two_spirals(engine: str) -> None:
    net, test = perceptron(), spirals(200, seed=9)
    before = evaluate(net, test, engine=engine)
    rate = schedule.cosine(0.02, steps=13 * 60, warmup=20)
    history = fit(
        net,
        spirals(400),
        optimizer=Adam(0.02),
        schedule=rate,
        epochs=60,
        engine=engine,
        progress=False,
    )
    after = evaluate(net, test, engine=engine)
    assert before["accuracy"] < 0.7
    assert after["accuracy"] > 0.97
    assert history["loss"][-1] < 0.1 * history["loss"][0]


def test_a_cnn_with_batch_norm_and_dropout_learns_bars(engine: str) -> None:
    net = cnn()
    history = fit(
        net, bars(256), optimizer=Momentum(0.05), epochs=12, validation=bars(64, seed=5),
        engine=engine, progress=False,
    )  # fmt: skip
    assert history["val_accuracy"][-1] > 0.95
    assert evaluate(net, bars(64, seed=5), engine=engine) == pytest.approx(
        {"loss": history["val_loss"][-1], "accuracy": history["val_accuracy"][-1]}
    )


def test_both_engines_train_the_same_weights() -> None:
    pytest.importorskip("lite_runtime")
    nets = [cnn(), cnn()]
    histories = [quick(net, e, epochs=2) for net, e in zip(nets, ENGINES, strict=True)]
    np.testing.assert_allclose(histories[0]["loss"], histories[1]["loss"], rtol=1e-4)
    for a, b in zip(nets[0].state_dict().values(), nets[1].state_dict().values(), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-4)


def test_the_same_seed_gives_the_same_bits_and_another_seed_does_not(engine: str) -> None:
    nets = [cnn() for _ in range(3)]
    for net, seed in zip(nets, (1, 1, 2), strict=True):
        quick(net, engine, seed=seed, augment=[add_noise("image", 0.1)])
    assert weights_of(nets[0]) == weights_of(nets[1])
    assert weights_of(nets[0]) != weights_of(nets[2])


def test_frozen_weights_stay_bit_for_bit(engine: str) -> None:
    net = cnn()
    before = weights_of(net)
    quick(net, engine, trainable=["6.*"])
    changed = {name for name, a in weights_of(net).items() if a != before[name]}
    assert changed == {"6.weight", "6.bias"}


def test_regression_takes_float_targets_and_reports_the_loss_alone(engine: str) -> None:
    x = np.random.default_rng(0).standard_normal((64, 3))
    data = ArrayDataset(x=x, y=x @ [[1.0], [-2.0], [0.5]] + 3)
    layer = nn.Linear(3, 1, rng=np.random.default_rng(1))
    history = fit(
        layer,
        data,
        loss=mean_squared_error,
        optimizer=SGD(0.1),
        epochs=30,
        engine=engine,
        progress=False,
    )
    assert set(history.records[0]) == {"loss", "lr"}
    assert dict(history.items()) == {"loss": history["loss"], "lr": [0.1] * 30}
    np.testing.assert_allclose(layer.weight.data, [[1, -2, 0.5]], atol=0.01)


def test_a_student_follows_its_teachers_logits(engine: str) -> None:
    data = spirals(128)
    points = data.columns["point"]
    teacher = np.stack([points[:, 0] * 3, -points[:, 0] * 3], 1)
    student = perceptron()
    fit(
        student, data.with_columns(teacher=teacher), loss=distillation(temperature=2.0, alpha=1.0),
        optimizer=Adam(0.01), epochs=20, engine=engine, progress=False,
    )  # fmt: skip
    agreement = np.mean(student(points).argmax(1) == teacher.argmax(1))
    assert agreement > 0.95


def test_an_epoch_reports_means_over_examples_also_with_a_short_last_batch(engine: str) -> None:
    net, data = perceptron(), spirals(50)
    loss = evaluate(net, data, engine=engine, batch_size=50)
    assert evaluate(net, data, engine=engine, batch_size=16) == pytest.approx(loss)
    history = fit(
        net, data, optimizer=SGD(0.0), epochs=1, batch_size=16, engine=engine, progress=False
    )
    assert history.records[0] == pytest.approx({**loss, "lr": 0.0})


def test_the_schedule_counts_steps_over_all_epochs() -> None:
    history = quick(cnn(), "interpreter", schedule=lambda s: 0.001 * s, batch_size=48)
    assert history["lr"] == pytest.approx([0.001, 0.003, 0.005])


def test_a_callback_sees_the_weights_of_its_epoch_and_can_end_training() -> None:
    seen: list[tuple[int, float, dict[str, bytes]]] = []

    def callback(epoch: int, record: dict[str, float], trainer: Trainer) -> bool:
        seen.append((epoch, record["loss"], weights_of(trainer.module)))
        return epoch == 1

    net = cnn()
    history = quick(net, "interpreter", epochs=9, callbacks=[callback])
    assert [s[0] for s in seen] == [0, 1]
    assert history["loss"] == [s[1] for s in seen]
    assert seen[0][2] != seen[1][2]
    assert weights_of(net) == seen[1][2]


def test_an_interrupt_leaves_the_weights_of_the_last_whole_step(engine: str) -> None:
    def interrupt_at(step: int) -> Any:
        def rate(s: int) -> float:
            if s == step:
                raise KeyboardInterrupt
            return 0.05

        return rate

    net = cnn()
    with pytest.raises(KeyboardInterrupt):
        quick(net, engine, schedule=interrupt_at(4))
    data, whole = bars(96), cnn()
    trainer = Trainer(whole, data, optimizer=Momentum(0.05), engine=engine)
    steps = (b for e in range(2) for b in batches(data, 32, rng=np.random.default_rng((0, e))))
    for _, batch in zip(range(4), steps, strict=False):
        trainer.step(batch, 0.05)
    trainer.pull()
    assert weights_of(net) == weights_of(whole)


def test_a_resumed_run_ends_with_the_bits_of_one_that_was_never_stopped(
    engine: str, tmp_path: Path
) -> None:
    def options(optimizer: Any) -> dict[str, Any]:
        rate = schedule.cosine(0.02, steps=12, warmup=3)
        return {
            "optimizer": optimizer,
            "schedule": rate,
            "augment": [add_noise("image", 0.1)],
            "seed": 4,
        }

    whole = cnn()
    want = quick(whole, engine, epochs=4, **options(Adam(0.02)))

    path = tmp_path / "run.ms"
    quick(cnn(), engine, epochs=2, checkpoint=path, **options(Adam(0.02)))
    other = nn.Sequential(*cnn().layers.values())  # type: ignore[attr-defined]
    for w in other.weights().values():
        w.data = np.zeros_like(w.data)
    optimizer = Adam(0.02)
    found = quick(other, engine, epochs=4, checkpoint=path, resume=True, **options(optimizer))
    assert weights_of(other) == weights_of(whole)
    assert found.records == want.records
    assert optimizer.states["optimizer.step"].data == 12


class Stop(Exception):
    """The end of a run that is not its own."""


@pytest.mark.parametrize("stop_at", [2, 3, 4, 5])
def test_a_run_that_stops_in_mid_epoch_resumes_bit_for_bit(
    engine: str, tmp_path: Path, stop_at: int
) -> None:
    """Three steps an epoch, stopped before, at and behind an epoch's end."""
    options: dict[str, Any] = {"augment": [add_noise("image", 0.1)], "seed": 4, "epochs": 3}

    def stopping(step: int) -> float:
        if step == stop_at:
            raise Stop
        return 0.02 / (step + 1)

    whole = cnn()
    want = quick(whole, engine, optimizer=Adam(), schedule=lambda s: 0.02 / (s + 1), **options)
    path = tmp_path / "run.ms"
    with pytest.raises(Stop):
        quick(cnn(), engine, optimizer=Adam(), schedule=stopping, checkpoint=path,
              checkpoint_every=1, **options)  # fmt: skip
    assert checkpoint.load(path).step == stop_at
    other = cnn()
    found = quick(other, engine, optimizer=Adam(), schedule=lambda s: 0.02 / (s + 1),
                  checkpoint=path, resume=True, **options)  # fmt: skip
    assert weights_of(other) == weights_of(whole)
    assert found.records == want.records


def test_resuming_without_a_file_starts_from_the_beginning(tmp_path: Path) -> None:
    path = tmp_path / "run.ms"
    assert len(quick(cnn(), "interpreter", epochs=1, checkpoint=path, resume=True)) == 1
    assert [p.name for p in tmp_path.iterdir()] == ["run.ms"]


def test_a_checkpoint_of_another_seed_net_or_kind_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "run.ms"
    quick(cnn(), "interpreter", epochs=1, checkpoint=path, seed=1)
    with pytest.raises(ValueError, match="a run with seed 1, want seed 2"):
        quick(cnn(), "interpreter", checkpoint=path, resume=True, seed=2)
    with pytest.raises(GraphError, match="in only one of model and what is set"):
        quick(cnn(), "interpreter", checkpoint=path, resume=True, seed=1, optimizer=SGD(0.1))
    trainer = Trainer(cnn(), bars(8), optimizer=SGD(0.1), engine="interpreter")
    path.write_bytes(write(trainer.model))
    with pytest.raises(FormatError, match=r"want a file of checkpoint\.save"):
        checkpoint.load(path)


def test_a_checkpoint_is_a_model_that_runs(tmp_path: Path) -> None:
    lite = pytest.importorskip("lite_runtime")
    path, net = tmp_path / "run.ms", cnn()
    quick(net, "lite", epochs=1, checkpoint=path)
    x = bars(4).columns["image"]
    np.testing.assert_allclose(lite.load(path).run(x), net(x), rtol=1e-4, atol=1e-5)


def test_progress_off_a_terminal_is_one_line_an_epoch(capsys: pytest.CaptureFixture[str]) -> None:
    quick(cnn(), "interpreter", epochs=2, progress=True, validation=bars(8))
    out, err = capsys.readouterr()
    lines = err.splitlines()
    assert not out
    assert len(lines) == 2
    assert lines[1].startswith("epoch 2/2: loss ")
    assert "val_accuracy" in lines[1]


def test_a_progress_bar_shows_on_a_terminal(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    import sys

    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    quick(cnn(), "interpreter", epochs=1, progress=True)
    assert "epoch 1/1:   0%" in capsys.readouterr().err


def test_an_unknown_engine_is_refused() -> None:
    with pytest.raises(ValueError, match="engine 'gpu': want lite or interpreter"):
        quick(cnn(), "gpu")


def test_an_evaluation_between_steps_changes_no_step(engine: str) -> None:
    data, found = bars(64), []
    for evaluates in (True, False):
        net = cnn()
        trainer = Trainer(net, data, optimizer=Momentum(0.05), engine=engine, evaluates=evaluates)
        losses = []
        for i, batch in enumerate(batches(data, 32, rng=np.random.default_rng(0))):
            losses.append(trainer.step(batch, 0.05)["loss"])
            if i == 0:
                losses.append(trainer.evaluate(data)["loss"])
        trainer.pull()
        found.append((losses, weights_of(net)))
    assert found[0] == found[1]
