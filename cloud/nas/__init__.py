"""The model library: trained variants with measured accuracy, size and latency, searched by what fits."""

from cloud.nas.cost import device_id, measure_latency_ms
from cloud.nas.library import Entry, Library, LibraryError

__all__ = ["Entry", "Library", "LibraryError", "device_id", "measure_latency_ms"]
