"""Random nets as readers of channels-first formats make them: transposes around every layer."""

from __future__ import annotations

from math import prod

import numpy as np

from cloud import ops
from ir.graph import Graph, Value, Weight
from ir.symbol import symbol

LAST, FIRST = (0, 2, 3, 1), (0, 3, 1, 2)


def random_net(seed: int, *, layers: int = 7, width: int = 5) -> Graph:
    """An image [batch,3,6,5] through convolutions, norms, activations, sums, joins and pools;
    convolutions give fewer than `width` channels."""
    rng = np.random.default_rng(seed)
    x = Value((symbol("batch"), 3, 6, 5), name="x")
    maker = _Maker(rng, [x], width)
    for _ in range(layers):
        maker.add()
    y = maker.made[-1]
    extra = [v for v in maker.made[1:-1] if rng.random() < 0.1]
    return Graph((x,), (maker.head(y), *extra))


class _Maker:
    def __init__(self, rng: np.random.Generator, made: list[Value], width: int) -> None:
        self.rng, self.made, self.width = rng, made, width

    def weight(self, *shape: int) -> Weight:
        data = self.rng.uniform(0.2, 1.0, shape) * self.rng.choice([-1, 1], shape)
        name = f"w{self.rng.integers(10**6)}"
        return Weight(data.astype(np.float32), name=name, trainable=False)

    def add(self) -> None:
        x = self.made[-1] if self.rng.random() < 0.7 else self.pick()
        kinds = (
            self.conv, self.depthwise, self.activate, self.activate, self.total, self.join,
            self.gate, self.shift, self.pool, self.cut,
        )  # fmt: skip
        self.made.append(kinds[self.rng.integers(len(kinds))](x))

    def pick(self) -> Value:
        return self.made[self.rng.integers(len(self.made))]

    def conv(self, x: Value) -> Value:
        if self.rng.random() < 0.3:
            x = ops.pad(x, before=(0, 0, 1, 0), after=(0, 0, 1, 2))
        k = int(self.rng.integers(1, self.width))
        bias = self.weight(k) if self.rng.random() < 0.5 else None
        y = ops.conv2d(ops.transpose(x, perm=LAST), self.weight(k, 3, 3, x.shape[1]), bias,
                       pads=(1, 1, 1, 1))  # fmt: skip
        return self.norm(ops.transpose(y, perm=FIRST))

    def depthwise(self, x: Value) -> Value:
        w = self.weight(3, 3, x.shape[1])
        y = ops.depthwise_conv2d(ops.transpose(x, perm=LAST), w, pads=(1, 1, 1, 1))
        return self.norm(ops.transpose(y, perm=FIRST))

    def norm(self, y: Value) -> Value:
        if self.rng.random() < 0.5:
            b = Weight(self.weight(y.shape[1], 1, 1).data, name="shift", trainable=False)
            return y + b if self.rng.random() < 0.5 else y
        c = y.shape[1]
        scale, bias, mean, variance = (self.weight(c) for _ in range(4))
        variance.data = np.abs(variance.data)
        z = ops.batch_norm(ops.transpose(y, perm=LAST), scale, bias, mean, variance)
        return ops.transpose(z, perm=FIRST)

    def activate(self, x: Value) -> Value:
        kind = self.rng.integers(5)
        if kind == 0:
            return x * ops.sigmoid(x)
        if kind == 1:
            return x * ops.clip(x + 3.0) / 6.0
        return getattr(ops, ("relu", "tanh", "clip")[kind - 2])(x)

    def total(self, x: Value) -> Value:
        return next((x + v for v in self.made[::-1] if v.shape == x.shape and v is not x), x + x)

    def join(self, x: Value) -> Value:
        same = [v for v in self.made if v.shape[2:] == x.shape[2:] and v.shape[1] + x.shape[1] < 9]
        return ops.concat(x, same[-1], axis=1) if same else ops.concat(x, x, axis=1)

    def gate(self, x: Value) -> Value:
        mean = ops.reduce_mean(x, axes=(2, 3), keep_dims=True)
        return x * ops.sigmoid(mean)

    def shift(self, x: Value) -> Value:
        return ops.softmax(x, axis=1) if self.rng.random() < 0.5 else x * self.weight(1, 1, 1, 1)

    def pool(self, x: Value) -> Value:
        if x.shape[2] < 3 or x.shape[3] < 3:
            return x
        y = ops.max_pool2d(ops.transpose(x, perm=LAST), size=(2, 2), strides=(2, 2))
        return ops.transpose(y, perm=FIRST)

    def cut(self, x: Value) -> Value:
        b, c, h, w = x.shape
        return ops.slice(x, begin=(0, 0, 0, 0), end=(b, max(c - 1, 1), h, w), step=(1, 1, 1, 1))

    def head(self, y: Value) -> Value:
        match self.rng.integers(3):
            case 0:
                return ops.reduce_mean(y, axes=(2, 3))
            case 1:
                size = prod(y.shape[1:])
                return ops.linear(ops.reshape(y, shape=(y.shape[0], size)), self.weight(3, size))
        return y
