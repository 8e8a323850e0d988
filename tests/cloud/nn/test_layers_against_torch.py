"""Every layer against PyTorch in float64: results, gradients and running statistics."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from cloud import nn
from tests.cloud.torch_twin import assert_same

RNG = np.random.default_rng(0)
IMAGE = (2, 7, 6, 4)
T = torch.nn


def _x(shape: tuple[int, ...]) -> Any:
    return np.random.default_rng(3).standard_normal(shape)


def _conv(k: int, size: Any, **attrs: Any) -> nn.Module:
    return nn.Conv2d(4, k, size, rng=RNG, **attrs)


CASES: dict[str, tuple[Callable[[], nn.Module], Callable[[], T.Module], tuple[int, ...]]] = {
    "linear": (lambda: nn.Linear(5, 3, rng=RNG), lambda: T.Linear(5, 3), (4, 5)),
    "linear without bias": (
        lambda: nn.Linear(5, 3, bias=False, rng=RNG), lambda: T.Linear(5, 3, bias=False), (4, 5)
    ),
    "linear of a sequence": (lambda: nn.Linear(5, 3, rng=RNG), lambda: T.Linear(5, 3), (2, 4, 5)),
    "conv": (lambda: _conv(3, 3), lambda: T.Conv2d(4, 3, 3), IMAGE),
    "conv without bias": (
        lambda: _conv(3, 3, bias=False), lambda: T.Conv2d(4, 3, 3, bias=False), IMAGE
    ),
    "conv 1x1": (lambda: _conv(5, 1), lambda: T.Conv2d(4, 5, 1), IMAGE),
    "conv with stride and padding": (
        lambda: _conv(3, (3, 2), stride=(2, 1), padding=(1, 0)),
        lambda: T.Conv2d(4, 3, (3, 2), stride=(2, 1), padding=(1, 0)), IMAGE,
    ),
    "conv dilated": (
        lambda: _conv(3, 3, dilation=(2, 1), padding=2),
        lambda: T.Conv2d(4, 3, 3, dilation=(2, 1), padding=2), IMAGE,
    ),
    "conv grouped": (
        lambda: _conv(6, 3, groups=2, padding=1),
        lambda: T.Conv2d(4, 6, 3, groups=2, padding=1), IMAGE,
    ),
    "conv same": (
        lambda: _conv(3, 5, padding="same"), lambda: T.Conv2d(4, 3, 5, padding="same"), IMAGE
    ),
    "conv with four paddings": (
        lambda: _conv(3, 3, padding=(1, 2, 0, 1)),
        lambda: T.Sequential(T.ZeroPad2d((2, 1, 1, 0)), T.Conv2d(4, 3, 3)), IMAGE,
    ),
    "depthwise conv": (
        lambda: nn.DepthwiseConv2d(4, 3, padding=1, rng=RNG),
        lambda: T.Conv2d(4, 4, 3, padding=1, groups=4), IMAGE,
    ),
    "depthwise conv with stride": (
        lambda: nn.DepthwiseConv2d(4, (3, 2), stride=2, bias=False, rng=RNG),
        lambda: T.Conv2d(4, 4, (3, 2), stride=2, groups=4, bias=False), IMAGE,
    ),
    "max pool": (lambda: nn.MaxPool2d(2), lambda: T.MaxPool2d(2), IMAGE),
    "max pool overlapping": (
        lambda: nn.MaxPool2d(3, stride=2, padding=1),
        lambda: T.MaxPool2d(3, stride=2, padding=1), IMAGE,
    ),
    "average pool": (lambda: nn.AvgPool2d((2, 3)), lambda: T.AvgPool2d((2, 3)), IMAGE),
    "average pool padded": (
        lambda: nn.AvgPool2d(3, stride=2, padding=1),
        lambda: T.AvgPool2d(3, stride=2, padding=1, count_include_pad=False), IMAGE,
    ),
    "global average pool": (
        nn.GlobalAveragePool, lambda: T.Sequential(T.AdaptiveAvgPool2d(1), T.Flatten()), IMAGE
    ),
    "flatten": (nn.Flatten, lambda: T.Flatten(), (2, 3, 5)),
    "layer norm": (lambda: nn.LayerNorm(6), lambda: T.LayerNorm(6), (3, 4, 6)),
    "relu": (nn.ReLU, T.ReLU, (3, 4)),
    "relu6": (nn.ReLU6, T.ReLU6, (3, 40)),
    "sigmoid": (nn.Sigmoid, T.Sigmoid, (3, 4)),
    "tanh": (nn.Tanh, T.Tanh, (3, 4)),
    "gelu": (nn.GELU, T.GELU, (3, 4)),
    "silu": (nn.SiLU, T.SiLU, (3, 4)),
    "hard swish": (nn.HardSwish, T.Hardswish, (3, 40)),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_a_layer_is_pytorchs(name: str) -> None:
    ours, theirs, shape = CASES[name]
    scale = 4.0 if name in ("relu6", "hard swish") else 1.0
    assert_same(ours(), theirs(), _x(shape) * scale)


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("shape", [IMAGE, (5, 4)])
def test_batch_norm_and_its_running_statistics_are_pytorchs(
    training: bool, shape: tuple[int, ...]
) -> None:
    theirs = T.BatchNorm2d(4) if len(shape) == 4 else T.BatchNorm1d(4)
    assert_same(nn.BatchNorm(4), theirs, _x(shape), training=training)


def test_batch_norm_takes_epsilon_and_momentum() -> None:
    ours = nn.BatchNorm(4, epsilon=0.1, momentum=0.3)
    assert_same(ours, T.BatchNorm2d(4, eps=0.1, momentum=0.3), _x(IMAGE), training=True)


def test_a_batch_norm_used_twice_moves_its_statistics_twice() -> None:
    class Twice(nn.Module):
        def __init__(self) -> None:
            self.norm = nn.BatchNorm(4, momentum=0.2)

        def forward(self, x: Any) -> Any:
            return self.norm(self.norm(x) * 2)

    class TorchTwice(T.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm = T.BatchNorm2d(4, momentum=0.2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.norm(self.norm(x) * 2)  # type: ignore[no-any-return]

    assert_same(Twice(), TorchTwice(), _x(IMAGE), training=True)


class TorchBlock(T.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = T.Sequential(
            T.Conv2d(4, 6, 3, stride=2, padding=1, bias=False), T.BatchNorm2d(6), T.ReLU()
        )
        self.shortcut = T.Conv2d(4, 6, 1, stride=2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.body(x) + self.shortcut(x)  # type: ignore[no-any-return]


@pytest.mark.parametrize("training", [True, False])
def test_a_residual_block_with_a_projection_is_pytorchs(training: bool) -> None:
    ours = nn.Residual(
        nn.Conv2d(4, 6, 3, stride=2, padding=1, bias=False, rng=RNG),
        nn.BatchNorm(6),
        nn.ReLU(),
        shortcut=nn.Conv2d(4, 6, 1, stride=2, rng=RNG),
    )
    assert_same(ours, TorchBlock(), _x(IMAGE), training=training)


def test_same_padding_with_stride_keeps_the_size_divided_and_rounded_up() -> None:
    conv = nn.Conv2d(1, 1, 3, stride=2, padding="same", bias=False, rng=RNG)
    conv.weight.data = np.ones((1, 3, 3, 1), np.float32)
    for n, first in ((7, 4), (6, 9)):  # odd: one row above; even: the odd row is below
        y = conv(np.ones((1, n, n, 1), np.float32))
        assert y.shape == (1, -(-n // 2), -(-n // 2), 1)
        assert y[0, 0, 0, 0] == first
