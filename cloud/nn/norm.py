"""Layers that normalise, and dropout: those that differ between training and inference."""

from __future__ import annotations

import numpy as np

from cloud import ops
from cloud.nn.module import Module
from cloud.nn.tracing import current
from ir.graph import Value, Weight
from ir.ops.reduce import count_like


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
        t = current()
        if not self.training:
            mean, variance = t.state(self.running_mean), t.state(self.running_variance)
            return ops.batch_norm(x, self.scale, self.bias, mean, variance, epsilon=self.epsilon)
        y, mean, variance = ops.batch_norm_train(x, self.scale, self.bias, epsilon=self.epsilon)
        n = count_like(x, tuple(range(x.rank - 1)))
        unbiased = variance * n / ops.maximum(n - 1, 1)
        t.average(self.running_mean, mean, self.momentum)
        t.average(self.running_variance, unbiased, self.momentum)
        return y


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
