"""Layers on weights that are stored in 16, 8 or 4 bits and read back as floats while they are used.

A row of n weights is stored as `bits` say (`ir/compression.py` makes them):

    16   f16 [n]
    8    i8 [n], and a scale for each `group` of neighbours
    4    i8 [n / 32 * 16, rounded up]: byte j of block i holds element 32 i + j in its low half and
         32 i + 16 + j in its high half, each + 8; and a scale for each `group`, a multiple of 32

Scales are f32 or f16, [rows, n / group rounded up]; group 0 is one for the whole row.
"""

from __future__ import annotations

import numpy as np

from ir.compression import BITS, BLOCK, expand, groups_of, stored_size
from ir.dtype import DType
from ir.errors import AttrError, DTypeError, ShapeError
from ir.graph import shape_text
from ir.op import NO_GRAD, case, exactly, floats, ints, op
from ir.ops.activation import Activation, activate, before_activation
from ir.ops.index import checked_indices
from ir.ops.linalg import linear, matmul
from ir.ops.quant import int8s
from ir.ops.reduce import reduce_sum
from ir.ops.rules import elements


def _check(name, w, scale, n, bits, group):
    """Raise unless `w` and `scale` are rows of n stored numbers."""
    if bits not in BITS or group < 0 or (bits == 4 and group % BLOCK):
        raise AttrError(
            f"{name}: bits {bits} and group {group}; want 4, 8 or 16, of 4 multiples of {BLOCK}"
        )
    if len(w) != 2 or w[1] != stored_size(n, bits):
        wanted = f"[rows,{stored_size(n, bits)}]"
        raise ShapeError(f"{name}: w is {shape_text(w)}, want {wanted}: {n} of {bits} bits")
    want = None if bits == 16 else (w[0], groups_of(n, group))
    if scale != want:
        texts = ["none" if s is None else shape_text(s) for s in (scale, want)]
        raise ShapeError(f"{name}: scale is {texts[0]}, want {texts[1]}")


def _check_types(name, w, scale, bits):
    fits = w is DType.f16 and scale is None if bits == 16 else w is DType.i8
    if not fits or scale not in (None, DType.f32, DType.f16):
        raise DTypeError(f"{name}: w of {w} and scale of {scale} with {bits} bits")


def _linear_shape(x, w, scale, b, *, bits, group, activation):
    if len(x) < 2 or not isinstance(x[-1], int):
        raise ShapeError(f"compressed_linear: x is {shape_text(x)}, want [...,in], in fixed")
    _check("compressed_linear", w, scale, x[-1], bits, group)
    if b is not None and b != w[:1]:
        raise ShapeError(f"compressed_linear: b is {shape_text(b)}, want {shape_text(w[:1])}")
    return (*x[:-1], w[0])


def _linear_type(x, w, scale, b, *, bits, **_):
    _check_types("compressed_linear", w, scale, bits)
    if x is not DType.f32 or b not in (None, DType.f32):
        raise DTypeError(f"compressed_linear: x of {x} and b of {b}, want f32")
    return DType.f32


def _linear_grad(g, y, x, w, scale, b, *, bits, group, activation):
    full = decompress(w, scale, bits=bits, group=group, shape=(w.shape[0], x.shape[-1]))
    g = before_activation(g, activation, lambda: linear(x, full, b))
    db = None if b is None else reduce_sum(g, axes=tuple(range(g.rank - 1)))
    return matmul(g, full), None, None, db


def _halves(*shape):
    """A sample of f16 weights."""
    return exactly(np.random.default_rng(len(shape)).uniform(-2, 2, shape), DType.f16)


def _scales(*shape):
    return floats(*shape, low=0.005, high=0.02)


HALF_SCALES = exactly([[0.01, 0.02, 6e-8]] * 5, DType.f16)


@op(
    code=247,
    shape=_linear_shape,
    dtype=_linear_type,
    samples=lambda: [
        case((3, 10), int8s(4, 10), _scales(4, 1), (4,)),
        case((1, 70), int8s(19, 70), _scales(19, 3), group=32, activation=Activation.relu),
        case((1, 70), int8s(5, 48), HALF_SCALES, (5,), bits=4, group=32),
        case((2, 3, 64), int8s(9, 32), _scales(9, 1), bits=4, group=64, activation=Activation.silu),
        case((5, 600), int8s(6, 304), _scales(6, 19), (6,), bits=4, group=32),
        case((40, 300), int8s(21, 300), _scales(21, 1), (21,), activation=Activation.relu6),
        case((40, 300), int8s(21, 160), _scales(21, 5), (21,), bits=4, group=64),
        case((2, 37), _halves(7, 37), None, (7,), bits=16),
        case((50, 37), _halves(18, 37), bits=16),
        case((1, 0), int8s(4, 0), _scales(4, 1)),
    ],
    grad=_linear_grad,
)
def compressed_linear(x, w, scale=None, b=None, *, bits=8, group=0, activation=Activation.none):
    """y = activation(x w^T + b), w stored in `bits`

    x: f32 [...,in], w: rows of `in` stored numbers, b: f32 [out] -> y: f32 [...,out]. The gradient
    is that of the weights as they are read back; they do not train.
    """
    full = expand(w, scale, x.shape[-1], bits, group).astype(x.dtype)
    y = np.matmul(x, full.T)
    return activate(activation, y if b is None else y + b)


def _gather_shape(w, indices, scale, *, bits, group, size):
    _check("compressed_gather", w, scale, size, bits, group)
    return (*indices, size)


def _gather_type(w, indices, scale, *, bits, **_):
    _check_types("compressed_gather", w, scale, bits)
    if indices is not DType.i32:
        raise DTypeError(f"compressed_gather: indices of {indices!r}; want i32")
    return DType.f32


@op(
    code=248,
    shape=_gather_shape,
    dtype=_gather_type,
    samples=lambda: [
        case(int8s(5, 12), ints(2, 3, low=0, high=5), _scales(5, 1), size=12),
        case(int8s(5, 48), ints(4, low=0, high=5), HALF_SCALES, size=70, bits=4, group=32),
        case(int8s(3, 20), exactly(1, DType.i32), _scales(3, 2), size=20, group=16),
        case(_halves(3, 9), ints(6, low=0, high=3), size=9, bits=16),
    ],
    kernels=("any",),
    grad=NO_GRAD,
)
def compressed_gather(w, indices, scale=None, *, bits=8, group=0, size=0):
    """y = rows of w at `indices`, read back     w: rows of `size` stored numbers,
    indices: int32[*i] -> y: f32 [*i, size]; an index outside 0..rows-1 is an error"""
    at = checked_indices(indices, len(w))
    rows = at.reshape(-1)
    full = expand(w[rows], None if scale is None else scale[rows], size, bits, group)
    return full.reshape(*at.shape, size)


def _decompress_shape(w, scale, *, bits, group, shape):
    if not shape or not w or any(not isinstance(d, int) or d < 0 for d in shape):
        raise AttrError(f"decompress: shape is {list(shape)}, want sizes of at least 0")
    rows, count = w[0], elements(shape)
    if not isinstance(rows, int) or rows < 1 or count % rows:
        raise ShapeError(f"decompress: {rows} rows of {shape_text(shape)}; want equal ones")
    _check("decompress", w, scale, count // rows, bits, group)
    return tuple(shape)


def _decompress_type(w, scale, *, bits, **_):
    _check_types("decompress", w, scale, bits)
    return DType.f32


@op(
    code=249,
    shape=_decompress_shape,
    dtype=_decompress_type,
    samples=lambda: [
        case(int8s(4, 27), _scales(4, 1), shape=(4, 3, 3, 3)),
        case(int8s(6, 40), _scales(6, 3), shape=(2, 3, 40), group=16),
        case(int8s(5, 48), HALF_SCALES, shape=(5, 7, 10), bits=4, group=32),
        case(_halves(3, 45), shape=(3, 3, 15), bits=16),
        case(int8s(70, 300), _scales(70, 1), shape=(70, 300)),
    ],
    kernels=("any",),
    grad=NO_GRAD,
)
def decompress(w, scale=None, *, bits=8, group=0, shape=()):
    """y = all of w, read back     w: rows of stored numbers -> y: f32 of `shape`"""
    return expand(w, scale, int(np.prod(shape)) // len(w), bits, group).reshape(shape)
