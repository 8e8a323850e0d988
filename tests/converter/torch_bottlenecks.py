"""Nets that go through narrow places, as people write them in PyTorch: ResNet-50 and MobileBERT."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests.converter.torch_models import Head, conv_norm


class Bottleneck(nn.Module):
    """Narrow, 3 x 3, wide again; what passes by is widened where it must be."""

    def __init__(self, a: int, width: int, stride: int) -> None:
        super().__init__()
        wide = 4 * width
        self.body = nn.Sequential(
            conv_norm(a, width, 1), conv_norm(width, width, 3, stride),
            conv_norm(width, wide, 1, act=None),
        )  # fmt: skip
        same = stride == 1 and a == wide
        self.past = nn.Identity() if same else conv_norm(a, wide, 1, stride, act=None)

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.body(x) + self.past(x))


def resnet50() -> nn.Module:
    """He et al. 2016: stages of 3, 4, 6 and 3 bottlenecks."""
    layers: list[nn.Module] = [conv_norm(3, 8, 7, 2), nn.MaxPool2d(3, 2, 1)]
    at = 8
    for i, count in enumerate((3, 4, 6, 3)):
        for j in range(count):
            layers.append(Bottleneck(at, 4 * 2**i, 2 if i and j == 0 else 1))
            at = 16 * 2**i
    return Head(nn.Sequential(*layers), at, 7)


class NoNorm(nn.Module):
    """x * weight + bias, in the place of layer norm."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.rand(width) + 0.5)
        self.bias = nn.Parameter(torch.randn(width) * 0.2)

    def forward(self, x: Tensor) -> Tensor:
        return x * self.weight + self.bias


class Added(nn.Module):
    """norm(x + body(x))"""

    def __init__(self, body: nn.Module, width: int) -> None:
        super().__init__()
        self.body, self.norm = body, NoNorm(width)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.norm(x + self.body(x))
        return y


def feed_forward(width: int) -> nn.Module:
    return nn.Sequential(nn.Linear(width, 2 * width), nn.ReLU(), nn.Linear(2 * width, width))


class MobileBertLayer(nn.Module):
    """Into the narrow place, attention whose keys and queries come from another one, feed-forward
    nets one behind the other, and out again."""

    def __init__(self, wide: int, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.narrow, self.shared = (
            nn.Sequential(nn.Linear(wide, width), NoNorm(width)) for _ in range(2)
        )
        self.query, self.key = nn.Linear(width, width), nn.Linear(width, width)
        self.value, self.out = nn.Linear(wide, width), nn.Linear(width, width)
        self.norm = NoNorm(width)
        self.feed = nn.Sequential(*(Added(feed_forward(width), width) for _ in range(4)))
        self.widen, self.last = nn.Linear(width, wide), NoNorm(wide)

    def forward(self, x: Tensor, hidden: Tensor) -> Tensor:
        n, length, _ = x.shape
        shared = self.shared(x)
        q, k, v = (
            y.view(n, length, self.heads, -1).permute(0, 2, 1, 3)
            for y in (self.query(shared), self.key(shared), self.value(x))
        )
        scores = q @ k.transpose(-1, -2) / (q.shape[-1] ** 0.5) + hidden
        y = (scores.softmax(-1) @ v).permute(0, 2, 1, 3).reshape(n, length, -1)
        y = self.feed(self.norm(self.narrow(x) + self.out(y)))
        z: Tensor = self.last(x + self.widen(y))
        return z


class MobileBert(nn.Module):
    """Sun et al. 2020: each token is embedded beside its neighbours."""

    def __init__(self, wide: int = 24, width: int = 12) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(100, 8), nn.Embedding(64, wide)
        self.joined, self.norm = nn.Linear(24, wide), NoNorm(wide)
        self.layers = nn.ModuleList(MobileBertLayer(wide, width, 3) for _ in range(2))
        self.pooler = nn.Linear(wide, 7)

    def forward(self, tokens: Tensor, mask: Tensor) -> Tensor:
        e = self.tokens(tokens)
        e = torch.cat(
            [F.pad(e[:, 1:], (0, 0, 0, 1, 0, 0)), e, F.pad(e[:, :-1], (0, 0, 1, 0, 0, 0))], 2
        )
        x = self.norm(self.joined(e) + self.places(torch.arange(tokens.shape[1])))
        hidden = (1.0 - mask[:, None, None, :].to(x.dtype)) * -1e4
        for layer in self.layers:
            x = layer(x, hidden)
        return torch.tanh(self.pooler(x[:, 0]))
