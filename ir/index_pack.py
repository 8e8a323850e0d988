"""Rows of numbers to the FlatBuffer of a model file's index."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import flatbuffers
import numpy as np

from ir.generated import model_generated as fb

Row = tuple[int, ...]


@dataclass
class EntryRows:
    """One entry; the columns are those of ir/model.fbs."""

    name: int
    values: list[Row] = field(default_factory=list)
    value_names: list[int] = field(default_factory=list)
    nodes: list[Row] = field(default_factory=list)
    sources: list[int] = field(default_factory=list)
    inputs: list[int] = field(default_factory=list)
    outputs: list[int] = field(default_factory=list)
    output_names: list[int] = field(default_factory=list)


@dataclass
class IndexRows:
    """The whole index; the columns are those of ir/model.fbs."""

    weights: Sequence[Row]
    entries: Sequence[EntryRows]
    symbols: Sequence[Row]
    expressions: Sequence[Row]
    pool: Sequence[int]
    names: bytes
    segments: Sequence[tuple[int, int, bytes]]
    metadata: dict[str, str]


def pack(index: IndexRows) -> bytes:
    """The FlatBuffer, built back to front in a fixed order: equal rows give equal bytes."""
    b = flatbuffers.Builder(4096)
    pairs = [_pair(b, k, index.metadata[k]) for k in sorted(index.metadata, key=str.encode)]
    entries = [_entry(b, e) for e in index.entries]
    offsets = {
        "Metadata": _offsets(b, fb.IndexStartMetadataVector, pairs),
        "Entries": _offsets(b, fb.IndexStartEntriesVector, entries),
        "Names": b.CreateByteVector(index.names),
        "Segments": _rows(b, fb.IndexStartSegmentsVector, fb.CreateSegment, index.segments),
        "Symbols": _rows(b, fb.IndexStartSymbolsVector, fb.CreateSymbol, index.symbols),
        "Expressions": _rows(b, fb.IndexStartExpressionsVector, fb.CreateRange, index.expressions),
        "Pool": b.CreateNumpyVector(np.array(index.pool, np.int32)),
        "Weights": _rows(b, fb.IndexStartWeightsVector, fb.CreateWeight, index.weights),
    }
    fb.IndexStart(b)
    for name, offset in offsets.items():
        getattr(fb, f"IndexAdd{name}")(b, offset)
    b.Finish(fb.IndexEnd(b), file_identifier=b"MSPN")
    return bytes(b.Output())


def placed(index: bytes, offsets: Sequence[int]) -> bytes:
    """A packed index with the offsets of its segments, which leave all else where it is."""
    made = bytearray(index)
    root = fb.Index.GetRootAs(made)
    for i, offset in enumerate(offsets):
        struct.pack_into("<Q", made, root.Segments(i)._tab.Pos, offset)  # a segment's first column
    return bytes(made)


def _entry(b: flatbuffers.Builder, entry: EntryRows) -> int:
    vectors = {
        name: b.CreateNumpyVector(np.array(words, np.uint32))
        for name, words in {
            "OutputNames": entry.output_names,
            "Outputs": entry.outputs,
            "Inputs": entry.inputs,
            "Sources": entry.sources,
            "ValueNames": entry.value_names,
        }.items()
        if words
    }
    vectors["Nodes"] = _rows(b, fb.EntryStartNodesVector, fb.CreateNode, entry.nodes)
    vectors["Values"] = _rows(b, fb.EntryStartValuesVector, fb.CreateValue, entry.values)
    fb.EntryStart(b)
    for name, offset in vectors.items():
        getattr(fb, f"EntryAdd{name}")(b, offset)
    fb.EntryAddName(b, entry.name)
    return int(fb.EntryEnd(b))


def _pair(b: flatbuffers.Builder, key: str, value: str) -> int:
    value_at, key_at = b.CreateString(value), b.CreateString(key)
    fb.PairStart(b)
    fb.PairAddKey(b, key_at)
    fb.PairAddValue(b, value_at)
    return int(fb.PairEnd(b))


def _rows(b: flatbuffers.Builder, start: Any, create: Any, rows: Sequence[tuple[Any, ...]]) -> int:
    start(b, len(rows))
    for row in reversed(rows):
        create(b, *row)
    return int(b.EndVector())


def _offsets(b: flatbuffers.Builder, start: Any, offsets: Sequence[int]) -> int:
    start(b, len(offsets))
    for offset in reversed(offsets):
        b.PrependUOffsetTRelative(offset)
    return int(b.EndVector())
