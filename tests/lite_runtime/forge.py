"""Change single fields of a model file's index and make its hashes right again."""

from __future__ import annotations

import hashlib
import struct
from dataclasses import dataclass

from ir.generated.model_generated import Entry, Index

TRAILER = 184
ROOT_LABEL = b"mindspan model root 1\0"


def with_hashes(file: bytes) -> bytes:
    """The file with the root hash and the trailer's hash that its bytes want."""
    out = bytearray(file)
    trailer = len(out) - TRAILER
    (index_size,) = struct.unpack_from("<Q", out, trailer + 8)
    sizes = struct.pack("<QQ", len(out), index_size)
    root = hashlib.sha256(ROOT_LABEL + sizes + out[:index_size]).digest()
    out[trailer + 24 : trailer + 56] = root
    out[-32:] = hashlib.sha256(out[trailer:-32]).digest()
    return bytes(out)


@dataclass
class Forger:
    """A file, and where the fields of its index lie (ir/model.fbs)."""

    file: bytes

    def __post_init__(self) -> None:
        self.index = Index.GetRootAs(self.file, 0)

    def forged(self, at: int, layout: str, value: int) -> bytes:
        """The file with a number of struct's `layout` at byte `at`, and right hashes."""
        out = bytearray(self.file)
        struct.pack_into("<" + layout, out, at, value)
        return with_hashes(bytes(out))

    def entry(self, name: str) -> Entry:
        entries = (self.index.Entries(i) for i in range(self.index.EntriesLength()))
        return next(e for e in entries if self.name(e.Name()) == name)

    def name(self, offset: int) -> str:
        names = bytes(self.index.Names(i) for i in range(offset, self.index.NamesLength()))
        return names.split(b"\0")[0].decode()

    def weight(self, number: int) -> int:
        """Where a row lies, as for the following ones."""
        return int(self.index.Weights(number)._tab.Pos)

    def segment(self, number: int) -> int:
        return int(self.index.Segments(number)._tab.Pos)

    def symbol(self, number: int) -> int:
        return int(self.index.Symbols(number)._tab.Pos)

    def node(self, entry: str, number: int) -> int:
        return int(self.entry(entry).Nodes(number)._tab.Pos)

    def value(self, entry: str, number: int) -> int:
        return int(self.entry(entry).Values(number)._tab.Pos)

    def output(self, entry: str, number: int) -> int:
        table = self.entry(entry)._tab
        return int(table.Vector(table.Offset(16)) + 4 * number)  # `outputs` is field 6

    def pool(self, word: int) -> int:
        table = self.index._tab
        return int(table.Vector(table.Offset(16)) + 4 * word)  # `pool` is field 6

    def ids(self, entry: str, number: int) -> int:
        """Where the first input of a node stands in the pool."""
        return self.pool(self.entry(entry).Nodes(number).Ids())

    def attrs(self, entry: str, number: int) -> int:
        return self.pool(self.entry(entry).Nodes(number).Attrs())

    def node_number(self, entry: str, code: int) -> int:
        nodes = self.entry(entry)
        return next(i for i in range(nodes.NodesLength()) if nodes.Nodes(i).Op() == code)
