"""Values, nodes and graphs: the one representation that everything reads and rewrites.

A graph is functional. A weight is a leaf that several graphs of a model share; a graph that trains
lists `updates`, pairs of a weight and the value that replaces it once the graph has run.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from ir.dtype import DType
from ir.errors import GraphError
from ir.function import Function as Function
from ir.symbol import Dim, symbols

if TYPE_CHECKING:
    from ir.op import Op

Shape = tuple[Dim, ...]
Array = np.ndarray


class Value:
    """A tensor: result `index` of `node`, or a leaf (input, constant, weight) without a node."""

    __slots__ = ("dtype", "index", "name", "node", "shape")
    # Set by a kind of value that carries its elements: runs an operator on it at once.
    at_once: ClassVar[Callable[..., Any] | None] = None

    def __init__(
        self,
        shape: Sequence[Dim],
        dtype: DType = DType.f32,
        *,
        node: Node | None = None,
        index: int = 0,
        name: str | None = None,
    ) -> None:
        self.shape: Shape = tuple(shape)
        self.dtype = dtype
        self.node = node
        self.index = index
        self.name = name

    @property
    def rank(self) -> int:
        return len(self.shape)

    def __repr__(self) -> str:
        kind = self.node.op.name if self.node else type(self).__name__.lower()
        name = f"{self.name} " if self.name else ""
        return f"<{kind} {name}{self.dtype!r}{shape_text(self.shape)}>"

    def __add__(self, other: Any) -> Value:
        return _call("add", self, other)

    def __sub__(self, other: Any) -> Value:
        return _call("sub", self, other)

    def __mul__(self, other: Any) -> Value:
        return _call("mul", self, other)

    def __truediv__(self, other: Any) -> Value:
        return _call("div", self, other)

    def __matmul__(self, other: Any) -> Value:
        return _call("matmul", self, other)

    def __pow__(self, other: Any) -> Value:
        return _call("pow", self, other)

    def __neg__(self) -> Value:
        return _call("neg", self)

    def __radd__(self, other: Any) -> Value:
        return _call("add", other, self)

    def __rsub__(self, other: Any) -> Value:
        return _call("sub", other, self)

    def __rmul__(self, other: Any) -> Value:
        return _call("mul", other, self)

    def __rtruediv__(self, other: Any) -> Value:
        return _call("div", other, self)

    def __rmatmul__(self, other: Any) -> Value:
        return _call("matmul", other, self)

    def __rpow__(self, other: Any) -> Value:
        return _call("pow", other, self)

    __array_ufunc__ = None  # numpy arrays on the left defer to the methods above


class Constant(Value):
    """A leaf whose elements never change."""

    __slots__ = ("data",)

    def __init__(self, data: Any, *, dtype: DType | None = None, name: str | None = None) -> None:
        array = np.asarray(data, dtype=dtype.numpy if dtype else None)
        super().__init__(array.shape, DType.of(array), name=name)
        self.data = array


class Weight(Value):
    """A leaf that a model owns and several graphs share.

    `trainable`: gradients are wanted for it. `state`: the optimiser's or a layer's own memory
    (momentum, running mean), saved with the model and never trained by gradient.
    """

    __slots__ = ("_data", "state", "trainable")

    def __init__(
        self, data: Any, *, name: str, trainable: bool = True, state: bool = False
    ) -> None:
        array = np.asarray(data)
        super().__init__(array.shape, DType.of(array), name=name)
        self._data = array
        self.trainable = trainable and not state
        self.state = state

    @property
    def data(self) -> Array:
        return self._data

    @data.setter
    def data(self, array: Array) -> None:
        if array.shape != self._data.shape or array.dtype != self._data.dtype:
            raise GraphError(
                f"weight {self.name}: new data is {array.dtype}{list(array.shape)}, "
                f"want {self._data.dtype}{list(self._data.shape)}"
            )
        self._data = array

    def reshape_to(self, array: Array) -> None:
        """Take data of another shape. Graphs that were traced before are void: trace them again."""
        self._data = array
        self.shape = array.shape


class Node:
    """One application of an operator. An optional input that is left out is None."""

    __slots__ = ("attrs", "inputs", "op", "results", "serial", "source")

    def __init__(
        self,
        op: Op,
        inputs: Sequence[Value | None],
        attrs: dict[str, Any],
        results: Sequence[tuple[Shape, DType]],
        source: str = "",
    ) -> None:
        self.op = op
        self.inputs = tuple(inputs)
        self.attrs = attrs
        self.source = source  # see `op.located`, or the node's name in the source model
        self.serial = next(_SERIALS)  # counts up: tells nodes made before a moment from later ones
        self.results = tuple(
            Value(shape, dtype, node=self, index=i) for i, (shape, dtype) in enumerate(results)
        )

    @property
    def present_inputs(self) -> tuple[Value, ...]:
        return tuple(v for v in self.inputs if v is not None)

    def subgraphs(self) -> Iterator[Graph]:
        """The graphs among its attributes, and those of functions among them (control flow).

        A function may lead back to a graph that one came from: whoever walks on keeps a set of the
        visited ones, as `walk` does.
        """
        for a in self.attrs.values():
            if isinstance(a, Function):
                yield a.graph
            elif isinstance(a, Graph):
                yield a

    def functions(self) -> Iterator[Function]:
        """The functions among its attributes."""
        return (a for a in self.attrs.values() if isinstance(a, Function))

    def __repr__(self) -> str:
        return f"<node {self.op.name} {self.source}>"


_SERIALS = itertools.count(1)


def next_serial() -> int:
    """A number above that of every node made so far and below that of every later one."""
    return next(_SERIALS)


@dataclass(frozen=True, eq=False)
class Graph:
    """Inputs, outputs and weight updates; the nodes that they need are found and put in order."""

    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    output_names: tuple[str, ...] = ()
    updates: tuple[tuple[Weight, Value], ...] = ()
    nodes: tuple[Node, ...] = field(init=False)

    def __post_init__(self) -> None:
        names = self.output_names or tuple(f"output{i}" for i in range(len(self.outputs)))
        if len(names) != len(self.outputs) or len(set(names)) != len(names):
            raise GraphError(f"output names {list(names)}: want {len(self.outputs)} different ones")
        object.__setattr__(self, "output_names", names)
        object.__setattr__(self, "nodes", order((*self.outputs, *(new for _, new in self.updates))))

    @staticmethod
    def trace(fn: Callable[..., Any], *inputs: Value | Shape) -> Graph:
        """Run `fn` on symbolic inputs (values, or float32 shapes) and keep what it computed.

        `fn` returns a value, a tuple of values or a dict of values by output name.
        """
        values = tuple(
            v if isinstance(v, Value) else Value(v, name=f"input{i}") for i, v in enumerate(inputs)
        )
        out = fn(*values)
        if isinstance(out, dict):
            return Graph(values, tuple(out.values()), tuple(out))
        return Graph(values, (out,) if isinstance(out, Value) else tuple(out))

    def __call__(self, *arrays: Array) -> tuple[Array, ...]:
        """What the graph makes of arrays, operator by operator (ir/evaluate.py)."""
        from ir.evaluate import evaluate

        return tuple(evaluate(self, arrays))

    @property
    def roots(self) -> tuple[Value, ...]:
        """What the graph computes: its outputs, then the new values of its weights."""
        return (*self.outputs, *(new for _, new in self.updates))

    @property
    def leaves(self) -> tuple[Value, ...]:
        """Every leaf that is read or updated, graph inputs first, each once, in order of use.

        What sub-graphs read is theirs: see `walk`.
        """
        found = dict.fromkeys(self.inputs)
        found |= dict.fromkeys(v for n in self.nodes for v in n.present_inputs if v.node is None)
        found |= dict.fromkeys(v for v in self.roots if v.node is None)
        found |= dict.fromkeys(w for w, _ in self.updates)
        return tuple(found)

    @property
    def weights(self) -> tuple[Weight, ...]:
        """Every weight that the graph or one of its sub-graphs reads, or that it updates."""
        from ir.walk import walk

        every = (v for graph in walk([self]) for v in graph.leaves)
        return tuple(dict.fromkeys(v for v in every if isinstance(v, Weight)))

    @property
    def symbols(self) -> tuple[str, ...]:
        """The names of the free dimensions of the inputs, sorted."""
        return tuple(sorted(set().union(*(symbols(d) for v in self.inputs for d in v.shape))))

    def __str__(self) -> str:
        from ir.text import to_text

        return to_text(self)


@dataclass
class Model:
    """Named entry points over shared weights, and what is said about them."""

    entries: dict[str, Graph]
    metadata: dict[str, str] = field(default_factory=dict)
    # free dimension -> the smallest and largest size that the model was made for
    symbol_ranges: dict[str, tuple[int, int]] = field(default_factory=dict)

    @property
    def weights(self) -> tuple[Weight, ...]:
        """Every weight of every entry, each once, in order of first use."""
        return tuple(dict.fromkeys(w for g in self.entries.values() for w in g.weights))


def order(roots: Iterable[Value], given: Container[Value] = ()) -> tuple[Node, ...]:
    """Every node that `roots` need, each after the nodes that it reads and after those that bind
    the sizes that it speaks of (ir/bound.py). Raises on a cycle.

    What lies behind the values `given` is not needed.
    """
    from ir.bound import binders, spoken_of

    roots = tuple(roots)
    nodes = _order(roots, given, lambda node: node.present_inputs)
    bound = binders(nodes)
    if not bound:
        return nodes

    def needs(node: Node) -> tuple[Value, ...]:
        wanted = dict.fromkeys(bound[s] for s in sorted(spoken_of(node)) if s in bound)
        sizes = (b.results[0] for b in wanted if b is not node)
        return (*node.present_inputs, *sizes)

    return _order(roots, given, needs)


def _order(
    roots: tuple[Value, ...], given: Container[Value], needs: Callable[[Node], tuple[Value, ...]]
) -> tuple[Node, ...]:
    done: dict[Node, None] = {}
    open_: set[Node] = set()
    stack = [(v.node, False) for v in reversed(roots) if v not in given]
    while stack:
        node, ready = stack.pop()
        if node is None or node in done:
            continue
        if ready:
            done[node] = None
            open_.discard(node)
            continue
        if node in open_:
            raise GraphError(f"{node!r} needs its own result")
        open_.add(node)
        stack.append((node, True))
        below = (v for v in reversed(needs(node)) if v not in given)
        stack.extend((v.node, False) for v in below if v.node not in done)
    return tuple(done)


def rebuild(node: Node, inputs: Sequence[Value | None]) -> Node:
    """The same node on other inputs of the same shapes and types."""
    return Node(
        node.op, inputs, node.attrs, [(v.shape, v.dtype) for v in node.results], node.source
    )


def substitute(
    roots: Sequence[Value], replaced: Mapping[Value, Value], since: float = math.inf
) -> tuple[Value, ...]:
    """`roots` computed from other values: nodes that depend on a replaced value are built anew, in
    the order in which they were made; and so are all that were made `since` then, to keep it."""
    now: dict[Value, Value] = dict(replaced)
    for node in sorted(order(roots, replaced), key=lambda n: n.serial):
        if node.serial >= since or any(v in now for v in node.present_inputs):
            inputs = [None if v is None else now.get(v, v) for v in node.inputs]
            copy = node.op.node(inputs, node.attrs, node.source)
            for old, new in zip(node.results, copy.results, strict=True):
                now.setdefault(old, new)
    return tuple(now.get(v, v) for v in roots)


def is_fixed(*values: Value | None) -> bool:
    """Whether all are known now and for ever: constants, and weights that nothing trains."""
    return all(
        isinstance(v, Constant) or (isinstance(v, Weight) and not v.trainable and not v.state)
        for v in values
    )


def shape_text(shape: Shape) -> str:
    return "[" + ",".join(str(d) for d in shape) + "]"


def _call(name: str, *args: Any) -> Value:
    from ir.op import OPS

    if not all(isinstance(x, _NUMERIC) for x in args):
        return NotImplemented  # type: ignore[no-any-return]  # what Python asks next is the other
    y: Value = OPS[name](*args)
    return y


_NUMERIC = (Value, np.ndarray, np.generic, int, float)
