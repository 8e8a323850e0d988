"""Steps of optimisers, as ONNX's training operators write them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from converter.items import Item, as_value, floats
from converter.onnx.rules.common import Reader, rule
from ir.graph import Value
from ir.ops.compare import greater, where
from ir.ops.elementwise import pow, sqrt
from ir.ops.shaping import reshape

DOMAIN = "ai.onnx.preview.training."
# attributes, rate, count, weight, gradient, state -> new weight, new state
Step = Callable[[dict[str, Any], Value, Value, Value, Value, Sequence[Value]], Sequence[Value]]


def _rule(name: str, states: int) -> Callable[[Step], Step]:
    """A rule for any number of weights: all of them, all gradients, then each state of all."""

    def declare(step: Step) -> Step:
        @rule(DOMAIN + name)
        def apply(
            _: Reader, attrs: dict[str, Any], rate: Item, count: Item, *rest: Item
        ) -> list[Value]:
            r, t = (_number(v) for v in (rate, count))
            many = len(rest) // (2 + states)
            columns = [
                [floats(v) for v in rest[i * many : (i + 1) * many]] for i in range(2 + states)
            ]
            made = []
            for w, g, *state in zip(*columns, strict=True):
                g = g + w * attrs.get("norm_coefficient", 0.0)
                made.append(step(attrs, r, t, w, g, state))
            return [v for column in zip(*made, strict=True) for v in column]

        return step

    return declare


def _number(item: Item) -> Value:
    v = floats(as_value(item))
    return reshape(v, shape=()) if v.rank else v  # type: ignore[no-any-return]


@_rule("Momentum", 1)
def momentum(
    attrs: dict[str, Any], r: Value, t: Value, w: Value, g: Value, state: Sequence[Value]
) -> Sequence[Value]:
    beta = where(greater(t, 0.0), t * 0.0 + attrs["beta"], 1.0)
    v = state[0] * attrs["alpha"] + g * beta
    step = g + v * attrs["alpha"] if attrs["mode"] == "nesterov" else v
    return w - step * r, v


@_rule("Adagrad", 1)
def adagrad(
    attrs: dict[str, Any], r: Value, t: Value, w: Value, g: Value, state: Sequence[Value]
) -> Sequence[Value]:
    rate = r / (t * attrs.get("decay_factor", 0.0) + 1.0)
    h = state[0] + g * g
    return w - g * rate / (sqrt(h) + attrs.get("epsilon", 1e-6)), h


@_rule("Adam", 2)
def adam(
    attrs: dict[str, Any], r: Value, t: Value, w: Value, g: Value, state: Sequence[Value]
) -> Sequence[Value]:
    alpha, beta = attrs.get("alpha", 0.9), attrs.get("beta", 0.999)
    v = state[0] * alpha + g * (1 - alpha)
    h = state[1] * beta + g * g * (1 - beta)
    unbiased = r * sqrt(1.0 - pow(t * 0.0 + beta, t)) / (1.0 - pow(t * 0.0 + alpha, t))
    rate = where(greater(t, 0.0), unbiased, r)
    new = w - v * rate / (sqrt(h) + attrs.get("epsilon", 1e-6))
    return new * (1 - attrs.get("norm_coefficient_post", 0.0)), v, h
