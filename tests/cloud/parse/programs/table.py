"""The table that the programs enter themselves into, and arrays to try them on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

V = np.array([0.5, -1.25, 2.0, 0.75])
M = np.array([[0.5, -1.0, 2.0], [1.5, 0.25, -0.75]])
PROGRAMS: list[tuple[Callable[..., Any], tuple[tuple[Any, ...], ...]]] = []


def program(*cases: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add a function, with its arguments: a tuple for each call, or one number for one argument."""

    def add(f: Callable[..., Any]) -> Callable[..., Any]:
        PROGRAMS.append((f, tuple(c if isinstance(c, tuple) else (c,) for c in cases)))
        return f

    return add
