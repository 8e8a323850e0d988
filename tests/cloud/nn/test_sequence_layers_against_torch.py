"""Recurrent layers, attention and 1-D convolutions against PyTorch in float64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from cloud import nn
from tests.cloud.torch_twin import assert_same

RNG = np.random.default_rng(0)
SEQUENCE = (3, 7, 4)
T = torch.nn


def _x(shape: tuple[int, ...] = SEQUENCE) -> Any:
    return np.random.default_rng(3).standard_normal(shape)


class TorchRecurrent(T.Module):
    """The outputs alone, batch first."""

    def __init__(self, kind: str, *args: Any, **attrs: Any) -> None:
        super().__init__()
        self.net = getattr(T, kind)(*args, batch_first=True, **attrs)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.net(x)[0]  # type: ignore[no-any-return]


class ChannelsLast(T.Module):
    """A layer of PyTorch on [n,t,c]."""

    def __init__(self, net: T.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.net(x.movedim(-1, 1)).movedim(1, -1)  # type: ignore[no-any-return]


@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
@pytest.mark.parametrize(
    "attrs", [{}, {"layers": 2}, {"bidirectional": True}, {"layers": 2, "bidirectional": True},
              {"bias": False}], ids=str,
)  # fmt: skip
def test_a_recurrent_layer_is_pytorchs(kind: str, attrs: dict[str, Any]) -> None:
    ours = getattr(nn, kind)(4, 5, rng=RNG, **attrs)
    theirs = TorchRecurrent(kind, 4, 5, **_torch_names(attrs))
    assert_same(ours, theirs, _x())


@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
def test_first_states_are_taken_and_last_ones_returned_as_pytorch_does(kind: str) -> None:
    attrs = {"layers": 2, "bidirectional": True}
    ours = getattr(nn, kind)(4, 5, rng=RNG, return_state=True, **attrs)
    theirs = getattr(T, kind)(4, 5, batch_first=True, **_torch_names(attrs))
    for w, t in zip(ours.weights().values(), theirs.parameters(), strict=True):
        w.data = t.detach().numpy()
    x, *first = (_x(s).astype(np.float32) for s in (SEQUENCE, (4, 3, 5), (4, 3, 5)))
    first = first[: 2 if kind == "LSTM" else 1]
    tensors = tuple(map(torch.tensor, first))
    y, last = theirs(torch.tensor(x), tensors if kind == "LSTM" else tensors[0])
    found = ours(x, *first)
    want = (y, *last) if kind == "LSTM" else (y, last)
    assert len(found) == len(want)
    for a, b in zip(found, want, strict=True):
        np.testing.assert_allclose(a, b.detach().numpy(), rtol=1e-5, atol=1e-6)


def test_a_state_of_another_shape_is_refused() -> None:
    lstm = nn.LSTM(4, 5, rng=RNG)
    with pytest.raises(Exception, match=r"want h0 and c0, each \[1,3,5\]"):
        lstm(_x().astype(np.float32), np.zeros((1, 3, 5), np.float32))


def test_dropout_stands_between_recurrent_layers_and_only_in_training() -> None:
    net = nn.LSTM(4, 5, layers=2, dropout=0.5, rng=np.random.default_rng(0))
    x = _x().astype(np.float32)
    np.testing.assert_array_equal(net(x), net(x))
    assert [n for n in net.weights() if n.endswith("key")] == ["dropout.0.key"]


CONVOLUTIONS: dict[str, tuple[Callable[[], nn.Module], Callable[[], T.Module]]] = {
    "conv": (lambda: nn.Conv1d(4, 6, 3, rng=RNG), lambda: T.Conv1d(4, 6, 3)),
    "conv strided, dilated, grouped": (
        lambda: nn.Conv1d(4, 6, 3, stride=2, dilation=2, groups=2, padding=2, rng=RNG),
        lambda: T.Conv1d(4, 6, 3, stride=2, dilation=2, groups=2, padding=2),
    ),
    "conv same": (
        lambda: nn.Conv1d(4, 6, 3, padding="same", bias=False, rng=RNG),
        lambda: T.Conv1d(4, 6, 3, padding="same", bias=False),
    ),
    "conv with two paddings": (
        lambda: nn.Conv1d(4, 6, 3, padding=(2, 0), rng=RNG),
        lambda: T.Sequential(T.ZeroPad1d((2, 0)), T.Conv1d(4, 6, 3)),
    ),
    "transposed": (
        lambda: nn.ConvTranspose1d(4, 6, 3, rng=RNG), lambda: T.ConvTranspose1d(4, 6, 3)
    ),
    "transposed strided": (
        lambda: nn.ConvTranspose1d(
            4, 6, 3, stride=3, padding=1, output_padding=2, groups=2, rng=RNG
        ),
        lambda: T.ConvTranspose1d(4, 6, 3, stride=3, padding=1, output_padding=2, groups=2),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_a_convolution_of_a_sequence_is_pytorchs(name: str) -> None:
    ours, theirs = (make() for make in CONVOLUTIONS[name])
    assert_same(ours, ChannelsLast(theirs), _x())


class TorchAttention(T.Module):
    def __init__(self, causal: bool = False, bias: bool = True) -> None:
        super().__init__()
        self.net = T.MultiheadAttention(4, 2, batch_first=True, bias=bias)
        self.causal = causal

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        unseen = torch.ones(x.shape[1], x.shape[1]).triu(1).bool() if self.causal else None
        return self.net(x, x, x, attn_mask=unseen)[0]  # type: ignore[no-any-return]


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("bias", [False, True])
def test_attention_is_pytorchs(causal: bool, bias: bool) -> None:
    ours = nn.MultiHeadAttention(4, 2, causal=causal, bias=bias, rng=RNG)
    theirs = TorchAttention(causal, bias)
    names = {"project.weight": "in_proj_weight", "project.bias": "in_proj_bias",
             "out.weight": "out_proj.weight", "out.bias": "out_proj.bias"}  # fmt: skip
    parameters = dict(theirs.net.named_parameters())
    pairs = {n: parameters[names[n]] for n in ours.weights()}
    assert_same(ours, theirs, _x(), pairs=pairs)


@pytest.mark.parametrize("kind", ["truths", "numbers"])
def test_cross_attention_with_a_mask_is_pytorchs(kind: str) -> None:
    ours = nn.MultiHeadAttention(4, 2, rng=RNG)
    theirs = T.MultiheadAttention(4, 2, batch_first=True)
    for w, t in zip(ours.weights().values(), theirs.parameters(), strict=True):
        w.data = t.detach().numpy()
    query, memory = _x().astype(np.float32), _x((3, 5, 4)).astype(np.float32)
    seen = np.random.default_rng(1).random((7, 5)) < 0.6
    seen[:, 0] = True
    mask = seen if kind == "truths" else np.where(seen, 0.3, -2).astype(np.float32)
    q, m = torch.tensor(query), torch.tensor(memory)
    theirs_mask = torch.tensor(~mask if kind == "truths" else mask)
    want = theirs(q, m, m, attn_mask=theirs_mask)[0].detach().numpy()
    np.testing.assert_allclose(ours(query, memory, mask=mask), want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("norm_first", [True, False])
@pytest.mark.parametrize("training", [True, False])
def test_a_transformer_block_is_pytorchs(norm_first: bool, training: bool) -> None:
    ours = nn.TransformerBlock(4, 2, hidden=9, norm_first=norm_first, rng=RNG)
    theirs = T.TransformerEncoderLayer(
        4, 2, 9, dropout=0.0, activation="gelu", batch_first=True, norm_first=norm_first
    )
    parameters = dict(theirs.named_parameters())
    names = {
        "attention.project.weight": "self_attn.in_proj_weight",
        "attention.project.bias": "self_attn.in_proj_bias",
        "attention.out": "self_attn.out_proj", "up": "linear1", "down": "linear2",
        "norm1.scale": "norm1.weight", "norm1.bias": "norm1.bias",
        "norm2.scale": "norm2.weight", "norm2.bias": "norm2.bias",
    }  # fmt: skip
    pairs = {}
    for n in ours.weights():
        layer, _, leaf = n.rpartition(".")
        pairs[n] = parameters[names.get(n) or f"{names[layer]}.{leaf}"]
    assert_same(ours, theirs, _x(), training=training, pairs=pairs)


def test_a_causal_block_sees_nothing_that_comes_later() -> None:
    block = nn.TransformerBlock(4, 2, causal=True, rng=RNG)
    x = _x().astype(np.float32)
    changed = x.copy()
    changed[:, 5:] += 1
    before, after = block(x), block(changed)
    np.testing.assert_array_equal(before[:, :5], after[:, :5])
    assert np.abs(before[:, 5:] - after[:, 5:]).min() > 0


def _torch_names(attrs: dict[str, Any]) -> dict[str, Any]:
    return {"num_layers" if k == "layers" else k: v for k, v in attrs.items()}
