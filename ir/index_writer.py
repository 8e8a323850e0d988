"""From a model to the index and the segments of a model file (docs/model_file.md)."""

from __future__ import annotations

import hashlib
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ir.bound import bound_below, own_sizes
from ir.dtype import DType
from ir.errors import FormatError, GraphError
from ir.graph import Constant, Graph, Model, Node, Value, Weight
from ir.in_place import in_place_order
from ir.index_pack import EntryRows, IndexRows, Row, pack, placed
from ir.index_words import (
    MAX_ELEMENTS,
    MAX_ENTRIES,
    MAX_NODES,
    MAX_WORDS,
    Names,
    Words,
    checked_text,
    float_word,
)
from ir.op import MAX_RANK, attr_kind
from ir.symbol import Dim, symbols
from ir.walk import inner_first, walk

CONSTANT, TRAINABLE, STATE, FROZEN = range(4)  # kinds of weights
SEGMENT_KINDS = ((CONSTANT, FROZEN), (TRAINABLE,), (STATE,))
LARGEST_SIZE = 2**31 - 1
ALIGN_TENSOR = 16


@dataclass(frozen=True)
class Content:
    """What a file holds: its index, for segments that are placed nowhere yet, and these."""

    index: bytes
    segments: list[bytes]

    def placed(self, offsets: Sequence[int]) -> bytes:
        """The index for segments at these places."""
        return placed(self.index, offsets)


def encode(model: Model, *, strip_names: bool) -> Content:
    """The content of the model's file. Raises GraphError or FormatError."""
    writer = _Writer(model, strip_names)
    writer.add_entries(model.entries)
    weights, segments = writer.weights_and_segments()
    if len(writer.entries) > MAX_ENTRIES:
        raise FormatError(f"model of {len(writer.entries)} entries, want at most {MAX_ENTRIES}")
    for key, value in model.metadata.items():
        checked_text(f"{key}\n{value}", "metadata", lines=True)
    bound = bound_below(model.entries.values())
    lowest = {s: 0 if s in bound else 1 for s in writer.symbols}
    ranges = [model.symbol_ranges.get(s, (lowest[s], LARGEST_SIZE)) for s in writer.symbols]
    symbol_rows = [(writer.names.put(s), *r) for s, r in zip(writer.symbols, ranges, strict=True)]
    hashes = [hashlib.sha256(s).digest() for s in segments]

    index = IndexRows(
        weights=weights,
        entries=writer.entries,
        symbols=symbol_rows,
        expressions=writer.words.expressions,
        pool=writer.words.pool,
        names=bytes(writer.names.data),
        segments=[(0, len(s), digest) for s, digest in zip(segments, hashes, strict=True)],
        metadata=model.metadata,
    )
    return Content(pack(index), segments)


class _Writer:
    """Turns graphs into rows. Ids of weights come first, so all are numbered at the start."""

    def __init__(self, model: Model, strip_names: bool) -> None:
        if not model.entries or "" in model.entries:
            raise GraphError(f"entries {list(model.entries)}: want at least one, each with a name")
        self.strip_names = strip_names
        self.graphs = walk(model.entries.values())
        self.symbols = sorted(_all_symbols(self.graphs) | set(model.symbol_ranges))
        self.words = Words(self.symbols)
        self.names = Names()
        self.entries: list[EntryRows] = []
        self.owned: list[Constant | Weight] = []
        self._ids: dict[Value, int] = {}  # of constants and weights
        self._numbers: dict[Graph, int] = {}  # of the entries that sub-graphs and functions become
        self._number_weights()

    def _number_weights(self) -> None:
        """In order of use; equal constants get one id."""
        constants: dict[Any, int] = {}
        names: set[str | None] = set()
        for v in dict.fromkeys(v for g in self.graphs for v in g.leaves):
            number = len(self.owned)
            if v.dtype is DType.tape and isinstance(v, (Constant, Weight)):
                raise GraphError(f"{v!r} is a tape; want one that the graph makes")
            if isinstance(v, Constant):
                number = constants.setdefault((v.dtype, v.shape, v.data.tobytes()), number)
            elif not isinstance(v, Weight):
                continue
            elif v.name in names:
                raise GraphError(f"two weights have the name {v.name!r}")
            else:
                names.add(v.name)
            self._ids[v] = number
            if number == len(self.owned):
                self.owned.append(v)

    def weights_and_segments(self) -> tuple[list[Row], list[bytes]]:
        """The rows of the weights, and the bytes of the segments that hold them."""
        rows: dict[int, Row] = {}
        segments: list[bytes] = []
        for kinds in SEGMENT_KINDS:
            chunks: list[bytes] = []
            end = 0
            members = [(i, v) for i, v in enumerate(self.owned) if _kind(v) in kinds]
            for i, v in members:
                gap = -end % ALIGN_TENSOR
                data = np.ascontiguousarray(v.data, v.dtype.numpy).tobytes()
                rows[i] = self._weight(v, len(segments), end + gap)
                chunks += [bytes(gap), data]
                end += gap + len(data)
            if members:
                segments.append(b"".join(chunks))
        return [rows[i] for i in range(len(rows))], segments

    def _weight(self, v: Constant | Weight, segment: int, offset: int) -> Row:
        kind = _kind(v)
        inner = kind in (CONSTANT, FROZEN)
        place = f"weight {v.name!r}: size"
        name = "" if self.strip_names and inner else v.name
        if offset // ALIGN_TENSOR >= 2**32 or v.data.size > MAX_ELEMENTS:
            raise FormatError(
                f"weight {v.name!r}: {v.data.size} elements, {offset} bytes into its segment; "
                f"want at most {MAX_ELEMENTS} within the first 64 GiB"
            )
        at = self._shape(v.shape, place)
        return (
            v.dtype.value,
            kind,
            v.rank,
            segment,
            self.names.put(name),
            at,
            offset // ALIGN_TENSOR,
        )

    def add_entries(self, entries: dict[str, Graph]) -> None:
        """Add the rows of every graph: each named one behind what it reaches for the first time."""
        rows: list[tuple[str, Graph]] = []
        for name, graph in entries.items():
            for inner in _inner_first(graph, self._numbers):
                self._numbers[inner] = len(rows)
                rows.append(("", inner))
            rows.append((name, graph))
        for name, graph in rows:
            self._add_entry(graph, name)

    def _add_entry(self, graph: Graph, name: str) -> None:
        nodes = in_place_order(graph)
        if len(nodes) > MAX_NODES:
            raise FormatError(f"entry {name!r} of {len(nodes)} nodes, want at most {MAX_NODES}")
        entry = EntryRows(self.names.put(name))
        ids = dict(self._ids)
        for i, v in enumerate(graph.inputs):
            entry.inputs.append(self._value(v, v.name or f"input{i}", ids, entry))
        for node in nodes:
            entry.nodes.append(self._node(node, ids, entry))
            entry.sources.append(self.names.put("" if self.strip_names else node.source))
        entry.outputs = [_id(v, ids, f"entry {name!r}: output {n!r}") for n, v in _outputs(graph)]
        entry.output_names = [self.names.put(n) for n in graph.output_names]
        _drop_empty_names(entry)
        self.entries.append(entry)

    def _node(self, node: Node, ids: dict[Value, int], entry: EntryRows) -> Row:
        place = f"{node!r}: input"
        words = [-1 if v is None else _id(v, ids, place) for v in node.inputs]
        for v in node.results:
            if v.index < node.op.updates:
                ids[v] = words[v.index]  # the weight itself, see ir/in_place.py
            else:
                self._value(v, "" if self.strip_names else v.name, ids, entry)
        words += [ids[v] for v in node.results]
        attrs = [w for name in node.attrs for w in self._attribute(node, name)]
        at = self.words.append(words)
        return node.op.code, len(node.inputs), len(node.results), at, self.words.put(attrs)

    def _value(self, v: Value, name: str | None, ids: dict[Value, int], entry: EntryRows) -> int:
        """Add a value to an entry; give its id."""
        ids[v] = len(self.owned) + len(entry.values)
        entry.values.append((v.dtype.value, v.rank, self._shape(v.shape, f"{v!r}: size")))
        entry.value_names.append(self.names.put(name))
        return ids[v]

    def _attribute(self, node: Node, name: str) -> list[int]:
        value, default = node.attrs[name], node.op.attrs[name]
        place = f"{node!r}: {name}"
        match attr_kind(default):
            case "ints":
                if len(value) > MAX_RANK:
                    raise FormatError(f"{place} has {len(value)} numbers, want at most {MAX_RANK}")
                return [len(value), *(self.words.size(v, place) for v in value)]
            case "words":
                if len(value) > MAX_WORDS:
                    raise FormatError(f"{place} has {len(value)} words, want at most {MAX_WORDS}")
                return [len(value), *value]
            case "float":
                return [float_word(value, place)]
            case "choice":
                return [list(type(default).__members__.values()).index(value)]
            case "graph":
                return [self._numbers[value]]
            case "function":
                return [self._numbers[value.graph]]
        return [self.words.size(int(value) if isinstance(value, bool) else value, place)]

    def _shape(self, shape: Sequence[Dim], place: str) -> int:
        return self.words.put([self.words.size(d, place) for d in shape])


def _kind(v: Constant | Weight) -> int:
    if isinstance(v, Constant):
        return CONSTANT
    return STATE if v.state else TRAINABLE if v.trainable else FROZEN


def _id(v: Value, ids: dict[Value, int], place: str) -> int:
    if v not in ids:
        raise GraphError(
            f"{place} {v!r} is no input, constant, weight or earlier result of the graph"
        )
    return ids[v]


def _outputs(graph: Graph) -> Iterator[tuple[str, Value]]:
    return zip(graph.output_names, graph.outputs, strict=True)


def _drop_empty_names(entry: EntryRows) -> None:
    """Names at the end that are empty are not stored; sources only where there are some."""
    while entry.value_names and not entry.value_names[-1]:
        entry.value_names.pop()
    if not any(entry.sources):
        entry.sources = []


def _inner_first(graph: Graph, known: Container[Graph]) -> list[Graph]:
    """What a graph reaches, but for what is known: each behind the graphs that are its attributes.

    Bodies of functions stand anywhere, for they may call each other.
    """
    every = (g for start in walk(_subgraphs(graph)) for g in inner_first(start))
    return [g for g in dict.fromkeys(every) if g not in known]


def _subgraphs(graph: Graph) -> Iterator[Graph]:
    return (s for n in graph.nodes for s in n.subgraphs())


def _all_symbols(graphs: Sequence[Graph]) -> set[str]:
    found: set[str] = set()
    for graph in graphs:
        found.update(*(symbols(d) for v in graph.inputs for d in v.shape))
        found.update(*(symbols(d) for node in graph.nodes for d in own_sizes(node)))
    return found
