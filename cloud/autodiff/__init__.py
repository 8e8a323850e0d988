"""Reverse-mode differentiation: a graph in, a graph out (Griewank and Walther 2008, chapter 3)."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from cloud.autodiff.remat import remat
from cloud.autodiff.reverse import Reverse, differentiated_again, renamed
from cloud.autodiff.split import Tapes
from cloud.autodiff.values import filled_like, ones_like, or_zeros, zeros_like
from ir.graph import Graph, Value

__all__ = [
    "differentiated_again",
    "filled_like",
    "gradients",
    "ones_like",
    "remat",
    "renamed",
    "value_and_gradients",
    "vjp",
    "zeros_like",
]


def vjp(graph: Graph, wrt: Sequence[Value] | None = None) -> Graph:
    """The graph that maps (inputs, cotangents of the outputs) to cotangents of `wrt`.

    `wrt`: inputs or weights of the graph, by default all its float inputs. The cotangent of a
    value that the outputs do not depend on is zeros.
    """
    wrt = [v for v in graph.inputs if v.dtype.is_float] if wrt is None else wrt
    taken = {v.name for v in graph.inputs}
    seeds = tuple(
        Value(y.shape, y.dtype, name=_seed_name(name, taken))
        for y, name in zip(graph.outputs, graph.output_names, strict=True)
    )
    return Graph((*graph.inputs, *seeds), tuple(gradients(graph.outputs, seeds, wrt)))


def gradients(
    outputs: Sequence[Value], seeds: Sequence[Value | None], wrt: Sequence[Value]
) -> list[Value]:
    """The gradient of sum over i of <outputs[i], seeds[i]> for each value of `wrt`.

    Only nodes on a path from `wrt` to an output get a gradient: frozen weights and whatever
    does not lead back to `wrt` leave nothing behind.
    """
    return value_and_gradients(outputs, seeds, wrt)[1]


def value_and_gradients(
    outputs: Sequence[Value], seeds: Sequence[Value | None], wrt: Sequence[Value]
) -> tuple[list[Value], list[Value]]:
    """The outputs and the gradients. Whoever wants both takes both from here: where outputs come
    from loops, branches or recursion, these are the outputs of the very runs that the gradients
    read, so that nothing runs twice. Outputs without a seed (None) are given back as well.
    """
    swept = Reverse(wrt).sweep(outputs, seeds, wrt, {}, Tapes(inner=False))
    return swept.outputs, [or_zeros(swept.bar(v), v) for v in wrt]


def _seed_name(name: str, taken: Collection[str | None]) -> str:
    name = f"g_{name}"
    while name in taken:  # the graph is a derivative itself
        name = f"g_{name}"
    return name
