"""A graph as a module, such as one that was imported."""

from __future__ import annotations

from typing import Any

from cloud.nn.module import Module
from ir.dtype import DType
from ir.errors import GraphError, ShapeError
from ir.graph import Graph, Value, Weight, shape_text, substitute


class GraphModule(Module):
    """y = what the graph gives for x, over the graph's own weights, which keep their names

    Training mode makes no difference: a graph for inference has forgotten what differs. Raises
    GraphError for a graph that updates weights.
    """

    def __init__(self, graph: Graph) -> None:
        if graph.updates:
            raise GraphError(f"a graph that updates {graph.updates[0][0].name} is no module")
        self.graph = graph

    def own_weights(self) -> dict[str, Weight]:
        named: dict[str, Weight] = {}
        for i, w in enumerate(self.graph.weights):
            name = w.name or f"weight{i}"
            named[name if name not in named else f"{name}.{i}"] = w
        return named

    def to(self, dtype: DType) -> None:
        """Only the type that it has: a graph's values are of types that were chosen with it."""
        if dtype is not self.dtype:
            raise GraphError(f"a graph of {self.dtype!r} cannot become one of {dtype!r}")

    def forward(self, *inputs: Value) -> Any:
        if [(v.shape, v.dtype) for v in inputs] != [(v.shape, v.dtype) for v in self.graph.inputs]:
            given, wanted = (
                ", ".join(f"{v.dtype!r}{shape_text(v.shape)}" for v in values)
                for values in (inputs, self.graph.inputs)
            )
            raise ShapeError(f"graph module: inputs are {given}, want {wanted}")
        out = substitute(self.graph.outputs, dict(zip(self.graph.inputs, inputs, strict=True)))
        return out[0] if len(out) == 1 else out
