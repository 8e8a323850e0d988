"""A graph that the lite runtime holds in memory, ready to be called."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING

import numpy as np

from cloud.compile.leaves import Replacer, inner_leaves
from ir.dtype import DType
from ir.evaluate import evaluate
from ir.graph import Array, Graph, Model, Node, Value, Weight
from ir.passes import Pass, applied
from ir.walk import walk

if TYPE_CHECKING:
    from lite_runtime import Session

LARGE = 1 << 14  # elements of a tensor from which on a second thread is worth its wake-up


@dataclass
class Counters:
    """What was done since the start: how often a function was traced, a graph compiled."""

    traces: int = 0
    compilations: int = 0


counters = Counters()


class Program:
    """A compiled graph: arrays and the arrays of its weights in, arrays out.

    Weights are handed in at every call, so that one program serves every module of one form, and
    a weight that was changed is seen. `graph.weights` is their order.
    """

    def __init__(
        self,
        graph: Graph,
        *,
        kernels: str = "auto",
        threads: int | None = None,
        passes: Sequence[Pass] = (),
    ) -> None:
        form = Form(graph)
        self.graph = graph
        self.optimized = applied(passes, form.graph)
        if threads is None:
            threads = 2 if _largest(self.optimized) >= LARGE else 1
        self.session = session_of(self.optimized, kernels, threads)
        self._dtypes = [v.dtype.numpy for v in form.graph.inputs]
        self._from_weights, self._held, self._updated = form.weight_inputs, form.held, form.updated
        self._lock = Lock()
        counters.compilations += 1

    def __call__(
        self, arrays: Sequence[Array], weights: Sequence[Array] = ()
    ) -> tuple[list[Array], list[Array]]:
        """The outputs, and the new arrays of the weights that the graph updates, in its order.

        Raises what the operator's own reference raises for its inputs (an index out of range),
        else LiteError.
        """
        try:
            return self._run(arrays, weights)
        except ValueError:
            named = dict(zip(self.graph.weights, weights, strict=True))
            evaluate(self.graph, arrays, weights=named)  # says what is wrong with the values
            raise

    def _run(
        self, arrays: Sequence[Array], weights: Sequence[Array]
    ) -> tuple[list[Array], list[Array]]:
        given = [*arrays, *(weights[i] for i in self._from_weights)]
        ready = [np.asarray(a, d, order="C") for a, d in zip(given, self._dtypes, strict=True)]
        if not self._held:
            return self.session.run_arrays(ready, "run"), []
        with self._lock:  # the weights that the session holds belong to this call
            self.session.set_weights({name: weights[i] for i, name in self._held})
            outputs = self.session.run_arrays(ready, "run")
            if not self._updated:
                return outputs, []
            now = self.session.weights()
            return outputs, [now[name] for name in self._updated]


class Form:
    """A graph whose weights are inputs behind its own.

    Weights that an operator overwrites, or that a sub-graph reads, stay weights, fresh ones, since
    only weights can be that; what reads the old value of an overwritten one reads the input.
    """

    def __init__(self, graph: Graph) -> None:
        weights = graph.weights
        number = {w: i for i, w in enumerate(weights)}
        inner = {v for v in inner_leaves(graph) if isinstance(v, Weight)}
        updated = [w for w, _ in graph.updates]
        held = {w: _held(w, number[w]) for w in weights if w in inner or w in set(updated)}
        inputs = {v: Value(v.shape, v.dtype) for v in graph.inputs}
        read = [w for w in weights if w not in inner]
        from_weights = {w: Value(w.shape, w.dtype) for w in read}
        self.weight_inputs = [number[w] for w in read]
        self.held = [(number[w], str(h.name)) for w, h in held.items()]
        self.updated = [str(held[w].name) for w in updated]
        self.graph = _formed(graph, inputs, from_weights, held)


def session_of(graph: Graph, kernels: str, threads: int) -> Session:
    """A session of the lite runtime with the graph as its entry `run`."""
    import lite_runtime as lite
    from ir.model_file import write

    return lite.load(write(Model({"run": graph})), threads=threads, backend=kernels)


def runs_on_runtime(graph: Graph) -> bool:
    """Whether the runtime has a kernel for every node and a form for every input and output."""
    ends = (*graph.inputs, *graph.outputs)
    if any(v.dtype is getattr(DType, "tape", None) for v in ends):
        return False
    return all(_has_kernel(n) for g in walk([graph]) for n in g.nodes)


def _formed(
    graph: Graph,
    inputs: dict[Value, Value],
    from_weights: dict[Weight, Value],
    held: dict[Weight, Weight],
) -> Graph:
    within = Replacer(held)
    now: dict[Value, Value] = {**inputs, **held, **from_weights}
    for node in graph.nodes:
        operands: list[Value | None] = [None if v is None else now.get(v, v) for v in node.inputs]
        for i in range(node.op.updates):
            w = node.inputs[i]
            operands[i] = held.get(w, w) if isinstance(w, Weight) else w
        attrs = {name: within.attr(a) for name, a in node.attrs.items()}
        types = [(v.shape, v.dtype) for v in node.results]
        new = Node(node.op, operands, attrs, types, node.source)
        now.update(zip(node.results, new.results, strict=True))
    return Graph(
        (*inputs.values(), *from_weights.values()),
        tuple(now.get(v, v) for v in graph.outputs),
        tuple(f"y{i}" for i in range(len(graph.outputs))),
        tuple((held[w], now.get(v, v)) for w, v in graph.updates),
    )


def _held(w: Weight, number: int) -> Weight:
    return Weight(np.zeros_like(w.data), name=f"w{number}", state=True)


def _has_kernel(node: Node) -> bool:
    if node.op.family == "control":
        return True
    v = next(iter((*node.present_inputs, *node.results)))
    name = "boolean" if v.dtype is DType.bool else v.dtype.name  # as C++ can say it
    return "any" in node.op.kernels or name in node.op.kernels


def _largest(graph: Graph) -> int:
    sizes = [
        int(np.prod([d for d in v.shape if isinstance(d, int)], dtype=np.int64))
        for n in graph.nodes
        for v in (*n.present_inputs, *n.results)
    ]
    return max(sizes, default=0)
