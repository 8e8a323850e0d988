"""The source model runs in a process of its own: a damaged one may end it, or never end itself."""

from __future__ import annotations

import ctypes
import os
import pickle
import signal
import sys
from collections.abc import Callable
from typing import Any

from converter.errors import ConvertError, SourceTimeout
from ir.fork import begin_copy, forking

PR_SET_PDEATHSIG = 1


def in_a_child(name: str, work: Callable[[], Any], most_s: int) -> Any:
    """What `work` returns, from a child process. Raises its ConvertError, one if it dies, and
    SourceTimeout after `most_s` seconds: a loop of the model may have no end.

    `name`: what runs the source model, for errors.
    """
    reads, writes = os.pipe()
    parent, libc = os.getpid(), ctypes.CDLL(None) if sys.platform == "linux" else None
    child, status = None, 1
    try:
        with forking():
            child = os.fork()
            if child == 0:
                begin_copy()
        if child == 0:
            os.close(reads)
            _end_with(parent, libc)
            _answer(work, writes, most_s)
            status = 0
        else:
            os.close(writes)
            with open(reads, "rb") as pipe:
                raw = pipe.read()
    except BaseException:  # whoever interrupts the parent does not wait for the child
        if child:
            os.kill(child, signal.SIGKILL)
        raise
    finally:
        if child == 0:  # whatever was raised: the child never goes on as a second caller
            os._exit(status)
        if child:
            _, status = os.waitpid(child, 0)
    if status or not raw:
        number = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
        if number == signal.SIGALRM:
            raise SourceTimeout(
                f"the source model runs for more than {most_s} s on {name} (--check-seconds)"
            )
        how = f"by signal {number}" if number else f"with {os.waitstatus_to_exitcode(status)}"
        raise ConvertError(f"the source model ends {name} {how}")
    kind, found = pickle.loads(raw)
    if kind == "error":
        raise ConvertError(found)
    return found


def _end_with(parent: int, libc: Any) -> None:
    """Have this child end when the parent does, whatever ends that one."""
    if libc is not None:
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it ended before
            os._exit(1)


def _answer(work: Callable[[], Any], writes: int, most_s: int) -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # ends the child inside of native code too
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # what the model's runtime says on its way
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(most_s)
    with open(writes, "wb") as pipe:
        pickle.dump(_outcome(work), pipe)


def _outcome(work: Callable[[], Any]) -> tuple[str, Any]:
    """What it returns as "ok", or what is wrong as "error"."""
    try:
        return "ok", work()
    except ConvertError as e:
        return "error", str(e)
    except MemoryError:
        return "error", "the source model needs more memory than there is"
    except Exception as e:  # errors of others are of any kind
        return "error", f"the source model does not run: {reason(e)}"


def reason(e: Exception) -> str:
    return f"{type(e).__name__}: {' '.join(str(e).split())}"
