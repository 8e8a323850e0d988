"""Model files from rows of numbers, of which `ir` itself would write none."""

from __future__ import annotations

import dataclasses
import hashlib
import struct
from collections.abc import Sequence

import numpy as np

from ir.index_pack import EntryRows, IndexRows, Row, pack
from ir.op import OPS
from tests.lite_runtime.forge import with_hashes

F32, TRAINABLE = 1, 1


def file_of(index: IndexRows, segment: bytes) -> bytes:
    """The file with this index, whose only segment is `segment`."""
    digest = hashlib.sha256(segment).digest()

    def packed(offset: int) -> bytes:
        return pack(dataclasses.replace(index, segments=[(offset, len(segment), digest)]))

    offset = len(packed(0)) + -len(packed(0)) % 64
    content = packed(offset)
    body = content.ljust(offset, b"\0") + segment
    body += bytes(-len(body) % 8)
    trailer = struct.pack("<8sQQ160x", b"MSPNTAIL", len(content), len(body) + 184)
    return with_hashes(body + trailer)


class Rows:
    """Collects the pool and the names; weights are vectors of two floats, id by id, all ones."""

    def __init__(self, weights: Sequence[str] = ("w",)) -> None:
        self.pool = [2, 2, 1]  # shapes [2] and [2,1]
        self.names = bytearray(b"\0")
        self.weights: list[Row] = [
            (F32, TRAINABLE, 1, 0, self.name(n), 0, i) for i, n in enumerate(weights)
        ]
        self.entries: list[EntryRows] = []
        self.symbols: list[Row] = []
        self.expressions: list[Row] = []
        self.types: dict[str, Row] = {}  # further letters for values

    def name(self, text: str) -> int:
        at = len(self.names)
        self.names += text.encode() + b"\0"
        return at if text else 0

    def words(self, *words: int) -> int:
        self.pool += words
        return len(self.pool) - len(words)

    def node(
        self, op: str, inputs: Sequence[int], results: Sequence[int], attrs: Sequence[int] = ()
    ) -> Row:
        ids = self.words(*inputs, *results)
        return (OPS[op].code, len(inputs), len(results), ids, self.words(*attrs))

    def entry(
        self,
        name: str,
        nodes: Sequence[Row],
        outputs: Sequence[int],
        values: str = "",
        inputs: Sequence[str] = (),
        output_names: Sequence[str] | None = None,
    ) -> None:
        """`values` has a letter each: v for shape [2], m for [2,1], s for [], or one of `types`."""
        rows = {"v": (F32, 1, 0), "m": (F32, 2, 1), "s": (F32, 0, 0), **self.types}
        names = [f"y{i}" for i in range(len(outputs))] if output_names is None else output_names
        self.entries.append(
            EntryRows(
                name=self.name(name),
                values=[rows[letter] for letter in values],
                value_names=[self.name(n) for n in inputs],
                nodes=list(nodes),
                inputs=[len(self.weights) + i for i in range(len(inputs))],
                outputs=list(outputs),
                output_names=[self.name(n) for n in names],
            )
        )

    def file(self) -> bytes:
        one = np.ones(2, np.float32).tobytes()
        segment = (one + bytes(8)) * (len(self.weights) - 1) + one
        return file_of(
            IndexRows(
                weights=self.weights,
                entries=self.entries,
                symbols=self.symbols,
                expressions=self.expressions,
                pool=self.pool,
                names=bytes(self.names),
                segments=[],
                metadata={},
            ),
            segment,
        )
