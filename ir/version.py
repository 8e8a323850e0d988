"""The version of the distribution, as every command states it."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed


def version() -> str:
    try:
        return installed("mindspan")
    except PackageNotFoundError:
        return "0.0.0+source"
