"""Recompute in place of keep: less memory for a derivative, for more work."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cloud import modes
from cloud.parse.loops import RematItems
from cloud.parse.machine import call
from cloud.parse.structure import values_in
from cloud.parse.table import calls_of


class RematFunction:
    """A function of which only the arguments are kept; see `remat`."""

    def __init__(self, f: Callable[..., Any]) -> None:
        self.f = f
        self.__name__ = getattr(f, "__name__", "remat")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if modes.mode() == "eager" or not values_in([list(args), kwargs]):
            return self.f(*args, **kwargs)
        return call(self, *args, **kwargs)


def remat(x: Any, *, every: int = 1) -> Any:
    """`for i in remat(range(1000), every=32)` or `while remat(x > 1, every=32)`: the derivative of
    this loop keeps each 32nd state and computes what lies between again (Griewank 1992). remat(f):
    a derivative of f keeps f's arguments alone and runs f once more (Chen et al. 2016). Results are
    the same.

    Raises ValueError for `every` below 1, and for an `every` of a function.
    """
    if every < 1:
        raise ValueError(f"remat: every {every}, want at least 1")
    if callable(x) and every > 1:
        raise ValueError(f"remat: every {every} of a function; want it at the loop inside")
    return RematFunction(x) if callable(x) else RematItems(x, every)


@calls_of(RematFunction)
def _interpreted(m: Any, f: RematFunction, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return m.call_remat(f.f, f.__name__, args, kwargs)
