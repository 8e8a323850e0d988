"""Recompute in place of keep: less memory for a derivative, for more work."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any


class RematItems:
    """What a loop runs over that keeps each `every`th state only; see `remat`."""

    def __init__(self, items: Any, every: int) -> None:
        self.items, self.every = items, every

    def __iter__(self) -> Iterator[Any]:
        return iter(self.items)

    def __len__(self) -> int:
        return len(self.items)


class RematFunction:
    """A function of which only the arguments are kept; see `remat`."""

    def __init__(self, f: Callable[..., Any]) -> None:
        self.f = f
        self.__name__ = getattr(f, "__name__", "remat")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        from cloud import modes
        from cloud.parse.machine import call
        from cloud.parse.structure import values_in

        if modes.mode() == "eager" or not values_in([list(args), kwargs]):
            return self.f(*args, **kwargs)
        return call(self, *args, **kwargs)


def remat(x: Any, *, every: int = 1) -> Any:
    """`for i in remat(range(1000), every=32)`: the derivative of this loop keeps each 32nd state
    and computes what lies between again (Griewank 1992). remat(f): a derivative of f keeps f's
    arguments alone and runs f once more (Chen et al. 2016). Results are the same.

    Raises ValueError for `every` below 1.
    """
    if every < 1:
        raise ValueError(f"remat: every {every}, want at least 1")
    return RematFunction(x) if callable(x) else RematItems(x, every)
