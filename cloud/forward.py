"""Forward-mode differentiation: tangents run along with the values (Griewank and Walther, ch. 3).

The rule of an operator follows from its gradient's: that is linear in the cotangent, so that its
own gradient with respect to the cotangent maps tangents of inputs to tangents of results. Loops,
branches and calls run on values and tangents at once; a tape has a tape of tangents. Nothing is
kept for a backward pass.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cloud.autodiff import gradients
from cloud.autodiff.activity import Activity, Flags, varies
from cloud.autodiff.values import blank, or_zeros, zeros_like
from cloud.tensor import Tensor
from ir.graph import Constant, Function, Graph, Node, Value, Weight, order, substitute
from ir.op import OPS, NoGrad


def jvp(graph: Graph) -> Graph:
    """The graph that maps (inputs, tangents of the float inputs) to (outputs, their tangents).

    Outputs that are no floats have no tangent.
    """
    floats = [v for v in graph.inputs if v.dtype.is_float]
    names = {v.name for v in graph.inputs}
    along = [Value(v.shape, v.dtype, name=_new_name(v.name, names)) for v in floats]
    outputs, found = value_and_tangents(graph.outputs, floats, along)
    taken = set(graph.output_names)
    named = [
        (_new_name(name, taken), d)
        for name, d in zip(graph.output_names, found, strict=True)
        if d is not None and d.dtype.is_float
    ]
    return Graph(
        (*graph.inputs, *along),
        (*outputs, *(d for _, d in named)),
        (*graph.output_names, *(str(name) for name, _ in named)),
    )


def value_and_tangents(
    outputs: Sequence[Value], wrt: Sequence[Value], along: Sequence[Value]
) -> tuple[list[Value], list[Value | None]]:
    """The outputs, and the derivative of each as `wrt` moves along: None for integers.

    The outputs are those of the very loops and calls that give the tangents.
    """
    dot = dict(zip(wrt, along, strict=True))
    now = _Forward(wrt).push(order(outputs, dot), dot)
    found = [or_zeros(dot.get(y), y) if varies(y) else None for y in outputs]
    return [now.get(y, y) for y in outputs], found


class _Forward:
    """One differentiation; a function gets one twin for each set of inputs that move.

    Tangents of weights and constants that move are further operands of sub-graphs.
    """

    def __init__(self, wrt: Sequence[Value]) -> None:
        self.leaves = [v for v in wrt if isinstance(v, (Weight, Constant))]
        self.activity = Activity(self.leaves)
        self.twins: dict[tuple[Function, Flags], Function] = {}

    def push(self, nodes: Sequence[Node], dot: dict[Value, Value]) -> dict[Value, Value]:
        """Add to `dot` the tangents of all that moves; give what stands in place of results."""
        active = self.activity.active(nodes, dot)
        now: dict[Value, Value] = {}
        for node in nodes:
            inputs = [None if v is None else now.get(v, v) for v in node.inputs]
            moves = not active.isdisjoint(node.results) and not isinstance(node.op.grad, NoGrad)
            if moves and node.op.name in ("cond", "while_loop", "call"):
                results, found = getattr(self, f"_{node.op.name}")(node, inputs, dot)
                now.update(zip(node.results, results, strict=False))
                dot.update({node.results[i]: d for i, d in found.items()})
                continue
            same = node
            if any(a is not b for a, b in zip(inputs, node.inputs, strict=True)):
                same = node.op.node(inputs, node.attrs, node.source)
                now.update(zip(node.results, same.results, strict=True))
            if moves:
                dot.update(_linearized(node, same, dot))
        return now

    def _cond(
        self, node: Node, inputs: list[Value], dot: Mapping[Value, Value]
    ) -> tuple[Sequence[Value], dict[int, Value]]:
        graphs = [node.attrs[k] for k in ("then", "otherwise")]
        moving = _moving(node.inputs[1:], dot)
        flags = [self.activity.outputs(g, frozenset(moving)) for g in graphs]
        wanted = sorted(frozenset().union(*flags))
        then, otherwise = (self._twin(g, moving, wanted) for g in graphs)
        operands = [*inputs, *self._along(node.inputs[1:], moving, dot)]
        results = OPS["cond"](*operands, then=then, otherwise=otherwise)
        return results, dict(zip(wanted, results[len(node.results) :], strict=True))

    def _while_loop(
        self, node: Node, inputs: list[Value], dot: Mapping[Value, Value]
    ) -> tuple[Sequence[Value], dict[int, Value]]:
        condition, body = node.attrs["condition"], node.attrs["body"]
        start = frozenset(_moving(node.inputs, dot))
        moving = sorted(self.activity.loop_active(body, start))
        twin = self._twin(body, moving, moving)
        more = twin.inputs[len(body.inputs) :]
        results = OPS["while_loop"](
            *inputs,
            *self._along(node.inputs, moving, dot),
            condition=Graph((*condition.inputs, *map(blank, more)), condition.outputs),
            body=Graph(twin.inputs, (*twin.outputs, *more[len(moving) :])),
            every=node.attrs["every"],
        )
        return results, dict(zip(moving, results[len(inputs) :], strict=False))

    def _call(
        self, node: Node, inputs: list[Value], dot: Mapping[Value, Value]
    ) -> tuple[Sequence[Value], dict[int, Value]]:
        f, moving = node.attrs["body"], _moving(node.inputs, dot)
        flags = frozenset(moving)
        wanted = sorted(self.activity.outputs(f.graph, flags))
        if (f, flags) not in self.twins:
            leaves = [(v.shape, v.dtype) for v in self.leaves]
            twin = self.twins[f, flags] = Function(
                f"{f.name}_tangent",
                [*f.inputs, *(f.inputs[i] for i in moving), *leaves],
                [*f.results, *(f.results[i] for i in wanted)],
            )
            twin.graph = self._twin(f.graph, moving, wanted)
        operands = [*inputs, *self._along(node.inputs, moving, dot)]
        results = OPS["call"](*operands, body=self.twins[f, flags], remat=node.attrs["remat"])
        return results, dict(zip(wanted, results[len(node.results) :], strict=True))

    def _twin(self, graph: Graph, moving: Sequence[int], wanted: Sequence[int]) -> Graph:
        """inputs, tangents of those that move, tangents of leaves -> outputs, tangents wanted"""
        dot = {v: blank(v) for v in (*(graph.inputs[i] for i in moving), *self.leaves)}
        inputs = (*graph.inputs, *dot.values())
        now = self.push(graph.nodes, dot)
        found = (or_zeros(dot.get(y), y) for y in (graph.outputs[i] for i in wanted))
        return Graph(inputs, (*(now.get(y, y) for y in graph.outputs), *found))

    def _along(
        self, values: Sequence[Value | None], moving: Sequence[int], dot: Mapping[Value, Value]
    ) -> list[Value]:
        """The operands that a twin takes behind the values."""
        chosen = [v for i in moving if (v := values[i]) is not None]
        return [or_zeros(dot.get(v), v) for v in (*chosen, *self.leaves)]


def _moving(values: Sequence[Value | None], dot: Mapping[Value, Value]) -> list[int]:
    return [i for i, v in enumerate(values) if v in dot]


def _linearized(old: Node, node: Node, dot: Mapping[Value, Value]) -> dict[Value, Value]:
    """Tangents of the results of `old`, in the place of which `node` stands."""
    actual: dict[Value, Value] = {}  # leaves of the rule's own small graph -> what they stand for
    inputs = [x if x is None or _is_number(x) else _leaf(x, actual) for x in node.inputs]
    results = [_leaf(y, actual) for y in node.results]
    seeds = [blank(y) if varies(y) else None for y in results]
    many = node.op.gives_tuple
    g, y = (tuple(seeds), tuple(results)) if many else (seeds[0], results[0])
    pulled = node.op.grad(g, y, *inputs, **node.attrs)  # type: ignore[operator]
    ends, along = [], []
    for p, x in zip(pulled, old.inputs, strict=True):
        if p is not None and x is not None and x in dot:
            ends.append(p)
            along.append(_leaf(dot[x], actual))
    present = [s for s in seeds if s is not None]
    actual |= {s: zeros_like(s) for s in present}  # a rule may name the cotangent, in vain
    found = substitute(gradients(ends, along, present), actual)
    return dict(zip((y for y in old.results if varies(y)), found, strict=True))


def _is_number(v: Value) -> bool:
    """Whether a rule may read what v is; not where another derivative flows through it."""
    return isinstance(v, Constant) and not (isinstance(v, Tensor) and v.watched)


def _leaf(v: Value, actual: dict[Value, Value]) -> Value:
    leaf = blank(v)
    actual[leaf] = v
    return leaf


def _new_name(name: str | None, taken: set[str | None]) -> str | None:
    """`d_name`, with more of it where the graph is a derivative itself."""
    if name is None:
        return None
    name = f"d_{name}"
    while name in taken:
        name = f"d_{name}"
    taken.add(name)
    return name
