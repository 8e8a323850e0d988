"""Optimisers against torch.optim in float64, clipping, states, and their text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from cloud import nn
from cloud.interpreter import step
from cloud.train import SGD, Adagrad, Adam, AdamW, Momentum, Optimizer, RMSprop, optim
from ir.dtype import DType
from ir.graph import Graph, Value, Weight
from ir.in_place import in_place_order

RNG = np.random.default_rng(0)
STARTS = {"w": RNG.standard_normal((3, 2)), "b": RNG.standard_normal(4)}
GRADIENTS = [{n: RNG.standard_normal(a.shape) for n, a in STARTS.items()} for _ in range(5)]
RATES = [0.1, 0.1, 0.05, 0.01, 0.2]

TorchMaker = Callable[[Any], torch.optim.Optimizer]
CASES: dict[str, tuple[Optimizer, TorchMaker]] = {
    "sgd": (SGD(0.1), lambda p: torch.optim.SGD(p, 0.1)),
    "sgd with decay": (
        SGD(0.1, weight_decay=0.2),
        lambda p: torch.optim.SGD(p, 0.1, weight_decay=0.2),
    ),
    "momentum": (Momentum(0.1), lambda p: torch.optim.SGD(p, 0.1, momentum=0.9)),
    "momentum with decay": (
        Momentum(0.1, momentum=0.7, weight_decay=0.1),
        lambda p: torch.optim.SGD(p, 0.1, momentum=0.7, weight_decay=0.1),
    ),
    "nesterov": (
        Momentum(0.1, nesterov=True, weight_decay=0.1),
        lambda p: torch.optim.SGD(p, 0.1, momentum=0.9, nesterov=True, weight_decay=0.1),
    ),
    "adam": (Adam(0.1), lambda p: torch.optim.Adam(p, 0.1)),
    "adam with decay": (
        Adam(0.1, beta1=0.8, beta2=0.95, epsilon=1e-3, weight_decay=0.1),
        lambda p: torch.optim.Adam(p, 0.1, betas=(0.8, 0.95), eps=1e-3, weight_decay=0.1),
    ),
    "adamw": (AdamW(0.1, weight_decay=0.1), lambda p: torch.optim.AdamW(p, 0.1, weight_decay=0.1)),
    "rmsprop": (RMSprop(0.1), lambda p: torch.optim.RMSprop(p, 0.1)),
    "rmsprop with all": (
        RMSprop(0.1, alpha=0.9, momentum=0.8, centered=True, weight_decay=0.1, epsilon=1e-5),
        lambda p: torch.optim.RMSprop(
            p, 0.1, alpha=0.9, momentum=0.8, centered=True, weight_decay=0.1, eps=1e-5
        ),
    ),
    "adagrad": (Adagrad(0.1), lambda p: torch.optim.Adagrad(p, 0.1)),
    "adagrad with all": (
        Adagrad(0.1, lr_decay=0.2, initial=0.5, weight_decay=0.1, epsilon=1e-3),
        lambda p: torch.optim.Adagrad(
            p, 0.1, lr_decay=0.2, initial_accumulator_value=0.5, weight_decay=0.1, eps=1e-3
        ),
    ),
}


def update_graph(optimizer: Optimizer, weights: list[Weight]) -> Graph:
    gradients = [Value(w.shape, w.dtype, name=f"g_{w.name}") for w in weights]
    lr = Value((), weights[0].dtype, name="lr")
    return Graph((*gradients, lr), (), updates=tuple(optimizer.updates(weights, gradients, lr)))


def ours(optimizer: Optimizer) -> dict[str, np.ndarray]:
    """The weights after the gradients and rates above."""
    weights = [Weight(a, name=n) for n, a in STARTS.items()]
    graph = update_graph(optimizer, weights)
    now = {w: w.data for w in graph.weights}
    for g, lr in zip(GRADIENTS, RATES, strict=True):
        now.update(step(graph, *g.values(), np.float64(lr), weights=now)[1])
    return {str(w.name): now[w] for w in weights}


def theirs(
    make: TorchMaker, clip: float | None = None, limit: float | None = None
) -> dict[str, np.ndarray]:
    tensors = {n: torch.tensor(a, requires_grad=True) for n, a in STARTS.items()}
    optimizer = make(list(tensors.values()))
    for g, lr in zip(GRADIENTS, RATES, strict=True):
        for n, t in tensors.items():
            t.grad = torch.tensor(g[n])
        if clip is not None:
            torch.nn.utils.clip_grad_norm_(tensors.values(), clip)
        if limit is not None:
            torch.nn.utils.clip_grad_value_(tensors.values(), limit)
        optimizer.param_groups[0]["lr"] = lr
        optimizer.step()
    return {n: t.detach().numpy() for n, t in tensors.items()}


@pytest.mark.parametrize("name", CASES)
def test_an_optimiser_moves_weights_as_pytorchs(name: str) -> None:
    optimizer, make = CASES[name]
    found, want = ours(optimizer), theirs(make)
    for n in STARTS:
        np.testing.assert_allclose(found[n], want[n], rtol=1e-10, err_msg=n)


@pytest.mark.parametrize("limit", [0.5, 3.0, 100.0])
def test_clipping_by_the_global_norm_is_pytorchs(limit: float) -> None:
    found = ours(SGD(0.1, clip_norm=limit))
    want = theirs(lambda p: torch.optim.SGD(p, 0.1), clip=limit)
    for n in STARTS:
        np.testing.assert_allclose(found[n], want[n], rtol=1e-9, err_msg=n)


def test_clipping_by_value_comes_after_that_by_the_norm_and_is_pytorchs() -> None:
    found = ours(SGD(0.1, clip_norm=2.0, clip_value=0.4))
    want = theirs(lambda p: torch.optim.SGD(p, 0.1), clip=2.0, limit=0.4)
    for n in STARTS:
        np.testing.assert_allclose(found[n], want[n], rtol=1e-9, err_msg=n)


def test_every_update_can_run_in_place() -> None:
    for optimizer, _ in CASES.values():
        assert in_place_order(
            update_graph(optimizer, [Weight(a, name=n) for n, a in STARTS.items()])
        ), type(optimizer).__name__


def test_states_are_named_by_the_weight_and_survive_a_second_graph() -> None:
    optimizer, w = Adam(), Weight(np.zeros(2, np.float32), name="fc.weight")
    first = update_graph(optimizer, [w])
    assert list(optimizer.states) == [
        "optimizer.step", "optimizer.mean.fc.weight", "optimizer.square.fc.weight"
    ]  # fmt: skip
    assert all(s.state and not s.trainable for s in optimizer.states.values())
    assert set(first.weights) == set(update_graph(optimizer, [w]).weights)


def test_an_optimiser_starts_anew_with_another_module_and_continues_with_its_own() -> None:
    optimizer = Adam()
    weights = [Weight(np.zeros(2, np.float32), name=n) for n in ("w", "b", "w")]
    update_graph(optimizer, weights[:1])
    first = dict(optimizer.states)
    update_graph(optimizer, weights[:2])  # one more weight was unfrozen
    assert first.items() <= optimizer.states.items()
    update_graph(optimizer, weights[2:])
    assert not set(first.values()) & set(optimizer.states.values())
    assert len(optimizer.states) == 3


def test_a_weight_of_another_shape_or_type_gets_a_new_state() -> None:
    optimizer = Momentum(0.1)
    for data in (np.zeros(2, np.float32), np.zeros(3, np.float32), np.zeros(3)):
        update_graph(optimizer, [Weight(data, name="w")])
        (state,) = optimizer.states.values()
        assert (state.shape, state.dtype) == (data.shape, DType.of(data))


@pytest.mark.parametrize(
    "text",
    [
        "sgd:lr=0.1,weight_decay=0.0",
        "momentum:lr=0.1,weight_decay=0.0,momentum=0.9,nesterov=True",
        "adamw:lr=0.001,weight_decay=0.01,clip_norm=1.0,beta1=0.9,beta2=0.99,epsilon=1e-08",
        "rmsprop:lr=0.01,weight_decay=0.0,clip_value=1.0,alpha=0.9,epsilon=1e-08,momentum=0.0,"
        "centered=True",
        "shampoo:lr=0.1,weight_decay=0.0,momentum=0.9,decay=1.0,every=5,epsilon=0.0001",
    ],
)
def test_an_optimiser_is_its_text_and_back(text: str) -> None:
    assert str(optim.from_text(text)) == text


def test_sgd_with_momentum_in_text_is_momentum() -> None:
    optimizer = optim.from_text("sgd:lr=0.01,momentum=0.8")
    assert isinstance(optimizer, Momentum)
    assert (optimizer.lr, optimizer.momentum) == (0.01, 0.8)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("lion:lr=1", "no such name; there are sgd, momentum, adam, adamw, rmsprop, adagrad"),
        ("sgd", "lr"),
        ("sgd:lr=fast", "could not convert"),
        ("sgd:lr=0.1,speed=3", "speed"),
        ("sgd:lr=-1", "want at least 0"),
        ("sgd:lr=nan", "nan is not a finite number"),
        ("adam:lr=0.1,epsilon=inf", "inf is not a finite number"),
    ],
)
def test_a_text_that_is_no_optimiser_says_why(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=f"optimizer '{text}': .*{why}"):
        optim.from_text(text)


def test_the_optimiser_of_a_module_lowers_its_loss() -> None:
    layer = nn.Linear(2, 1, rng=np.random.default_rng(0))
    from cloud.train import train_graph

    for optimizer in (SGD(0.1), Momentum(0.05), Adam(0.1), AdamW(0.1)):
        specs = {"x": ("batch", 2)}, {"y": ("batch", 1)}
        layer.name_weights()
        graph = train_graph(layer, nn.loss.mean_squared_error, optimizer, *specs)
        x = np.random.default_rng(1).standard_normal((16, 2)).astype(np.float32)
        now = {w: w.data for w in graph.weights}
        losses = []
        for _ in range(30):
            (loss,), new = step(graph, x, x[:, :1] * 2 - 1, np.float32(optimizer.lr), weights=now)
            now.update(new)
            losses.append(loss)
        assert losses[-1] < 0.1 * losses[0], type(optimizer).__name__
