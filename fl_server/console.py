"""What all commands share: help with examples, the version, one line for an error, exit codes."""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import shlex
import sys
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from fl_server.errors import FlError, ServerRefused, SettingsError


def version_of_package() -> str:
    try:
        return version("mindspan")
    except PackageNotFoundError:
        return "0.0.0+source"


def parser_of(command: str, description: str, examples: str) -> argparse.ArgumentParser:
    """A parser with --version, and the examples under its help."""
    parser = argparse.ArgumentParser(
        prog=command,
        description=description,
        epilog=f"examples:\n{examples}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {version_of_package()}")
    return parser


def add_tls(parser: argparse.ArgumentParser) -> None:
    """The options of whoever calls a server: how it is known, and how it knows us."""
    parser.add_argument("--tls-ca", metavar="FILE", help="PEM; who vouches for the server")
    parser.add_argument(
        "--tls-cert",
        nargs=2,
        default=[],
        metavar="FILE",
        help="PEM; our certificate and its key, where the server asks for one",
    )


def exit_code(command: str, work: Callable[[], int]) -> int:
    """What `work` returns; 1 after one line on standard error; 130 after an interrupt; 141 if
    nobody reads standard output."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        try:
            return work()
        finally:
            if sys.stdout is not None:
                sys.stdout.flush()
    except KeyboardInterrupt:
        progress(f"{command}: interrupted")
        return 130
    except BrokenPipeError:
        _drop_output()
        return 141
    except (OSError, FlError, MemoryError, RecursionError) as error:
        _drop_output()
        progress(f"{command}: {_one_line(error)}")
        return 1


def printable(text: str) -> str:
    """`text` as one line that does no more than show itself: what a server or a file calls
    something may hold line breaks and control characters, which are written as escapes."""
    return "".join(
        c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode() for c in text
    )


def _one_line(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror:
        place = "" if error.filename is None else f"{os.fsdecode(error.filename)}: "
        return place + error.strerror
    text = error.reason if isinstance(error, ServerRefused) else str(error)
    return " ".join(text.split()) or type(error).__name__


def _drop_output() -> None:
    """Where standard output takes nothing more, the flush at exit must not try again."""
    if sys.stdout is None:
        return
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def key_of(text: str) -> bytes:
    """32 bytes from 64 hexadecimal digits or a file that holds them.     raises SettingsError"""
    path = Path(text)
    try:
        key = bytes.fromhex(read_word(path) if path.is_file() else text)
    except ValueError:
        key = b""
    if len(key) != 32:
        raise SettingsError("a public key is 64 hexadecimal digits, or a file that holds them")
    return key


def words_of(option: str, command: str) -> list[str]:
    """The words of a command that an option gives, as a shell reads it.     raises SettingsError"""
    try:
        return shlex.split(command)
    except ValueError as error:
        raise SettingsError(f"{option} {command[:80]!r}: {error}") from None


def read_word(path: Path, most_bytes: int = 4096) -> str:
    """The one word that a file holds, such as a token.     raises OSError, ValueError"""
    with path.open("rb") as file:
        return file.read(most_bytes).decode().strip()


def progress(text: str) -> None:
    """A line of progress, apart from the results on standard output."""
    with contextlib.suppress(OSError):  # standard error may be closed
        print(printable(text), file=sys.stderr, flush=True)
