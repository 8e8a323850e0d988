"""Optimisers: small classes that make update nodes, and the state weights that these need."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np

from cloud import ops
from ir.graph import Array, Value, Weight

Updates = list[tuple[Weight, Value]]

OPTIMIZERS: dict[str, type[Optimizer]] = {}  # by name in lower case; a subclass is in it
ACCUMULATED = "sum"  # the kind of state that holds a sum of gradients


class Optimizer(ABC):
    """A rule that moves weights against their gradients.

    `lr` is the learning rate that a model file gives as its default; `weight_decay` adds
    decay * w to each gradient; `clip_norm` scales all gradients together to at most this norm;
    `clip_value` limits each of their elements to [-clip_value, clip_value].
    The optimiser keeps the states of the module that it trains: a second graph of that module
    continues with them, one of another module starts anew.
    """

    def __init_subclass__(cls) -> None:
        OPTIMIZERS[cls.__name__.lower()] = cls

    def __init__(
        self,
        lr: float,
        *,
        weight_decay: float = 0.0,
        clip_norm: float | None = None,
        clip_value: float | None = None,
    ) -> None:
        limits = [limit for limit in (clip_norm, clip_value) if limit is not None]
        if lr < 0 or weight_decay < 0 or any(limit <= 0 for limit in limits):
            raise ValueError(
                f"{type(self).__name__}: lr {lr}, weight_decay {weight_decay}, clip_norm "
                f"{clip_norm}, clip_value {clip_value}; want at least 0, the last two above 0"
            )
        self.lr, self.weight_decay = lr, weight_decay
        self.clip_norm, self.clip_value = clip_norm, clip_value
        self.states: dict[str, Weight] = {}
        self._followed: dict[str, Weight] = {}

    def updates(self, weights: Sequence[Weight], gradients: Sequence[Value], lr: Value) -> Updates:
        """(weight, new value) of each weight and of each state; `lr` is a scalar of the graph."""
        self._follow(weights)
        if self.clip_norm is not None:
            gradients = clip_by_global_norm(gradients, self.clip_norm)
        if self.clip_value is not None:
            gradients = clip_by_value(gradients, self.clip_value)
        return self._updates(list(zip(weights, gradients, strict=True)), lr)

    def __str__(self) -> str:
        """`momentum:lr=0.1,momentum=0.9`: the text that `from_text` reads."""
        inner = ("states", "_followed")
        fields = {k: v for k, v in vars(self).items() if k not in inner and v is not None}
        return f"{type(self).__name__.lower()}:" + ",".join(f"{k}={v}" for k, v in fields.items())

    @abstractmethod
    def _updates(self, pairs: Sequence[tuple[Weight, Value]], lr: Value) -> Updates:
        """The rule itself, for pairs of a weight and its gradient."""

    def accumulators(self, weights: Sequence[Weight]) -> list[Weight]:
        """States for the sums of gradients over micro-batches, zeros at first."""
        self._follow(weights)
        return [self._state(ACCUMULATED, w) for w in weights]

    def _state(self, kind: str, like: Weight, first: Array | None = None) -> Weight:
        """The state `kind` of a weight, `first` at first: by default zeros of its shape."""
        name = f"optimizer.{kind}.{like.name}"
        data = np.zeros_like(like.data) if first is None else first.astype(like.data.dtype)
        return self.states.setdefault(name, Weight(data, name=name, state=True))

    def _decayed(self, w: Weight, g: Value) -> Value:
        """The gradient with the decay that is a part of it."""
        return g + w * self.weight_decay if self.weight_decay else g

    def _step_count(self) -> Weight:
        name = "optimizer.step"
        return self.states.setdefault(name, Weight(np.zeros((), np.int32), name=name, state=True))

    def _follow(self, weights: Sequence[Weight]) -> None:
        """Start anew for weights of another module, or for those of this one in another type."""
        named = {str(w.name): w for w in weights}
        if any(self._followed.get(name, w) is not w for name, w in named.items()):
            self._followed.clear()
            self.states.clear()
        self._followed.update(named)


class SGD(Optimizer):
    """w -= lr * (g + decay w) (Robbins and Monro 1951)"""

    def _updates(self, pairs: Sequence[tuple[Weight, Value]], lr: Value) -> Updates:
        return [(w, ops.sgd_step(w, g, lr, weight_decay=self.weight_decay)) for w, g in pairs]


class Momentum(Optimizer):
    """m = momentum m + g, w -= lr m; with `nesterov`, w -= lr (g + momentum m)

    (Polyak 1964; Sutskever et al. 2013)
    """

    def __init__(
        self,
        lr: float,
        *,
        momentum: float = 0.9,
        nesterov: bool = False,
        **common: Any,
    ) -> None:
        super().__init__(lr, **common)
        self.momentum, self.nesterov = momentum, nesterov

    def _updates(self, pairs: Sequence[tuple[Weight, Value]], lr: Value) -> Updates:
        updates: Updates = []
        for w, g in pairs:
            m = self._state("momentum", w)
            results = ops.momentum_step(
                w, m, g, lr,
                momentum=self.momentum, nesterov=self.nesterov, weight_decay=self.weight_decay,
            )  # fmt: skip
            updates += zip((w, m), results, strict=True)
        return updates


class Adam(Optimizer):
    """m, v = running means of g and g^2; w -= lr m^ / (sqrt v^ + epsilon), both without bias

    (Kingma and Ba 2015)
    """

    decoupled = False

    def __init__(
        self,
        lr: float = 1e-3,
        *,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-8,
        **common: Any,
    ) -> None:
        super().__init__(lr, **common)
        self.beta1, self.beta2, self.epsilon = beta1, beta2, epsilon

    def _updates(self, pairs: Sequence[tuple[Weight, Value]], lr: Value) -> Updates:
        count = self._step_count()
        t = ops.increment(count, by=1)
        updates: Updates = [(count, t)]
        for w, g in pairs:
            m, v = self._state("mean", w), self._state("square", w)
            results = ops.adam_step(
                w, m, v, t, g, lr,
                beta1=self.beta1, beta2=self.beta2, epsilon=self.epsilon,
                weight_decay=self.weight_decay, decoupled=self.decoupled,
            )  # fmt: skip
            updates += zip((w, m, v), results, strict=True)
        return updates


class AdamW(Adam):
    """Adam whose decay is apart from the gradient: w -= lr decay w (Loshchilov and Hutter 2019)"""

    decoupled = True


def clip_by_global_norm(gradients: Sequence[Value], limit: float) -> list[Value]:
    """g * min(1, limit / norm) with the norm of all gradients together (Pascanu et al. 2013)"""
    scale = ops.minimum(limit / (global_norm(gradients) + 1e-6), 1.0)
    return [g * scale for g in gradients]


def clip_by_value(gradients: Sequence[Value], limit: float) -> list[Value]:
    """g with each element limited to [-limit, limit]"""
    return [ops.clip(g, low=-limit, high=limit) for g in gradients]


def global_norm(gradients: Sequence[Value]) -> Value:
    """The square root of the sum of all squares, a scalar."""
    squares = [ops.reduce_sum(g * g, axes=tuple(range(g.rank))) for g in gradients]
    total = squares[0]
    for s in squares[1:]:
        total = total + s
    return ops.sqrt(total)


def from_text(text: str) -> Optimizer:
    """The optimiser of `name:key=value,…`, such as `momentum:lr=0.01,nesterov=True`.

    Names are those of the classes, in lower case; sgd with `momentum=` is momentum. Raises
    ValueError.
    """
    name, _, rest = text.partition(":")
    fields = dict(part.partition("=")[::2] for part in rest.split(",") if part)
    kind = OPTIMIZERS.get("momentum" if name == "sgd" and "momentum" in fields else name)
    try:
        if kind is None:
            raise ValueError(f"no such name; there are {', '.join(OPTIMIZERS)}")
        return kind(**{k.strip(): _number(v) for k, v in fields.items()})
    except (TypeError, ValueError) as e:
        raise ValueError(f"optimizer {text!r}: {e}; want name:key=value,…") from None


def _number(text: str) -> float | bool:
    booleans = {"true": True, "false": False}
    if text.lower() in booleans:
        return booleans[text.lower()]
    if not math.isfinite(value := float(text)):
        raise ValueError(f"{text} is not a finite number")
    return value
