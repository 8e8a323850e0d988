"""A module of ours beside the same net in PyTorch: equal weights, values and gradients compared."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch

from cloud import nn, ops
from cloud.autodiff import gradients, ones_like
from cloud.interpreter import step
from ir.dtype import DType
from ir.graph import Array, Graph, Value, Weight

TOLERANCE = 1e-9  # of float64 on both sides, relative to the largest element

Pairs = Mapping[str, torch.Tensor]  # our weight's name -> PyTorch's


def to_torch(x: Array) -> torch.Tensor:
    """Channels first, as PyTorch has images; other ranks as they are."""
    return torch.tensor(np.ascontiguousarray(np.moveaxis(x, -1, 1) if x.ndim == 4 else x))


def to_ours(x: torch.Tensor) -> Array:
    a = x.detach().numpy()
    return np.moveaxis(a, 1, -1) if a.ndim == 4 else a


def weight_to_ours(t: torch.Tensor, like: Weight) -> Array:
    """[k,c,r,s] -> [k,r,s,c], or [c,1,r,s] -> [r,s,c] of a depthwise filter, and [k,c,r] ->
    [k,r,c]; others as they are."""
    a = t.detach().numpy()
    if a.ndim == 3:
        a = np.moveaxis(a, 1, -1)
    if a.ndim == 4:
        a = np.moveaxis(a[:, 0], 0, -1) if like.rank == 3 else np.moveaxis(a, 1, -1)
    return np.array(a)


def randomise(net: torch.nn.Module, seed: int = 0) -> None:
    """Weights and running statistics that hide no mistake: no zeros, no ones."""
    torch.manual_seed(seed)
    with torch.no_grad():
        for t in (*net.parameters(), *(b for b in net.buffers() if b.dtype.is_floating_point)):
            t.copy_(torch.rand_like(t) + 0.5 if t.ndim == 1 else torch.randn_like(t) * 0.5)


def pair_in_order(module: nn.Module, net: torch.nn.Module) -> Pairs:
    """Pairs of nets whose layers follow each other in the same order."""
    buffers = [b for name, b in net.named_buffers() if "num_batches" not in name]
    ours = module.weights()
    states = [n for n, w in ours.items() if w.state and not n.endswith("key")]
    trained = [n for n, w in ours.items() if not w.state]
    pairs = dict(zip(trained, net.parameters(), strict=True))
    return {**pairs, **dict(zip(states, buffers, strict=True))}


def assert_same(
    module: nn.Module,
    net: torch.nn.Module,
    x: Array,
    *,
    training: bool = False,
    pairs: Pairs | None = None,
) -> None:
    """Results, gradients of a scalar by the input and by each weight, and new states are equal."""
    net.double().train(training)
    randomise(net)
    module.to(DType.f64)
    pairs = pair_in_order(module, net) if pairs is None else pairs
    weights = module.weights()
    given = {weights[n]: weight_to_ours(t, weights[n]) for n, t in pairs.items()}
    wrt = [w for w in given if not w.state]

    image = to_torch(x).requires_grad_()
    result = net(image)
    direction = np.random.default_rng(1).standard_normal(to_ours(result).shape)
    (result * to_torch(direction)).sum().backward()

    leaf = Value(x.shape, DType.f64, name="x")
    with nn.tracing(training=training) as t:
        y = module(leaf)
    scalar = ops.reduce_sum(
        y * Value(y.shape, DType.f64, name="direction"), axes=tuple(range(y.rank))
    )
    seed = next(v for v in Graph((), (scalar,)).leaves if v.name == "direction")
    found = gradients([scalar], [ones_like(scalar)], [leaf, *wrt])
    graph = Graph((leaf, seed), (y, *found), updates=tuple(t.updates.items()))
    (ours, gx, *gw), new = step(graph, x, direction, weights=given)

    _assert_close("result", ours, to_ours(result))
    assert image.grad is not None
    _assert_close("gradient of x", gx, to_ours(image.grad))
    for w, g in zip(wrt, gw, strict=True):
        name = next(n for n in pairs if weights[n] is w)
        grad = pairs[name].grad
        assert grad is not None
        _assert_close(f"gradient of {name}", g, weight_to_ours(grad, w))
    for name, tensor in pairs.items():
        if weights[name].state:
            now = new.get(weights[name], given[weights[name]])
            _assert_close(name, now, weight_to_ours(tensor, weights[name]))


def _assert_close(what: str, ours: Array, theirs: Array) -> None:
    scale = float(np.abs(theirs).max()) + 1e-30
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=TOLERANCE * scale, err_msg=what)
