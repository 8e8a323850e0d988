"""Several processes that serve one address; one that dies is replaced, and none outlives us."""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess

_log = logging.getLogger(__name__)
# What a worker asks for that cannot work at all: it would fail again in the same way.
CANNOT_START = 3
_PAUSE_S = 0.2


def keep_working(count: int, work: Callable[[], None]) -> bool:
    """Run `work`, which can be pickled, in `count` processes until a signal ends them all; whether
    that was why they ended, and not one that cannot start.

    Each gets SIGTERM then, and when this process is gone, whatever ended it.
    """
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    context = multiprocessing.get_context("spawn")
    theirs, ours = context.Pipe(duplex=False)

    def start() -> BaseProcess:
        worker = context.Process(target=_run, args=(work, theirs), name="ms-serve worker")
        worker.start()
        return worker

    workers, works = [start() for _ in range(count)], True
    while not ended.is_set():
        wait([worker.sentinel for worker in workers], _PAUSE_S)
        for place, worker in enumerate(workers):
            if worker.is_alive() or ended.is_set():
                continue
            if worker.exitcode == CANNOT_START:
                works = False
                ended.set()
                break
            _log.info("worker %s ended (%s); another starts", worker.pid, worker.exitcode)
            ended.wait(_PAUSE_S)
            workers[place] = start()
    for worker in workers:
        worker.terminate()
    for worker in workers:
        worker.join()
    ours.close()
    theirs.close()
    return works


def _run(work: Callable[[], None], parent: Connection) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal's goes to all; the parent hands it on
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    work()


def _end_with(parent: Connection) -> None:
    wait([parent])  # nothing is ever sent: this is the end of it
    os.kill(os.getpid(), signal.SIGTERM)
