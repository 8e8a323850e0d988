"""Metrics against their definitions, whatever the batches are."""

from __future__ import annotations

import numpy as np
import pytest

from cloud import nn
from cloud.train import ArrayDataset, metrics, predict
from cloud.train.metrics import Metric

RNG = np.random.default_rng(0)
LOGITS, LABELS = RNG.standard_normal((40, 4)), RNG.integers(0, 4, 40)
GUESS = LOGITS.argmax(1)
Y, TARGET = RNG.standard_normal(40), RNG.standard_normal(40)


def in_batches(metric: Metric, results: np.ndarray, targets: np.ndarray) -> float:
    for i in range(0, len(results), 7):
        metric.update(results[i : i + 7], targets[i : i + 7])
    return metric.result()


def of_class(c: int) -> tuple[float, float, float]:
    hits = np.sum((c == GUESS) & (c == LABELS))
    precision, recall = hits / np.sum(c == GUESS), hits / np.sum(c == LABELS)
    return precision, recall, 2 * precision * recall / (precision + recall)


def test_accuracy_and_top_k() -> None:
    assert in_batches(metrics.Accuracy(), LOGITS, LABELS) == np.mean(GUESS == LABELS)
    best = np.argsort(-LOGITS, axis=1)
    for k in (1, 2, 4):
        want = np.mean((best[:, :k] == LABELS[:, None]).any(1))
        assert in_batches(metrics.TopK(k), LOGITS, LABELS) == want


@pytest.mark.parametrize("c", range(4))
def test_precision_recall_and_f1_of_a_class(c: int) -> None:
    kinds = (metrics.Precision, metrics.Recall, metrics.F1)
    found = [in_batches(kind(4, of=c), LOGITS, LABELS) for kind in kinds]
    np.testing.assert_allclose(found, of_class(c))


def test_precision_recall_and_f1_are_means_over_classes() -> None:
    want = np.mean([of_class(c) for c in range(4)], axis=0)
    kinds = (metrics.Precision, metrics.Recall, metrics.F1)
    np.testing.assert_allclose([in_batches(k(4), LOGITS, LABELS) for k in kinds], want)


def test_a_class_that_nothing_was_taken_for_has_a_precision_of_0() -> None:
    matrix = metrics.ConfusionMatrix(3)
    matrix.update(np.eye(3)[[0, 0, 1]], np.array([0, 1, 1]))
    assert matrix.counts.tolist() == [[1, 0, 0], [1, 1, 0], [0, 0, 0]]
    assert matrix.precision.tolist() == [0.5, 1, 0]
    assert matrix.recall.tolist() == [1, 0.5, 0]
    assert matrix.result() == pytest.approx(2 / 3)


@pytest.mark.parametrize("ties", [False, True])
def test_auc_is_the_probability_of_the_right_order(ties: bool) -> None:
    scores = np.round(Y, 0) if ties else Y
    labels = RNG.integers(0, 2, 40)
    a, b = scores[labels == 1][:, None], scores[labels == 0]
    want = np.mean((a > b) + 0.5 * (a == b))
    assert in_batches(metrics.AUC(), scores, labels) == pytest.approx(want)


def test_errors_of_numbers() -> None:
    assert in_batches(metrics.MeanAbsoluteError(), Y, TARGET) == pytest.approx(
        np.mean(np.abs(Y - TARGET))
    )
    squared = np.mean((Y - TARGET) ** 2)
    assert in_batches(metrics.MeanSquaredError(), Y, TARGET) == pytest.approx(squared)
    r2 = 1 - squared / np.var(TARGET)
    assert in_batches(metrics.R2(), Y, TARGET) == pytest.approx(r2)


def test_a_metric_of_nothing_is_not_a_number() -> None:
    empty = [metrics.Accuracy(), metrics.AUC(), metrics.R2(), metrics.ConfusionMatrix(2)]
    assert all(np.isnan(m.result()) for m in empty)


def test_metrics_of_a_module_over_a_data_set() -> None:
    net = nn.Linear(4, 4, rng=np.random.default_rng(0))
    data = ArrayDataset(x=LOGITS, label=LABELS)
    results = predict(net, data, batch_size=16, engine="interpreter")
    np.testing.assert_allclose(results, net(LOGITS.astype(np.float32)), rtol=1e-5, atol=1e-6)
    found = metrics.measure(
        {"accuracy": metrics.Accuracy(), "top2": metrics.TopK(2)}, results, LABELS
    )
    assert found["accuracy"] == np.mean(results.argmax(1) == LABELS)
    assert found["top2"] >= found["accuracy"]
