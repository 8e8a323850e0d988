"""Layer norm and attention that were written out become operators; approximations are asked for."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from cloud import ops
from converter import ConvertError, bisect, convert
from converter.passes import Pass
from converter.passes.approximate_gelu import approximate_gelu
from converter.passes.find_attention import find_attention
from converter.passes.find_layer_norm import find_layer_norm
from ir.graph import Graph, Value, Weight
from ir.symbol import symbol
from tests.converter.random_nets import random_net
from tests.converter.test_passes import assert_same, frozen, op_names
from tests.converter.torch_models import export
from tests.random_graphs import random_symbolic_graph, random_training_graph

PATTERNS = [find_layer_norm, find_attention]


@pytest.mark.parametrize("change", PATTERNS)
@given(seed=st.integers(0, 2**31))
@settings(max_examples=25, deadline=None)
def test_random_graphs_compute_the_same(change: Pass, seed: int) -> None:
    graph = random_training_graph(seed)
    assert_same(graph, change(graph), seed)
    graph = random_symbolic_graph(seed)
    assert_same(graph, change(graph), seed, batch=2, seq=3)
    graph = random_net(seed)
    assert_same(graph, change(graph), seed, batch=2)


def norm(x: Value, rng: np.random.Generator) -> Value:
    """A layer norm in one of the ways in which exporters write it, or nearly one."""
    axes = (x.rank - 1 - int(rng.random() < 0.1),)
    mean = ops.reduce_mean(x, axes=axes, keep_dims=True)
    centred = x - mean
    square = centred * centred if rng.random() < 0.5 else ops.pow(centred, 2.0)
    variance = ops.reduce_mean(square, axes=axes, keep_dims=True)
    deviation = ops.sqrt(variance + 10.0 ** -rng.integers(3, 7))
    y = centred * ops.reciprocal(deviation) if rng.random() < 0.3 else centred / deviation
    size = int(x.shape[-1])
    if rng.random() < 0.8:
        y = y * frozen(size, seed=1) if rng.random() < 0.5 else frozen(size, seed=1) * y
    if rng.random() < 0.8:
        y = y + (frozen(size, seed=2) if rng.random() < 0.8 else frozen(1, size, seed=2))
    return y


def attention(x: Value, rng: np.random.Generator) -> Value:
    """Attention in one of the ways in which exporters write it, or nearly one."""
    n, t, size = x.shape
    heads = ops.transpose(ops.reshape(x, shape=(n, t, 2, size // 2)), perm=(0, 2, 1, 3))
    q, k, v = heads, ops.tanh(heads), ops.relu(heads)
    if rng.random() < 0.5:
        k = ops.transpose(k, perm=(0, 1, 3, 2))
    where = rng.integers(4)
    q = q * 0.5 if where == 0 else q
    k = k * 0.7 if where <= 1 else k
    scores = ops.matmul(q, k, transpose_b=k.shape[-1] == size // 2)
    scores = scores / 3.0 if where == 2 else scores
    if rng.random() < 0.6:
        mask = frozen(*((t, t) if rng.random() < 0.5 else (1, 1, 1, t)), seed=3)
        scores = mask + scores if rng.random() < 0.5 else scores + mask
    weights = ops.softmax(scores, axis=3 if rng.random() < 0.9 else 2)
    y = ops.matmul(weights, v)
    y = ops.reshape(ops.transpose(y, perm=(0, 2, 1, 3)), shape=x.shape)
    return y + ops.reduce_sum(weights, axes=(0, 1, 2, 3)) if rng.random() < 0.1 else y


@given(seed=st.integers(0, 2**31))
@settings(max_examples=60, deadline=None)
def test_written_out_norms_and_attention_compute_the_same(seed: int) -> None:
    rng = np.random.default_rng(seed)
    x = Value((2, 6, 8), name="x")
    y: Value = x
    for _ in range(4):
        y = y + (norm if rng.random() < 0.5 else attention)(y, rng)
    graph = Graph((x,), (y,), ("y",))
    after = find_attention(find_layer_norm(graph))
    assert_same(graph, after, seed)


def traced(fn: Callable[[Value], Value], *shape: int) -> Graph:
    return Graph.trace(fn, Value((symbol("batch"), *shape), name="x"))


def test_a_whole_norm_is_one_operator() -> None:
    def net(x: Value) -> Value:
        centred = x - ops.reduce_mean(x, axes=(2,), keep_dims=True)
        variance = ops.reduce_mean(ops.pow(centred, 2.0), axes=(2,), keep_dims=True)
        return centred / ops.sqrt(variance + 1e-5) * frozen(8) + frozen(8, seed=1)

    graph = traced(net, 5, 8)
    after = find_layer_norm(graph)
    assert op_names(after) == ["layer_norm"]
    assert_same(graph, after, 0, batch=3)


def test_a_norm_that_trains_keeps_its_weights() -> None:
    scale, bias = (Weight(frozen(8).data, name=n) for n in ("scale", "bias"))

    def net(x: Value) -> Value:
        centred = x - ops.reduce_mean(x, axes=(1,), keep_dims=True)
        variance = ops.reduce_mean(centred * centred, axes=(1,), keep_dims=True)
        return centred / ops.sqrt(variance + 1e-5) * scale + bias

    after = find_layer_norm(traced(net, 8))
    assert op_names(after) == ["layer_norm"]
    assert set(after.weights) == {scale, bias}


def test_variance_of_something_else_is_no_norm() -> None:
    def net(x: Value) -> Value:
        centred = x - ops.reduce_mean(x, axes=(1,), keep_dims=True)
        variance = ops.reduce_mean(x * x, axes=(1,), keep_dims=True)
        return centred / ops.sqrt(variance + 1e-5)

    assert "layer_norm" not in op_names(find_layer_norm(traced(net, 8)))


@pytest.mark.parametrize("masked", [False, True])
def test_whole_attention_is_one_operator(masked: bool) -> None:
    def net(x: Value) -> Value:
        scores = ops.matmul(x, x, transpose_b=True) * (1 / math.sqrt(8))
        scores = scores + frozen(5, 5) if masked else scores
        return ops.matmul(ops.softmax(scores, axis=2), x)

    graph = traced(net, 5, 8)
    after = find_attention(graph)
    assert op_names(after) == ["attention"]
    assert_same(graph, after, 0, batch=3)


def test_scores_that_something_else_reads_stay() -> None:
    def net(x: Value) -> tuple[Value, Value]:
        weights = ops.softmax(ops.matmul(x, x, transpose_b=True), axis=2)
        return ops.matmul(weights, x), weights

    assert "attention" not in op_names(find_attention(traced(net, 5, 8)))  # type: ignore[arg-type]


class Encoder(nn.Module):
    """A layer of a transformer, its norm written out as older exporters do."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind
        self.project = nn.Linear(16, 48)
        self.scale, self.bias = nn.Parameter(torch.rand(16)), nn.Parameter(torch.rand(16))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        centred = x - x.mean(-1, keepdim=True)
        x = centred / (centred.pow(2).mean(-1, keepdim=True) + 1e-5).sqrt() * self.scale + self.bias
        n, t, _ = x.shape
        parts = self.project(x).reshape(n, t, 3, 4, 4).permute(2, 0, 3, 1, 4)
        q, k, v = parts[0], parts[1], parts[2]
        if self.kind == "fused":
            y = nn.functional.scaled_dot_product_attention(q, k, v)
        else:
            y = torch.softmax(q @ k.transpose(-1, -2) / 2.0, -1) @ v
        y = y.transpose(1, 2).reshape(n, t, 16)
        return nn.functional.gelu(y)


@pytest.mark.parametrize("kind", ["fused", "plain"])
@pytest.mark.parametrize("dynamo", [False, True])
def test_a_transformer_of_pytorch_has_one_operator_for_each(
    kind: str, dynamo: bool, tmp_path: Path
) -> None:
    torch.manual_seed(0)
    source = export(Encoder(kind).eval(), tmp_path / "m.onnx", (7, 16), dynamo=dynamo)
    report = convert(source, tmp_path / "m.ms")
    assert report.nodes["attention"] == 1
    assert report.nodes["layer_norm"] == 1
    assert not {"softmax", "sqrt", "div", "matmul"} & report.nodes.keys()


def test_gelu_is_exact_unless_the_approximation_is_allowed(tmp_path: Path) -> None:
    source = export(nn.Sequential(nn.Linear(16, 8), nn.GELU()).eval(), tmp_path / "m.onnx", (16,))
    exact = convert(source, tmp_path / "a.ms", tol=1e-6)
    assert exact.worst is not None
    report = convert(source, tmp_path / "b.ms", allow=["approximate-gelu"], tol=1e-3)
    assert "approximate_gelu" in [p["pass"] for p in report.passes]
    assert report.worst is not None
    assert 1e-6 < report.worst.relative < 1e-3
    assert bisect(source, allow=["approximate-gelu"]) == "approximate_gelu"
    with pytest.raises(ConvertError, match=r"allow is \['magic'\], want some of approximate-gelu"):
        convert(source, tmp_path / "c.ms", allow=["magic"])


def test_the_approximate_gelu_is_within_its_bound() -> None:
    graph = traced(lambda x: ops.gelu(x), 1000)
    x = np.linspace(-8, 8, 1000, dtype=np.float32)[None]
    assert np.abs(graph(x)[0] - approximate_gelu(graph)(x)[0]).max() < 5e-4
