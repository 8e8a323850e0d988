"""Weights that are the same twice, as exporters write what a model ties, become one."""

from __future__ import annotations

import hashlib
from collections.abc import Hashable

import numpy as np

from ir.graph import Graph, Value, Weight, is_fixed, substitute


def share_weights(graph: Graph) -> Graph:
    """Fixed weights of one type, shape and content are one, with the name of the first."""
    first: dict[Hashable, Weight] = {}
    same: dict[Value, Value] = {}
    for w in graph.leaves:
        if isinstance(w, Weight) and is_fixed(w):
            kept = first.setdefault(_key(w), w)
            if kept is not w:
                same[w] = kept
    if not same:
        return graph
    roots = substitute(graph.roots, same)
    count = len(graph.outputs)
    updates = [(w, new) for (w, _), new in zip(graph.updates, roots[count:], strict=True)]
    return Graph(graph.inputs, roots[:count], graph.output_names, tuple(updates))


def _key(w: Weight) -> Hashable:
    digest = hashlib.sha256(np.ascontiguousarray(w.data)).digest()
    return w.dtype, w.shape, digest
