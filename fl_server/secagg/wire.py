"""Messages as declarations: a dataclass whose annotations say how each field is written.

Numbers are little-endian. Every length is checked before use; trailing bytes are an error. A
message has one encoding, so equal messages are equal bytes.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator
from dataclasses import dataclass, fields
from enum import Enum
from typing import Annotated, Any, ClassVar, Protocol, Self, get_args, get_type_hints

from fl_server.errors import Malformed


class Seen(Enum):
    """What whoever sees a field learns from it; the server sees all that is sent."""

    PUBLIC = "what it says"
    SEALED = "nothing: it is encrypted for one neighbour"
    MASKED = "nothing but the sum over the survivors"
    HASHED = "nothing: it is the hash of random bytes"
    REVEALED = "one share of one of two secrets, once the survivors have agreed"


class Message:
    """A base for frozen dataclasses: `to_bytes` and `from_bytes` follow the annotations."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    def to_bytes(self) -> bytes:
        """The one encoding of this message.     raises Malformed if a field does not fit"""
        try:
            return b"".join(c.put(getattr(self, name)) for name, c in _codecs(type(self)))
        except struct.error as error:
            raise Malformed(f"{type(self).__name__}: {error}") from None

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """The message of `data`.     raises Malformed"""
        reader = Reader(data, cls.__name__)
        message = cls.read(reader)
        reader.done()
        return message

    def seen(self) -> Iterator[tuple[Seen, bytes]]:
        """All bytes of this message in order, each with what it tells; what a field is annotated
        with, or, of a message in a message, that one's fields."""
        for field, codec in _codecs(type(self)):
            value = getattr(self, field)
            if isinstance(codec, Nested):
                yield from value.seen()
            elif isinstance(codec, ToTheEnd | Counted):
                yield Seen.PUBLIC, codec.put(value)[: codec.count_size]
                for item in value:
                    yield from item.seen()
            else:
                yield _seen(type(self), field), codec.put(value)

    @classmethod
    def read(cls, reader: Reader) -> Self:
        return cls(**{name: codec.take(reader) for name, codec in _codecs(cls)})


class Reader:
    """Takes bytes off the front and refuses to run past the end."""

    def __init__(self, data: bytes, what: str) -> None:
        self._data = memoryview(data)
        self._at = 0
        self.what = what

    @property
    def left(self) -> int:
        return len(self._data) - self._at

    def take(self, size: int) -> bytes:
        if size > self.left:
            raise Malformed(
                f"{self.what}: {size} bytes wanted at byte {self._at}, {self.left} are left"
            )
        start, self._at = self._at, self._at + size
        return bytes(self._data[start : self._at])

    def done(self) -> None:
        if self.left:
            raise Malformed(f"{self.what}: {self.left} bytes after the end")


class Codec(Protocol):
    def put(self, value: Any) -> bytes: ...

    def take(self, reader: Reader) -> Any: ...


@dataclass(frozen=True)
class Number:
    format: str

    def put(self, value: float) -> bytes:
        return struct.pack(self.format, value)

    def take(self, reader: Reader) -> Any:
        (value,) = struct.unpack(self.format, reader.take(struct.calcsize(self.format)))
        if isinstance(value, float) and not math.isfinite(value):
            raise Malformed(f"{reader.what}: a number is not finite")
        return value


@dataclass(frozen=True)
class Fixed:
    """Exactly `size` bytes."""

    size: int

    def put(self, value: bytes) -> bytes:
        if len(value) != self.size:
            raise Malformed(f"{len(value)} bytes where {self.size} are wanted")
        return bytes(value)

    def take(self, reader: Reader) -> bytes:
        return reader.take(self.size)


@dataclass(frozen=True)
class Rest:
    """All bytes that are left."""

    def put(self, value: bytes) -> bytes:
        return bytes(value)

    def take(self, reader: Reader) -> bytes:
        return reader.take(reader.left)


@dataclass(frozen=True)
class Sized:
    """At most `most` bytes after a 4-byte length."""

    most: int

    def put(self, value: bytes) -> bytes:
        if len(value) > self.most:
            raise Malformed(f"{len(value)} bytes where at most {self.most} are allowed")
        return struct.pack("<I", len(value)) + bytes(value)

    def take(self, reader: Reader) -> bytes:
        (size,) = struct.unpack("<I", reader.take(4))
        if size > self.most:
            raise Malformed(f"{reader.what}: {size} bytes where at most {self.most} are allowed")
        return reader.take(size)


@dataclass(frozen=True)
class Utf8:
    """Text of at most `most` bytes after a 4-byte length."""

    most: int

    def put(self, value: str) -> bytes:
        try:
            data = value.encode()
        except UnicodeEncodeError:
            raise Malformed(f"{value!r} is no text that UTF-8 can hold") from None
        return Sized(self.most).put(data)

    def take(self, reader: Reader) -> str:
        try:
            return Sized(self.most).take(reader).decode()
        except UnicodeDecodeError:
            raise Malformed(f"{reader.what}: text is not UTF-8") from None


@dataclass(frozen=True)
class Counted:
    """At most `most` messages of one kind after a 2-byte count."""

    item: type[Message]
    most: int
    count_size: ClassVar[int] = 2

    def put(self, value: tuple[Message, ...]) -> bytes:
        if len(value) > self.most:
            raise Malformed(f"{len(value)} items where at most {self.most} are allowed")
        return struct.pack("<H", len(value)) + b"".join(m.to_bytes() for m in value)

    def take(self, reader: Reader) -> tuple[Message, ...]:
        (count,) = struct.unpack("<H", reader.take(2))
        if count > self.most:
            raise Malformed(f"{reader.what}: {count} items where at most {self.most} are allowed")
        return tuple(self.item.read(reader) for _ in range(count))


@dataclass(frozen=True)
class ToTheEnd:
    """At most `most` messages of one kind up to the last byte, without a count."""

    item: type[Message]
    most: int
    count_size: ClassVar[int] = 0

    def put(self, value: tuple[Message, ...]) -> bytes:
        return b"".join(m.to_bytes() for m in value)

    def take(self, reader: Reader) -> tuple[Message, ...]:
        items: list[Message] = []
        while reader.left:
            if len(items) == self.most:
                raise Malformed(f"{reader.what}: more than {self.most} items")
            items.append(self.item.read(reader))
        return tuple(items)


@dataclass(frozen=True)
class Nested:
    item: type[Message]

    def put(self, value: Message) -> bytes:
        return value.to_bytes()

    def take(self, reader: Reader) -> Message:
        return self.item.read(reader)


U8 = Annotated[int, Number("<B")]
U16 = Annotated[int, Number("<H")]
U32 = Annotated[int, Number("<I")]
U64 = Annotated[int, Number("<Q")]
F64 = Annotated[float, Number("<d")]
Digest = Annotated[bytes, Fixed(32)]
Key = Annotated[bytes, Fixed(32)]
Signature = Annotated[bytes, Fixed(64)]
Name = Annotated[str, Utf8(64)]


_known: dict[type[Message], tuple[tuple[str, Codec], ...]] = {}


def _codecs(cls: type[Message]) -> tuple[tuple[str, Codec], ...]:
    if cls not in _known:
        hints = get_type_hints(cls, include_extras=True)
        _known[cls] = tuple((f.name, _codec(hints[f.name])) for f in fields(cls))
    return _known[cls]


def _seen(cls: type[Message], field: str) -> Seen:
    """How a field is annotated; most say what they say."""
    hint = get_type_hints(cls, include_extras=True)[field]
    marks = [mark for mark in get_args(hint) if isinstance(mark, Seen)]
    return marks[0] if marks else Seen.PUBLIC


def _codec(hint: Any) -> Codec:
    if isinstance(hint, type) and issubclass(hint, Message):
        return Nested(hint)
    codec: Codec = get_args(hint)[1]
    return codec
