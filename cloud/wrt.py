"""What a derivative is taken by: arguments by number or name, weights, modules, or several."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

import numpy as np

from cloud.parse.structure import described
from cloud.trees import is_float, leaves, rebuilt
from ir.errors import DTypeError, ShapeError
from ir.graph import Value

if TYPE_CHECKING:
    from cloud.transform import Traced

# a module is told by its `trainable_weights`
Wrt = int | str | Value | Any


def chosen_by(wrt: Wrt, traced: Traced) -> Any:
    """The structure of values that `wrt` names. Raises ShapeError where there is no such thing."""
    if isinstance(wrt, Value):
        return wrt
    if isinstance(wrt, (int, np.integer, str)):
        return _argument(wrt if isinstance(wrt, str) else int(wrt), traced)
    if isinstance(wrt, (tuple, list)):
        return tuple(chosen_by(w, traced) for w in wrt)
    if isinstance(wrt, dict):
        return {k: chosen_by(w, traced) for k, w in wrt.items()}
    if hasattr(wrt, "trainable_weights"):
        return dict(wrt.trainable_weights())
    raise ShapeError(
        f"wrt {wrt!r}: want an argument's number or name, a weight, a module, or several of these"
    )


def numbers_in(wrt: Wrt) -> Collection[int | str]:
    """The arguments that `wrt` names: their integers are data, for a derivative by them is asked"""
    if isinstance(wrt, (int, np.integer, str)):
        return {wrt if isinstance(wrt, str) else int(wrt)}
    if isinstance(wrt, (tuple, list)):
        return set().union(*map(numbers_in, wrt))
    if isinstance(wrt, dict):
        return set().union(*map(numbers_in, wrt.values()))
    return set()


def _argument(key: int | str, traced: Traced) -> Any:
    try:
        tree = traced.argument(key)
    except (IndexError, KeyError, ValueError):
        names = ", ".join(dict.fromkeys([*traced.names, *traced.kwargs])) or "none"
        raise ShapeError(f"wrt {key!r}: no such argument; there are {names}") from None

    if isinstance(tree, Value) and not tree.dtype.is_float:
        raise DTypeError(f"grad: argument {key!r} holds {tree.dtype!r}, want floats (3.0 for 3)")
    if not any(is_float(x) for x in leaves(tree)):
        raise DTypeError(f"grad: argument {key!r} is {described(tree)}, which holds no floats")
    return rebuilt(tree, lambda x: x if is_float(x) and isinstance(x, Value) else None)
