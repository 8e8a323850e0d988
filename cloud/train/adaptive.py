"""Optimisers that scale each step by past gradients: RMSprop, Adagrad, LAMB and Shampoo."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from cloud import ops
from cloud.train.optim import Optimizer, Updates
from ir.graph import Value, Weight
from ir.ops.update import LARGEST_ROOT

Pairs = Sequence[tuple[Weight, Value]]


class RMSprop(Optimizer):
    """v = running mean of g^2, w -= lr g / (sqrt v + epsilon); `centered`: the variance in place of
    the mean square; `momentum`: that of the scaled gradients (Tieleman and Hinton 2012)
    """

    def __init__(
        self,
        lr: float = 1e-2,
        *,
        alpha: float = 0.99,
        epsilon: float = 1e-8,
        momentum: float = 0.0,
        centered: bool = False,
        **common: Any,
    ) -> None:
        super().__init__(lr, **common)
        self.alpha, self.epsilon, self.momentum, self.centered = alpha, epsilon, momentum, centered

    def _updates(self, pairs: Pairs, lr: Value) -> Updates:
        updates: Updates = []
        for w, g in pairs:
            g, square = self._decayed(w, g), self._state("square", w)
            v = spread = ops.ema_step(square, g * g, momentum=1 - self.alpha)
            updates.append((square, v))
            if self.centered:
                mean = self._state("mean", w)
                m = ops.ema_step(mean, g, momentum=1 - self.alpha)
                updates.append((mean, m))
                spread = v - m * m
            step = g / (ops.sqrt(spread) + self.epsilon)
            updates += _moved(self, w, step, lr, self.momentum)
        return updates


class Adagrad(Optimizer):
    """v = the sum of all g^2, w -= lr / (1 + (t - 1) lr_decay) g / (sqrt v + epsilon)

    (Duchi et al. 2011)
    """

    def __init__(
        self,
        lr: float = 1e-2,
        *,
        lr_decay: float = 0.0,
        initial: float = 0.0,
        epsilon: float = 1e-10,
        **common: Any,
    ) -> None:
        super().__init__(lr, **common)
        self.lr_decay, self.initial, self.epsilon = lr_decay, initial, epsilon

    def _updates(self, pairs: Pairs, lr: Value) -> Updates:
        updates: Updates = []
        if self.lr_decay:
            count = self._step_count()
            t = ops.increment(count, by=1)
            updates.append((count, t))
            lr = lr / (ops.cast(t - 1, to=lr.dtype) * self.lr_decay + 1.0)
        for w, g in pairs:
            g = self._decayed(w, g)
            total = self._state("square", w, np.full(w.shape, self.initial))
            v = _summed(total, g * g)
            updates += [(total, v), *_moved(self, w, g / (ops.sqrt(v) + self.epsilon), lr)]
        return updates


class LAMB(Optimizer):
    """r = Adam's step + decay w, w -= lr |w| / |r| r, the norms being those of each weight as a
    whole, and their ratio 1 where one of them is 0 (You et al. 2020)
    """

    def __init__(
        self,
        lr: float = 1e-3,
        *,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-6,
        **common: Any,
    ) -> None:
        super().__init__(lr, **common)
        self.beta1, self.beta2, self.epsilon = beta1, beta2, epsilon

    def _updates(self, pairs: Pairs, lr: Value) -> Updates:
        count = self._step_count()
        t = ops.increment(count, by=1)
        updates: Updates = [(count, t)]
        time = ops.cast(t, to=lr.dtype)
        unbias1, unbias2 = (
            1.0 - ops.exp(time * math.log(beta)) for beta in (self.beta1, self.beta2)
        )
        for w, g in pairs:
            mean, square = self._state("mean", w), self._state("square", w)
            m = ops.ema_step(mean, g, momentum=1 - self.beta1)
            v = ops.ema_step(square, g * g, momentum=1 - self.beta2)
            step = (m / unbias1) / (ops.sqrt(v / unbias2) + self.epsilon)
            step = self._decayed(w, step)
            sizes = _norm(w), _norm(step)
            moves = ops.logical_and(*(ops.greater(size, 0.0) for size in sizes))
            ratio = ops.where(moves, sizes[0] / ops.where(moves, sizes[1], 1.0), 1.0)
            updates += [(mean, m), (square, v), *_moved(self, w, step * ratio, lr)]
        return updates


class Shampoo(Optimizer):
    """L = the sum of g g^T, R = that of g^T g, w -= lr L^(-1/4) g R^(-1/4): the preconditioner is a
    Kronecker product (Gupta, Koren and Singer 2018)

    A filter [k,r,s,c] is taken as the matrix [k,r*s*c]. A side larger than 128 is left alone (the
    other one then has the root -1/2); biases, and weights with two such sides, follow Adagrad. The
    roots are computed in every `every`th step; `decay` below 1 makes the sums running means.
    """

    def __init__(
        self,
        lr: float = 0.1,
        *,
        momentum: float = 0.9,
        decay: float = 1.0,
        every: int = 1,
        epsilon: float = 1e-4,
        **common: Any,
    ) -> None:
        super().__init__(lr, **common)
        self.momentum, self.decay, self.every, self.epsilon = momentum, decay, int(every), epsilon

    def _updates(self, pairs: Pairs, lr: Value) -> Updates:
        count = self._step_count()
        t = ops.increment(count, by=1)
        updates: Updates = [(count, t)]
        for w, g in pairs:
            g = self._decayed(w, g)
            rows, columns = w.data.shape[0] if w.rank else 1, math.prod(w.data.shape[1:])
            sides = [n for n in (rows, columns) if 1 < n <= LARGEST_ROOT]
            if w.rank < 2 or not sides:
                step = self._diagonal(w, g, updates)
            else:
                matrix = ops.reshape(g, shape=(rows, columns))
                step = self._preconditioned(w, matrix, len(sides), t, updates)
            updates += _moved(self, w, ops.reshape(step, shape=w.shape), lr, self.momentum)
        return updates

    def _diagonal(self, w: Weight, g: Value, updates: Updates) -> Value:
        total = self._state("square", w)
        v = self._accumulated(total, g * g)
        updates.append((total, v))
        return g / (ops.sqrt(v) + self.epsilon)

    def _preconditioned(self, w: Weight, g: Value, sides: int, t: Value, updates: Updates) -> Value:
        step = g
        for side, n in (("left", g.shape[0]), ("right", g.shape[1])):
            if not 1 < n <= LARGEST_ROOT:
                continue
            left = side == "left"
            total, root = (
                self._state(f"{side}.{kind}", w, first)
                for kind, first in (("sum", np.zeros((n, n))), ("root", np.eye(n)))
            )
            a = self._accumulated(total, ops.matmul(g, g, transpose_a=not left, transpose_b=left))
            now = ops.inverse_root_step(
                root, a, t, order=2 * sides, every=self.every, epsilon=self.epsilon
            )
            updates += [(total, a), (root, now)]
            step = ops.matmul(now, step) if left else ops.matmul(step, now)
        return step

    def _accumulated(self, total: Weight, x: Value) -> Value:
        if self.decay == 1:
            return _summed(total, x)
        y: Value = ops.ema_step(total, x, momentum=1 - self.decay)
        return y


def _summed(total: Weight, x: Value) -> Value:
    """total + x, as an update of total."""
    y: Value = ops.sgd_step(total, x, -1.0)
    return y


def _moved(
    optimizer: Optimizer, w: Weight, step: Value, lr: Value, momentum: float = 0.0
) -> Updates:
    """w - lr step; with momentum, w - lr m and m = momentum m + step."""
    if not momentum:
        return [(w, ops.sgd_step(w, step, lr))]
    m = optimizer._state("momentum", w)
    return list(zip((w, m), ops.momentum_step(w, m, step, lr, momentum=momentum), strict=True))


def _norm(x: Value) -> Value:
    y: Value = ops.sqrt(ops.reduce_sum(x * x, axes=tuple(range(x.rank))))
    return y
