"""What the rules of TFLite's operators share: their tables, and what a tensor's elements stand for.

While reading, a tensor is a `Value`, a `Weight` or an array that is known, in one of three forms:

- plain: the numbers themselves;
- stored: int8 (an unsigned one moved by 128) with a scale and a zero point: `is_stored`;
- wide: int16 with a scale: `is_wide`. Both are `is_scaled`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from converter import items as shared
from converter.errors import ConvertError
from converter.items import (
    Arranger,
    Item,
    check_count,
    known,
    product,
    shape_of,
    without_nan,
)
from converter.tflite.file import Operator, Scales, Tensor
from converter.tflite.options import ACTIVATIONS
from ir.graph import Array, Constant, Value, Weight
from ir.op import OPS, Op
from ir.quantization import (
    HIGHEST,
    HIGHEST_16,
    LOWEST,
    LOWEST_16,
    quantize_multiplier,
    round_half_away,
)
from ir.symbol import Expr

Rule = Callable[..., Any]
# Three tables by operator. MOVES: the elements themselves do not matter, so that a rule takes any
# form. STORED: on integers, exactly as TFLite's reference kernels compute; such a rule may return
# None, and then, as where there is none, PLAIN: on real numbers, between reading and storing.
MOVES: dict[str, Rule] = {}
STORED: dict[str, Rule] = {}
PLAIN: dict[str, Rule] = {}
UNSIGNED = np.dtype(np.uint8)
EVERY = np.arange(LOWEST, HIGHEST + 1)


def rule(table: dict[str, Rule], *names: str) -> Callable[[Rule], Rule]:
    """Declare the rule of the operators `names`: (reader, call, *items) -> result(s)."""

    def declare(fn: Rule) -> Rule:
        table.update(dict.fromkeys(names, fn))
        return fn

    return declare


@dataclass(frozen=True)
class Call:
    """One operator of the file with its tensors; an input that is left out is None."""

    op: Operator
    ins: Sequence[Tensor | None]
    outs: Sequence[Tensor]

    @property
    def name(self) -> str:
        return self.op.name

    @property
    def attrs(self) -> dict[str, Any]:
        return self.op.attrs

    @property
    def y(self) -> Tensor:
        return self.outs[0]

    def input(self, i: int) -> Tensor:
        """Input i, which must be there."""
        found = self.ins[i] if i < len(self.ins) else None
        if found is None:
            raise ConvertError(f"input {i} is missing")
        return found


@dataclass
class Reader(Arranger, ABC):
    """What rules see of the model: variables, and a way to read its other graphs."""

    variables: dict[str, Weight] = field(default_factory=dict)
    current: dict[str, Value] = field(default_factory=dict)  # a variable's value by now
    is_dynamic: bool = False  # whether layers have weights of 8 bits behind floats
    starts: bool = False  # whether variables get their first values
    owners: dict[Any, Weight] = field(default_factory=dict)

    def weight(self, data: Array, name: str, key: Any) -> Weight:
        """A weight of the model; the same `key` gives the same one."""
        if key not in self.owners:
            self.owners[key] = Weight(np.ascontiguousarray(data), name=name, trainable=False)
        return self.owners[key]

    @abstractmethod
    def run_graph(self, number: int, items: Sequence[Item]) -> list[Item]:
        """What graph `number` of the file makes of these items."""

    @abstractmethod
    def passed_on(self, number: int) -> list[bool]:
        """Of each input of graph `number`, whether it is the output of the same place as well."""


def is_stored(t: Tensor | None) -> bool:
    return t is not None and t.scales is not None and _bits(t) == 8


def is_wide(t: Tensor | None) -> bool:
    return t is not None and t.scales is not None and _bits(t) == 16


def is_scaled(t: Tensor | None) -> bool:
    return is_stored(t) or is_wide(t)


def bounds_of(t: Tensor) -> tuple[int, int]:
    """The least and the largest number that is stored."""
    return (LOWEST_16, HIGHEST_16) if is_wide(t) else (LOWEST, HIGHEST)


def _bits(t: Tensor) -> int:
    return 8 * t.element.itemsize if t.element is not None and t.element.kind in "iu" else 0


def scales_of(t: Tensor) -> Scales:
    if t.scales is None:
        raise ConvertError(f"{t.name!r} has no scale")
    return t.scales


def scale_of(t: Tensor) -> float:
    """The one scale of a tensor of activations."""
    scale = scales_of(t).scale
    if scale.size != 1 or scale[0] <= 0:
        raise ConvertError(
            f"{t.name!r} has {scale.size} scales from {scale.min()}, want one above 0"
        )
    return float(scale[0])


def zero_of(t: Tensor) -> int:
    """The zero point, of int8; of 16 bits it must be 0."""
    zero = int(scales_of(t).zero[0])
    if is_wide(t) and zero:
        raise ConvertError(f"{t.name!r}: 16 bits with zero point {zero}, want 0")
    return zero + LOWEST if t.element == UNSIGNED else zero


def meaning(t: Tensor) -> tuple[float, int]:
    return scale_of(t), zero_of(t)


def as_value(item: Item) -> Value:
    """A value of the graph; a known array of int16 is wide, and stays of 16 bits."""
    if isinstance(item, np.ndarray) and item.dtype == np.int16:
        return Constant(item)
    return shared.as_value(item)


def plain(array: Array) -> Array:
    """Known numbers without a scale: those of int16 are int32 here."""
    return array.astype(np.int32) if array.dtype == np.int16 else array


def as_int8(array: Array) -> Array:
    """Stored 8-bit numbers, the unsigned ones moved by 128."""
    return (array ^ 128).view(np.int8) if array.dtype == np.uint8 else array


def real(item: Item, t: Tensor | None) -> Item:
    """The real numbers that an item in the form of `t` stands for."""
    if not is_scaled(t) or item is None or t is None:
        return item
    if isinstance(item, np.ndarray):
        return dequantized(item, t)
    scale, zero = meaning(t)
    return OPS["dequantize"](as_value(item), scale=scale, zero_point=zero)


def dequantized(array: Array, t: Tensor) -> Array:
    """A constant's real numbers; with one scale or one a channel."""
    s = scales_of(t)
    zero = s.zero + LOWEST if t.element == UNSIGNED else s.zero
    along = [-1 if s.scale.size > 1 and i == s.axis else 1 for i in range(array.ndim)]
    y = (array.astype(np.float32) - zero.reshape(along)) * s.scale.reshape(along)
    return y.astype(np.float32)


def stored(item: Item, t: Tensor) -> Item:
    """Real numbers in the form of `t`: the inverse of `real`."""
    if not is_scaled(t):
        return item
    scale, zero = meaning(t)
    if is_wide(t):
        return compute(OPS["quantize_16"], item, scale=scale)
    return compute(OPS["quantize"], item, scale=scale, zero_point=zero)


def rescaled(item: Item, t: Tensor, to: Tensor, bounds: tuple[int, int] | None = None) -> Item:
    """A stored item with another scale and zero point, as QUANTIZE does it."""
    (scale, zero), (y_scale, y_zero) = meaning(t), meaning(to)
    low, high = bounds or bounds_of(to)
    if is_wide(t) != is_wide(to):
        raise ConvertError(f"{t.name!r} and {to.name!r} have 8 and 16 bits, want one type")
    if (scale, zero) == (y_scale, y_zero) and (low, high) == bounds_of(to):
        return item
    multiplier, shift = quantize_multiplier(scale / y_scale)
    return compute(
        OPS["requantize"], item, x_zero=zero, y_zero=y_zero, multiplier=multiplier, shift=shift,
        low=low, high=high,
    )  # fmt: skip


def looked_up(x: Item, table: Array) -> Item:
    """table[x + 128], clamped to int8"""
    return compute(OPS["quantized_lookup"], x, np.clip(table, LOWEST, HIGHEST).astype(np.int8))


def tabled(item: Item, t: Tensor, to: Tensor) -> Item:
    """`rescaled` in float32, as kernels without a sign join tensors of different scales."""
    (scale, zero), (y_scale, y_zero) = meaning(t), meaning(to)
    if (scale, zero) == (y_scale, y_zero):
        return item
    ratio = np.float32(scale) * (np.float32(1) / np.float32(y_scale))
    bias = np.float32(-(zero - LOWEST)) * ratio
    numbers = (EVERY - LOWEST).astype(np.float32) * ratio + bias
    return looked_up(item, round_half_away(numbers) + y_zero)


def compute(op: Op | Callable[..., Any], *items: Item, **attrs: Any) -> Item:
    """The operator on values, or its reference at once when every input is known and the result is
    of a size that a model may hold."""
    if any(isinstance(i, Value) for i in items):
        return op(*(None if i is None else as_value(i) for i in items), **attrs)  # type: ignore[no-any-return]
    if isinstance(op, Op):
        full = op.checked_attrs(attrs)
        shape = op.shape(*(None if i is None else np.shape(i) for i in items), **full)
        check_count(product(shape) if isinstance(shape, tuple) else 0)
    return np.asarray(op(*items, **attrs))


def clamp_of(call: Call) -> tuple[int, int]:
    """The bounds of a stored result that do what the operator's fused activation does."""
    kind = activation_kind(call)
    (scale, zero), (least, most) = meaning(call.y), bounds_of(call.y)

    def place(x: float) -> int:
        return min(max(zero + int(np.floor(x / scale + 0.5)), least), most)

    bounds = {
        "none": (least, most),
        "relu": (place(0), most),
        "relu6": (place(0), place(6)),
        "relu_n1_to_1": (place(-1), place(1)),
    }
    if kind not in bounds:
        raise ConvertError(f"a fused {kind} on 8 bits")
    return bounds[kind]


def activation_kind(call: Call) -> str:
    number = call.attrs.get("activation", 0)
    if number not in ACTIVATIONS:
        raise ConvertError(f"fused activation number {number}")
    return ACTIVATIONS[number]


def activated(call: Call, y: Item) -> Item:
    """Real numbers behind the operator's fused activation."""
    return with_activation(activation_kind(call), y)


def with_activation(kind: str, y: Item) -> Item:
    if kind == "none":
        return y
    if kind in ("relu", "tanh"):
        return compute(OPS[kind], y)
    limits = {"relu6": (0.0, 6.0), "relu_n1_to_1": (-1.0, 1.0)}
    if kind not in limits:
        raise ConvertError(f"a fused {kind}")
    low, high = limits[kind]
    return compute(OPS["clip"], y, low=low, high=high)


def sizes(item: Item, what: str) -> list[Any]:
    """A known vector of sizes, symbolic ones among them."""
    return [d if isinstance(d, Expr) else int(d) for d in known(item, what).ravel().tolist()]


def shape_array(dims: Any) -> np.ndarray:
    """A shape as data: int64 where all sizes are known, else an array of symbolic sizes."""
    out = np.array(list(dims), dtype=object)
    return out.astype(np.int64) if all(isinstance(d, int) for d in out) else out


def rank_of(item: Item) -> int:
    return len(shape_of(item))


def no_nan(array: Array, t: Tensor) -> Array:
    return without_nan(array, f"tensor {t.name!r}")
