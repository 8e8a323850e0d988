"""Nested structures: which leaves they have, and the same structure with other leaves."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ir.dtype import DType
from ir.graph import Shape, Value, shape_text

NUMBER = (bool, int, float)
NUMERIC = (Value, np.ndarray, np.generic, *NUMBER)


@dataclass(frozen=True)
class Spec:
    """Stands for a leaf that is a value of the graph. `weak`: its numbers come from Python's."""

    shape: Shape
    dtype: DType
    weak: bool = False

    def __str__(self) -> str:
        return f"{self.dtype!r}{shape_text(self.shape)}"


def leaves(tree: Any) -> Iterator[Any]:
    """The leaves of nested tuples, lists and dicts, in order."""
    if isinstance(tree, (tuple, list)):
        for x in tree:
            yield from leaves(x)
    elif isinstance(tree, dict):
        for x in tree.values():
            yield from leaves(x)
    else:
        yield tree


def rebuilt(tree: Any, f: Callable[[Any], Any]) -> Any:
    """The same structure with f(leaf) for each leaf."""
    if isinstance(tree, tuple):
        return like(tree, [rebuilt(x, f) for x in tree])
    if isinstance(tree, list):
        return [rebuilt(x, f) for x in tree]
    if isinstance(tree, dict):
        return {k: rebuilt(x, f) for k, x in tree.items()}
    return f(tree)


def like(example: tuple[Any, ...], items: list[Any]) -> Any:
    """A tuple of the type of `example`, which may be a named one."""
    if type(example) is not tuple and hasattr(example, "_fields"):
        return type(example)(*items)
    return tuple(items)


def values_in(tree: Any) -> list[Value]:
    return [x for x in leaves(tree) if isinstance(x, Value)]


def same_known(a: Any, b: Any) -> bool:
    """Whether two things known now are the same thing, as far as any program can tell."""
    if a is b:
        return True
    if isinstance(a, Value) or isinstance(b, Value) or type(a) is not type(b):
        return False
    if isinstance(a, np.ndarray):
        return a.dtype == b.dtype and a.shape == b.shape and bool(np.array_equal(a, b))
    if isinstance(a, (tuple, list)):
        return len(a) == len(b) and all(map(same_known, a, b))
    if isinstance(a, dict):
        return list(a) == list(b) and all(same_known(a[k], b[k]) for k in a)
    if isinstance(a, float):
        return a.hex() == b.hex()  # so that 0 is not -0, and nan is nan
    kinds = (bool, int, str, bytes, range, slice, frozenset, complex, np.generic, np.dtype)
    return isinstance(a, kinds) and bool(a == b)


def described(x: Any) -> str:
    """A leaf in an error: its type and shape, or what it is."""
    if isinstance(x, (Value, np.ndarray, np.generic)):
        dtype = x.dtype if isinstance(x, Value) else DType.of(np.asarray(x))
        return f"{dtype!r}{shape_text(x.shape)}"
    if isinstance(x, Spec):
        return str(x)
    if isinstance(x, (tuple, list, dict)):
        return f"a {type(x).__name__} of {len(x)}"
    text = repr(x)
    return text if len(text) <= 40 else f"a {type(x).__name__}"
