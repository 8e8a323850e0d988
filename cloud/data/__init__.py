"""Data pipelines: items from arrays, files and generators, mapped, shuffled, batched, prefetched.

See docs/data.md.
"""

from importlib import import_module
from typing import Any

from cloud.data.pipeline import Pipeline, arrays, files, generator, sequence
from cloud.data.stages import DataError, collate

__all__ = [
    "DataError",
    "Pipeline",
    "arrays",
    "audio",
    "collate",
    "files",
    "generator",
    "image",
    "sequence",
]


def __getattr__(name: str) -> Any:
    """Images and sound are imported when they are first asked for."""
    if name in ("audio", "image"):
        return import_module(f"cloud.data.{name}")
    raise AttributeError(f"module 'cloud.data' has no attribute {name!r}")
