"""Data pipelines: items from arrays, files and generators, mapped, shuffled, batched, prefetched.

See docs/data.md.
"""

from cloud.data import audio, image
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
