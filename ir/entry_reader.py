"""One entry of a model file's index to a graph; `index_reader` reads the rest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ir.bound import binders, bound_by, spoken_of
from ir.dtype import DType
from ir.errors import FormatError
from ir.graph import Graph, Node, Shape, Value, Weight
from ir.index_words import MAX_NODES, MAX_WORDS, word_float
from ir.op import ANY_RESULTS, MAX_RANK, OPS, Op, Words, attr_kind

if TYPE_CHECKING:
    from ir.index_reader import Index

MOST_NUMBERS = {"ints": MAX_RANK, "words": MAX_WORDS}  # of an attribute that is a list


class EntryReader:
    """Builds the values of one entry in the order of its nodes.

    In the file an update overwrites a weight; here the weight's id means the old value until then,
    and the operator's result from then on.
    """

    def __init__(self, index: Index, table: Any, place: str) -> None:
        self.index = index
        self.table = table
        self.place = place
        self.values = [
            (index.shape(v.Shape(), v.Rank(), place), index.dtype(v.Dtype(), place))
            for v in index.rows(table, "Values", 8)
        ]
        self.names = [index.name(at) for at in index.words(table, "ValueNames").tolist()]
        self.sources = [index.name(at) for at in index.words(table, "Sources").tolist()]
        self.inputs = index.words(table, "Inputs").tolist()
        self.outputs = index.words(table, "Outputs").tolist()
        self.current: list[Value] = list(index.leaves)  # by id, as far as there are any
        self.updates: dict[Weight, Value] = {}
        self.nodes: list[tuple[Node, str]] = []  # and their places
        self.results: list[Value] = []  # the outputs
        self.shown: dict[Value, Weight] = {}  # views of weights -> the weight

    def signature(self) -> tuple[list[tuple[Shape, DType]], list[tuple[Shape, DType]]]:
        """Shapes and types of inputs and outputs. Raises FormatError."""
        place = f"{self.place}: input or output"
        inputs, outputs = (
            [self._type(i, place) for i in ids] for ids in (self.inputs, self.outputs)
        )
        return inputs, outputs

    def graph(self) -> Graph:
        """The graph. Raises FormatError."""
        index, table = self.index, self.table
        rows = list(index.rows(table, "Nodes", 16))
        if len(self.names) > len(self.values) or len(self.sources) not in (0, len(rows)):
            raise FormatError(
                f"{self.place}: {len(self.names)} names for {len(self.values)} values, "
                f"{len(self.sources)} sources for {len(rows)} nodes"
            )
        if len(rows) > MAX_NODES:
            raise FormatError(f"{self.place}: {len(rows)} nodes, want at most {MAX_NODES}")
        inputs = [self._input(i) for i in self.inputs]
        for i, row in enumerate(rows):
            self._node(row, f"{self.place}, node {i}", self.sources[i] if self.sources else "")
        if len(self.current) != len(index.leaves) + len(self.values):
            raise FormatError(f"{self.place}: id {len(self.current)} is no input and no result")
        outputs = self.results = [self._read(i, self.place) for i in self.outputs]
        names = [index.name(at) for at in index.words(table, "OutputNames").tolist()]
        if len(names) != len(outputs):
            raise FormatError(f"{self.place}: {len(names)} names for {len(outputs)} outputs")
        graph = Graph(tuple(inputs), tuple(outputs), tuple(names), tuple(self.updates.items()))
        self._check_bound(graph)
        return graph

    def _check_bound(self, graph: Graph) -> None:
        """Raises FormatError where a size is spoken of before it is bound, or is bound for nothing:
        the graph would put the node elsewhere, or leave it out."""
        bound = binders(node for node, _ in self.nodes)
        known: set[str] = set()
        for node, place in self.nodes if bound else ():
            known.update(bound_by(node))
            if early := sorted((spoken_of(node) & bound.keys()) - known):
                raise FormatError(f"{place}: speaks of {early[0]} before that is bound")
            if bound_by(node) and node not in graph.nodes:
                raise FormatError(
                    f"{place}: binds {bound_by(node)[0]}, but nothing reads its result"
                )

    def _node(self, row: Any, place: str, source: str) -> None:
        op = _op(row.Op(), place)
        place = f"{place} ({op.name})"
        n_in, n_out = row.Inputs(), row.Outputs()
        if n_out != len(op.results) and op.results != ANY_RESULTS:
            raise FormatError(f"{place}: {n_out} results, want {len(op.results)}")
        ids = self.index.ids(row.Ids(), n_in + n_out, place)
        inputs = [None if i == -1 else self._read(i, place) for i in ids[:n_in]]
        attrs = self._attrs(op, row.Attrs(), place)
        results = [self._type(i, place) for i in ids[n_in:]]
        node = Node(op, inputs, attrs, results, source)
        self.nodes.append((node, place))
        if op.view and inputs[0] is not None:
            base = self.shown.get(inputs[0], inputs[0])
            if isinstance(base, Weight):
                self.shown[node.results[0]] = base
        for value, i in zip(node.results, ids[n_in:], strict=True):
            if value.index < op.updates and not self.table.Name():
                raise FormatError(f"{place}: updates a weight in a sub-graph")
            if value.index < op.updates:
                self._update(value, i, place)
            else:
                self._define(i, value)

    def check_reads(self) -> None:
        """Raises FormatError where something behind an update reads the weight's old value, through
        a view from before or in a sub-graph: the bytes that it would find are the new ones."""
        if not self.updates:
            return
        read = {self.shown[v] for v in self.results if v in self.shown}
        reached: set[Graph] = set()
        for node, place in reversed(self.nodes):
            for weight in node.inputs[: node.op.updates]:
                if weight in read:
                    raise FormatError(f"{place}: overwrites {weight!r}, which is read behind it")
            read.update(self.shown[v] for v in node.present_inputs if v in self.shown)
            stack = list(node.subgraphs())
            while stack:
                if (graph := stack.pop()) not in reached:
                    reached.add(graph)
                    read.update(v for v in graph.leaves if isinstance(v, Weight))
                    stack += (s for n in graph.nodes for s in n.subgraphs())

    def _update(self, new: Value, number: int, place: str) -> None:
        """Put the result of an update operator in the place of the weight that it overwrites."""
        node = new.node
        old = self._read(number, place)
        if (
            node is None
            or not isinstance(old, Weight)
            or not (old.trainable or old.state)
            or node.inputs[new.index : new.index + 1] != (old,)
        ):
            raise FormatError(
                f"{place}: result {new.index} is id {number}, want the id of input {new.index}, "
                "a weight of kind 1 or 2 that is not updated yet"
            )
        self.updates[old] = self.current[number] = new

    def _define(self, number: int, value: Value) -> Value:
        """Give the next id to a value."""
        if number != len(self.current):
            raise FormatError(f"{self.place}: id {number} stands where {len(self.current)} is next")
        position = number - len(self.index.leaves)
        if position < len(self.names):
            value.name = self.names[position] or None
        self.current.append(value)
        return value

    def _input(self, number: int) -> Value:
        shape, dtype = self._type(number, f"{self.place}: input")
        return self._define(number, Value(shape, dtype))

    def _read(self, number: int, place: str) -> Value:
        if not 0 <= number < len(self.current):
            raise FormatError(f"{place}: reads id {number}, which is not computed yet")
        return self.current[number]

    def _type(self, number: int, place: str) -> tuple[Shape, DType]:
        if 0 <= number < len(self.index.leaves):
            leaf = self.index.leaves[number]
            return leaf.shape, leaf.dtype
        position = number - len(self.index.leaves)
        if not 0 <= position < len(self.values):
            raise FormatError(f"{place}: id {number} is not one of {len(self.values)} values")
        return self.values[position]

    def _attrs(self, op: Op, at: int, place: str) -> dict[str, Any]:
        attrs = {}
        for name, default in op.attrs.items():
            where = f"{place}: {name}"
            count = 1
            if (kind := attr_kind(default)) in MOST_NUMBERS:
                (count,) = self.index.pool_words(at, 1, where)
                if not 0 <= count <= MOST_NUMBERS[kind]:
                    most = MOST_NUMBERS[kind]
                    raise FormatError(f"{where} has {count} numbers, want at most {most}")
                at += 1
            words = self.index.pool_words(at, count, where)
            attrs[name] = self._attr(default, words, where)
            at += count
        return attrs

    def _attr(self, default: Any, words: Sequence[int], place: str) -> Any:
        kind = attr_kind(default)
        if kind == "ints":
            return tuple(self.index.dim(w, place) for w in words)
        if kind == "words":
            return Words(words)
        (word,) = words
        if kind == "float":
            return word_float(word)
        if kind == "int":
            return self.index.dim(word, place)
        if kind == "function":
            function = self.index.function(word)
            if function is None:
                raise FormatError(f"{place} is {word}, want the number of an entry without a name")
            return function
        choices: Sequence[Any] = (False, True)
        if kind == "choice":
            choices = list(type(default).__members__.values())
        elif kind == "graph":
            choices = self.index.subgraphs()
        if not 0 <= word < len(choices) or choices[word] is None:
            raise FormatError(f"{place} is {word}, want one of {len(choices)} choices")
        return choices[word]


def _op(code: int, place: str) -> Op:
    op = next((o for o in OPS.values() if o.code == code), None)
    if op is None:
        raise FormatError(f"{place}: operator code {code} is unknown")
    return op
