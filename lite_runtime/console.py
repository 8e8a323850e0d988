"""What the commands share: exit codes, one line for an error, names that only show themselves."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable

FAILED, INTERRUPTED, NOBODY_READS = 1, 130, 141  # exit codes


def printable(text: str) -> str:
    """`text` as one line that does no more than show itself: line breaks, control characters and
    marks of direction, which a model file may hold in any name, are written as `\\n`, `\\x1b` …"""
    if text.isprintable():
        return text
    return "".join(
        c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode() for c in text
    )


def lines_text(lines: list[str]) -> str:
    """The lines, each printable, as a text."""
    return "\n".join(map(printable, lines))


def exit_code(
    command: str,
    work: Callable[[], int],
    errors: tuple[type[Exception], ...],
    interrupted: str = "interrupted",
) -> int:
    """What `work` returns; 1 after one line on standard error for `errors`, for what the system
    refuses and for what memory does not hold; 130 after an interrupt; 141 if nobody reads."""
    _print_anything()
    try:
        try:
            return work()
        finally:
            if sys.stdout is not None:
                sys.stdout.flush()
    except BrokenPipeError:  # a reader such as `head` has seen enough
        _drop_output()
        return NOBODY_READS
    except KeyboardInterrupt:
        say(f"{command}: {interrupted}")
        return INTERRUPTED
    except (OSError, ImportError, MemoryError, RecursionError, *errors) as error:
        _drop_output()
        say(f"{command}: {one_line(error)}")
        return FAILED


def one_line(error: BaseException) -> str:
    """What an error says, without a number that only the operating system knows."""
    if isinstance(error, OSError) and error.strerror:
        name = error.filename
        text = f"{os.fsdecode(name)}: {error.strerror}" if name is not None else error.strerror
    elif isinstance(error, MemoryError):
        text = str(error) or "out of memory"
    else:
        text = str(error) or type(error).__name__
    return printable(" ".join(text.split()))


def say(line: str) -> None:
    """A line on standard error, which may be closed."""
    with contextlib.suppress(OSError):
        print(printable(line), file=sys.stderr, flush=True)


def _print_anything() -> None:
    """A terminal without Unicode gets escapes, not an exception."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def _drop_output() -> None:
    """Where standard output takes nothing more, the flush at exit must not try again."""
    if sys.stdout is None:
        return
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
