"""A reader of FlatBuffers that trusts nothing: every offset is checked before it is followed.

The classes that FlatBuffers' own compiler makes for Python follow offsets unseen, so a damaged file
ends in whatever exception its numbers lead to. Here it is always a ConvertError of one line.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

import numpy as np

from converter.errors import ConvertError
from ir.graph import Array

MOST_ITEMS = 1 << 20  # tables in a vector; numbers may be as many as the file is long
SCALARS = {
    "bool": "<?", "i8": "<b", "u8": "<B", "i32": "<i", "u32": "<I", "f32": "<f", "u64": "<Q",
}  # fmt: skip


@dataclass(frozen=True)
class Table:
    """A table in `data` at `at`; fields are named by their place in the schema, counted from 0.

    A field that is left out has its default, which the caller gives.
    """

    data: bytes
    at: int

    def scalar(self, field: int, kind: str, default: Any) -> Any:
        """A number. `kind`: bool, i8, u8, i32, u32, u64 or f32."""
        place = self._place(field)
        return default if place is None else _unpack(self.data, place, SCALARS[kind])

    def table(self, field: int) -> Table | None:
        place = self._place(field)
        return None if place is None else Table(self.data, _follow(self.data, place))

    def tables(self, field: int) -> list[Table]:
        """A vector of tables; one that is left out is empty."""
        found = self._vector(field, 4)
        if found is None:
            return []
        start, count = found
        if count > MOST_ITEMS:
            raise ConvertError(f"a list of {count} parts at byte {start}, want {MOST_ITEMS}")
        return [Table(self.data, _follow(self.data, start + 4 * i)) for i in range(count)]

    def array(self, field: int, dtype: Any) -> Array | None:
        """A vector of numbers, read in place; None if it is left out."""
        dtype = np.dtype(dtype).newbyteorder("<")
        found = self._vector(field, dtype.itemsize)
        return None if found is None else np.frombuffer(self.data, dtype, found[1], found[0])

    def ints(self, field: int) -> list[int]:
        """A vector of int32; one that is left out is empty."""
        array = self.array(field, np.int32)
        return [] if array is None else [int(i) for i in array]

    def count(self, field: int) -> int:
        """How many tables a vector of them has."""
        found = self._vector(field, 4)
        return 0 if found is None else found[1]

    def text(self, field: int) -> str:
        """A string; one that is left out is empty. Bytes that are no text become U+FFFD."""
        found = self._vector(field, 1)
        if found is None:
            return ""
        return self.data[found[0] : sum(found)].decode(errors="replace")

    def _place(self, field: int) -> int | None:
        """Where the field lies, None if it is left out."""
        vtable = self.at - _unpack(self.data, self.at, "<i")
        size = _unpack(self.data, vtable, "<H")
        slot = 4 + 2 * field
        offset = _unpack(self.data, vtable + slot, "<H") if slot + 2 <= size else 0
        return self.at + offset if offset else None

    def _vector(self, field: int, item_bytes: int) -> tuple[int, int] | None:
        """The first byte and the length of a vector, which lies inside the file."""
        place = self._place(field)
        if place is None:
            return None
        start = _follow(self.data, place)
        count = _unpack(self.data, start, "<I")
        if count * item_bytes > len(self.data) - start - 4:
            raise ConvertError(
                f"{count} items of {item_bytes} bytes at byte {start} of {len(self.data)}"
            )
        return start + 4, count


def root(data: bytes) -> Table:
    """The table that a file is about."""
    return Table(data, _follow(data, 0))


def _follow(data: bytes, place: int) -> int:
    """Where the offset at `place` leads; offsets lead forward only, so that no walk is endless."""
    offset = _unpack(data, place, "<I")
    if not 4 <= offset <= len(data) - place - 4:
        raise ConvertError(f"offset {offset} at byte {place} of {len(data)} leads out of the file")
    return place + offset  # type: ignore[no-any-return]


def _unpack(data: bytes, place: int, form: str) -> Any:
    size = struct.calcsize(form)
    if not 0 <= place <= len(data) - size:
        raise ConvertError(f"{size} bytes at {place} of a file of {len(data)}")
    return struct.unpack_from(form, data, place)[0]
