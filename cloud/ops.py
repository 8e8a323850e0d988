"""Every operator of the table by name: `ops.relu(x)` on values adds a node, on arrays computes."""

from __future__ import annotations

from typing import Any

from ir.op import OPS, Op
from ir.ops import shaping as _shaping


def __getattr__(name: str) -> Op | Any:
    if name in OPS:
        return OPS[name]
    if name in _FUNCTIONS:
        return getattr(_shaping, name)
    raise AttributeError(f"no operator {name!r} in the table")


def __dir__() -> list[str]:
    return sorted([*OPS, *_FUNCTIONS])


# short for reshape, slice and broadcast_to
_FUNCTIONS = ("split", "squeeze", "unsqueeze", "flatten", "slice_axis", "tile")
