"""Distillation: a small student learns from a trained teacher."""

from __future__ import annotations

import numpy as np
import pytest

from cloud import nn
from cloud.compress import distill
from cloud.train import Adam, ArrayDataset, evaluate
from tests.cloud.compress.tasks import convnet, textures

OPTIONS = {"epochs": 6, "progress": False, "batch_size": 32}


def answers(net: nn.Module, data: ArrayDataset) -> np.ndarray:
    return net(data.columns["image"]).argmax(1)


def test_a_student_learns_from_the_teacher_alone(trained: nn.Module) -> None:
    """With alpha 1 the labels have no say: wrong ones do not matter."""
    data, test = textures(1200, 1), textures(400, 9)
    wrong = data.with_columns(label=np.zeros(len(data), np.int32))
    student = convnet(4, seed=5)
    history = distill(student, trained, wrong, alpha=1.0, optimizer=Adam(0.01), **OPTIONS)
    assert len(history) == OPTIONS["epochs"]
    agreement = (answers(student, test) == answers(trained, test)).mean()
    assert agreement > 0.8
    assert evaluate(student, test)["accuracy"] > 0.75


def test_labels_have_their_say_too(trained: nn.Module) -> None:
    data, test = textures(1200, 1), textures(400, 9)
    student = convnet(4, seed=5)
    distill(student, trained, data, alpha=0.0, optimizer=Adam(0.01), **OPTIONS)
    assert evaluate(student, test)["accuracy"] > 0.75


def test_the_teacher_stays_as_it_was(trained: nn.Module) -> None:
    before = trained.state_dict()
    student = convnet(4, seed=5)
    distill(student, trained, textures(64, 1), optimizer=Adam(0.01), epochs=1, progress=False)
    assert all(np.array_equal(a, before[n]) for n, a in trained.state_dict().items())


def test_the_teacher_sees_what_the_student_sees(trained: nn.Module) -> None:
    seen = []

    def blacken(batch: dict[str, np.ndarray], _: np.random.Generator) -> dict[str, np.ndarray]:
        seen.append(len(batch["image"]))
        return {**batch, "image": np.zeros_like(batch["image"])}

    student = convnet(4, seed=5)
    distill(
        student, trained, textures(96, 1), alpha=1.0, augment=[blacken], optimizer=Adam(0.05),
        epochs=30, progress=False, batch_size=48,
    )  # fmt: skip
    assert sum(seen) == 30 * 96
    black = np.zeros((1, 10, 10, 1), np.float32)
    soft = [np.exp(z / 4) / np.exp(z / 4).sum() for z in (student(black), trained(black))]
    np.testing.assert_allclose(soft[0], soft[1], atol=0.05)


@pytest.mark.parametrize("options", [{"temperature": 0.0}, {"alpha": 1.5}])
def test_wrong_options_are_refused(options: dict[str, float], trained: nn.Module) -> None:
    with pytest.raises(ValueError, match="distillation"):
        distill(convnet(4, 5), trained, textures(8, 1), optimizer=Adam(), epochs=1, **options)  # type: ignore[arg-type]
