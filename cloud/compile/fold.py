"""What is known now is computed now, by the kernels that would have computed it later."""

from __future__ import annotations

from collections.abc import Sequence

from cloud.compile.operator import compute
from ir.graph import Array, Graph, Node
from ir.op import Op
from ir.passes.constant_folding import folded, reference
from ir.passes.rewrite import everywhere

# Operators that IEEE 754 defines to the last bit; so every implementation gives the same.
_DEFINED = {
    "add", "sub", "mul", "div", "neg", "abs", "sign", "sqrt", "reciprocal", "maximum", "minimum",
    "relu", "clip", "floor", "ceil", "round",
}  # fmt: skip


@everywhere
def constant_folding(graph: Graph) -> Graph:
    """Nodes whose inputs are all constants become constants: the bits that the runtime's kernels of
    today's settings give, so that folding changes no result."""
    return folded(graph, _compute)


def rounds_alike(op: Op) -> bool:
    """Whether every kernel of the operator, the numpy reference too, gives the same bits."""
    if op.name == "fused_elementwise":  # a program may hold any operator
        return False
    return op.name in _DEFINED or "any" in op.kernels or op.family == "compare"


def _compute(node: Node, arrays: Sequence[Array | None]) -> Sequence[Array]:
    if rounds_alike(node.op):
        return reference(node, arrays)
    return compute(node, [a for a in arrays if a is not None])
