"""Single operators, each compiled once for its attributes and the types of its inputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from cloud.compile.cache import Cache
from cloud.compile.program import Program, runs_on_runtime
from cloud.modes import settings
from ir.dtype import DType
from ir.graph import Array, Graph, Node, Shape, Value, Weight
from ir.op import Op

Kernel = Callable[[Sequence[Array]], Sequence[Array]]


def compute(node: Node, arrays: Sequence[Array]) -> Sequence[Array]:
    """The node's results for arrays of the inputs that it has."""
    kernel, _ = kernel_for(node.op, node.inputs, node.attrs)
    return kernel(arrays)


def kernel_for(
    op: Op, inputs: Sequence[Value | None], attrs: dict[str, Any]
) -> tuple[Kernel, Node]:
    """What computes the operator on inputs like these, and a node of it."""
    now = settings()
    types = tuple(None if v is None else (v.shape, v.dtype) for v in inputs)
    # floats by their text: for a dict -0.0 is 0.0
    named = tuple((k, repr(a) if isinstance(a, float) else a) for k, a in sorted(attrs.items()))
    if any(isinstance(a, list) for _, a in named):
        named = tuple((k, tuple(a) if isinstance(a, list) else a) for k, a in named)
    key = (op.name, types, named, now.kernels, now.threads)
    return _kernels.get(key, lambda: _made_kernel(op, types, attrs, now.kernels, now.threads))


_kernels = Cache()


def _made_kernel(
    op: Op, types: Sequence[Any], attrs: dict[str, Any], kernels: str, threads: int | None
) -> tuple[Kernel, Node]:
    def operand(i: int, shape: Shape, dtype: DType) -> Value:
        if i < op.updates:
            return Weight(np.zeros(shape, dtype.numpy), name=f"w{i}", state=True)
        return Value(shape, dtype)

    operands = [None if t is None else operand(i, *t) for i, t in enumerate(types)]
    node = op.node(operands, attrs)
    rest = tuple(v for v in operands[op.updates :] if v is not None)
    weights = operands[: op.updates]
    updates = tuple((w, node.results[i]) for i, w in enumerate(weights) if isinstance(w, Weight))
    graph = Graph(rest, node.results[op.updates :], (), updates)
    if kernels == "numpy" or not runs_on_runtime(graph):
        return _reference(node), node
    program = Program(graph, kernels=kernels, threads=threads)
    n = op.updates

    def run(arrays: Sequence[Array]) -> Sequence[Array]:
        outputs, new = program(arrays[n:], arrays[:n])
        return [*new, *outputs]

    return run, node


def _reference(node: Node) -> Kernel:
    """The operator's own reference; left-out inputs stay left out."""
    present = [v is not None for v in node.inputs]

    def run(arrays: Sequence[Array]) -> Sequence[Array]:
        left = iter(arrays)
        given = [next(left) if p else None for p in present]
        with np.errstate(all="ignore"):  # a rule may compute a gradient that nobody wants
            y = node.op.ref(*given, **node.attrs)
        found = y if node.op.gives_tuple else (y,)
        return [np.asarray(a, v.dtype.numpy) for a, v in zip(found, node.results, strict=True)]

    return run
