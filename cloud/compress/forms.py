"""How activations are stored: in 8 bits with a zero point, or in 16 without one, as TFLite does."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np

from ir import quantization as q
from ir.graph import Array, Value
from ir.op import OPS
from ir.ops.activation import Activation


@dataclass(frozen=True)
class Form(ABC):
    """Stored numbers from `lowest` to `highest`, and what layers on them take."""

    lowest: int
    highest: int
    bias: Any  # the type of a layer's bias, and of its sums
    most_bias: int  # part of what sums hold: the rest is for the products
    left_shift: int  # of `quantized_add`
    most_multiplier: float  # of a layer, which kernels take
    most_mean: int  # elements that a mean may be of, so that 32 bits hold their sum
    wide: bool  # 16 bits, whose steps are too fine for cutting numbers off to pay

    @property
    @abstractmethod
    def bounds(self) -> dict[str, int]:
        """The attributes `low` and `high` of operators where nothing is clamped."""

    @abstractmethod
    def scale_of(self, low: float, high: float) -> tuple[float, int]:
        """(scale, zero point) of numbers between `low` and `high`."""

    @abstractmethod
    def stored(self, x: Any, scale: float, zero: int) -> Any:
        """A value, or an array, in this form."""

    @abstractmethod
    def quantized_bias(self, b: Array, x_scale: float, w_scale: Array) -> Array:
        """A layer's bias in steps of its sums."""

    def step(self, low: float, high: float) -> float:
        """How far apart the numbers between `low` and `high` are that are stored."""
        return self.scale_of(low, high)[0]

    def check_multipliers(self, scale: Array, ratio: float) -> None:
        """Raise MultiplierError where `ratio` times a weight's scales, rounded up to a float16, is
        beyond what kernels take, and where samples are so small that no scale is left."""
        largest = float(scale.max(initial=0)) * ratio
        if largest * (1 + 2**-10) >= self.most_multiplier or not scale.all():
            most = f"{self.most_multiplier:.0f}"
            raise q.MultiplierError(f"multiplier {largest:.3g}: want one below {most}")

    def clamp_bounds(self, kind: Activation, scale: float, zero: int) -> dict[str, int]:
        """The bounds of the stored result that do what the activation does."""
        low = self.lowest if kind is Activation.none else max(self.lowest, zero)
        high = self.highest
        if kind is Activation.relu6:
            high = max(low, min(high, round(6 / scale) + zero))
        return {"low": low, "high": high}

    def rescaled(self, x: Value, was: tuple[float, int], to: tuple[float, int]) -> Value:
        """`x` of one scale and zero point with others."""
        if was == to:
            return x
        multiplier, shift = q.quantize_multiplier(was[0] / to[0])
        return OPS["requantize"](  # type: ignore[no-any-return]
            x, x_zero=was[1], y_zero=to[1], multiplier=multiplier, shift=shift, **self.bounds
        )


class _Bytes(Form):
    @property
    def bounds(self) -> dict[str, int]:
        return {}  # the operators' own

    def scale_of(self, low: float, high: float) -> tuple[float, int]:
        return q.affine_scale(low, high)

    def stored(self, x: Any, scale: float, zero: int) -> Any:
        return OPS["quantize"](x, scale=scale, zero_point=zero)

    def quantized_bias(self, b: Array, x_scale: float, w_scale: Array) -> Array:
        return q.quantize_bias(b, x_scale, w_scale)


class _Words(Form):
    @property
    def bounds(self) -> dict[str, int]:
        return {"low": self.lowest, "high": self.highest}

    def scale_of(self, low: float, high: float) -> tuple[float, int]:
        return q.wide_scale(max(-low, high)), 0

    def stored(self, x: Any, scale: float, zero: int) -> Any:
        return OPS["quantize_16"](x, scale=scale)

    def quantized_bias(self, b: Array, x_scale: float, w_scale: Array) -> Array:
        exact = np.asarray(b, np.float64) / (x_scale * w_scale.astype(np.float64))
        return q.round_half_away(exact).astype(np.int64)


INT8 = _Bytes(
    q.LOWEST, q.HIGHEST, np.int32, 2**30, q.ADD_LEFT_SHIFT, q.MOST_MULTIPLIER, 2**23, wide=False
)
INT16 = _Words(
    q.LOWEST_16, q.HIGHEST_16, np.int64, 2**45, q.ADD_LEFT_SHIFT_16, 2.0**q.MOST_SHIFT_16, 2**15,
    wide=True,
)  # fmt: skip
