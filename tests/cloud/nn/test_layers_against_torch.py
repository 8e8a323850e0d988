"""Every layer against PyTorch in float64: results, gradients and running statistics."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from cloud import modes, nn, ops, value_and_grad
from cloud.autodiff import gradients
from cloud.interpreter import run
from ir.dtype import DType
from ir.graph import Graph, Value
from tests.cloud.torch_twin import assert_same

RNG = np.random.default_rng(0)
IMAGE = (2, 7, 6, 4)
T = torch.nn


def _x(shape: tuple[int, ...]) -> Any:
    return np.random.default_rng(3).standard_normal(shape)


def _conv(k: int, size: Any, **attrs: Any) -> nn.Module:
    return nn.Conv2d(4, k, size, rng=RNG, **attrs)


class TorchHardSigmoid(T.Module):
    """T.Hardsigmoid, whose own gradient has 1 / 6 in float32 only."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (x / 6 + 0.5).clamp(0, 1)


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
    "conv that mirrors": (
        lambda: _conv(3, 3, padding=(1, 2), padding_mode="reflect"),
        lambda: T.Conv2d(4, 3, 3, padding=(1, 2), padding_mode="reflect"), IMAGE,
    ),
    "conv that repeats its edge": (
        lambda: _conv(3, 3, padding=2, padding_mode="replicate", stride=2),
        lambda: T.Conv2d(4, 3, 3, padding=2, padding_mode="replicate", stride=2), IMAGE,
    ),
    "conv that goes around": (
        lambda: _conv(6, (3, 2), padding=(2, 1), padding_mode="circular", groups=2, bias=False),
        lambda: T.Conv2d(
            4, 6, (3, 2), padding=(2, 1), padding_mode="circular", groups=2, bias=False
        ), IMAGE,
    ),
    "conv same that goes around": (
        lambda: _conv(3, 3, padding="same", padding_mode="circular"),
        lambda: T.Conv2d(4, 3, 3, padding="same", padding_mode="circular"), IMAGE,
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
    "gelu by tanh": (lambda: nn.GELU("tanh"), lambda: T.GELU(approximate="tanh"), (3, 4)),
    "hard sigmoid": (nn.HardSigmoid, lambda: TorchHardSigmoid(), (3, 40)),
    "hard tanh": (lambda: nn.HardTanh(-0.5, 1.5), lambda: T.Hardtanh(-0.5, 1.5), (3, 40)),
    "leaky relu": (lambda: nn.LeakyReLU(0.2), lambda: T.LeakyReLU(0.2), (3, 4)),
    "prelu": (nn.PReLU, T.PReLU, (3, 4)),
    "prelu of channels": (lambda: nn.PReLU(4), lambda: T.PReLU(4), (30, 4)),
    "elu": (lambda: nn.ELU(0.7), lambda: T.ELU(0.7), (3, 4)),
    "selu": (nn.SELU, T.SELU, (3, 4)),
    "softplus": (nn.Softplus, T.Softplus, (3, 4)),
    "mish": (nn.Mish, T.Mish, (3, 4)),
    "softmax": (nn.Softmax, lambda: T.Softmax(-1), (3, 4)),
    "log softmax": (nn.LogSoftmax, lambda: T.LogSoftmax(-1), (3, 4)),
    "glu": (nn.GLU, T.GLU, (3, 6)),
    "group norm": (lambda: nn.GroupNorm(2, 4), lambda: T.GroupNorm(2, 4), IMAGE),
    "group norm of rows": (lambda: nn.GroupNorm(2, 6), lambda: T.GroupNorm(2, 6), (5, 6)),
    "instance norm": (lambda: nn.InstanceNorm(4), lambda: T.InstanceNorm2d(4), IMAGE),
    "instance norm affine": (
        lambda: nn.InstanceNorm(4, affine=True), lambda: T.InstanceNorm2d(4, affine=True), IMAGE
    ),
    "transposed conv": (
        lambda: nn.ConvTranspose2d(4, 3, 3, rng=RNG), lambda: T.ConvTranspose2d(4, 3, 3), IMAGE
    ),
    "transposed conv with stride": (
        lambda: nn.ConvTranspose2d(
            4, 6, (3, 2), stride=(2, 3), padding=(1, 0), output_padding=(1, 2), groups=2, rng=RNG
        ),
        lambda: T.ConvTranspose2d(
            4, 6, (3, 2), stride=(2, 3), padding=(1, 0), output_padding=(1, 2), groups=2
        ), IMAGE,
    ),
    "transposed conv dilated": (
        lambda: nn.ConvTranspose2d(4, 3, 3, dilation=2, bias=False, rng=RNG),
        lambda: T.ConvTranspose2d(4, 3, 3, dilation=2, bias=False), IMAGE,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_a_layer_is_pytorchs(name: str) -> None:
    ours, theirs, shape = CASES[name]
    scale = 4.0 if name in ("relu6", "hard swish", "hard sigmoid") else 1.0
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


def test_an_embedding_is_pytorchs_also_its_gradient() -> None:
    for padding in (None, 2):
        ours, theirs = nn.Embedding(5, 3, padding=padding, rng=RNG), T.Embedding(5, 3, padding)
        ours.weight.data = theirs.weight.detach().numpy()
        index = np.array([[0, 2, 4], [2, 2, 1]], np.int32)
        leaf = Value(index.shape, DType.i32)
        y = ours(leaf)
        g = Value(y.shape, y.dtype)
        graph = Graph((leaf, g), (y, *gradients([y], [g], [ours.weight])))
        direction = _x((2, 3, 3)).astype(np.float32)
        found, gw = run(graph, index, direction)
        result = theirs(torch.tensor(index))
        result.backward(torch.tensor(direction))
        assert theirs.weight.grad is not None
        np.testing.assert_array_equal(found, result.detach().numpy())
        np.testing.assert_allclose(gw, theirs.weight.grad.numpy(), rtol=1e-6)


def test_an_embedding_takes_int64_and_refuses_what_is_outside() -> None:
    table = nn.Embedding(5, 3, rng=RNG)
    assert table(np.array([[1, 4]])).shape == (1, 2, 3)
    with pytest.raises(Exception, match=r"want 0\.\.4|out of range"):
        table(np.array([5]))
    with pytest.raises(ValueError, match="padding 5, want 0 to 4"):
        nn.Embedding(5, 3, padding=5, rng=RNG)


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda: nn.GroupNorm(3, 4), "4 channels, want a multiple of 3 groups"),
        (lambda: nn.ConvTranspose2d(4, 3, 3, groups=2, rng=RNG), "want multiples of 2 groups"),
        (lambda: nn.MultiHeadAttention(5, 2, rng=RNG), "size 5, want a multiple of 2 heads"),
        (lambda: nn.GRU(0, 2, rng=RNG), "GRU: 0 inputs"),
    ],
)
def test_sizes_that_do_not_fit_are_refused(make: Callable[[], nn.Module], why: str) -> None:
    with pytest.raises(Exception, match=why):
        make()


@pytest.mark.parametrize("mode", modes.MODES)
def test_hard_sigmoid_is_exact_in_float64(mode: str) -> None:
    x = np.linspace(-2.9, 2.9, 30)
    with modes.using(mode=mode):
        value, slope = value_and_grad(lambda v: ops.reduce_sum(nn.HardSigmoid()(v), axes=(0,)))(x)
    np.testing.assert_allclose(value, (x / 6 + 0.5).sum(), rtol=1e-15)
    np.testing.assert_array_equal(slope, np.full(30, 1 / 6))
