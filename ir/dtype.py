"""Element types: their names in Python, their codes in files, their numpy twins."""

from __future__ import annotations

import builtins
from enum import Enum
from typing import Any

import numpy as np


class ElementError(TypeError):
    """Elements of a type that models do not have."""


class DType(Enum):
    """An element type. The value is its code in model files: never changed, never reused."""

    f32 = 1
    f16 = 2
    i8 = 3
    u8 = 4
    i32 = 5
    i64 = 6
    bool = 7
    f64 = 8
    tape = 9  # an opaque stack of shape (), see ir/ops/control.py; never one of a weight
    i16 = 10  # activations alone: see ir/ops/quantized_layers.py

    @property
    def numpy(self) -> np.dtype[Any]:
        return _NUMPY[self]

    @property
    def size_bytes(self) -> int:
        return self.numpy.itemsize

    @property
    def is_float(self) -> builtins.bool:
        return self in (DType.f32, DType.f16, DType.f64)

    @staticmethod
    def of(array: np.ndarray) -> DType:
        """The type of `array`'s elements. Raises ElementError for one that models do not have."""
        for dtype, twin in _NUMPY.items():
            if twin == array.dtype:
                return dtype
        raise ElementError(
            f"array of {array.dtype}: want one of {', '.join(d.numpy.name for d in DType)}"
        )

    def __repr__(self) -> str:
        return self.name


_NUMPY: dict[DType, np.dtype[Any]] = {
    DType.f32: np.dtype(np.float32),
    DType.f16: np.dtype(np.float16),
    DType.i8: np.dtype(np.int8),
    DType.u8: np.dtype(np.uint8),
    DType.i32: np.dtype(np.int32),
    DType.i64: np.dtype(np.int64),
    DType.bool: np.dtype(np.bool_),
    DType.f64: np.dtype(np.float64),
    DType.tape: np.dtype(np.object_),  # nested pairs (last pushed, the stack below)
    DType.i16: np.dtype(np.int16),
}
