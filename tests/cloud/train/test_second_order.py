"""LAMB and Shampoo: their formulas, and steps where plain gradients are slow."""

from __future__ import annotations

import numpy as np
import pytest

from cloud import nn
from cloud.interpreter import step
from cloud.nn.loss import mean_squared_error
from cloud.train import LAMB, SGD, ArrayDataset, Momentum, Optimizer, Shampoo, Trainer
from ir.graph import Graph, Value, Weight
from ir.in_place import in_place_order

RNG = np.random.default_rng(0)
START = RNG.standard_normal((3, 4))
GRADIENTS = [RNG.standard_normal((3, 4)) for _ in range(4)]


def _run(optimizer: Optimizer, start: np.ndarray, gradients: list[np.ndarray]) -> np.ndarray:
    w = Weight(start, name="w")
    g, lr = Value(w.shape, w.dtype), Value((), w.dtype)
    graph = Graph((g, lr), (), updates=tuple(optimizer.updates([w], [g], lr)))
    assert in_place_order(graph)
    now = {v: v.data for v in graph.weights}
    for x in gradients:
        now.update(step(graph, x, np.float64(optimizer.lr), weights=now)[1])
    return now[w]


def test_lamb_is_adam_with_steps_as_long_as_its_weights() -> None:
    found = _run(LAMB(0.1, weight_decay=0.2), START, GRADIENTS)
    w, m, v = START, np.zeros((3, 4)), np.zeros((3, 4))
    for t, g in enumerate(GRADIENTS, start=1):
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
        r = (m / (1 - 0.9**t)) / (np.sqrt(v / (1 - 0.999**t)) + 1e-6) + 0.2 * w
        w = w - 0.1 * np.linalg.norm(w) / np.linalg.norm(r) * r
    np.testing.assert_allclose(found, w, rtol=1e-10)


def test_lamb_moves_weights_that_are_zero() -> None:
    found = _run(LAMB(0.1), np.zeros((3, 4)), GRADIENTS[:1])
    np.testing.assert_allclose(np.abs(found), 0.1, rtol=1e-4)
    assert np.isfinite(_run(LAMB(0.1), START, [np.zeros((3, 4))])).all()


def _root(a: np.ndarray, order: int, epsilon: float) -> np.ndarray:
    values, vectors = np.linalg.eigh(a + epsilon * np.eye(len(a)))
    return (vectors * values ** (-1 / order)) @ vectors.T


@pytest.mark.parametrize("every", [1, 2])
def test_shampoo_preconditions_both_sides(every: int) -> None:
    found = _run(Shampoo(0.1, momentum=0.5, every=every, epsilon=1e-3), START, GRADIENTS)
    w, m, left, right = START, np.zeros((3, 4)), np.zeros((3, 3)), np.zeros((4, 4))
    for t, g in enumerate(GRADIENTS):
        left, right = left + g @ g.T, right + g.T @ g
        if t % every == 0:
            a, b = _root(left, 4, 1e-3), _root(right, 4, 1e-3)
        m = 0.5 * m + a @ g @ b
        w = w - 0.1 * m
    np.testing.assert_allclose(found, w, rtol=1e-9)


def test_shampoo_leaves_a_side_alone_that_is_too_large() -> None:
    start, g = RNG.standard_normal((2, 3, 50)), RNG.standard_normal((2, 3, 50))
    found = _run(Shampoo(0.1, momentum=0.0), start, [g])
    flat = g.reshape(2, 150)
    want = start - 0.1 * (_root(flat @ flat.T, 2, 1e-4) @ flat).reshape(start.shape)
    np.testing.assert_allclose(found, want, rtol=1e-9)


def test_shampoo_gives_biases_the_steps_of_adagrad() -> None:
    g = np.array([3.0, -2.0])
    np.testing.assert_allclose(_run(Shampoo(0.1), np.zeros(2), [g]), [-0.1, 0.1], rtol=1e-4)


def ill_conditioned() -> ArrayDataset:
    """A linear map to learn from inputs whose directions differ a thousandfold in size."""
    rng = np.random.default_rng(0)
    mix = np.linalg.qr(rng.standard_normal((12, 12)))[0]
    x = rng.standard_normal((256, 12)) * np.logspace(0, -3, 12) @ mix
    w = rng.standard_normal((12, 5)).T @ mix * 30
    return ArrayDataset(x=x, y=x @ w.T)


def _loss(optimizer: Optimizer, steps: int) -> float:
    data = ill_conditioned()
    net = nn.Linear(12, 5, rng=np.random.default_rng(1))
    trainer = Trainer(net, data, optimizer=optimizer, loss=mean_squared_error, threads=1)
    for _ in range(steps):
        trainer.step(data.columns, optimizer.lr)
    return trainer.evaluate(data)["loss"]


def test_shampoo_needs_fewer_steps_than_sgd_on_an_ill_conditioned_problem() -> None:
    pytest.importorskip("lite_runtime")
    rates = [0.01, 0.03, 0.1, 0.3, 1.0, 3.0]
    best = {
        "sgd": min(_loss(SGD(lr), 60) for lr in rates),
        "momentum": min(_loss(Momentum(lr), 60) for lr in rates),
        "shampoo": min(_loss(Shampoo(lr, epsilon=1e-6), 60) for lr in rates),
    }
    print(best)
    assert best["shampoo"] < 0.5 * best["momentum"]
    assert best["shampoo"] < 0.2 * best["sgd"]
