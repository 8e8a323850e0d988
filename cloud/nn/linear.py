"""Layers that multiply by a weight matrix, or pick rows of one."""

from __future__ import annotations

import numpy as np

from cloud import ops
from cloud.nn import init
from cloud.nn.module import Module
from ir.dtype import DType
from ir.graph import Value, Weight


class Linear(Module):
    """y = x w^T + b     x: [..., inputs], w: [outputs,inputs] -> y: [..., outputs]"""

    def __init__(
        self,
        inputs: int,
        outputs: int,
        *,
        rng: np.random.Generator,
        bias: bool = True,
        init: init.Initializer = init.glorot_uniform,
    ) -> None:
        self.weight = new_weight(rng, (outputs, inputs), init)
        self.bias = zero_bias(outputs) if bias else None

    def forward(self, x: Value) -> Value:
        return ops.linear(x, self.weight, self.bias)


class Embedding(Module):
    """y = the rows of the table at `indices`     i32 [*i] -> [*i, size]

    An index outside the table is an error. The row `padding` starts as zeros and is never trained.
    """

    def __init__(
        self,
        count: int,
        size: int,
        *,
        rng: np.random.Generator,
        padding: int | None = None,
        init: init.Initializer = init.normal(1.0),  # noqa: B008  (a function without state)
    ) -> None:
        self.weight = new_weight(rng, (count, size), init)
        self.padding = padding
        if padding is not None:
            if not 0 <= padding < count:
                raise ValueError(f"Embedding: padding {padding}, want 0 to {count - 1}")
            self.weight.data[padding] = 0

    def forward(self, indices: Value) -> Value:
        if indices.dtype is DType.i64:
            indices = ops.cast(indices, to=DType.i32)
        y = ops.gather(self.weight, indices)
        if self.padding is None:
            return y
        is_padding = ops.equal(indices, self.padding)
        column = ops.reshape(is_padding, shape=(*indices.shape, 1))
        return ops.where(column, ops.stop_gradient(y), y)


def new_weight(rng: np.random.Generator, shape: tuple[int, ...], make: init.Initializer) -> Weight:
    """A weight named `weight`, drawn from `rng`."""
    return Weight(make(rng, shape, init.fans(shape)), name="weight")


def zero_bias(n: int) -> Weight:
    """A weight named `bias`, of zeros."""
    return Weight(np.zeros(n, np.float32), name="bias")
