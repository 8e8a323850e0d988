"""Targets of losses as the values that losses compute with."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from cloud import ops
from ir.dtype import DType
from ir.graph import Constant, Value

INTEGERS = (DType.i64, DType.u8, DType.i8)


def takes_arrays(loss: Callable[..., Value]) -> Callable[..., Value]:
    """The same loss, whose targets beside a value may be arrays, and labels integers of any size"""

    @functools.wraps(loss)
    def of_any(y: Value, *targets: Any, **named: Any) -> Value:
        if not isinstance(y, Value):
            return loss(y, *targets, **named)
        values = {name: _as_value(t, y.dtype) for name, t in named.items()}
        return loss(y, *(_as_value(t, y.dtype) for t in targets), **values)

    return of_any


def _as_value(target: Any, dtype: DType) -> Any:
    if isinstance(target, (list, np.ndarray, np.generic)):
        array = np.asarray(target)
        target = Constant(array.astype(dtype.numpy) if array.dtype.kind == "f" else array)
    if isinstance(target, Value) and target.dtype in INTEGERS:
        return ops.cast(target, to=DType.i32)
    return target
