"""A TFLite file as plain records: tensors, operators, graphs; all of its indices checked."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from converter.errors import ConvertError
from converter.tflite.flat import Table, root
from converter.tflite.options import (
    CUSTOM,
    INT4,
    MOST_IN_OLD_FILES,
    OPERATORS,
    OPTIONS,
    RESOURCE,
    TYPE_NAMES,
    TYPES,
)
from converter.tflite.sparse import dense
from ir.graph import Array

IDENTIFIER = b"TFL3"
MOST_ELEMENTS = 2**28  # of a tensor
MOST_RANK = 8
MOST_PARTS = 2**18  # tensors and operators of all graphs; several offsets may lead to one


@dataclass(frozen=True)
class Scales:
    """What stored integers mean: real = (stored - zero) * scale, one of each or one a channel."""

    scale: Array  # float32 [n]
    zero: Array  # int64 [n]
    axis: int  # of the channels, where n > 1


@dataclass(frozen=True)
class Tensor:
    """A tensor of a graph. `signature`: its sizes, -1 where one is free; `data`: its elements
    where they never change; `element`: None for a resource; `problem`: what is not supported."""

    name: str
    shape: tuple[int, ...]
    signature: tuple[int, ...]
    element: np.dtype[Any] | None
    scales: Scales | None
    data: Array | None
    is_variable: bool
    buffer: int
    problem: str = ""


@dataclass(frozen=True)
class Operator:
    """An operator by name, `custom.` before that of a custom one; -1 among its inputs: left out."""

    name: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    attrs: dict[str, Any]
    custom: bytes = b""
    intermediates: tuple[int, ...] = ()


@dataclass(frozen=True)
class Subgraph:
    """Tensors, those that are given and asked for, and operators in the order of their work."""

    name: str
    tensors: Sequence[Tensor]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    operators: Sequence[Operator]


@dataclass(frozen=True)
class Signature:
    """A name for a graph, and names for its inputs and outputs: (name, tensor)."""

    key: str
    subgraph: int
    inputs: Sequence[tuple[str, int]]
    outputs: Sequence[tuple[str, int]]


@dataclass(frozen=True)
class TfliteFile:
    """What a file holds."""

    version: int
    description: str
    subgraphs: Sequence[Subgraph]
    signatures: Sequence[Signature] = field(default_factory=list)


def parse_tflite(data: bytes) -> TfliteFile:
    """The file's records. Raises ConvertError where it is damaged, in one line."""
    if len(data) < 8 or data[4:8] != IDENTIFIER:
        raise ConvertError(f"{len(data)} bytes without the mark {IDENTIFIER.decode()} of TFLite")
    model = root(data)
    codes = [_code(t) for t in model.tables(1)]
    buffers = [_Buffer(data, t) for t in model.tables(4)]
    graphs = model.tables(2)
    if not graphs:
        raise ConvertError("it has no graph")
    parts = sum(t.count(i) for t in graphs for i in (0, 3))
    if parts > MOST_PARTS:
        raise ConvertError(f"{parts} tensors and operators, want at most {MOST_PARTS}")
    subgraphs = [_subgraph(t, codes, buffers, f"graph {i}") for i, t in enumerate(graphs)]
    signatures = [_signature(t, subgraphs) for t in model.tables(7)]
    return TfliteFile(model.scalar(0, "u32", 0), model.text(3), subgraphs, signatures)


def _code(t: Table) -> str:
    number = max(t.scalar(3, "i32", 0), t.scalar(0, "i8", 0))
    if number == CUSTOM:
        return f"custom.{t.text(1)}"
    if number == MOST_IN_OLD_FILES or number not in OPERATORS:
        return f"operator number {number}"
    return OPERATORS[number]


class _Buffer:
    """The bytes of a constant, which may lie behind the tables of a file beyond 2 GiB."""

    def __init__(self, data: bytes, t: Table) -> None:
        offset, size = t.scalar(1, "u64", 0), t.scalar(2, "u64", 0)
        if offset > 1:
            if size > len(data) - offset:
                raise ConvertError(f"a buffer of {size} bytes at {offset} of {len(data)}")
            self.bytes: Array | None = np.frombuffer(data, np.uint8, size, offset)
        else:
            self.bytes = t.array(0, np.uint8)


def _subgraph(t: Table, codes: Sequence[str], buffers: Sequence[_Buffer], place: str) -> Subgraph:
    tensors = [_tensor(v, buffers, f"{place}: tensor {i}") for i, v in enumerate(t.tables(0))]

    def known(indices: Sequence[int], what: str, least: int = 0) -> tuple[int, ...]:
        for i in indices:
            if not least <= i < len(tensors):
                raise ConvertError(f"{place}: {what}: tensor {i} of {len(tensors)}")
        return tuple(indices)

    operators = []
    for i, op in enumerate(t.tables(3)):
        number, what = op.scalar(0, "u32", 0), f"operator {i}"
        if number >= len(codes):
            raise ConvertError(f"{place}: {what} is of kind {number} of {len(codes)}")
        custom = op.array(5, np.uint8)
        operators.append(
            Operator(
                codes[number],
                known(op.ints(1), what, -1),
                known(op.ints(2), what),
                _options(codes[number], op.table(4)),
                b"" if custom is None else custom.tobytes(),
                known(op.ints(8), what),
            )
        )
    inputs, outputs = known(t.ints(1), "inputs"), known(t.ints(2), "outputs")
    return Subgraph(t.text(4), tensors, inputs, outputs, operators)


def _options(name: str, t: Table | None) -> dict[str, Any]:
    """The operator's options by name; those of a file that leaves them out have their defaults."""
    found: dict[str, Any] = {}
    for i, text in enumerate(OPTIONS.get(name, "").split()):
        key, _, kind = text.partition(":")
        kind, _, default = kind.partition("=")
        if key == "-":
            continue
        if kind == "ints":
            found[key] = [] if t is None else t.ints(i)
        elif kind == "text":
            found[key] = "" if t is None else t.text(i)
        else:
            plain = type(TYPES_OF[kind])(default or 0)
            found[key] = plain if t is None else t.scalar(i, kind, plain)
            if kind == "f32" and not math.isfinite(found[key]):
                raise ConvertError(f"{name}: {key} is {found[key]}, want a number")
    return found


TYPES_OF = {"bool": False, "i8": 0, "i32": 0, "u32": 0, "f32": 0.0}


def _tensor(t: Table, buffers: Sequence[_Buffer], place: str) -> Tensor:
    name, number = t.text(3), t.scalar(1, "i8", 0)
    place = f"{place} {name!r}"
    shape = tuple(t.ints(0))
    count = math.prod(shape)
    if len(shape) > MOST_RANK or min(shape, default=0) < 0 or count > MOST_ELEMENTS:
        raise ConvertError(
            f"{place} has shape {list(shape)}; want at most {MOST_RANK} sizes from 0 on, of "
            f"{MOST_ELEMENTS} elements in all"
        )
    signature = tuple(t.ints(7)) or shape
    if len(signature) != len(shape) or any(
        s not in (-1, n) for s, n in zip(signature, shape, strict=False)
    ):
        raise ConvertError(f"{place} has shape {list(shape)} and free sizes {list(signature)}")
    buffer = t.scalar(2, "u32", 0)
    if buffer >= len(buffers) and buffer:
        raise ConvertError(f"{place} is in buffer {buffer} of {len(buffers)}")
    raw = buffers[buffer].bytes if buffer else None
    element = np.dtype(np.int8) if number == INT4 else TYPES.get(number)
    problem = "" if element is not None or number == RESOURCE else TYPE_NAMES.get(number, "")
    if element is None and number != RESOURCE and not problem:
        problem = f"elements of type {number}"
    data, sparse = None, t.table(6)
    if raw is not None and raw.size and element is not None and not problem:
        if sparse is not None:
            data = dense(_elements(raw, element, None, number == INT4, place), shape, sparse, place)
        else:
            data = _elements(raw, element, shape, number == INT4, place)
    elif buffer and not count and element is not None:
        data = np.zeros(shape, element)
    scales = _scales(t.table(4), shape, element, place)
    if scales is not None and element == np.uint16:
        problem = "uint16 with a scale"
    is_variable = t.scalar(5, "bool", False)
    return Tensor(name, shape, signature, element, scales, data, is_variable, buffer, problem)


def _elements(
    raw: Array, element: np.dtype[Any], shape: tuple[int, ...] | None, halves: bool, place: str
) -> Array:
    """The elements of a constant; without a shape, as many as there are."""
    if shape is None:
        shape = (raw.size * 2 if halves else raw.size // element.itemsize,)
    count = math.prod(shape)
    want = (count + 1) // 2 if halves else count * element.itemsize
    if raw.size != want:
        raise ConvertError(f"{place}: {raw.size} bytes for shape {list(shape)}, want {want}")
    if halves:  # two's complement in 4 bits, the lower half of a byte first
        both = np.stack([raw & 15, raw >> 4], 1).reshape(-1)[:count].astype(np.int8)
        return ((both ^ 8) - 8).reshape(shape)
    if element == np.bool_:
        return (raw != 0).reshape(shape)
    return np.frombuffer(raw, element.newbyteorder("<")).astype(element).reshape(shape)


def _scales(
    t: Table | None, shape: tuple[int, ...], element: np.dtype[Any] | None, place: str
) -> Scales | None:
    """None where the tensor's elements are what they are."""
    scale = None if t is None else t.array(2, np.float32)
    if t is None or scale is None or not scale.size or element is None or element.kind == "f":
        return None
    if t.scalar(4, "u8", 0):
        raise ConvertError(f"{place}: a quantization of kind {t.scalar(4, 'u8', 0)}, want 0")
    zero, axis = t.array(3, np.int64), t.scalar(6, "i32", 0)
    zeros = np.zeros(scale.size, np.int64) if zero is None or not zero.size else zero
    if zeros.size == 1:
        zeros = np.repeat(zeros, scale.size)
    if not (np.isfinite(scale).all() and (scale >= 0).all()):
        raise ConvertError(f"{place}: scales of {scale.min()} to {scale.max()}, want some above 0")
    fits = scale.size == 1 or (0 <= axis < len(shape) and shape[axis] == scale.size)
    if zeros.size != scale.size or not fits:
        raise ConvertError(
            f"{place}: {scale.size} scales and {zeros.size} zero points along axis {axis} of "
            f"shape {list(shape)}"
        )
    limits = np.iinfo(element) if element.kind in "iu" else np.iinfo(np.int8)
    if zeros.min() < limits.min or zeros.max() > limits.max:
        raise ConvertError(f"{place}: zero points {zeros.min()} to {zeros.max()} of {element}")
    return Scales(scale.astype(np.float32), zeros.astype(np.int64), axis)


def _signature(t: Table, subgraphs: Sequence[Subgraph]) -> Signature:
    number = t.scalar(4, "u32", 0)
    if number >= len(subgraphs):
        raise ConvertError(f"signature {t.text(2)!r} is of graph {number} of {len(subgraphs)}")
    graph = subgraphs[number]
    names = []
    for part in (t.tables(0), t.tables(1)):
        pairs = [(v.text(0), v.scalar(1, "u32", 0)) for v in part]
        if any(i >= len(graph.tensors) for _, i in pairs):
            raise ConvertError(f"signature {t.text(2)!r} names tensors that are not there")
        names.append(pairs)
    return Signature(t.text(2), number, *names)
