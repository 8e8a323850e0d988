"""Run graphs on numpy arrays with each operator's own reference, control flow without recursion.

A graph in evaluation is a generator that asks for the sub-graphs it needs, so that neither many
turns of a loop nor deep recursion of a model's functions fill Python's own stack.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any

import numpy as np

from ir.bound import bound_by
from ir.errors import EvaluationError, ShapeError
from ir.graph import Array, Constant, Function, Graph, Node, Shape, Value, Weight, shape_text
from ir.symbol import Expr, symbols
from ir.symbol import evaluate as evaluate_size

MAX_DEPTH = 20_000  # of graphs inside of graphs: a recursion that does not end is an error
Arrays = Sequence[Array]
Steps = Generator[tuple[Graph, Arrays], Arrays, Arrays]
Seen = Callable[[Node, Arrays], None]


def evaluate(
    graph: Graph,
    arrays: Sequence[Any],
    *,
    weights: Mapping[Weight, Array] | None = None,
    seen: Seen | None = None,
) -> list[Array]:
    """The graph's roots: its outputs, then the new arrays of the weights that it updates.

    `weights`: arrays to use instead of the weights' own data. `seen` is told of every node that
    ran, those of sub-graphs too, with its results. Raises ShapeError where an array does not fit
    its input, EvaluationError where graphs run inside of graphs 20,000 deep.
    """
    given = [np.asarray(a) for a in arrays]
    sizes = bind([v.shape for v in graph.inputs], [a.shape for a in given])
    run = _Evaluation(sizes, weights or {}, seen)
    return list(run.drive(run.steps(graph, given, graph.roots)))


def bind(declared: Sequence[Shape], given: Sequence[tuple[int, ...]]) -> dict[str, int]:
    """Sizes of the free dimensions, from shapes of the inputs. Raises ShapeError."""
    sizes: dict[str, int] = {}
    if len(declared) != len(given):
        raise ShapeError(f"{len(given)} inputs given, want {len(declared)}")
    for i, (want, have) in enumerate(zip(declared, given, strict=True)):
        if len(want) == len(have):
            for d, n in zip(want, have, strict=True):
                if isinstance(d, Expr) and str(d).isidentifier():
                    sizes.setdefault(str(d), n)
        fits = len(want) == len(have) and all(
            symbols(d) <= sizes.keys() and evaluate_size(d, sizes) == n
            for d, n in zip(want, have, strict=True)
        )
        if not fits:
            raise ShapeError(f"input {i} is {list(have)}, want {shape_text(want)} with {sizes}")
    return sizes


def cond_steps(predicate: Array, *xs: Array, then: Graph, otherwise: Graph) -> Steps:
    """The chosen graph on xs."""
    return (yield (then if predicate else otherwise), xs)


def while_steps(*state: Array, condition: Graph, body: Graph, **_: Any) -> Steps:
    """The body on the state for as long as the condition holds."""
    now: Arrays = state
    while (yield condition, now)[0]:
        now = yield body, now
    return now


def call_steps(*xs: Array, body: Function, **_: Any) -> Steps:
    """The body of the function on xs."""
    return (yield body.graph, xs)


STEPS: dict[str, Callable[..., Steps]] = {
    "cond": cond_steps,
    "while_loop": while_steps,
    "call": call_steps,
}


def drive(steps: Steps) -> tuple[Array, ...]:
    """What steps come to, where their graphs have fixed sizes."""
    return tuple(_Evaluation({}, {}, None).drive(steps))


class _Evaluation:
    """One run: sizes and weights are the same for all of its graphs."""

    def __init__(
        self, sizes: Mapping[str, int], weights: Mapping[Weight, Array], seen: Seen | None
    ) -> None:
        self.sizes = dict(sizes)  # and those that are bound on the way
        self.given = frozenset(sizes)
        self.weights = weights
        self.seen = seen
        self.plans: dict[Graph, list[tuple[Node, dict[str, Any] | None]]] = {}

    def drive(self, steps: Steps) -> Arrays:
        """Run a generator and those that it asks for, on a stack of our own."""
        stack = [steps]
        answer: Any = None
        while True:
            try:
                graph, arrays = stack[-1].send(answer)
            except StopIteration as end:
                stack.pop()
                answer = end.value
                if not stack:
                    return answer  # type: ignore[no-any-return]
                continue
            if len(stack) >= MAX_DEPTH:
                raise EvaluationError(
                    f"graphs inside of graphs {MAX_DEPTH} deep: want a recursion that ends earlier"
                )
            stack.append(self.steps(graph, arrays, graph.outputs))
            answer = None

    def steps(self, graph: Graph, arrays: Arrays, roots: Sequence[Value]) -> Steps:
        """Node by node; nodes of control flow ask for their sub-graphs."""
        env: dict[Value, Array] = dict(zip(graph.inputs, arrays, strict=True))
        for node, fixed in self._plan(graph):
            given = [None if v is None else self._array(env, v) for v in node.inputs]
            if names := bound_by(node):
                self._bind(names, given[0])
            attrs = self._attrs(node) if fixed is None else fixed
            if (control := STEPS.get(node.op.name)) is not None:
                out = yield from control(*given, **attrs)
            else:
                y = node.op.ref(*given, **attrs)
                out = y if node.op.gives_tuple else (y,)
            env.update(zip(node.results, out, strict=True))
            if self.seen is not None:
                self.seen(node, out)
        return [self._array(env, v) for v in roots]

    def _array(self, env: Mapping[Value, Array], v: Value) -> Array:
        if v in env:
            return env[v]
        if isinstance(v, Weight):
            return self.weights.get(v, v.data)
        if isinstance(v, Constant):
            return v.data
        raise EvaluationError(f"{v!r} is no input, constant or weight of its graph")

    def _plan(self, graph: Graph) -> list[tuple[Node, dict[str, Any] | None]]:
        """The nodes, with their attributes as numbers where no size of them is bound on the way."""
        if graph not in self.plans:
            self.plans[graph] = [(n, self._fixed_attrs(n)) for n in graph.nodes]
        return self.plans[graph]

    def _fixed_attrs(self, node: Node) -> dict[str, Any] | None:
        exprs = (d for a in node.attrs.values() for d in (a if isinstance(a, tuple) else (a,)))
        names = set().union(*(symbols(d) for d in exprs if isinstance(d, Expr)))
        return self._attrs(node) if names <= self.given else None

    def _attrs(self, node: Node) -> dict[str, Any]:
        return {k: self._concrete(a) for k, a in node.attrs.items()}

    def _bind(self, names: Sequence[str], numbers: Array | None) -> None:
        assert numbers is not None
        for name, n in zip(names, numbers.tolist(), strict=True):
            if n < 0:
                raise ShapeError(f"bind_sizes: {name} = {n}, want at least 0")
            self.sizes[name] = n

    def _concrete(self, attr: Any) -> Any:
        if isinstance(attr, Expr):
            return evaluate_size(attr, self.sizes)
        if isinstance(attr, tuple):
            return tuple(evaluate_size(a, self.sizes) for a in attr)
        return attr
