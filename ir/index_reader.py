"""From the index and the segments of a model file to a model; strict (docs/model_file.md)."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import numpy as np

from ir.dtype import DType
from ir.entry_reader import EntryReader
from ir.errors import FormatError, GraphError
from ir.generated import model_generated as fb
from ir.graph import Constant, Function, Graph, Model, Shape, Weight
from ir.index_words import (
    BASE,
    LOWEST_NUMBER,
    MAX_ELEMENTS,
    MAX_ENTRIES,
    MAX_SYMBOLS,
    checked_text,
    read_expression,
)
from ir.index_writer import ALIGN_TENSOR, CONSTANT, SEGMENT_KINDS, STATE, TRAINABLE
from ir.op import MAX_RANK
from ir.symbol import Dim
from ir.verify import verify

T = TypeVar("T")
MAJOR = 1
# What the accessors of the FlatBuffers package, which has no verifier, raise on wild offsets.
_MALFORMED = (struct.error, IndexError, TypeError, ValueError, OverflowError)


def segment_rows(index: bytes) -> list[tuple[int, int, bytes]]:
    """Offset, size and SHA-256 of each segment. Raises FormatError."""
    return _guarded(lambda: Index(index).segments())


def decode(index: bytes, segments: Sequence[memoryview]) -> Model:
    """The model that the index describes. Raises FormatError."""
    return _guarded(lambda: Index(index).model(segments))


def _guarded(read: Callable[[], T]) -> T:
    try:
        return read()
    except FormatError:
        raise
    except GraphError as error:
        raise FormatError(f"model file: {str(error).splitlines()[0]}") from None
    except _MALFORMED as error:
        raise FormatError(
            f"model file: the index is not a FlatBuffer of its kind: {error}"
        ) from None


class Index:
    """The tables of an index. Vectors may not overlap: together they are no larger than the index,
    so that a hostile file cannot make the reader do more work than its size allows."""

    def __init__(self, data: bytes) -> None:
        self.left = len(data)
        self.root = fb.Index.GetRootAs(data, 0)
        if self.root.Major() != MAJOR:
            raise FormatError(f"model file: major version {self.root.Major()}, want {MAJOR}")
        self.pool = self.words(self.root, "Pool")
        self.names = bytes(self.words(self.root, "Names", size=1))
        self.ids_left = len(self.pool)

    def segments(self) -> list[tuple[int, int, bytes]]:
        rows = self.rows(self.root, "Segments", 48)
        return [(s.Offset(), s.Size(), bytes(s.Sha256(i) for i in range(32))) for s in rows]

    def model(self, segments: Sequence[memoryview]) -> Model:
        rows = list(self.rows(self.root, "Symbols", 12))
        if wrong := next((s for s in rows if not 0 <= s.Low() <= s.High()), None):
            raise FormatError(f"model file: a symbol of {wrong.Low()} to {wrong.High()}, want 0 up")
        self.symbols = [self.name(s.Name()) for s in rows]
        if len(rows) > MAX_SYMBOLS:
            raise FormatError(f"model file: {len(rows)} symbols, want at most {MAX_SYMBOLS}")
        if not all(s.isidentifier() for s in self.symbols) or len(set(self.symbols)) != len(rows):
            raise FormatError(f"model file: symbols {self.symbols}, want different identifiers")
        ranges = {n: (s.Low(), s.High()) for n, s in zip(self.symbols, rows, strict=True)}
        self.expressions = [(r.At(), r.Size()) for r in self.rows(self.root, "Expressions", 8)]
        if sum(size for _, size in self.expressions) > len(self.pool):
            raise FormatError(
                "model file: the expressions have more tokens than the pool has words"
            )
        self.dims: dict[int, Dim] = {}
        self.leaves = self._weights(segments)
        self.entries: list[tuple[str, Graph]] = []
        self.functions: dict[int, Function] = {}  # entry -> the function whose body it is
        self._read_entries()
        named = [(n, g) for n, g in self.entries if n]
        if len(dict(named)) != len(named) or not named:
            raise FormatError(f"model file: entries {[n for n, _ in named]}, want different ones")
        model = Model(dict(named), self._metadata(), ranges)
        verify(model)
        return model

    def _read_entries(self) -> None:
        self.readers: list[tuple[str, EntryReader]] = []
        for table in self.rows(self.root, "Entries", 4):
            name = self.name(table.Name())
            place = f"model file, entry {len(self.readers)} {name!r}"
            self.readers.append((name, EntryReader(self, table, place)))
        if len(self.readers) > MAX_ENTRIES:
            raise FormatError(
                f"model file: {len(self.readers)} entries, want at most {MAX_ENTRIES}"
            )
        for name, reader in self.readers:
            self.entries.append((name, reader.graph()))
        for number, function in self.functions.items():
            function.graph = self.entries[number][1]
        for name, reader in self.readers:
            if name:
                reader.check_reads()

    def function(self, number: int) -> Function | None:
        """The function whose body an entry is, which may not be read yet; None: there is none."""
        if not 0 <= number < len(self.readers) or self.readers[number][0]:
            return None
        if number not in self.functions:
            types = self.readers[number][1].signature()
            self.functions[number] = Function(f"function{number}", *types)
        return self.functions[number]

    def _weights(self, segments: Sequence[memoryview]) -> list[Constant | Weight]:
        kinds: dict[int, int] = {}  # segment -> which of SEGMENT_KINDS
        ends = [0] * len(segments)
        leaves: list[Constant | Weight] = []
        for i, row in enumerate(self.rows(self.root, "Weights", 16)):
            name = self.name(row.Name())
            place = f"model file, weight {i} {name!r}"
            kind, number = row.Kind(), row.Segment()
            if kind not in range(4) or number >= len(segments):
                raise FormatError(f"{place}: kind {kind} in segment {number} of {len(segments)}")
            role = next(j for j, group in enumerate(SEGMENT_KINDS) if kind in group)
            if kinds.setdefault(number, role) != role:
                raise FormatError(f"{place}: kind {kind} in segment {number} of another kind")
            array, ends[number] = self._array(row, segments[number], ends[number], place)
            leaves.append(_leaf(array, kind, name, i))
        order = [kinds.get(i, -1) for i in range(len(segments))]
        if order != sorted(set(order)) or -1 in order or ends != [len(s) for s in segments]:
            raise FormatError(
                f"model file: tensors end at {ends} in segments of groups {order}; "
                "want every segment filled, groups in order"
            )
        return leaves

    def _array(self, row: Any, segment: memoryview, end: int, place: str) -> tuple[Any, int]:
        """A tensor of a segment whose tensors before it end at `end`; and where it ends."""
        dtype, shape = self.dtype(row.Dtype(), place), self.shape(row.Shape(), row.Rank(), place)
        sizes = [d for d in shape if isinstance(d, int)]
        if len(sizes) != len(shape) or dtype is DType.tape:
            raise FormatError(f"{place}: {dtype!r} of shape {list(shape)}, want numbers")
        count = math.prod(sizes)
        start = row.Offset() * ALIGN_TENSOR
        stop = start + count * dtype.size_bytes
        if count > MAX_ELEMENTS:
            raise FormatError(f"{place}: {count} elements, want at most {MAX_ELEMENTS}")
        if start != end + -end % ALIGN_TENSOR or stop > len(segment):
            raise FormatError(
                f"{place}: bytes {start} to {stop} of {len(segment)}, want from {end}"
            )
        if any(segment[end:start]):
            raise FormatError(f"{place}: the padding before it is not zero")
        if dtype is DType.bool and bytes(segment[start:stop]).strip(b"\0\1"):
            raise FormatError(f"{place}: a bool that is neither 0 nor 1")
        return np.ndarray(sizes, dtype.numpy, buffer=segment, offset=start), stop

    def _metadata(self) -> dict[str, str]:
        found: dict[str, str] = {}
        for pair in self.rows(self.root, "Metadata", 4):
            key, value = (s.decode() for s in (pair.Key() or b"", pair.Value() or b""))
            self._spend(len(key) + len(value))
            checked_text(key, "metadata", lines=True)
            if found and key.encode() <= list(found)[-1].encode():
                raise FormatError(f"model file: metadata {key!r} is out of order")
            found[key] = checked_text(value, f"metadata {key!r}", lines=True)
        return found

    def name(self, at: int) -> str:
        if not at:
            return ""
        end = self.names.find(0, at)
        if end < 0 or self.names[at - 1] != 0:
            raise FormatError(f"model file: no name starts at {at} of {len(self.names)} bytes")
        return checked_text(self.names[at:end].decode(), "model file: name")

    def pool_words(self, at: int, count: int, place: str) -> list[int]:
        """`count` words of the pool."""
        if at + count > len(self.pool):
            raise FormatError(f"{place}: words {at} to {at + count} of {len(self.pool)}")
        return list(self.pool[at : at + count].tolist())

    def ids(self, at: int, count: int, place: str) -> list[int]:
        """The ids of one node. Those of all nodes together are no longer than the pool."""
        self.ids_left -= count
        if self.ids_left < 0:
            raise FormatError(f"{place}: the nodes have more ids than the pool has words")
        return self.pool_words(at, count, place)

    def subgraphs(self) -> list[Graph | None]:
        """The entries so far; None for those that have a name and are no sub-graphs."""
        return [None if name else graph for name, graph in self.entries]

    def dtype(self, code: int, place: str) -> DType:
        try:
            return DType(code)
        except ValueError:
            raise FormatError(f"{place}: element type {code} is unknown") from None

    def shape(self, at: int, rank: int, place: str) -> Shape:
        if rank > MAX_RANK:
            raise FormatError(f"{place}: rank {rank}, want at most {MAX_RANK}")
        shape = tuple(self.dim(w, place) for w in self.pool_words(at, rank, place))
        if any(isinstance(d, int) and d < 0 for d in shape):
            raise FormatError(f"{place}: shape {list(shape)}, want no size below 0")
        return shape

    def dim(self, word: int, place: str) -> Dim:
        """The size or integer attribute that a word stands for."""
        if word >= LOWEST_NUMBER:
            return word
        number = word + BASE
        if number not in self.dims:
            if number >= len(self.expressions):
                raise FormatError(f"{place}: expression {number} of {len(self.expressions)}")
            tokens = self.pool_words(*self.expressions[number], place)
            self.dims[number] = read_expression(
                tokens, self.symbols, f"model file, expression {number}"
            )
        return self.dims[number]

    def rows(self, table: Any, name: str, size: int) -> Iterator[Any]:
        """The elements of a vector of structs or tables of `size` bytes each."""
        count = getattr(table, f"{name}Length")()
        self._spend(count * size)
        return (getattr(table, name)(i) for i in range(count))

    def words(self, table: Any, name: str, size: int = 4) -> Any:
        """A vector of numbers of `size` bytes, as an array."""
        count = getattr(table, f"{name}Length")()
        self._spend(count * size)
        return getattr(table, f"{name}AsNumpy")() if count else np.empty(0, np.int32)

    def _spend(self, size: int) -> None:
        self.left -= size
        if self.left < 0:
            raise FormatError("model file: the vectors of the index are larger than the index")


def _leaf(array: Any, kind: int, name: str, number: int) -> Constant | Weight:
    if kind == CONSTANT:
        return Constant(array, name=name or None)
    name = name or f"weight{number}"
    return Weight(array, name=name, trainable=kind == TRAINABLE, state=kind == STATE)
