"""Imported batch norms that go on following their batches while the model trains."""

from __future__ import annotations

from typing import Any

from cloud.nn.graph_module import GraphModule
from cloud.nn.norm import live_batch_norm
from cloud.parse import opaque
from ir.graph import Node, Value, Weight

MOMENTUM = 0.1  # of a batch in the running moments


def is_live(node: Node) -> bool:
    """Whether it is a batch norm whose running moments are states."""
    return node.op.name == "batch_norm" and all(
        isinstance(v, Weight) and v.state for v in node.inputs[3:]
    )


class LiveGraphModule(GraphModule):
    """y = what the graph gives for x; in training live batch norms take the batch's moments"""

    @opaque
    def forward(self, *inputs: Value) -> Any:
        if not self.training:
            return super().forward(*inputs)
        now: dict[Value, Value] = dict(zip(self.graph.inputs, inputs, strict=True))
        for node in self.graph.nodes:
            args = [None if v is None else now.get(v, v) for v in node.inputs]
            if is_live(node):
                x, scale, bias, mean, variance = args
                now[node.results[0]] = live_batch_norm(
                    x, scale, bias, mean, variance,  # type: ignore[arg-type]
                    epsilon=node.attrs["epsilon"], momentum=MOMENTUM,
                )  # fmt: skip
            else:
                copy = node.op.node(args, node.attrs, node.source)
                now.update(zip(node.results, copy.results, strict=True))
        out = [now.get(v, v) for v in self.graph.outputs]
        return out[0] if len(out) == 1 else out
