"""What all commands share: help with examples, the version, one line for an error, exit codes."""

from __future__ import annotations

import argparse
import os
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


def exit_code(command: str, work: Callable[[], int]) -> int:
    """0, 1 after one line on standard error, or 130 after an interrupt."""
    try:
        return work()
    except KeyboardInterrupt:
        print(f"{command}: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # nobody reads: nothing more to write at exit
        return 1
    except OSError as error:
        print(f"{command}: {error.filename or ''}: {error.strerror or error}", file=sys.stderr)
        return 1
    except FlError as error:
        text = error.reason if isinstance(error, ServerRefused) else str(error)
        print(f"{command}: {' '.join(text.split())}", file=sys.stderr)
        return 1


def key_of(text: str) -> bytes:
    """32 bytes from 64 hexadecimal digits or a file that holds them.     raises SettingsError"""
    path = Path(text)
    digits = path.read_text().strip() if path.is_file() else text
    try:
        key = bytes.fromhex(digits)
    except ValueError:
        key = b""
    if len(key) != 32:
        raise SettingsError("a public key is 64 hexadecimal digits, or a file that holds them")
    return key


def progress(text: str) -> None:
    """A line of progress, apart from the results on standard output."""
    print(text, file=sys.stderr, flush=True)
