"""What is known now is computed now."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ir.graph import Array, Constant, Graph, Node, Value, Weight, is_fixed
from ir.passes.rewrite import in_subgraphs, rewrite
from ir.symbol import Expr

ALWAYS_BYTES = 256  # results up to this size are stored even where they are larger than the inputs


def constant_folding(graph: Graph) -> Graph:
    """Nodes whose inputs are all constants, or weights that nothing trains, become constants.

    Only where the result is no larger than the inputs together, or small: a file must not grow by a
    broadcast. `count` along sizes that are not free is a constant whatever its input is.
    """
    fold_within = in_subgraphs(constant_folding)

    def fold(node: Node, inputs: Sequence[Value | None]) -> Sequence[Value] | None:
        if (n := _counted(node)) is not None:
            return (Constant(np.float32(n), name=node.results[0].name),)
        if not _can_fold(node, inputs):
            return fold_within(node, inputs)
        arrays = _computed(node, inputs)
        return tuple(
            Constant(np.asarray(a, v.dtype.numpy), name=v.name)
            for a, v in zip(arrays, node.results, strict=True)
        )

    return rewrite(graph, fold)


def _counted(node: Node) -> int | None:
    """The result of `count`, where it is known."""
    if node.op.name != "count" or node.inputs[0] is None:
        return None
    sizes = [node.inputs[0].shape[i] for i in node.attrs["axes"]]
    fixed = [s for s in sizes if isinstance(s, int)]
    return math.prod(fixed) if len(fixed) == len(sizes) else None


def _can_fold(node: Node, inputs: Sequence[Value | None]) -> bool:
    present = [v for v in inputs if isinstance(v, (Constant, Weight))]
    sizes = [d for v in node.results for d in v.shape]
    attrs = [d for a in node.attrs.values() for d in (a if isinstance(a, tuple) else (a,))]
    if (
        not is_fixed(*(v for v in inputs if v is not None))
        or node.op.updates
        or any(isinstance(d, (Expr, Graph)) for d in (*sizes, *attrs))
    ):
        return False
    results = [v.dtype.size_bytes * math.prod(map(int, v.shape)) for v in node.results]  # type: ignore[arg-type]
    return sum(results) <= max(ALWAYS_BYTES, sum(v.data.nbytes for v in present))


def _computed(node: Node, inputs: Sequence[Value | None]) -> Sequence[Array]:
    arrays = [v.data if isinstance(v, (Constant, Weight)) else None for v in inputs]
    with np.errstate(all="ignore"):  # infinities and NaN are results like any other
        y = node.op.ref(*arrays, **node.attrs)
    return y if len(node.results) > 1 else (y,)
