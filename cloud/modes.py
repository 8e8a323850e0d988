"""How graphs and functions run: compiled as a whole, or operator by operator. docs/modes.md

set_mode("graph") compiles; set_mode("eager") runs each operator at once, so that prints and
breakpoints see real numbers. Both give the same results.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

MODES = ("graph", "eager")


@dataclass(frozen=True)
class Settings:
    """`mode`: graph or eager. `kernels`: those of the runtime for float32, "auto" or an instruction
    set ("ref", "avx2", "avx512", "neon"), or "numpy", each operator's own reference. `threads`:
    None: two where tensors are large. `exact`: compiling changes no bit on the reference kernels;
    without it, it may change the rounding."""

    mode: str = "graph"
    kernels: str = "auto"
    threads: int | None = None
    exact: bool = True

    def __post_init__(self) -> None:
        if self.mode not in MODES:
            raise ValueError(f"mode {self.mode!r}: want one of {', '.join(MODES)}")


def set_mode(mode: str, **others: Any) -> None:
    """From here on everything runs in this mode, "graph" or "eager". Raises ValueError.

    `others`: other fields of `Settings`; what is not given stays as it is. The environment
    variables MINDSPAN_MODE and MINDSPAN_KERNELS say where a process starts.
    """
    global _settings
    _settings = replace(_settings, mode=mode, **others)


def mode() -> str:
    """The mode that is set."""
    return _settings.mode


def settings() -> Settings:
    """All that is set."""
    return _settings


@contextmanager
def using(**changes: Any) -> Iterator[None]:
    """`with using(mode="eager", kernels="ref"):` other settings, for a while."""
    global _settings
    before = _settings
    _settings = replace(before, **changes)
    try:
        yield
    finally:
        _settings = before


def _settings_of_environment() -> Settings:
    names = {"mode": "MINDSPAN_MODE", "kernels": "MINDSPAN_KERNELS"}
    return Settings(**{k: os.environ[name] for k, name in names.items() if os.environ.get(name)})


_settings = _settings_of_environment()
