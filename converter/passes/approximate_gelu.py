"""The exact GELU becomes the one by tanh, which is faster: only on request, for it is another
function, by at most 5e-4."""

from __future__ import annotations

from collections.abc import Sequence

from ir.graph import Graph, Node, Value
from ir.op import OPS
from ir.passes.rewrite import rewrite


def approximate_gelu(graph: Graph) -> Graph:
    """gelu(x) -> gelu(x, approximate="tanh")     (Hendrycks and Gimpel 2016)"""

    def change(node: Node, inputs: Sequence[Value | None]) -> Value | None:
        if node.op.name != "gelu" or node.attrs["approximate"].value == "tanh":
            return None
        return OPS["gelu"](inputs[0], approximate="tanh")  # type: ignore[no-any-return]

    return rewrite(graph, change)
