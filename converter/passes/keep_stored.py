"""Weights that the source holds in 16 or 8 bits stay so in the file."""

from __future__ import annotations

from cloud.compress.weights import Scheme, compressed_weights
from converter.passes.unique_names import unique_names
from ir.graph import Graph


def keep_stored(graph: Graph) -> Graph:
    """Large fixed weights that float16 gives exactly, or int8 with a scale a row, are stored as
    these and read back when they are used. No number changes."""
    for bits in (16, 8):
        graph = compressed_weights(graph, Scheme(bits), exactly=True).graph
    return unique_names(graph)
