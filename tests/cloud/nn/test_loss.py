"""Losses against PyTorch in float64, with their gradients; and the count of correct answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from cloud import value_and_grad
from cloud.interpreter import run
from cloud.nn import loss
from ir.dtype import DType
from ir.errors import DTypeError
from ir.graph import Graph, Value

RNG = np.random.default_rng(0)
LOGITS = RNG.standard_normal((6, 4)) * 3
TEACHER = RNG.standard_normal((6, 4)) * 3
LABELS = RNG.integers(0, 4, 6).astype(np.int32)


def assert_same(
    ours: loss.Loss, theirs: Callable[..., torch.Tensor], x: Any, *targets: Any
) -> None:
    y, g = value_and_grad(ours)(x, *targets)
    leaf = torch.tensor(x, requires_grad=True)
    want = theirs(
        leaf, *(torch.tensor(t.astype(np.int64) if t.dtype == np.int32 else t) for t in targets)
    )
    want.backward()  # type: ignore[no-untyped-call]
    assert y == pytest.approx(want.item(), rel=1e-10)
    assert leaf.grad is not None
    np.testing.assert_allclose(g, leaf.grad.numpy(), rtol=1e-8, atol=1e-12)


def test_softmax_cross_entropy_is_the_mean_over_examples() -> None:
    assert_same(loss.softmax_cross_entropy, F.cross_entropy, LOGITS, LABELS)


def test_softmax_cross_entropy_stands_large_logits() -> None:
    assert_same(loss.softmax_cross_entropy, F.cross_entropy, LOGITS * 300, LABELS)


def test_mean_squared_error_is_the_mean_over_elements() -> None:
    assert_same(loss.mean_squared_error, F.mse_loss, LOGITS, TEACHER)


@pytest.mark.parametrize(
    ("temperature", "alpha"), [(1.0, 1.0), (4.0, 0.5), (2.0, 0.25), (8.0, 0.0)]
)
def test_distillation_mixes_the_teachers_and_the_labels_loss(
    temperature: float, alpha: float
) -> None:
    def theirs(x: torch.Tensor, labels: torch.Tensor, teacher: torch.Tensor) -> torch.Tensor:
        soft = F.kl_div(
            F.log_softmax(x / temperature, 1),
            F.softmax(teacher / temperature, 1),
            reduction="batchmean",
        )
        return alpha * temperature**2 * soft + (1 - alpha) * F.cross_entropy(x, labels)

    ours = loss.distillation(temperature=temperature, alpha=alpha)
    assert_same(ours, theirs, LOGITS, LABELS, TEACHER)


def test_distillation_from_oneself_with_alpha_1_costs_nothing() -> None:
    y, g = value_and_grad(loss.distillation(temperature=3.0, alpha=1.0))(LOGITS, LABELS, LOGITS)
    assert y == pytest.approx(0, abs=1e-12)
    np.testing.assert_allclose(g, 0, atol=1e-12)


@pytest.mark.parametrize(("temperature", "alpha"), [(0.0, 0.5), (1.0, 1.5)])
def test_senseless_distillation_is_refused(temperature: float, alpha: float) -> None:
    with pytest.raises(ValueError, match="distillation: temperature"):
        loss.distillation(temperature=temperature, alpha=alpha)


def test_correct_counts_the_examples_whose_largest_logit_is_the_label() -> None:
    graph = Graph.trace(loss.correct, Value((6, 4)), Value((6,), DType.i32))
    logits = LOGITS.astype(np.float32)
    (n,) = run(graph, logits, LABELS)
    assert n == np.sum(logits.argmax(1) == LABELS)
    assert run(graph, logits, logits.argmax(1).astype(np.int32))[0] == 6


def test_mean_squared_error_reads_a_target_without_the_last_axis_of_1() -> None:
    y, target = Value((4, 1)), Value((4,))
    graph = Graph((y, target), (loss.mean_squared_error(y, target),))
    a, b = np.float32([[1], [2], [3], [4]]), np.float32([1, 1, 1, 1])
    assert run(graph, a, b)[0] == 3.5


def test_mean_squared_error_refuses_integers_and_says_how_to_give_floats() -> None:
    with pytest.raises(DTypeError, match="the target label is i32, want f32; name a float target"):
        loss.mean_squared_error(Value((4, 1)), Value((4,), DType.i32, name="label"))
