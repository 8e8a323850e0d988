"""Copies of this process that touch nothing which its other threads hold, or would have to end."""

from __future__ import annotations

import gc
import warnings
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def forking() -> Iterator[None]:
    """Around a fork. Newer Pythons warn of copies of a process with threads. Nothing is collected
    on the way: what was thrown away may wait for threads that the copy does not have."""
    collects = gc.isenabled()
    gc.disable()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            yield
    finally:
        if collects:
            gc.enable()


def begin_copy() -> None:
    """The first thing that a copy does: it leaves alone what this process had thrown away."""
    gc.freeze()
    gc.enable()
