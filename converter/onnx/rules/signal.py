"""Spectra: Fourier transforms as products with matrices of cosines and sines, windows."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from converter.errors import ConvertError
from converter.items import (
    Item,
    as_type,
    as_value,
    axis_of,
    check_count,
    compute,
    floats,
    iota,
    known,
    length,
    number,
    static,
)
from converter.onnx.rules.common import Reader, integers, rule
from converter.onnx.rules.found_axes import along, is_open
from ir.dtype import DType
from ir.graph import Constant, Value
from ir.ops.elementwise import cos, div, mul, sin
from ir.ops.index import gather
from ir.ops.integers import mod
from ir.ops.linalg import matmul
from ir.ops.reduce import count
from ir.ops.shaping import concat, pad, reshape, slice_axis, transpose
from ir.symbol import Dim


@rule("DFT")
def dft(
    reader: Reader, attrs: dict[str, Any], x: Item, size: Item = None, axis: Item = None
) -> Item:
    v = floats(x)
    options = {k: bool(attrs.get(k, 0)) for k in ("inverse", "onesided")}
    wanted = None if size is None else static(tuple(integers(size, "dft_length")), "dft_length")[0]
    if is_open(axis):
        places = range(v.rank - 1)
        shapes = {_transformed(v, i, wanted, **options).shape for i in places}
        if len(shapes) > 1:
            raise ConvertError("axis is computed by the model, and the result's shape with it")
        return along(_transformed(v, 0, wanted, **options), as_value(axis),
                     lambda i: _transformed(v, min(i, v.rank - 2), wanted, **options))  # fmt: skip
    default = 1 if reader.opset < 20 else -2
    given = attrs.get("axis", default) if axis is None else int(known(axis, "axis").item())
    return _transformed(v, axis_of(given, v.rank), wanted, **options)


def _transformed(
    v: Value, axis: int, wanted: int | None, *, inverse: bool, onesided: bool
) -> Value:
    """v [...,1 or 2] along the axis -> [...,2], or real [...,1] for a one-sided inverse."""
    own: Dim = v.shape[axis]
    if inverse and onesided:
        v, wanted = _whole(v, axis, wanted)
    elif wanted is not None:
        v = _fitted(v, axis, wanted)
    n = own if wanted is None else wanted
    real, imaginary = _waves(n // 2 + 1 if onesided and not inverse else n, n, inverse)
    parts = [_product(slice_axis(v, i, i + 1, axis=v.rank - 1), axis, m)
             for i in range(int(v.shape[-1])) for m in (real, imaginary)]  # fmt: skip
    if len(parts) == 4:
        a, b, c, d = parts
        parts = [a - d, b + c]
    y = concat(*parts, axis=v.rank - 1)
    return slice_axis(y, 0, 1, axis=v.rank - 1) if inverse and onesided else y  # type: ignore[no-any-return]


def _fitted(v: Value, axis: int, n: int) -> Value:
    """v cut, or with zeros behind it, to a length."""
    (own,) = static((v.shape[axis],), "DFT")
    if n < own:
        return slice_axis(v, 0, n, axis=axis)  # type: ignore[no-any-return]
    fill = tuple(n - own if i == axis else 0 for i in range(v.rank))
    return v if n == own else pad(v, before=(0,) * v.rank, after=fill)  # type: ignore[no-any-return]


def _waves(rows: Dim, n: Dim, inverse: bool) -> tuple[Value, Value]:
    """Cosines and sines [rows,n] of whole periods in n; of a size that a run finds they are made
    by the run."""
    if isinstance(rows, int) and isinstance(n, int):
        check_count(rows * n)
        turn = 2 * np.pi * np.outer(np.arange(rows), np.arange(n)) / n
        scale = 1 / n if inverse else 1.0
        waves = (np.cos(turn) * scale, np.sin(turn) * (scale if inverse else -scale))
        return tuple(Constant(w.astype(np.float32)) for w in waves)  # type: ignore[return-value]
    size = length(n)
    steps = reshape(as_value(iota(rows)), shape=(rows, 1)) * as_value(iota(n))
    turn = floats(mod(steps, size)) * (2 * np.pi) / floats(size)
    if inverse:
        return cos(turn) / floats(size), sin(turn) / floats(size)
    return cos(turn), -sin(turn)


def _whole(v: Value, axis: int, wanted: int | None) -> tuple[Value, int]:
    """All of a spectrum whose second half is the first one's mirror image."""
    half = static(v.shape, "DFT")[axis]
    n = wanted or max(2 * (half - 1), 1)
    check_count(n)
    places = [k if k < half else n - k for k in range(n)]
    full = gather(v, Constant(np.minimum(places, half - 1).astype(np.int32)), axis=axis)
    shape = [1] * (v.rank - 1)
    shape[axis] = n
    signs = np.where(np.arange(n) < half, 1, -1).reshape(*shape, 1)
    both = np.concatenate([np.ones_like(signs), signs], axis=-1).astype(np.float32)
    return full * Constant(both), n


def _product(v: Value, axis: int, matrix: Value) -> Value:
    rest = [i for i in range(v.rank) if i != axis]
    perm = (*rest, axis)
    y = matmul(transpose(v, perm=perm), matrix, transpose_b=True)
    back = tuple(map(perm.index, range(v.rank)))
    return transpose(y, perm=back)  # type: ignore[no-any-return]


@rule("STFT")
def stft(
    _: Reader, attrs: dict[str, Any], x: Item, step: Item, window: Item = None, size: Item = None
) -> Item:
    v = floats(x)
    if size is not None:
        (n,) = integers(size, "frame_length")
    else:
        n = v.shape[1] if window is None else as_value(window).shape[0]
    (stride,) = integers(step, "frame_step")
    frames = (v.shape[1] - n) // stride + 1
    first = compute(mul, iota(frames), length(stride))
    at = as_value(compute(reshape, first, shape=(frames, 1))) + as_value(iota(n))
    parts = gather(v, at, axis=1)
    if window is not None:
        parts = parts * reshape(floats(window), shape=(n, 1))
    onesided = bool(attrs.get("onesided", 1)) and v.shape[-1] == 1
    return _transformed(parts, 2, None, inverse=False, onesided=onesided)


def _window(name: str, *weights: float) -> None:
    """A window that is a sum of cosines of so many periods."""

    @rule(name)
    def apply(_: Reader, attrs: dict[str, Any], size: Item) -> Item:
        import onnx

        (n,) = integers(size, "size")
        steps = as_type(iota(n), DType.f32)
        if isinstance(n, int):
            whole: Item = np.float32(n)
        else:
            whole = count(as_value(iota(n)), axes=(0,))
        if not attrs.get("periodic", 1):
            whole = as_value(whole) - 1.0 if isinstance(whole, Value) else np.float32(n - 1)
        angle = compute(mul, compute(div, steps, whole), np.float32(2 * np.pi))
        y: Any = np.float32(weights[0])
        for k, w in enumerate(weights[1:], start=1):
            y = as_value(compute(cos, as_value(angle) * float(k))) * w + as_value(y)
        kind = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(attrs.get("output_datatype", 1)))
        return y if kind.kind == "f" else as_type(y, DType.of(np.zeros(0, kind)))


_window("HannWindow", 0.5, -0.5)
_window("HammingWindow", 25 / 46, -21 / 46)
_window("BlackmanWindow", 0.42, -0.5, 0.08)


@rule("MelWeightMatrix")
def mel_weight_matrix(
    _: Reader, attrs: dict[str, Any], bins: Item, length: Item, rate: Item, low: Item, high: Item
) -> Item:
    """Triangles with corners at equal distances on the mel scale     Stevens et al. 1937"""
    count_, n = (int(number(v, "size")) for v in (bins, length))
    hertz, first, last = (number(v, "frequency") for v in (rate, low, high))
    spectrum = n // 2 + 1
    ends = [2595 * math.log10(1 + f / 700) for f in (first, last)]
    mels = np.linspace(*ends, count_ + 2)
    corners = np.floor((n + 1) * (700 * (10 ** (mels / 2595) - 1)) / hertz).astype(int)
    check_count(spectrum * count_)
    y = np.zeros((spectrum, count_), np.float32)
    for i, (a, b, c) in enumerate(zip(corners, corners[1:], corners[2:], strict=False)):
        rising = np.arange(a, b)
        y[rising, i] = (rising - a) / (b - a) if b > a else 0
        y[b, i] = 1
        falling = np.arange(b, c)
        y[falling, i] = (c - falling) / (c - b) if c > b else 0
    return y
