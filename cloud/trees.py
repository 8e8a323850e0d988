"""Nested structures of arrays and values: tuples, lists and dicts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from cloud.parse.structure import leaves, like, rebuilt
from ir.graph import Value

__all__ = ["arrays_like", "is_float", "leaves", "like", "packed", "rebuilt"]


def packed(tree: Any, items: Iterator[Any]) -> Any:
    """The structure with the next item in the place of each value; other leaves stay."""
    return rebuilt(tree, lambda x: next(items) if isinstance(x, Value) else x)


def is_float(x: Any) -> bool:
    """Whether a derivative can be taken by this leaf."""
    if isinstance(x, Value):
        return x.dtype.is_float
    return isinstance(x, float) or (isinstance(x, (np.ndarray, np.generic)) and x.dtype.kind == "f")


def arrays_like(tree: Any, other: Any) -> Any:
    """`other`, whose numbers are floats where those of `tree` are: tangents beside their values."""
    pairs = iter(list(leaves(other)))

    def one(x: Any) -> Any:
        y = next(pairs)
        return float(y) if is_float(x) and isinstance(y, int) else y

    return rebuilt(tree, one)
