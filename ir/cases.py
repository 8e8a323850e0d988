"""Write every sample of every operator, with what its reference makes of it.

`python -m ir.cases FILE`: the C++ tool check_kernels runs such a file on every kernel of the
build it is in, wherever that is. All numbers are little-endian 32-bit words; strings and elements
are padded to whole words.

    file    "CASE", version 1, count, cases
    case    label, operator's code, attributes (count, words as in ir/model.fbs),
            tolerance (a float), inputs (count, tensors), results (count, tensors)
    label   length in bytes, bytes
    tensor  dtype code (0: left out, nothing follows), rank, sizes, elements
"""

from __future__ import annotations

import argparse
import struct
import zlib
from collections.abc import Collection, Iterable, Iterator
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np

import ir.ops  # noqa: F401  (declares the operators)
from ir.dtype import DType
from ir.files import write_whole
from ir.graph import Array
from ir.op import OPS, Case, Op, attr_kind

VERSION = 1
TOLERANCE = 2e-5  # of floats, relative to the largest element of the result; all else is exact


def samples() -> Iterator[tuple[Op, Case]]:
    """Every operator with each of its samples."""
    return ((op, case) for op in OPS.values() for case in op.samples)


def arrays_of(op: Op, case: Case) -> list[Array | None]:
    """The inputs of a sample, always the same; optional ones that it leaves out are None."""
    arrays = case.arrays(seed=zlib.crc32(op.name.encode()))
    return arrays + [None] * (len(op.inputs) - len(arrays))


def results_of(op: Op, case: Case) -> tuple[Array, ...]:
    """What the operator's reference makes of a sample, one array for each result."""
    y = op.ref(*arrays_of(op, case), **op.checked_attrs(case.attrs))
    return tuple(np.asarray(r) for r in (y if op.gives_tuple else (y,)))


def attr_words(op: Op, attrs: dict[str, Any]) -> bytes:
    """Attributes in order of declaration, as a node of a model file holds them."""
    out = b""
    for name, value in op.checked_attrs(attrs).items():
        match attr_kind(op.attrs[name]):
            case "float":
                out += struct.pack("<f", value)
            case "ints" | "words":
                out += _words(len(value), *value)
            case "choice":
                out += _words(_index(value))
            case _:
                out += _words(int(value))
    return out


def case_file(only: Collection[str] = ()) -> bytes:
    """The samples of every operator that has a kernel, or of those named."""
    wanted = [(op, case) for op, case in samples() if op.kernels and (not only or op.name in only)]
    return encode(wanted)


def encode(wanted: Iterable[tuple[Op, Case]]) -> bytes:
    """A file of these samples."""
    cases = [_case(op, case) for op, case in wanted]
    return b"CASE" + _words(VERSION, len(cases)) + b"".join(cases)


def _case(op: Op, case: Case) -> bytes:
    attrs = attr_words(op, case.attrs)
    inputs, results = arrays_of(op, case), results_of(op, case)
    return b"".join(
        [
            _label(f"{op.name}[{case}]"),
            _words(op.code, len(attrs) // 4),
            attrs,
            struct.pack("<f", TOLERANCE),
            _words(len(inputs)),
            *map(_tensor, inputs),
            _words(len(results)),
            *map(_tensor, results),
        ]
    )


def _label(text: str) -> bytes:
    data = text.encode()
    return _words(len(data)) + _padded(data)


def _tensor(array: Array | None) -> bytes:
    if array is None:
        return _words(0)
    data = np.ascontiguousarray(array, array.dtype.newbyteorder("<")).tobytes()
    return _words(DType.of(array).value, array.ndim, *array.shape) + _padded(data)


def _index(choice: Enum) -> int:
    return list(type(choice)).index(choice)


def _words(*values: int) -> bytes:
    return struct.pack(f"<{len(values)}i", *values)


def _padded(data: bytes) -> bytes:
    return data + b"\0" * (-len(data) % 4)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("--only", nargs="+", default=(), metavar="OPERATOR", choices=list(OPS))
    args = parser.parse_args()
    write_whole(args.file, case_file(args.only))


if __name__ == "__main__":
    main()
