"""What is known now is computed now."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from ir.dtype import DType
from ir.graph import Array, Constant, Function, Graph, Node, Value, Weight, is_fixed
from ir.passes.rewrite import everywhere, rewrite
from ir.symbol import Expr

ALWAYS_BYTES = 256  # results up to this size are stored even where they are larger than the inputs


Compute = Callable[[Node, Sequence[Array | None]], Sequence[Array]]


def reference(node: Node, arrays: Sequence[Array | None]) -> Sequence[Array]:
    """What the operator's own reference gives."""
    with np.errstate(all="ignore"):  # infinities and NaN are results like any other
        y = node.op.ref(*arrays, **node.attrs)
    return y if node.op.gives_tuple else (y,)


@everywhere
def constant_folding(graph: Graph) -> Graph:
    """Nodes whose inputs are all constants, or weights that nothing trains, become constants.

    Only where the result is no larger than the inputs together, or small: a file must not grow by a
    broadcast. `count` along sizes that are not free is a constant whatever its input is.
    """
    return folded(graph, reference)


def folded(graph: Graph, compute: Compute) -> Graph:
    """`constant_folding` of one graph's own nodes, with other means to compute them."""

    def fold(node: Node, inputs: Sequence[Value | None]) -> Sequence[Value] | None:
        if (n := _counted(node)) is not None:
            return (Constant(np.float32(n), name=node.results[0].name),)
        if not _can_fold(node, inputs):
            return None
        leaves = [v.data if isinstance(v, (Constant, Weight)) else None for v in inputs]
        arrays = compute(node, leaves)
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
        or any(v.dtype is DType.tape for v in node.results)
        or any(isinstance(d, (Expr, Graph, Function)) for d in (*sizes, *attrs))
    ):
        return False
    results = [v.dtype.size_bytes * math.prod(map(int, v.shape)) for v in node.results]  # type: ignore[arg-type]
    return sum(results) <= max(ALWAYS_BYTES, sum(v.data.nbytes for v in present))
