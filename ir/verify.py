"""Check that graphs and models keep the rules of the IR, and whether two graphs are the same."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, NoReturn

import numpy as np

from ir.bound import bound_below, bound_by, own_sizes
from ir.dtype import DType
from ir.errors import GraphError
from ir.graph import Constant, Function, Graph, Model, Node, Value, Weight, shape_text
from ir.op import OPS
from ir.symbol import symbols


def verify(what: Graph | Model) -> None:
    """Raises GraphError that shows the place where the graph, or the model, breaks a rule:

    every operand is defined before its use and every leaf is an input, a constant or a weight; what
    a node says of its results and attributes is what its operator says; free dimensions come from
    the inputs, or are bound before their use (or have a range in the model); a weight is updated
    once, by a value of its type.
    """
    if isinstance(what, Graph):
        return _check_all(what, "graph", frozenset(), set())
    done: Done = set()
    for name, graph in what.entries.items():
        _check_all(graph, f"entry {name!r}", frozenset(what.symbol_ranges), done)
    _all_different((w.name for w in what.weights), "model: weight")
    for name, (low, high) in what.symbol_ranges.items():
        if not 0 <= low <= high:
            raise GraphError(f"model: {name} from {low} to {high}, want 0 or more, in order")
    return None


Done = set[tuple[Graph, frozenset[str], bool]]


def _check_all(graph: Graph, place: str, ranges: frozenset[str], done: Done) -> None:
    """Check a graph and what it reaches, each once: functions may lead back to themselves."""
    bound = bound_below([graph])
    if early := sorted(bound & set(graph.symbols)):
        raise GraphError(f"{place}: free dimension {early[0]} is one of an input, and bound")
    stack = [(graph, place, (ranges - bound) | set(graph.symbols), False)]
    while stack:
        graph, place, known, in_function = stack.pop()
        if (graph, known, in_function) not in done:
            done.add((graph, known, in_function))
            checker = _Checker(graph, place, known, bound, in_function)
            checker.check()
            stack += reversed(checker.inner)


class _Checker:
    """`known`: the free dimensions that have values before the first node; `bound`: those that get
    theirs from a node of the entry."""

    def __init__(
        self,
        graph: Graph,
        place: str,
        known: frozenset[str],
        bound: frozenset[str],
        in_function: bool,
    ) -> None:
        self.graph = graph
        self.place = place
        self.known = known
        self.bound = bound
        self.in_function = in_function
        self.defined: set[Value] = set(graph.inputs)
        # sub-graphs, still to be checked, and whether they are of a function
        self.inner: list[tuple[Graph, str, frozenset[str], bool]] = []

    def check(self) -> None:
        self._check_inputs()
        for i, node in enumerate(self.graph.nodes):
            self._check_node(node, f"{self.place}, node {i} ({node.op.name})")
            self.defined.update(node.results)
        for name, v in zip(self.graph.output_names, self.graph.outputs, strict=True):
            self._check_use(v, f"{self.place}, output {name!r}")
        self._check_updates()

    def _check_inputs(self) -> None:
        for i, v in enumerate(self.graph.inputs):
            if v.node is not None or isinstance(v, (Constant, Weight)):
                raise GraphError(f"{self.place}: input {i} is {v!r}, want a leaf without elements")
        if len(self.defined) != len(self.graph.inputs):
            raise GraphError(f"{self.place}: a value is an input twice")
        _all_different((v.name for v in self.graph.inputs if v.name), f"{self.place}: input")

    def _check_node(self, node: Node, place: str) -> None:
        op = node.op
        if OPS.get(op.name) is not op:
            self._fail(place, node, "the operator is not in the table", op.name)
        for i, v in enumerate(node.inputs):
            if v is not None:
                self._check_use(v, f"{place}: input {i}", node)
        try:
            again = op.node(node.inputs, node.attrs)
        except Exception as error:  # rules of operators fail in their own ways on wild attributes
            self._fail(place, node, str(error), op.name)
        if [*map(_attr_key, again.attrs.items())] != [*map(_attr_key, node.attrs.items())]:
            self._fail(place, node, f"attributes {node.attrs}, want {again.attrs}", op.name)
        if len(node.results) != len(again.results):
            self._fail(place, node, f"want {len(again.results)} results", op.name)
        for v, want in zip(node.results, again.results, strict=True):
            if (v.shape, v.dtype) != (want.shape, want.dtype):
                wanted = f"want {want.dtype!r}{shape_text(want.shape)}"
                self._fail(f"{place}: result {v.index}", node, wanted, v)
        self._bind(node, place)
        self._check_symbols(node, place)
        for f in node.functions():
            if not f.is_defined:
                self._fail(place, node, f"function {f.name!r} has no body", op.name)
        for graph in node.subgraphs():
            if graph.updates:
                self._fail(place, node, "a sub-graph updates weights", op.name)
            called = any(True for _ in node.functions())
            known = self.known - self.bound if called else self.known
            self.inner.append((graph, f"{place}, sub-graph", known, called or self.in_function))

    def _bind(self, node: Node, place: str) -> None:
        """A size is bound once, and not by functions: they may run inside of themselves."""
        for name in bound_by(node):
            if name in self.known:
                self._fail(place, node, f"free dimension {name} has a value already", name)
            if self.in_function:
                self._fail(place, node, f"a function binds {name}; want an entry or a branch", name)
        self.known |= set(bound_by(node))

    def _check_symbols(self, node: Node, place: str) -> None:
        for name in sorted(set().union(*map(symbols, own_sizes(node))) - self.known):
            self._fail(
                place, node, f"free dimension {name} is not one of the inputs, nor bound", name
            )

    def _check_use(self, v: Value, place: str, node: Node | None = None) -> None:
        if v.node is not None:
            if v not in self.defined:
                self._fail(place, node, f"{v!r} is not computed before its use", v)
        elif isinstance(v, (Constant, Weight)):
            if v.data.shape != v.shape or DType.of(v.data) is not v.dtype:
                held = f"{v.data.dtype}{list(v.data.shape)}"
                self._fail(place, node, f"{v!r} holds {held}", v)
        elif v not in self.defined:
            self._fail(place, node, f"{v!r} is no input, constant or weight of the graph", v)

    def _check_updates(self) -> None:
        _all_different((w.name for w, _ in self.graph.updates), f"{self.place}: update of weight")
        for weight, new in self.graph.updates:
            place = f"{self.place}: update of weight {weight.name!r}"
            self._check_use(new, place)
            if not (weight.trainable or weight.state):
                raise GraphError(f"{place}: the weight is frozen")
            if (new.shape, new.dtype) != (weight.shape, weight.dtype):
                raise GraphError(
                    f"{place} is {new.dtype!r}{shape_text(new.shape)}, "
                    f"want {weight.dtype!r}{shape_text(weight.shape)}"
                )

    def _fail(self, place: str, node: Node | None, what: str, mark: Value | str) -> NoReturn:
        """One line that says what is wrong; below it the node's own line, the part underlined."""
        if node is None:
            raise GraphError(f"{place}: {what}")
        from ir.text import node_line, value_names  # only messages need them

        line = node_line(self.graph, node)
        text = mark if isinstance(mark, str) else value_names(self.graph)[mark]
        is_result = isinstance(mark, Value) and mark.node is node
        found = re.compile(rf"(?<!\w){re.escape(text)}(?!\w)").search(
            line, 0 if is_result else line.find(" = ")
        )
        start, end = found.span() if found else (0, len(line))
        raise GraphError(f"{place}: {what}\n  {line}\n  {' ' * start}{'^' * (end - start)}")


def _all_different(names: Iterable[str | None], what: str) -> None:
    seen: set[str | None] = set()
    for name in names:
        if name in seen:
            raise GraphError(f"{what} {name!r} stands there twice")
        seen.add(name)


def same_graph(a: Graph, b: Graph) -> bool:
    """Whether two graphs are written alike: operators, attributes, types, leaves and their data,
    names of inputs, outputs and weights. Names of inner values and of functions, names inside of
    sub-graphs, sources and the order of updates do not count; attributes that are floats need only
    be equal as float32."""
    names_a, names_b = ([v.name for v in g.inputs] for g in (a, b))
    return names_a == names_b and _same(a, b, set())


def _same(a: Graph, b: Graph, bodies: set[tuple[Function, Function]]) -> bool:
    """`bodies`: functions taken to be the same, for they are being compared."""
    if a.output_names != b.output_names or len(a.updates) != len(b.updates):
        return False
    return _Pairs(bodies).match(_ends(a), _ends(b))


def _ends(graph: Graph) -> tuple[Value, ...]:
    """Inputs, outputs and updates; equal graphs have equal ends, and what is between follows."""
    updates = sorted(graph.updates, key=lambda u: str(u[0].name))
    return (*graph.inputs, *graph.outputs, *(v for u in updates for v in u))


def _attr_key(item: tuple[str, Any]) -> tuple[str, Any]:
    """Attributes that are equal and of one type have equal keys."""
    name, value = item
    return name, value if isinstance(value, (Graph, Function)) else repr(value)


class _Pairs:
    """Values of two graphs that must be each other's twins."""

    def __init__(self, bodies: set[tuple[Function, Function]]) -> None:
        self.bodies = bodies
        self.twins: dict[Value, Value] = {}
        self.back: dict[Value, Value] = {}

    def match(self, a: Sequence[Value], b: Sequence[Value]) -> bool:
        if len(a) != len(b):
            return False
        todo: list[tuple[Value | None, Value | None]] = list(zip(a, b, strict=True))
        while todo:
            x, y = todo.pop()
            if x is None or y is None:
                if x is not y:
                    return False
                continue
            if x in self.twins and self.twins[x] is y:
                continue
            is_new = x not in self.twins and y not in self.back
            if not (is_new or isinstance(x, Constant)) or not _alike(x, y, self.bodies):
                return False
            self.twins[x], self.back[y] = y, x
            if x.node and y.node:
                todo += zip(x.node.inputs, y.node.inputs, strict=True)
        return True


def _alike(x: Value, y: Value, bodies: set[tuple[Function, Function]]) -> bool:
    """Whether two values have the same type, and come from alike nodes or are alike leaves."""
    if type(x) is not type(y) or (x.shape, x.dtype) != (y.shape, y.dtype):
        return False
    if isinstance(x, (Constant, Weight)) and isinstance(y, (Constant, Weight)):
        return _leaf_key(x) == _leaf_key(y)
    if x.node is None or y.node is None:
        return x.node is y.node
    m, n = x.node, y.node
    return (
        m.op is n.op
        and x.index == y.index
        and len(m.inputs) == len(n.inputs)
        and all(_same_attr(m.attrs[k], n.attrs[k], bodies) for k in m.op.attrs)
    )


def _leaf_key(v: Constant | Weight) -> tuple[Any, ...]:
    role = (v.name, v.trainable, v.state) if isinstance(v, Weight) else ()
    return (*role, v.data.tobytes())


def _same_attr(a: Any, b: Any, bodies: set[tuple[Function, Function]]) -> bool:
    if isinstance(a, Graph):
        return isinstance(b, Graph) and _same(a, b, bodies)
    if isinstance(a, Function):
        if not isinstance(b, Function) or (a, b) in bodies:
            return isinstance(b, Function)
        bodies.add((a, b))
        return (a.inputs, a.results) == (b.inputs, b.results) and _same(a.graph, b.graph, bodies)
    if isinstance(a, float):
        return np.float32(a).tobytes() == np.float32(b).tobytes()
    return bool(a == b)
