"""Graphs run on arrays, in the mode that is set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from cloud import interpreter
from cloud.compile.cache import Cache, fingerprint
from cloud.compile.inline import inline
from cloud.compile.pipeline import passes_for
from cloud.compile.program import Program, runs_on_runtime
from cloud.eager import Tensor, array_of, at_once
from cloud.modes import Settings, mode, settings
from cloud.parse.errors import written_out
from ir.errors import FormatError
from ir.graph import Array, Graph, Value, Weight
from ir.index_words import MAX_NODES
from ir.symbol import Expr, evaluate


def run(graph: Graph, *arrays: Any, weights: Mapping[Weight, Array] | None = None) -> list[Array]:
    """The graph's outputs, in the mode that is set. Weights stay as they are.

    float32 runs on the runtime; what it has no kernels for, such as float64, on numpy. Raises
    ShapeError where an array does not fit its input.
    """
    return step(graph, *arrays, weights=weights)[0]


def step(
    graph: Graph, *arrays: Any, weights: Mapping[Weight, Array] | None = None
) -> tuple[list[Array], dict[Weight, Array]]:
    """The graph's outputs and the new arrays of the weights that it updates, which stay unchanged.

    `weights`: arrays to use instead of the weights' own data.
    """
    given = [np.asarray(a) for a in arrays]
    own = weights or {}
    if mode() == "eager":
        return _node_by_node(graph, given, own)
    program = program_for(graph)
    if program is None or not _of_types(graph, given):
        return interpreter.step(graph, *given, weights=own)
    interpreter.bind([v.shape for v in graph.inputs], [a.shape for a in given])
    outputs, new = program(given, [own.get(w, w.data) for w in graph.weights])
    return outputs, dict(zip((w for w, _ in graph.updates), new, strict=True))


def program_for(graph: Graph) -> Program | None:
    """The graph compiled, now or earlier; None where the runtime lacks a kernel for it."""
    now = settings()
    if now.kernels == "numpy":
        return None
    key = (fingerprint(graph), now.kernels, now.threads, now.exact)
    return _programs.get(key, lambda: _compiled(graph, now))


_programs = Cache()


def _compiled(graph: Graph, now: Settings) -> Program | None:
    if not runs_on_runtime(inline(graph)):  # which leaves no operators of differentiation alone
        return None
    passes = passes_for(exact=now.exact)
    hopeless = len(graph.nodes) > 4 * MAX_NODES
    try:
        if not hopeless:
            return Program(graph, kernels=now.kernels, threads=now.threads, passes=passes)
    except FormatError:
        if len(graph.nodes) <= MAX_NODES:
            raise
    raise written_out(graph.nodes, MAX_NODES) or FormatError(
        f"a program of {len(graph.nodes):,} nodes, want at most {MAX_NODES:,}"
    )


def _of_types(graph: Graph, arrays: Sequence[Array]) -> bool:
    """Whether arrays have the inputs' types: the interpreter computes in whatever it is given."""
    return len(arrays) == len(graph.inputs) and all(
        a.dtype == v.dtype.numpy for a, v in zip(arrays, graph.inputs, strict=True)
    )


def _node_by_node(
    graph: Graph, arrays: Sequence[Array], weights: Mapping[Weight, Array]
) -> tuple[list[Array], dict[Weight, Array]]:
    """Each node at once, on the kernels that are set."""
    if not _of_types(graph, arrays):
        return interpreter.step(graph, *arrays, weights=weights)
    sizes = interpreter.bind([v.shape for v in graph.inputs], [a.shape for a in arrays])
    env: dict[Value, Value] = {v: Tensor(a) for v, a in zip(graph.inputs, arrays, strict=True)}
    env |= {w: Tensor(weights[w]) for w in graph.weights if w in weights}
    with at_once():
        for node in graph.nodes:
            inputs = [None if v is None else env.get(v, v) for v in node.inputs]
            attrs = {k: _concrete(a, sizes) for k, a in node.attrs.items()}
            y = node.op(*inputs, **attrs)
            env.update(zip(node.results, y if node.op.gives_tuple else (y,), strict=True))
    results = [array_of(env.get(v, v)) for v in graph.roots]
    n = len(graph.outputs)
    return results[:n], dict(zip((w for w, _ in graph.updates), results[n:], strict=True))


def _concrete(attr: Any, sizes: Mapping[str, int]) -> Any:
    """An attribute with its free dimensions as numbers."""
    if isinstance(attr, tuple):
        return tuple(evaluate(a, sizes) for a in attr)
    return evaluate(attr, sizes) if isinstance(attr, Expr) else attr
