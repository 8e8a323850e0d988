"""Graphs as Python that one can read, and that needs numpy alone."""

from cloud.emit.graphs import MOST_INLINE, python_source

__all__ = ["MOST_INLINE", "python_source"]
