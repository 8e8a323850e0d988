"""Nested structures: which leaves they have, and the same structure with other leaves."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from cloud.parse.functions import Closure
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
    """The leaves of nested tuples, lists, dicts and dataclasses, in order."""
    if isinstance(tree, (tuple, list)):
        for x in tree:
            yield from leaves(x)
    elif isinstance(tree, dict):
        for x in tree.values():
            yield from leaves(x)
    elif (names := record(tree)) is not None:
        for name in names:
            yield from leaves(getattr(tree, name))
    else:
        yield tree


def rebuilt(tree: Any, f: Callable[[Any], Any]) -> Any:
    """The same structure with f(leaf) for each leaf."""
    return mapped(tree, lambda x: rebuilt(x, f), f)


def mapped(tree: Any, f: Callable[[Any], Any], leaf: Callable[[Any], Any]) -> Any:
    """The same structure with f(part) for each part of it; `leaf` of a tree that has none."""
    if isinstance(tree, tuple):
        return like(tree, [f(x) for x in tree])
    if isinstance(tree, list):
        return [f(x) for x in tree]
    if isinstance(tree, dict):
        return {k: f(x) for k, x in tree.items()}
    if (names := record(tree)) is not None:
        return of_record(type(tree), {name: f(getattr(tree, name)) for name in names})
    return leaf(tree)


def parts(tree: Any) -> list[Any]:
    """What a tuple, list, dict or dataclass holds; nothing for a leaf."""
    if isinstance(tree, (tuple, list)):
        return list(tree)
    if isinstance(tree, dict):
        return list(tree.values())
    return [getattr(tree, name) for name in record(tree) or ()]


def record(x: Any) -> tuple[str, ...] | None:
    """The names of what an instance of a dataclass of the user's holds; None for anything else."""
    kind = type(x)
    if not hasattr(kind, "__dataclass_fields__") or kind.__module__.startswith(("cloud.", "ir.")):
        return None
    return tuple(kind.__dataclass_fields__)


def of_record(kind: type, held: dict[str, Any]) -> Any:
    """An instance of a dataclass, made without its `__init__`, that holds this."""
    new = object.__new__(kind)
    for name, x in held.items():
        object.__setattr__(new, name, x)  # also where it is frozen
    return new


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
    if (names := record(a)) is not None:
        return all(same_known(getattr(a, name), getattr(b, name)) for name in names)
    if isinstance(a, Closure):  # of one place in one call: variables of the call are read late
        defaults = same_known(a.defaults, b.defaults)
        own = defaults and same_known(a.keyword_defaults, b.keyword_defaults)
        return own and a.source is b.source and a.scope is b.scope and same_known(vars(a), vars(b))
    if isinstance(a, float):
        return a.hex() == b.hex()  # so that 0 is not -0, and nan is nan
    kinds = (bool, int, str, bytes, range, slice, frozenset, complex, np.generic, np.dtype)
    return isinstance(a, kinds) and bool(a == b)


def foreign(x: Any) -> str | None:
    """The type of an array of another library, such as torch.Tensor; None for anything else."""
    kind = type(x)
    is_array = hasattr(kind, "__array__") and not isinstance(x, NUMERIC)
    return f"{kind.__module__.partition('.')[0]}.{kind.__qualname__}" if is_array else None


def refuse_foreign(x: Any, what: str) -> None:
    """Raises TypeError for an array of another library: nothing here computes with those."""
    if (name := foreign(x)) is not None:
        raise TypeError(f"{what} is a {name}; want an array of numpy: np.asarray(x) makes one")


def element_type(x: Any) -> DType | None:
    """The type of the elements of what numpy makes an array of; None where graphs have no such."""
    try:
        dtype = DType.of(np.asarray(x))
    except (TypeError, ValueError):  # text, complex numbers; lists of unequal lengths
        return None
    return None if dtype is DType.tape else dtype


def described(x: Any) -> str:
    """A leaf in an error: its type and shape, or what it is."""
    if isinstance(x, (Value, np.ndarray, np.generic)):
        dtype = x.dtype if isinstance(x, Value) else element_type(x)
        return f"{x.dtype if dtype is None else dtype.name}{shape_text(x.shape)}"
    if isinstance(x, Spec):
        return str(x)
    if isinstance(x, (tuple, list, dict)):
        return f"a {type(x).__name__} of {len(x)}"
    if isinstance(x, Closure):
        return f"the function {x.__name__} of line {x.source.node.lineno}"
    text = repr(x)
    return text if len(text) <= 40 else f"a {type(x).__name__}"
