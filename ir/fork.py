"""Copies of this process that touch nothing which its other threads hold, or would have to end."""

from __future__ import annotations

import gc
import os
import signal
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def forking() -> Iterator[None]:
    """Around a fork. Newer Pythons warn of copies of a process with threads. Nothing is collected
    on the way: what was thrown away may wait for threads that the copy does not have. An interrupt
    comes when all is done: what Python calls after a fork would swallow it."""
    collects = gc.isenabled()
    gc.disable()
    try:
        with warnings.catch_warnings(), _interrupts_held():
            warnings.simplefilter("ignore", DeprecationWarning)
            yield
    finally:
        if collects:
            gc.enable()


def begin_copy() -> None:
    """The first thing that a copy does: it leaves alone what this process had thrown away."""
    gc.freeze()
    gc.enable()


@contextmanager
def _interrupts_held() -> Iterator[None]:
    """An interrupt of this process is handled at the end; its copy has no part in it. Blocking the
    signal would not do: threads of libraries take it then."""
    handler, process = signal.getsignal(signal.SIGINT), os.getpid()
    if not callable(handler) or threading.current_thread() is not threading.main_thread():
        yield
        return
    held: list[tuple[int, FrameType | None]] = []
    signal.signal(signal.SIGINT, lambda number, frame: held.append((number, frame)))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
    if held and os.getpid() == process:
        handler(*held[0])
