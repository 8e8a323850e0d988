"""Every loss against PyTorch in float64: its value and its gradient."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from cloud import execute, modes, nn, train, value_and_grad
from cloud.autodiff import gradients, ones_like
from cloud.interpreter import run
from cloud.nn import loss
from ir.dtype import DType
from ir.graph import Graph, Value
from ir.walk import walk

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


@pytest.mark.parametrize("name", [n for n, (_, _, a) in CASES.items() if len(a) == 2])
@pytest.mark.parametrize("mode", ["graph", "eager"])
def test_the_target_of_a_loss_may_be_an_array_from_outside(name: str, mode: str) -> None:
    ours, _, (x, target) = CASES[name]
    wide = target.astype(np.int64) if target.dtype == np.int32 else target.astype(np.float32)
    beside = target if target.dtype == np.int32 else wide.astype(np.float64)
    with modes.using(mode=mode):
        y, g = value_and_grad(lambda x: ours(x, wide))(x)
        want, slopes = value_and_grad(ours)(x, beside)
    np.testing.assert_array_equal(y, want)
    np.testing.assert_array_equal(g, slopes)


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


STEPS, CLASSES = 8, 5
SPEECH: dict[str, tuple[list[list[int]], list[int] | None, dict[str, Any]]] = {
    "labels of unequal length": ([[1, 2, 3], [2, 4]], None, {}),
    "labels said twice": ([[1, 1, 3], [2, 2, 2]], None, {}),
    "rows of unequal length": ([[1, 2, 3], [2, 2, 2], [4]], [8, 6, 3], {}),
    "another blank": ([[1, 0, 3], [2, 2]], None, {"blank": 4}),
    "nothing said": ([[], [1]], None, {}),
    "more than fits, without it": ([[1] * 5, [2, 3]], None, {"zero_infinity": True}),
}


@pytest.mark.parametrize("name", SPEECH)
def test_ctc_is_pytorchs_also_its_gradient(name: str) -> None:
    labels, lengths, attrs = SPEECH[name]
    x = RNG.standard_normal((len(labels), STEPS, CLASSES)) * 2
    padded = np.full((len(labels), 5), -1, np.int32)
    for row, given in zip(padded, labels, strict=True):
        row[: len(given)] = given
    rows = () if lengths is None else (np.array(lengths, np.int32),)
    value, g = value_and_grad(loss.ctc(**attrs))(x, padded, *rows)
    tx = torch.tensor(x, requires_grad=True)
    steps = torch.tensor(lengths or [STEPS] * len(labels))
    want = F.ctc_loss(
        F.log_softmax(tx, 2).transpose(0, 1), torch.tensor(np.maximum(padded, 0)).long(), steps,
        torch.tensor([len(given) for given in labels]), **attrs,
    )  # fmt: skip
    want.backward()  # type: ignore[no-untyped-call]
    assert tx.grad is not None
    np.testing.assert_allclose(value, want.item(), rtol=1e-12)
    np.testing.assert_allclose(g, tx.grad.numpy(), rtol=1e-9, atol=1e-14)


def test_ctc_of_labels_that_do_not_fit_is_infinite_and_has_no_gradient() -> None:
    x = RNG.standard_normal((1, 3, CLASSES))
    value, g = value_and_grad(loss.ctc())(x, np.array([[1, 1, 1]], np.int32))
    assert value == np.inf
    assert not g.any()


def test_ctc_has_as_many_nodes_for_any_number_of_steps_and_runs_natively() -> None:
    def graph(steps: int) -> Graph:
        x = Value((2, steps, CLASSES), name="x")
        labels = Value((2, 3), DType.i32, name="labels")
        y = loss.ctc()(x, labels)
        return Graph((x, labels), tuple(gradients([y], [ones_like(y)], [x])))

    few, many = graph(5), graph(500)
    assert sum(len(g.nodes) for g in walk([few])) == sum(len(g.nodes) for g in walk([many]))
    x = RNG.standard_normal((2, 500, CLASSES))
    labels = np.array([[1, 2, 3], [2, 2, -1]], np.int32)
    (want,) = run(graph(500), x, labels)
    (found,) = execute.run(many, x.astype(np.float32), labels)
    np.testing.assert_allclose(found, want, atol=1e-4)


def test_ctc_learns_an_order_that_it_was_not_told_the_times_of() -> None:
    rng = np.random.default_rng(0)
    x = np.zeros((64, 12, 3), np.float32)
    labels = np.full((64, 3), -1, np.int32)
    for i, k in enumerate(rng.integers(1, 4, 64)):
        labels[i, :k] = rng.integers(1, 4, k)
        for t, label in zip(np.sort(rng.choice(6, k, replace=False)) * 2, labels[i], strict=False):
            x[i, t, label - 1] = 1
    net = nn.Linear(3, 4, rng=rng)
    data = train.ArrayDataset(x=x, labels=labels)
    history = train.fit(
        net, data, optimizer=train.Adam(0.1), loss=loss.ctc(), epochs=40, progress=False
    )
    assert history["loss"][-1] < 0.1 * history["loss"][0]
