"""Attention, and the transformer's block that is made of it."""

from __future__ import annotations

import math

import numpy as np

from cloud import ops
from cloud.nn.activation import GELU
from cloud.nn.container import Layer
from cloud.nn.linear import Linear
from cloud.nn.module import Module
from cloud.nn.norm import Dropout, LayerNorm
from ir.dtype import DType
from ir.errors import ShapeError
from ir.graph import Constant, Value, shape_text

MASKED = -1e9  # a score that softmax makes 0 of, in every float type but float16


def attention(query: Value, key: Value, value: Value, mask: Value | None = None) -> Value:
    """y = softmax(query key^T / sqrt(size) + mask) value     [...,t,size], [...,s,size], [...,s,v]

    `mask`: bool (true: may be seen) or a number to add, of a shape that stretches to [...,t,s]
    (Vaswani et al. 2017).
    """
    scores = ops.matmul(query, key, transpose_b=True) * (1 / math.sqrt(_size(query)))
    if mask is not None:
        scores = ops.where(mask, scores, MASKED) if mask.dtype is DType.bool else scores + mask
    return ops.matmul(ops.softmax(scores, axis=scores.rank - 1), value)


def causal_mask(t: int) -> Value:
    """bool [t,t]: step i sees the steps up to i."""
    return Constant(np.tril(np.ones((t, t), np.bool_)))


class MultiHeadAttention(Module):
    """y = the heads' attention side by side, times w_out     query: [n,t,size] -> y: [n,t,size]

    Each head has its share of the projected query, key and value (Vaswani et al. 2017). `key` and
    `value` are the query by default, or [n,s,size]; `causal`: no step sees a later one; `mask`: as
    for `attention`, [t,s], [n,1,1,s] or [n,heads,t,s].
    """

    def __init__(
        self,
        size: int,
        heads: int,
        *,
        rng: np.random.Generator,
        bias: bool = True,
        causal: bool = False,
    ) -> None:
        if heads < 1 or size % heads:
            raise ValueError(f"MultiHeadAttention: size {size}, want a multiple of {heads} heads")
        self.heads, self.causal = heads, causal
        self.project = Linear(size, 3 * size, rng=rng, bias=bias)  # query, key and value
        self.out = Linear(size, size, rng=rng, bias=bias)

    def forward(
        self,
        query: Value,
        key: Value | None = None,
        value: Value | None = None,
        mask: Value | None = None,
    ) -> Value:
        if query.rank != 3:
            raise ShapeError(
                f"MultiHeadAttention: query is {shape_text(query.shape)}, want [n,t,size]"
            )
        q, k, v = (self._split(x) for x in self._projected(query, key, value))
        y = ops.transpose(attention(q, k, v, self._mask(q, k, mask)), perm=(0, 2, 1, 3))
        return self.out(ops.reshape(y, shape=query.shape))

    def _projected(self, query: Value, key: Value | None, value: Value | None) -> list[Value]:
        size = _size(query)
        if key is None and value is None:
            return list(ops.split(self.project(query), [size] * 3, axis=2))
        key = query if key is None else key
        value = key if value is None else value
        weight, bias = self.project.weight, self.project.bias
        rows = ops.split(weight, [size] * 3, axis=0)
        added = [None] * 3 if bias is None else ops.split(bias, [size] * 3, axis=0)
        given = zip((query, key, value), rows, added, strict=True)
        return [ops.linear(x, w, b) for x, w, b in given]

    def _split(self, x: Value) -> Value:
        """[n,t,size] -> [n,heads,t,size/heads]"""
        n, t, size = x.shape
        return ops.transpose(
            ops.reshape(x, shape=(n, t, self.heads, size // self.heads)), perm=(0, 2, 1, 3)
        )

    def _mask(self, q: Value, k: Value, mask: Value | None) -> Value | None:
        if not self.causal:
            return mask
        t, s = q.shape[2], k.shape[2]
        if not isinstance(t, int) or t != s:
            raise ShapeError(f"causal attention over {t} and {s} steps: want one size, a number")
        seen = causal_mask(t)
        if mask is None:
            return seen
        if mask.dtype is DType.bool:
            return ops.logical_and(mask, seen)
        return ops.where(seen, mask, MASKED)


class TransformerBlock(Module):
    """y = x + attention(norm(x)), then y + feed-forward(norm(y))     x: [n,t,size] -> y: [n,t,size]

    Normalises before each part (Xiong et al. 2020) or, with `norm_first=False`, after each sum
    (Vaswani et al. 2017). The feed-forward part is two linear layers with `hidden` between, by
    default 4 * size, and an activation. Called as block(x, mask) it hands the mask to attention.
    """

    def __init__(
        self,
        size: int,
        heads: int,
        *,
        rng: np.random.Generator,
        hidden: int | None = None,
        activation: Layer | None = None,
        dropout: float = 0.0,
        causal: bool = False,
        norm_first: bool = True,
    ) -> None:
        hidden = 4 * size if hidden is None else hidden
        self.attention = MultiHeadAttention(size, heads, rng=rng, causal=causal)
        self.up, self.down = Linear(size, hidden, rng=rng), Linear(hidden, size, rng=rng)
        self.norm1, self.norm2 = LayerNorm(size), LayerNorm(size)
        self.activation = GELU() if activation is None else activation
        self.dropouts = [Dropout(dropout, rng=rng) for _ in range(3)] if dropout else []
        self.norm_first = norm_first

    def forward(self, x: Value, mask: Value | None = None) -> Value:
        if self.norm_first:
            x = x + self._attend(self.norm1(x), mask)
            return x + self._feed(self.norm2(x))
        x = self.norm1(x + self._attend(x, mask))
        return self.norm2(x + self._feed(x))

    def _attend(self, x: Value, mask: Value | None) -> Value:
        return self._dropped(0, self.attention(x, mask=mask))

    def _feed(self, x: Value) -> Value:
        middle = self._dropped(1, self.activation(self.up(x)))
        return self._dropped(2, self.down(middle))

    def _dropped(self, i: int, x: Value) -> Value:
        y: Value = self.dropouts[i](x) if self.dropouts else x
        return y


def positions(t: int, size: int) -> Value:
    """float32 [t,size]: sines and cosines of the step, at wavelengths from 2 pi to 20000 pi

    (Vaswani et al. 2017)
    """
    angles = np.arange(t)[:, None] / 10000 ** (np.arange(0, size, 2) / size)
    table = np.stack([np.sin(angles), np.cos(angles)], 2).reshape(t, -1)[:, :size]
    return Constant(table.astype(np.float32))


def _size(x: Value) -> int:
    size = x.shape[-1]
    if not isinstance(size, int):
        raise ShapeError(f"attention: features of size {size}, want a number")
    return size
