"""Items computed ahead by other processes, in order, whatever their number."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from typing import Any

from cloud.data.stages import DataError, Item, Run, Stage
from ir.fork import begin_copy, forking

AHEAD = 2  # tasks that a worker has at once: it starts the next while the last is being taken
ORPHAN_CHECK_S = 1.0


def in_processes(
    stage: Stage, run: Run, start: int, workers: int, method: str | None
) -> Iterator[Item]:
    """The items of `stage` from `start` on. Item i is made by process i % workers; a stream is made
    by a single one.

    An error there is raised here, as the DataError that it was, in its item's turn. Whatever ends
    the iteration (its end, an error, an interrupt, nobody listening any more) ends the processes.
    """
    if stage.count is None:
        workers = 1
    crew = _Crew(stage, run, start, workers, method)
    try:
        yield from crew.streamed() if stage.count is None else crew.by_index(start, stage.count)
    finally:
        crew.end()


class _Crew:
    """The processes and the pipes to them."""

    def __init__(
        self, stage: Stage, run: Run, start: int, workers: int, method: str | None
    ) -> None:
        # Copies of this process may have functions of any kind; where they are unsafe, new ones.
        method = method or ("fork" if sys.platform == "linux" else "spawn")
        context: Any = multiprocessing.get_context(method)
        self.pipes: list[Connection] = []
        self.processes: list[Any] = []
        try:
            for _ in range(workers):
                ours, theirs = context.Pipe()
                self.pipes.append(ours)
                held = tuple(self.pipes) if method == "fork" else ()
                process = context.Process(
                    target=_work, args=(theirs, stage, run, start, os.getpid(), held), daemon=True
                )
                with forking(), _without_interrupts():
                    process.start()
                    self.processes.append(process)
                theirs.close()
        except BaseException as e:
            self.end()
            if isinstance(e, (AttributeError, TypeError)) or "pickle" in str(e):
                raise ValueError(
                    f"prefetch by {method}: {e}; want functions that other modules can import"
                ) from e
            raise

    def by_index(self, start: int, count: int) -> Iterator[Item]:
        n = len(self.pipes)
        for i in range(start, min(start + AHEAD * n, count)):
            self._pipe(i).send(i)
        for i in range(start, count):
            item = self._received(i)
            if i + AHEAD * n < count:
                self._pipe(i).send(i + AHEAD * n)
            yield item

    def streamed(self) -> Iterator[Item]:
        self.pipes[0].send(0)
        while (item := self._received(0)) is not _End:
            yield item

    def end(self) -> None:
        for process in self.processes:
            process.terminate()
        for pipe in self.pipes:
            pipe.close()
        for process in self.processes:
            process.join(2)
            if process.is_alive():
                process.kill()
                process.join()
            process.close()
        self.processes.clear()

    def _pipe(self, i: int) -> Connection:
        return self.pipes[i % len(self.pipes)]

    def _received(self, i: int) -> Item:
        try:
            kind, answer = self._pipe(i).recv()
        except (EOFError, ConnectionResetError):
            process = self.processes[i % len(self.pipes)]
            process.join(1)
            raise DataError(
                f"item {i}: its process ended with code {process.exitcode}; want more memory, "
                "or a function that does not end it", i,
            ) from None  # fmt: skip
        if kind == "error":
            error, where = answer
            error.add_note(where)
            raise error
        return _End if kind == "end" else answer


class _End:
    """Stands behind the last item of a stream."""


def _work(
    pipe: Connection, stage: Stage, run: Run, start: int, parent: int, held: tuple[Connection, ...]
) -> None:
    """The life of a process: an index in, an item out; until the pipe or the parent is gone."""
    begin_copy()
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # whatever the parent does at it
    for other in held:  # copies of the parent's ends, which would keep the pipes open
        other.close()
    items = stage.stream(run, start) if stage.count is None else None
    try:
        while True:
            while not pipe.poll(ORPHAN_CHECK_S):
                if os.getppid() != parent:
                    return
            index = pipe.recv()
            if items is None:
                pipe.send(_answer(lambda i: stage.get(i, run), index))
                continue
            while (answer := _answer(lambda _: next(items, _End), index))[1] is not _End:
                pipe.send(answer)
            pipe.send(("end", None))
    except (EOFError, OSError):
        return  # nobody listens any more


def _answer(f: Any, index: int) -> tuple[str, Any]:
    try:
        return "item", f(index)
    except DataError as e:
        return "error", (e, traceback.format_exc())
    except Exception as e:
        error = DataError(f"item {index}: {type(e).__name__}: {e}", index)
        return "error", (error, traceback.format_exc())


@contextmanager
def _without_interrupts() -> Iterator[None]:
    """What is started here never sees Ctrl-C: this process does, and ends the others."""
    old = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, old)
