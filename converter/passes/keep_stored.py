"""Weights that the source holds in 16 or 8 bits stay so in the file."""

from __future__ import annotations

from collections.abc import Mapping

from cloud.compress.weights import Scheme, WeightStore, compressed_weights
from converter.passes.unique_names import unique_names
from ir.graph import Graph


def keep_stored(graph: Graph) -> Graph:
    """Large fixed weights that float16 gives exactly, or int8 with a scale a row, are stored as
    these and read back when they are used. No number changes."""
    return unique_names(keep_all_stored({"": graph})[""])


def keep_all_stored(graphs: Mapping[str, Graph]) -> dict[str, Graph]:
    """The same of graphs that share weights, and go on sharing them."""
    for bits in (16, 8):
        store = WeightStore(Scheme(bits), exactly=True)
        graphs = {
            name: compressed_weights(graph, store.scheme, store=store).graph
            for name, graph in graphs.items()
        }
    return dict(graphs)
