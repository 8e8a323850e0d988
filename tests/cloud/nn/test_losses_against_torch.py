"""Every loss against PyTorch in float64: its value and its gradient."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from cloud.autodiff import gradients, ones_like
from cloud.interpreter import run
from cloud.nn import loss
from ir.dtype import DType
from ir.graph import Graph, Value

RNG = np.random.default_rng(0)
LOGITS, Y, TARGET = RNG.standard_normal((5, 4)), RNG.standard_normal((5, 4)) * 2, RNG.random((5, 4))
LABELS = np.array([0, 3, 1, 1, 2], np.int32)
SIGNS = np.sign(RNG.standard_normal((5, 4)))
WEIGHTS = [0.5, 1.0, 2.0, 0.1]
P = np.where(RNG.random((5, 4)) < 0.3, 0, TARGET)


def _long(labels: torch.Tensor) -> torch.Tensor:
    return labels.long()


def _torch_ce(**attrs: Any) -> Callable[..., torch.Tensor]:
    if "weight" in attrs:
        attrs["weight"] = torch.tensor(attrs["weight"], dtype=torch.float64)
    return lambda x, t: F.cross_entropy(x, _long(t), **attrs)


CASES: dict[str, tuple[loss.Loss, Callable[..., torch.Tensor], tuple[np.ndarray, ...]]] = {
    "cross-entropy": (loss.softmax_cross_entropy, _torch_ce(), (LOGITS, LABELS)),
    "with smoothing": (
        loss.cross_entropy(smoothing=0.2), _torch_ce(label_smoothing=0.2), (LOGITS, LABELS)
    ),
    "with weights": (loss.cross_entropy(weights=WEIGHTS), _torch_ce(weight=WEIGHTS),
                     (LOGITS, LABELS)),
    "with smoothing, weights and a label to ignore": (
        loss.cross_entropy(smoothing=0.1, weights=WEIGHTS, ignore=1),
        _torch_ce(label_smoothing=0.1, weight=WEIGHTS, ignore_index=1), (LOGITS, LABELS),
    ),
    "with a label to ignore that is no class": (
        loss.cross_entropy(ignore=-1), _torch_ce(ignore_index=-1),
        (LOGITS, np.array([0, -1, 2, -1, 3], np.int32)),
    ),
    "of a sequence": (
        loss.cross_entropy(smoothing=0.1),
        lambda x, t: F.cross_entropy(x.movedim(-1, 1), _long(t), label_smoothing=0.1),
        (RNG.standard_normal((2, 3, 4)), np.array([[0, 1, 2], [3, 3, 0]], np.int32)),
    ),
    "binary": (loss.binary_cross_entropy, F.binary_cross_entropy, (RNG.random((5, 4)), TARGET)),
    "binary of logits": (
        loss.binary_cross_entropy_with_logits, F.binary_cross_entropy_with_logits, (Y * 9, TARGET)
    ),
    "binary with weight": (
        loss.weighted_binary_cross_entropy(3.0),
        lambda x, t: F.binary_cross_entropy_with_logits(x, t, pos_weight=torch.tensor(3.0)),
        (Y, TARGET),
    ),
    "squared": (loss.mean_squared_error, F.mse_loss, (Y, TARGET)),
    "absolute": (loss.mean_absolute_error, F.l1_loss, (Y, TARGET)),
    "huber": (loss.huber(0.7), lambda y, t: F.huber_loss(y, t, delta=0.7), (Y, TARGET)),
    "kl": (
        lambda x, p: loss.kl_divergence(x, p),
        lambda x, p: F.kl_div(x, p, reduction="batchmean"), (LOGITS, P),
    ),
    "cosine": (loss.cosine, lambda y, t: (1 - F.cosine_similarity(y, t)).mean(), (Y, TARGET)),
    "cosine embedding": (
        lambda a, b: loss.cosine_embedding(0.1)(a, b, _signs(b)),
        lambda a, b: F.cosine_embedding_loss(a, b, torch.tensor(SIGNS[:, 0]), 0.1), (Y, LOGITS),
    ),
    "hinge": (loss.hinge, lambda y, t: (1 - y * t).clamp(min=0).mean(), (Y, SIGNS)),
    "hinge of classes": (
        loss.multi_class_hinge(0.8), lambda x, t: F.multi_margin_loss(x, _long(t), margin=0.8),
        (LOGITS, LABELS),
    ),
}  # fmt: skip


def _signs(like: Value) -> Value:
    from ir.graph import Constant

    return Constant(SIGNS[:, 0])


@pytest.mark.parametrize("name", CASES)
def test_a_loss_and_its_gradient_are_pytorchs(name: str) -> None:
    ours, theirs, arrays = CASES[name]
    leaves = [Value(a.shape, DType.of(a)) for a in arrays]
    y = ours(*leaves)
    assert y.shape == ()
    graph = Graph(tuple(leaves), (y, *gradients([y], [ones_like(y)], leaves[:1])))
    found, g = run(graph, *arrays)
    tensors = [torch.tensor(a) for a in arrays]
    tensors[0].requires_grad_()
    want = theirs(*tensors)
    want.backward()  # type: ignore[no-untyped-call]
    np.testing.assert_allclose(found, want.item(), rtol=1e-12)
    assert tensors[0].grad is not None
    np.testing.assert_allclose(g, tensors[0].grad.numpy(), rtol=1e-7, atol=1e-12)


def test_binary_cross_entropy_is_finite_at_0_and_1() -> None:
    p, t = Value((2,), DType.f64), Value((2,), DType.f64)
    with np.errstate(divide="ignore"):
        (found,) = run(Graph((p, t), (loss.binary_cross_entropy(p, t),)), np.array([0.0, 1.0]),
                       np.array([1.0, 0.0]))  # fmt: skip
    assert found == 100


@pytest.mark.parametrize("k", [1, 2, 3])
def test_top_k_counts_labels_among_the_k_largest(k: int) -> None:
    x, t = Value((5, 4), DType.f64), Value((5,), DType.i32)
    (found,) = run(Graph((x, t), (loss.top(k)(x, t),)), LOGITS, LABELS)
    best = np.argsort(-LOGITS, axis=1)[:, :k]
    assert found == np.mean([label in row for label, row in zip(LABELS, best, strict=True)])


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda: loss.cross_entropy(smoothing=1.0), "smoothing 1.0, want at least 0 and below 1"),
        (lambda: loss.huber(0.0), "delta 0.0, want above 0"),
        (
            lambda: loss.cross_entropy(weights=[1.0])(Value((2, 3)), Value((2,), DType.i32)),
            "1 weights, want 3",
        ),
    ],
)
def test_settings_that_make_no_sense_are_refused(make: Callable[[], Any], why: str) -> None:
    with pytest.raises(Exception, match=why):
        make()
