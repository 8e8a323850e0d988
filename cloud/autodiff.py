"""Reverse-mode differentiation: a graph in, a graph out (Griewank and Walther 2008, chapter 3)."""

from __future__ import annotations

from collections.abc import Sequence

from ir.graph import Constant, Graph, Value, order
from ir.op import OPS, NoGrad


def vjp(graph: Graph, wrt: Sequence[Value] | None = None) -> Graph:
    """The graph that maps (inputs, cotangents of the outputs) to cotangents of `wrt`.

    `wrt`: inputs or weights of the graph, by default all its float inputs. The cotangent of a
    value that the outputs do not depend on is zeros.
    """
    wrt = [v for v in graph.inputs if v.dtype.is_float] if wrt is None else wrt
    seeds = tuple(
        Value(y.shape, y.dtype, name=f"g_{name}")
        for y, name in zip(graph.outputs, graph.output_names, strict=True)
    )
    return Graph((*graph.inputs, *seeds), tuple(gradients(graph.outputs, seeds, wrt)))


def gradients(
    outputs: Sequence[Value], seeds: Sequence[Value], wrt: Sequence[Value]
) -> list[Value]:
    """The gradient of sum over i of <outputs[i], seeds[i]> for each value of `wrt`.

    Only nodes on a path from `wrt` to an output get a gradient: frozen weights and whatever
    does not lead back to `wrt` leave nothing behind.
    """
    nodes = order(outputs)
    active = set(wrt)
    for node in nodes:
        if any(v in active for v in node.present_inputs):
            active.update(v for v in node.results if v.dtype.is_float)

    bar: dict[Value, Value] = {}
    for y, seed in zip(outputs, seeds, strict=True):
        _accumulate(bar, y, seed)
    for node in reversed(nodes):
        if isinstance(node.op.grad, NoGrad) or not active.intersection(node.results):
            continue
        g = tuple(bar.get(y) for y in node.results)
        if all(x is None for x in g):
            continue
        one = len(node.results) == 1
        found = node.op.grad(
            g[0] if one else g, node.results[0] if one else node.results, *node.inputs, **node.attrs
        )
        for x, gx in zip(node.inputs, found, strict=True):
            if x in active and gx is not None:
                _accumulate(bar, x, gx)
    return [bar.get(v) or zeros_like(v) for v in wrt]


def zeros_like(v: Value) -> Value:
    return filled_like(v, 0.0)


def ones_like(v: Value) -> Value:
    return filled_like(v, 1.0)


def filled_like(v: Value, number: float) -> Value:
    """A tensor of one number in the shape and type of `v`; the shape may be symbolic."""
    scalar = Constant(number, dtype=v.dtype)
    return OPS["broadcast_to"](scalar, shape=v.shape) if v.shape else scalar


def _accumulate(bar: dict[Value, Value], x: Value, g: Value) -> None:
    if g.shape != x.shape:
        raise AssertionError(f"gradient of shape {list(g.shape)} for {x!r}")
    bar[x] = bar[x] + g if x in bar else g
