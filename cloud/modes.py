"""How graphs and functions run: compiled as a whole, or operator by operator. docs/modes.md

set_mode("graph") compiles; set_mode("eager") runs each operator at once, so that prints and
breakpoints see real numbers. Both give the same results.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from cloud import interpreter
from cloud.compile.cache import Cache, fingerprint
from cloud.compile.inline import inline
from cloud.compile.pipeline import passes_for
from cloud.compile.program import Program, runs_on_runtime
from cloud.eager import Tensor, at_once, known
from ir.errors import GraphError
from ir.graph import Array, Constant, Graph, Node, Value, Weight, substitute
from ir.symbol import Expr, evaluate

MODES = ("graph", "eager")


@dataclass(frozen=True)
class Settings:
    """`mode`: graph or eager. `kernels`: those of the runtime for float32, "auto" or an instruction
    set ("ref", "avx2", "avx512", "neon"), or "numpy", each operator's own reference. `threads`:
    None: two where tensors are large. `exact`: compiling changes no bit on the reference kernels;
    without it, it may change the rounding."""

    mode: str = "graph"
    kernels: str = "auto"
    threads: int | None = None
    exact: bool = True

    def __post_init__(self) -> None:
        if self.mode not in MODES:
            raise ValueError(f"mode {self.mode!r}: want one of {', '.join(MODES)}")


def set_mode(mode: str, **others: Any) -> None:
    """From here on everything runs in this mode, "graph" or "eager". Raises ValueError.

    `others`: other fields of `Settings`; what is not given stays as it is. The environment
    variables MINDSPAN_MODE and MINDSPAN_KERNELS say where a process starts.
    """
    global _settings
    _settings = replace(_settings, mode=mode, **others)


def mode() -> str:
    """The mode that is set."""
    return _settings.mode


def settings() -> Settings:
    """All that is set."""
    return _settings


@contextmanager
def using(**changes: Any) -> Iterator[None]:
    """`with using(mode="eager", kernels="ref"):` other settings, for a while."""
    global _settings
    before = _settings
    _settings = replace(before, **changes)
    try:
        yield
    finally:
        _settings = before


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
    if _settings.mode == "eager":
        return _node_by_node(graph, given, own)
    program = program_for(graph)
    if program is None or not _of_types(graph, given):
        return interpreter.step(graph, *given, weights=own)
    interpreter.bind([v.shape for v in graph.inputs], [a.shape for a in given])
    outputs, new = program(given, [own.get(w, w.data) for w in graph.weights])
    return outputs, dict(zip((w for w, _ in graph.updates), new, strict=True))


def program_for(graph: Graph) -> Program | None:
    """The graph compiled, now or earlier; None where the runtime lacks a kernel for it."""
    now = _settings
    if now.kernels == "numpy":
        return None
    key = (fingerprint(graph), now.kernels, now.threads, now.exact)
    return _programs.get(key, lambda: _compiled(graph, now))


def run_until(target: Any, node: Node | Value | str | int, *args: Any) -> Array | tuple[Array, ...]:
    """What one node inside of a graph, or of a function of `args`, gives: a tuple of arrays where
    the node has several results.

    `target`: a graph, or a function that is traced. `node`: a node or a value of the graph, the
    name of a value, the number of a node in order, an operator's name (its first node; "relu.2" is
    its third), or the place in the source, "file.py:12" (the last node from there). Only what it
    needs is run. Raises GraphError where there is no such node.
    """
    graph, arrays = _graph_of(target, args)
    found = _find(graph, node)
    values = found.results if isinstance(found, Node) else (found,)
    outputs = run(Graph(graph.inputs, values), *arrays)
    return outputs[0] if len(outputs) == 1 else tuple(outputs)


def run_subgraph(
    graph: Graph, inputs: Mapping[Value, Any], outputs: Sequence[Value]
) -> list[Array]:
    """`outputs`, any values of the graph, from arrays for any values of it (`inputs`).

    What lies before those values does not run. Raises GraphError where an output needs an input of
    the graph that is not given.
    """
    fresh = {v: Value(v.shape, v.dtype) for v in inputs}
    cut = Graph(tuple(fresh.values()), substitute(outputs, fresh))
    for v in cut.leaves:
        if not isinstance(v, (Constant, Weight)) and v not in cut.inputs:
            raise GraphError(f"run_subgraph: an output needs {v!r}, which is not given")
    return run(cut, *inputs.values())


def array_of(v: Value) -> Array:
    """The elements of a value that is known. Raises GraphError for a placeholder."""
    found = known(v)
    if found is None:
        raise GraphError(f"{v!r} has no elements: it depends on an input of a graph")
    return found


def _settings_of_environment() -> Settings:
    names = {"mode": "MINDSPAN_MODE", "kernels": "MINDSPAN_KERNELS"}
    return Settings(**{k: os.environ[name] for k, name in names.items() if os.environ.get(name)})


_settings = _settings_of_environment()
_programs = Cache()


def _compiled(graph: Graph, now: Settings) -> Program | None:
    if not runs_on_runtime(inline(graph)):  # which leaves no operators of differentiation alone
        return None
    passes = passes_for(exact=now.exact)
    return Program(graph, kernels=now.kernels, threads=now.threads, passes=passes)


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


def _graph_of(target: Any, args: Sequence[Any]) -> tuple[Graph, Sequence[Any]]:
    """A graph and arrays for its inputs."""
    if isinstance(target, Graph):
        return target, args
    from cloud.jit import trace

    traced = trace(target, args)
    return traced.graph, traced.arrays(args)


def _find(graph: Graph, node: Node | Value | str | int) -> Node | Value:
    if isinstance(node, (Node, Value)):
        return node
    if isinstance(node, int):
        if not -len(graph.nodes) <= node < len(graph.nodes):
            raise GraphError(f"node {node}: the graph has {len(graph.nodes)}")
        return graph.nodes[node]
    values = [v for n in graph.nodes for v in n.results]
    named: dict[str, Node | Value] = {n.source: n for n in graph.nodes if n.source}
    counts: dict[str, int] = {}
    for n in graph.nodes:
        i = counts[n.op.name] = counts.get(n.op.name, -1) + 1
        named.setdefault(n.op.name, n)
        named[f"{n.op.name}.{i}"] = n
    named |= dict(zip(graph.output_names, graph.outputs, strict=True))
    named |= {v.name: v for v in values if v.name}
    if node not in named:
        kinds = ", ".join(sorted({n.op.name for n in graph.nodes}))
        raise GraphError(f"no node {node!r} in a graph of {kinds or 'no nodes'}")
    return named[node]
