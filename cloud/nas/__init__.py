"""The model library: trained variants of measured accuracy, size and latency, and a search."""

from cloud.nas.cost import device_id, measure_latency_ms
from cloud.nas.library import Entry, Library, LibraryError

__all__ = ["Entry", "Library", "LibraryError", "device_id", "measure_latency_ms"]
