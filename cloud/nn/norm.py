"""Layers that normalise, and dropout: those that differ between training and inference."""

from __future__ import annotations

import numpy as np

from cloud import ops
from cloud.nn.module import Module
from cloud.tracing import current
from ir.errors import ShapeError
from ir.graph import Value, Weight
from ir.ops.reduce import count_like
from ir.ops.rules import elements


class BatchNorm(Module):
    """y = scale * (x - mean) / sqrt(variance + epsilon) + bias, channel by channel

    x: [..., channels] -> y: [..., channels]. Training takes mean and variance of the batch and
    moves the running ones towards them: running += momentum * (batch - running), the running
    variance without bias, n / (n - 1). Inference takes the running ones (Ioffe and Szegedy 2015).
    """

    def __init__(self, channels: int, *, epsilon: float = 1e-5, momentum: float = 0.1) -> None:
        self.scale = Weight(np.ones(channels, np.float32), name="scale")
        self.bias = Weight(np.zeros(channels, np.float32), name="bias")
        self.running_mean = Weight(np.zeros(channels, np.float32), name="running_mean", state=True)
        self.running_variance = Weight(
            np.ones(channels, np.float32), name="running_variance", state=True
        )
        self.epsilon, self.momentum = epsilon, momentum

    def forward(self, x: Value) -> Value:
        running = self.running_mean, self.running_variance
        if not self.training:
            mean, variance = map(current().state, running)
            return ops.batch_norm(x, self.scale, self.bias, mean, variance, epsilon=self.epsilon)
        return live_batch_norm(
            x, self.scale, self.bias, *running, epsilon=self.epsilon, momentum=self.momentum
        )


def live_batch_norm(
    x: Value,
    scale: Value,
    bias: Value,
    running_mean: Weight,
    running_variance: Weight,
    *,
    epsilon: float,
    momentum: float,
) -> Value:
    """Batch norm as it trains: by the batch's own moments, which the running ones follow."""
    y, mean, variance = ops.batch_norm_train(x, scale, bias, epsilon=epsilon)
    n = count_like(x, tuple(range(x.rank - 1)))
    unbiased = variance * n / ops.maximum(n - 1, 1)
    current().average(running_mean, mean, momentum)
    current().average(running_variance, unbiased, momentum)
    return y  # type: ignore[no-any-return]


class LayerNorm(Module):
    """y = scale * (x - mean) / sqrt(variance + epsilon) + bias, mean and variance of the last axis

    x: [..., size] -> y: [..., size] (Ba et al. 2016)
    """

    def __init__(self, size: int, *, epsilon: float = 1e-5) -> None:
        self.scale = Weight(np.ones(size, np.float32), name="scale")
        self.bias = Weight(np.zeros(size, np.float32), name="bias")
        self.epsilon = epsilon

    def forward(self, x: Value) -> Value:
        return ops.layer_norm(x, self.scale, self.bias, epsilon=self.epsilon)


class GroupNorm(Module):
    """y = scale * (x - mean) / sqrt(variance + epsilon) + bias, mean and variance of each example's
    groups of neighbouring channels

    x: [n,...,channels] -> y: [n,...,channels] (Wu and He 2018)
    """

    def __init__(
        self, groups: int, channels: int, *, epsilon: float = 1e-5, affine: bool = True
    ) -> None:
        if groups < 1 or channels % groups:
            raise ShapeError(f"GroupNorm: {channels} channels, want a multiple of {groups} groups")
        self.scale = Weight(np.ones(channels, np.float32), name="scale") if affine else None
        self.bias = Weight(np.zeros(channels, np.float32), name="bias") if affine else None
        self.groups, self.epsilon = groups, epsilon

    def forward(self, x: Value) -> Value:
        channels = x.shape[-1]
        grouped = (x.shape[0], elements(x.shape[1:-1]), self.groups, channels // self.groups)
        parts = ops.reshape(x, shape=grouped)
        centred = parts - ops.reduce_mean(parts, axes=(1, 3), keep_dims=True)
        variance = ops.reduce_mean(centred * centred, axes=(1, 3), keep_dims=True)
        y = ops.reshape(centred / ops.sqrt(variance + self.epsilon), shape=x.shape)
        return y if self.scale is None else y * self.scale + self.bias


class InstanceNorm(GroupNorm):
    """y = (x - mean) / sqrt(variance + epsilon), mean and variance of each example's own channels;
    with `affine`, then times scale plus bias

    x: [n,...,channels] -> y: [n,...,channels] (Ulyanov et al. 2016)
    """

    def __init__(self, channels: int, *, epsilon: float = 1e-5, affine: bool = False) -> None:
        super().__init__(channels, channels, epsilon=epsilon, affine=affine)


class Dropout(Module):
    """y = x / (1 - p) where a coin falls so, else 0, in training; y = x in inference

    The coins are a function of `key`, a state that advances each step, so that a training run can
    be repeated and resumed bit for bit (Srivastava et al. 2014).
    """

    def __init__(self, p: float, *, rng: np.random.Generator) -> None:
        if not 0 <= p < 1:
            raise ValueError(f"Dropout: p is {p}, want at least 0 and below 1")
        self.p = p
        self.key = Weight(rng.integers(0, 2**30, 2).astype(np.int32), name="key", state=True)

    def forward(self, x: Value) -> Value:
        if not self.training or self.p == 0:
            return x
        u = ops.random_uniform(current().next_key(self.key), shape=x.shape)
        kept = ops.cast(ops.greater_equal(u, self.p), to=x.dtype)
        return x * kept * (1 / (1 - self.p))
