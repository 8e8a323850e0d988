"""Operators on int8 and int16 beside the layers, as TFLite's reference kernels compute them."""

from __future__ import annotations

import numpy as np

from converter.items import Item, check_count, product, shape_of, static
from converter.tflite.rules.common import (
    EVERY,
    MOVES,
    PLAIN,
    STORED,
    Call,
    Reader,
    as_value,
    bounds_of,
    clamp_of,
    compute,
    is_stored,
    is_wide,
    looked_up,
    meaning,
    rank_of,
    real,
    rescaled,
    rule,
    scale_of,
    scales_of,
    stored,
    zero_of,
)
from converter.tflite.rules.images import pooling, stretched
from converter.tflite.rules.layers import image_of
from converter.tflite.rules.parts import reshaped
from converter.tflite.rules.reductions import axes_of
from ir.graph import Array
from ir.op import OPS
from ir.quantization import (
    ADD_LEFT_SHIFT,
    ADD_LEFT_SHIFT_16,
    HIGHEST,
    LOWEST,
    add_attrs,
    mean_multiplier,
    quantize_multiplier,
    round_half_away,
    scale_by_multiplier,
)

TABLES = [
    "ABS",
    "COS",
    "ELU",
    "EXP",
    "GELU",
    "LOG",
    "LOGISTIC",
    "NEG",
    "ROUND",
    "RSQRT",
    "SIGN",
    "SIN",
    "SQRT",
    "SQUARE",
    "TANH",
    "CEIL",
    "FLOOR",
]


def multiplier_of(scale: float, y_scale: float, factor: float = 1.0) -> tuple[int, int]:
    """Of scale factor / y_scale, which many kernels compute in float32."""
    return quantize_multiplier(float(np.float32(scale) * np.float32(factor) / np.float32(y_scale)))


def _ends(call: Call, *inputs: int) -> bool:
    """Whether these inputs and the result are int8."""
    return is_stored(call.y) and all(is_stored(call.ins[i]) for i in inputs)


def _alike(call: Call, *inputs: int) -> bool:
    """Whether these inputs and the result are all int8 or all int16."""
    wide = is_wide(call.y) and all(is_wide(call.ins[i]) for i in inputs)
    return wide or _ends(call, *inputs)


def _table(reader: Reader, call: Call, x: Item) -> Item:
    """Any function of one number: what it gives for each of 256, in float32."""
    if not _ends(call, 0):
        return None
    (scale, zero), (y_scale, y_zero) = meaning(call.input(0)), meaning(call.y)
    numbers = ((EVERY - zero) * np.float32(scale)).astype(np.float32)
    y = np.asarray(PLAIN[call.name](reader, call, numbers), np.float32)
    inverse = np.float32(1) / np.float32(y_scale)
    placed = round_half_away(np.nan_to_num(y) * inverse) + np.float32(y_zero)
    return looked_up(x, placed)


STORED |= dict.fromkeys(TABLES, _table)


@rule(MOVES, "QUANTIZE")
def quantize(_: Reader, call: Call, x: Item) -> Item:
    if _alike(call, 0):
        return rescaled(x, call.input(0), call.y)
    return stored(real(x, call.input(0)), call.y)


CLAMPS = {"RELU": (0, None), "RELU6": (0, 6), "RELU_N1_TO_1": (-1, 1), "RELU_0_TO_1": (0, 1)}


@rule(STORED, *CLAMPS)
def relu(_: Reader, call: Call, x: Item) -> Item:
    if not _alike(call, 0):
        return None
    (scale, zero), (y_scale, y_zero) = meaning(call.input(0)), meaning(call.y)
    least, most = bounds_of(call.y)

    def place(number: int) -> int:
        at = y_zero + int(round_half_away(np.float32(number) / np.float32(y_scale)))
        return min(max(at, least), most)

    low, high = CLAMPS[call.name]
    multiplier, shift = multiplier_of(scale, y_scale)
    return compute(
        OPS["requantize"], x, x_zero=zero, y_zero=y_zero, multiplier=multiplier, shift=shift,
        low=place(low), high=most if high is None else place(high),
    )  # fmt: skip


@rule(STORED, "LEAKY_RELU")
def leaky_relu(_: Reader, call: Call, x: Item) -> Item:
    if not _ends(call, 0) or call.attrs["alpha"] < 0:
        return None
    (scale, zero), (y_scale, y_zero) = meaning(call.input(0)), meaning(call.y)
    moved = EVERY - zero
    above = scale_by_multiplier(moved, *multiplier_of(scale, y_scale))
    below = scale_by_multiplier(moved, *multiplier_of(scale, y_scale, call.attrs["alpha"]))
    return looked_up(x, np.where(moved >= 0, above, below) + y_zero)


@rule(STORED, "HARD_SWISH")
def hard_swish(_: Reader, call: Call, x: Item) -> Item:
    """x relu6(x + 3) / 6 in 16 bits: both factors have 7 bits more than x."""
    if not _ends(call, 0):
        return None
    (scale, zero), (y_scale, y_zero) = meaning(call.input(0)), meaning(call.y)
    wide = (EVERY - zero) * 128
    out, out_shift = _narrow(np.float32(scale) / 128 / np.float32(y_scale))
    gate, gate_shift = _narrow(np.float32(scale) / 128 / (np.float32(3) / 32768))
    factor = _high16(wide, out)
    near = wide
    if gate_shift > 0:
        near = _saturate(near << (gate_shift - 1))
    near = _high16(near, gate)
    if gate_shift > 0:
        near = _saturate(near << 1)
    elif gate_shift < 0:
        near = _half_away(near, -gate_shift)
    share = (near + 32768) >> 1
    product = _saturate((share * factor) >> 15)
    y = _half_away(product, -out_shift) if out_shift <= 0 else _saturate(product << out_shift)
    return looked_up(x, y + y_zero)


def _narrow(factor: float) -> tuple[int, int]:
    """A multiplier of 16 bits, and its shift."""
    multiplier, shift = quantize_multiplier(float(factor))
    return min((multiplier + (1 << 15)) >> 16, 32767), shift


def _high16(a: Array, b: int) -> Array:
    """The doubled product's high half of 16 bits, to nearest with halves up."""
    product = a.astype(np.int64) * b
    nudged = product + np.where(product >= 0, 1 << 14, 1 - (1 << 14))
    return (np.sign(nudged) * (np.abs(nudged) >> 15)).astype(np.int64)


def _saturate(a: Array) -> Array:
    return np.clip(a, -(1 << 15), (1 << 15) - 1)


def _half_away(a: Array, shift: int) -> Array:
    return np.sign(a) * ((np.abs(a) + ((1 << shift) >> 1)) >> shift)


@rule(STORED, "ADD", "SUB")
def add(_: Reader, call: Call, a: Item, b: Item) -> Item:
    """A difference is the sum with ~b: -1 - b, about the zero point -1 - zero."""
    if not _alike(call, 0, 1) or (is_wide(call.y) and call.name == "SUB"):
        return None
    (a_scale, a_zero), (b_scale, b_zero) = meaning(call.input(0)), meaning(call.input(1))
    left_shift = ADD_LEFT_SHIFT_16 if is_wide(call.y) else ADD_LEFT_SHIFT
    if call.name == "SUB":
        b = ~b if isinstance(b, np.ndarray) else looked_up(b, ~EVERY)
        b_zero = ~b_zero
    low, high = clamp_of(call)
    return compute(
        OPS["quantized_add"], a, b, a_zero=a_zero, b_zero=b_zero, y_zero=zero_of(call.y),
        low=low, high=high, **add_attrs(a_scale, b_scale, scale_of(call.y), left_shift),
    )  # fmt: skip


@rule(STORED, "MUL")
def mul(_: Reader, call: Call, a: Item, b: Item) -> Item:
    if not _alike(call, 0, 1):
        return None
    return _product(call, a, b, *clamp_of(call))


def _product(call: Call, a: Item, b: Item, low: int = LOWEST, high: int = HIGHEST) -> Item:
    (a_scale, a_zero), (b_scale, b_zero) = meaning(call.input(0)), meaning(call.input(1))
    multiplier, shift = multiplier_of(a_scale, scale_of(call.y), b_scale)
    return compute(
        OPS["quantized_mul"], a, b, a_zero=a_zero, b_zero=b_zero, y_zero=zero_of(call.y),
        multiplier=multiplier, shift=shift, low=low, high=high,
    )  # fmt: skip


@rule(STORED, "PRELU")
def prelu(reader: Reader, call: Call, x: Item, alpha: Item) -> Item:
    """The part above the zero point, rescaled, and that below it times alpha: one of the two is
    the zero point, so that their sum without one zero point is exact."""
    if not _ends(call, 0, 1):
        return None
    (x_scale, x_zero), (y_scale, y_zero) = meaning(call.input(0)), meaning(call.y)
    multiplier, shift = multiplier_of(x_scale, y_scale)
    above = compute(
        OPS["requantize"], x, x_zero=x_zero, y_zero=y_zero, multiplier=multiplier, shift=shift,
        low=y_zero,
    )  # fmt: skip
    below = rescaled(x, call.input(0), call.input(0), (LOWEST, x_zero))
    zeros = {"a_zero": y_zero, "b_zero": y_zero, "y_zero": y_zero}
    return compute(
        OPS["quantized_add"], above, _product(call, below, alpha), **zeros,
        **add_attrs(y_scale, y_scale, y_scale),
    )  # fmt: skip


@rule(STORED, "MAXIMUM", "MINIMUM")
def extreme(_: Reader, call: Call, a: Item, b: Item) -> Item:
    if not _ends(call, 0, 1):
        return None
    ends = [
        compute(OPS["cast"], rescaled(v, call.input(i), call.y), to="f32")
        for i, v in enumerate((a, b))
    ]
    return compute(OPS["cast"], compute(OPS[call.name.lower()], *ends), to="i8")


@rule(STORED, "REDUCE_MAX", "REDUCE_MIN")
def reduce_extreme(_: Reader, call: Call, x: Item, axes: Item) -> Item:
    if not _ends(call, 0):
        return None
    y = compute(
        OPS[call.name.lower()], compute(OPS["cast"], x, to="f32"),
        axes=axes_of(axes, rank_of(x)), keep_dims=call.attrs["keep_dims"],
    )  # fmt: skip
    return rescaled(compute(OPS["cast"], y, to="i8"), call.input(0), call.y)


@rule(STORED, "MEAN", "SUM")
def mean(_: Reader, call: Call, x: Item, axes: Item) -> Item:
    if not _ends(call, 0):
        return None
    (scale, zero), (y_scale, y_zero) = meaning(call.input(0)), meaning(call.y)
    where = axes_of(axes, rank_of(x))
    if not where:
        return None
    kept = tuple(i for i in range(rank_of(x)) if i not in where)
    shape = tuple(1 if i in where else d for i, d in enumerate(shape_of(x)))
    if where != tuple(range(where[0], where[-1] + 1)):  # neighbours are what the operator takes
        x = compute(OPS["transpose"], x, perm=(*kept, *where))
        where = tuple(range(len(kept), rank_of(x)))
    count = int(product(static(tuple(shape_of(x)[a] for a in where), "mean")))
    if call.name == "MEAN":
        multiplier, shift = mean_multiplier(scale, y_scale, max(count, 1))
    else:
        multiplier, shift = quantize_multiplier(scale / y_scale)
    y = compute(
        OPS["quantized_mean"], x, axes=where, x_zero=zero, y_zero=y_zero, multiplier=multiplier,
        shift=shift,
    )  # fmt: skip
    return reshaped(y, shape) if call.attrs["keep_dims"] else y


@rule(STORED, "AVERAGE_POOL_2D")
def average_pool(_: Reader, call: Call, x: Item) -> Item:
    if not _alike(call, 0):
        return None
    image = image_of(x)
    same = meaning(call.input(0)) == meaning(call.y)
    low, high = clamp_of(call) if same else bounds_of(call.y)
    y = OPS["quantized_avg_pool2d"](image, **pooling(call, image), low=low, high=high)
    return y if same else rescaled(y, call.input(0), call.y, clamp_of(call))


@rule(STORED, "RESIZE_BILINEAR")
def resize_bilinear(_: Reader, call: Call, x: Item, size: Item) -> Item:
    """On the stored numbers; places are counted in 1024ths. Weights of 10 bits times int8 are exact
    in float32, and so are their sums but for the last of 28 bits."""
    if not _ends(call, 0) or scales_of(call.y).scale[0] != scales_of(call.input(0)).scale[0]:
        return None
    y = compute(OPS["cast"], image_of(x), to="f32")
    wanted = static(tuple(np.asarray(size).ravel().tolist()), "size")
    check_count(product(wanted))
    for axis, count in enumerate(wanted, start=1):
        (n,) = static(shape_of(y)[axis : axis + 1], "resize")
        y = stretched(y, axis, *_neighbours(call, n, int(count)))
    return OPS["quantize"](as_value(y), scale=1.0, zero_point=0)  # type: ignore[no-any-return]


def _neighbours(call: Call, n: int, wanted: int) -> tuple[Array, Array, Array]:
    """As `images.neighbours`, in 1024ths."""
    over, under = (n, wanted)
    if call.attrs["align_corners"] and wanted > 1:
        over, under = n - 1, wanted - 1
    step = (1024 * over + under // 2) // under
    at = np.arange(wanted, dtype=np.int64) * step
    if call.attrs["half_pixel_centers"]:
        at = at + step // 2 - 512
    first = np.minimum(np.maximum(at, 0) // 1024, n - 1)
    second = np.clip((at + 1023) // 1024, 0, n - 1)
    near = (at - first * 1024) / 1024
    return first.astype(np.int32), second.astype(np.int32), near.astype(np.float32)


def flipped(x: Item) -> Item:
    """Numbers without a sign moved by 128, or back: the highest bit is the other."""
    return looked_up(x, EVERY ^ LOWEST)
