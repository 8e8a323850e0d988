"""Small TFLite models, written field by field, for tests of the reader."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import flatbuffers
import numpy as np

from converter.tflite.options import CUSTOM, OPERATORS, OPTIONS, TYPES
from ir.graph import Array

NUMBERS = {name: number for number, name in OPERATORS.items()}
TYPE_NUMBERS = {dtype: number for number, dtype in TYPES.items()}
RESOURCE = "resource"
# the number of each operator's kind of options, among those that a file may hold
KINDS = {
    "CONV_2D": 1, "DEPTHWISE_CONV_2D": 2, "MAX_POOL_2D": 5, "AVERAGE_POOL_2D": 5, "L2_POOL_2D": 5,
    "SVDF": 6, "RNN": 7, "FULLY_CONNECTED": 8, "SOFTMAX": 9, "CONCATENATION": 10, "ADD": 11,
    "L2_NORMALIZATION": 12, "LOCAL_RESPONSE_NORMALIZATION": 13, "RESIZE_BILINEAR": 15, "CALL": 16,
    "RESHAPE": 17, "SPACE_TO_DEPTH": 19, "MUL": 21, "GATHER": 23, "MEAN": 27, "SUM": 27,
    "REDUCE_MAX": 27, "REDUCE_MIN": 27, "REDUCE_PROD": 27, "REDUCE_ANY": 27, "REDUCE_ALL": 27,
    "SUB": 28, "DIV": 29, "SQUEEZE": 30, "UNIDIRECTIONAL_SEQUENCE_RNN": 31, "STRIDED_SLICE": 32,
    "SPLIT": 35, "CAST": 37, "ARG_MAX": 40, "TRANSPOSE_CONV": 49, "SHAPE": 55, "ARG_MIN": 57,
    "FAKE_QUANT": 58, "PACK": 59, "ONE_HOT": 61, "UNPACK": 64,
    "BIDIRECTIONAL_SEQUENCE_LSTM": 69, "UNIDIRECTIONAL_SEQUENCE_LSTM": 71,
    "RESIZE_NEAREST_NEIGHBOR": 74, "LEAKY_RELU": 75, "MIRROR_PAD": 77, "SPLIT_V": 79, "IF": 92,
    "WHILE": 93, "DEPTH_TO_SPACE": 94, "BATCH_MATMUL": 101, "CUMSUM": 102, "CALL_ONCE": 103,
    "VAR_HANDLE": 111, "GELU": 116,
}  # fmt: skip
# the version of an operator that takes 8 bits, where it is not 2
EIGHT_BIT_VERSIONS = {
    "CONV_2D": 3, "DEPTHWISE_CONV_2D": 3, "FULLY_CONNECTED": 4, "TRANSPOSE_CONV": 1, "PRELU": 1,
    "HARD_SWISH": 1, "QUANTIZE": 1, "GELU": 1, "ELU": 1, "RELU_N1_TO_1": 1, "MIRROR_PAD": 1,
}  # fmt: skip


@dataclass(frozen=True)
class T:
    """A tensor; `data` makes it a constant. One scale, or one a channel along `axis`. `dtype`: what
    numpy calls it, or the number in a file."""

    name: str
    shape: tuple[int, ...]
    dtype: Any = np.float32
    scale: Any = None
    zero: int = 0
    axis: int = 0
    data: Array | None = None
    free: tuple[int, ...] = ()
    variable: bool = False


def constant(name: str, data: Any, **rest: Any) -> T:
    array = np.asarray(data)
    return T(name, array.shape, array.dtype.type, data=array, **rest)


@dataclass(frozen=True)
class O:  # noqa: E742
    """An operator, from names of tensors ("": left out) to names of tensors."""

    kind: str
    inputs: Sequence[str]
    outputs: Sequence[str]
    attrs: dict[str, Any] = field(default_factory=dict)
    custom: bytes = b""
    version: int = 0
    between: Sequence[str] = ()  # tensors whose scales the operator uses inside


@dataclass(frozen=True)
class G:
    """A graph."""

    tensors: Sequence[T]
    operators: Sequence[O]
    inputs: Sequence[str]
    outputs: Sequence[str]


def file_of(
    *graphs: G, signatures: Sequence[tuple[str, int, dict[str, str], dict[str, str]]] = ()
) -> bytes:
    """The bytes of a model. `signatures`: (key, graph, inputs by name, outputs by name)."""
    w = _Writer()
    subgraphs = [w.graph(g) for g in graphs]
    codes = [w.code(*c) for c in w.codes]
    buffers = [w.table([(0, "bytes", b)]) for b in w.buffers]
    named = [w.signature(s, graphs[s[1]]) for s in signatures]
    model = w.table([
        (0, "u32", 3), (1, "tables", codes), (2, "tables", subgraphs), (3, "text", "test"),
        (4, "tables", buffers), (7, "tables", named),
    ])  # fmt: skip
    w.b.Finish(model, b"TFL3")
    return bytes(w.b.Output())


class _Writer:
    def __init__(self) -> None:
        self.b = flatbuffers.Builder()
        self.codes: list[tuple[str, int]] = []
        self.buffers: list[bytes] = [b""]

    def graph(self, g: G) -> int:
        places = {t.name: i for i, t in enumerate(g.tensors)}
        dtypes = {t.name: t for t in g.tensors}
        tensors = [self.tensor(t) for t in g.tensors]
        operators = [self.operator(o, places, dtypes) for o in g.operators]
        ends = [np.array([places[n] for n in names], np.int32) for names in (g.inputs, g.outputs)]
        return self.table([
            (0, "tables", tensors), (1, "array", ends[0]), (2, "array", ends[1]),
            (3, "tables", operators), (4, "text", "main"),
        ])  # fmt: skip

    def tensor(self, t: T) -> int:
        number = 13 if t.dtype == RESOURCE else t.dtype
        if not isinstance(number, int):
            number = TYPE_NUMBERS[np.dtype(t.dtype)]
        buffer = 0
        if t.data is not None:
            data = np.ascontiguousarray(t.data, t.dtype).tobytes()
            if data not in self.buffers[1:]:  # graphs share what is the same
                self.buffers.append(data)
            buffer = self.buffers.index(data, 1)
        scales = None
        if t.scale is not None:
            scale = np.atleast_1d(np.asarray(t.scale, np.float32))
            zeros = np.full(scale.size, t.zero, np.int64)
            scales = self.table([(2, "array", scale), (3, "array", zeros), (6, "i32", t.axis)])
        free = np.array(t.free, np.int32) if t.free else None
        return self.table([
            (0, "array", np.array(t.shape, np.int32)), (1, "i8", number), (2, "u32", buffer),
            (3, "text", t.name), (4, "table", scales), (5, "bool", t.variable), (7, "array", free),
        ])  # fmt: skip

    def operator(self, o: O, places: dict[str, int], tensors: dict[str, T]) -> int:
        eight = any(n and tensors[n].scale is not None for n in (*o.inputs, *o.outputs))
        version = o.version or (EIGHT_BIT_VERSIONS.get(o.kind, 2) if eight else 1)
        code = (o.kind, version)
        if code not in self.codes:
            self.codes.append(code)
        fields = []
        for i, text in enumerate(OPTIONS.get(o.kind, "").split()):
            key, _, kind = text.partition(":")
            if key in o.attrs:
                fields.append((i, kind.partition("=")[0], o.attrs[key]))
        inputs = np.array([places[n] if n else -1 for n in o.inputs], np.int32)
        outputs = np.array([places[n] for n in o.outputs], np.int32)
        options = self.table(fields) if o.kind in KINDS else None
        between = np.array([places[n] for n in o.between], np.int32) if o.between else None
        return self.table([
            (0, "u32", self.codes.index(code)), (1, "array", inputs), (2, "array", outputs),
            (3, "u8", KINDS.get(o.kind, 0)), (4, "table", options),
            (5, "bytes", o.custom or None), (8, "array", between),
        ])  # fmt: skip

    def code(self, kind: str, version: int) -> int:
        name, is_custom = kind.removeprefix("custom."), kind.startswith("custom.")
        number = CUSTOM if is_custom else NUMBERS[kind]
        return self.table([
            (0, "i8", min(number, 127)), (1, "text", name if is_custom else None),
            (2, "i32", version), (3, "i32", number),
        ])  # fmt: skip

    def signature(self, s: tuple[str, int, dict[str, str], dict[str, str]], g: G) -> int:
        places = {t.name: i for i, t in enumerate(g.tensors)}
        maps = [
            [self.table([(0, "text", k), (1, "u32", places[n])]) for k, n in names.items()]
            for names in s[2:]
        ]
        return self.table([
            (0, "tables", maps[0]), (1, "tables", maps[1]), (2, "text", s[0]), (4, "u32", s[1]),
        ])  # fmt: skip

    def table(self, fields: Sequence[tuple[int, str, Any]]) -> int:
        """A table of (place, kind, value); a value of None is left out."""
        b = self.b
        placed = [(i, kind, self._outside(kind, v)) for i, kind, v in fields if v is not None]
        b.StartObject(max((i for i, _, _ in placed), default=0) + 1)
        for i, kind, v in placed:
            if kind in ("text", "array", "bytes", "ints", "tables", "table"):
                b.PrependUOffsetTRelativeSlot(i, v, 0)
            else:
                add = {"bool": b.PrependBoolSlot, "i8": b.PrependInt8Slot, "u8": b.PrependUint8Slot,
                       "i32": b.PrependInt32Slot, "u32": b.PrependUint32Slot,
                       "f32": b.PrependFloat32Slot}[kind]  # fmt: skip
                add(i, v, None)
        return b.EndObject()  # type: ignore[no-any-return]

    def _outside(self, kind: str, v: Any) -> Any:
        """Where a value that does not lie in the table itself lies; others stay what they are."""
        b = self.b
        if kind == "text":
            return b.CreateString(v)
        if kind == "array":
            return b.CreateNumpyVector(v)
        if kind == "ints":
            return b.CreateNumpyVector(np.array(v, np.int32))
        if kind == "bytes":  # aligned as constants are
            b.StartVector(1, len(v), 16)
            b.head -= len(v)
            b.Bytes[b.head : b.head + len(v)] = v
            return b.EndVector()
        if kind == "tables":
            b.StartVector(4, len(v), 4)
            for offset in reversed(v):
                b.PrependUOffsetTRelative(offset)
            return b.EndVector()
        return v


def one(
    kind: str, inputs: Sequence[T], output: T, custom: bytes = b"", version: int = 0, **attrs: Any
) -> bytes:
    """A model of one operator; inputs without data are the model's."""
    given = [t.name for t in inputs if t.data is None and not t.variable]
    op = O(kind, [t.name for t in inputs], [output.name], attrs, custom, version)
    return file_of(G([*inputs, output], [op], given, [output.name]))


def floats(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def int8s(*shape: int, low: int = -128, seed: int = 0) -> Array:
    return np.random.default_rng(seed).integers(low, 128, shape).astype(np.int8)


def ints(*values: Any) -> Array:
    return np.array(values, np.int32)
