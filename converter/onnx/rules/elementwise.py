"""Operators that work number by number."""

from __future__ import annotations

from functools import reduce
from typing import Any

import numpy as np

from converter.errors import ConvertError
from converter.items import Item, as_type, as_value, compute, narrow, number, settled
from converter.onnx.rules.common import RULES, Reader, Rule, rule
from converter.onnx.types import numpy_of
from ir.dtype import DType
from ir.graph import Value
from ir.op import OPS, Op
from ir.ops.compare import equal, is_nan, logical_not, logical_or, where
from ir.ops.elementwise import add, clip, div, maximum, minimum, mul, neg, pow, relu
from ir.ops.index import bitcast
from ir.ops.integers import bitwise, mod
from ir.ops.shaping import cast


def _direct(op: Op) -> Rule:
    def apply(_: Reader, attrs: dict[str, Any], *items: Item) -> Item:
        attrs = {k: v for k, v in attrs.items() if k not in ("axis", "broadcast") or k in op.attrs}
        if unknown := attrs.keys() - op.attrs.keys():
            raise ConvertError(f"attributes {sorted(unknown)} have no counterpart in {op.name}")
        return compute(op, *items, **attrs)  # type: ignore[no-any-return]

    return apply


@rule("Div")
def divide(_: Reader, attrs: dict[str, Any], a: Item, b: Item) -> Item:
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray) and a.dtype.kind == "O":
        return np.asarray(a // b)
    return compute(div, a, b)


@rule("Clip")
def clip_(_: Reader, attrs: dict[str, Any], x: Item, low: Item = None, high: Item = None) -> Item:
    low = attrs.get("min") if low is None else low
    high = attrs.get("max") if high is None else high
    known = all(v is None or isinstance(v, (np.ndarray, float)) for v in (low, high))
    if known and _dtype(x).is_float:
        lowest = -np.inf if low is None else number(np.asarray(low), "min")
        highest = np.inf if high is None else number(np.asarray(high), "max")
        return compute(clip, x, low=lowest, high=highest)
    x = x if low is None else compute(maximum, x, low)
    return x if high is None else compute(minimum, x, high)


@rule("Relu")
def relu_(_: Reader, attrs: dict[str, Any], x: Item) -> Item:
    if _dtype(x).is_float:
        return compute(relu, x)
    return compute(maximum, x, np.zeros((), _dtype(x).numpy))


def _dtype(x: Item) -> DType:
    return DType.of(narrow(x)) if isinstance(x, np.ndarray) else as_value(x).dtype


def _fold(op: Op) -> Rule:
    return lambda _, attrs, *items: reduce(lambda a, b: compute(op, a, b), items)


RULES |= {"Sum": _fold(add), "Max": _fold(maximum), "Min": _fold(minimum)}


@rule("Mean")
def mean(_: Reader, attrs: dict[str, Any], *items: Item) -> Item:
    total = reduce(lambda a, b: compute(add, a, b), items)
    return compute(mul, total, np.float32(1 / len(items)))


@rule("Identity")
def identity(_: Reader, attrs: dict[str, Any], x: Item) -> Item:
    return x


@rule("Cast")
def cast_(_: Reader, attrs: dict[str, Any], x: Item) -> Item:
    import onnx

    return _in_type(x, np.dtype(onnx.helper.tensor_dtype_to_np_dtype(attrs["to"])))


@rule("CastLike")
def cast_like(reader: Reader, attrs: dict[str, Any], x: Item, like: Item) -> Item:
    kind = reader.kinds[1]
    return _in_type(x, _dtype(like).numpy if kind is None else numpy_of(kind))


def _in_type(x: Item, dtype: np.dtype[Any]) -> Item:
    """x in a type, or in the one that is computed in, rounded where that holds more."""
    if isinstance(x, np.ndarray):
        x = settled(x)
        if x.dtype != object:
            return x.astype(dtype)
        if dtype.kind in "iu":
            return x
        x = as_value(x)
    if dtype == np.uint64 and _dtype(x).is_float:
        raise ConvertError("elements of uint64 are not computed with; want int64")
    if dtype == np.float16:
        x = compute(cast, x, to=DType.f16)
    if dtype.name == "bfloat16":
        return _in_bfloat16(as_type(x, DType.f32))
    return as_type(x, DType.of(narrow(np.zeros(0, dtype))))  # type: ignore[no-any-return]


def _in_bfloat16(x: Value) -> Value:
    """x to the nearest number of 8 significant bits, halves to even ones: the upper 16 bits."""
    bits = bitcast(x, to=DType.i32)
    odd = compute(bitwise, compute(bitwise, bits, np.int32(16), kind="right"), np.int32(1))
    nearest = compute(add, compute(add, bits, odd), np.int32(2**15 - 1))
    upper = compute(bitwise, nearest, np.int32(-(2**16)))
    return where(is_nan(x), x, bitcast(upper, to=DType.f32))  # type: ignore[no-any-return]


@rule("BitCast")
def bit_cast(_: Reader, attrs: dict[str, Any], x: Item) -> Item:
    import onnx

    to = DType.of(np.zeros(0, onnx.helper.tensor_dtype_to_np_dtype(attrs["to"])))
    if to is DType.i16:
        raise ConvertError("bits of int16 are not computed with; want another type")
    made = x.node if isinstance(x, Value) else None
    if made is not None and made.op is cast and made.inputs[0].dtype is DType.f64:
        x = made.inputs[0]  # the bits of an input of float64, not of what is computed with
    if DType.bool in (to, _dtype(x)):
        return as_type(x, to)
    return compute(bitcast, x, to=to)


@rule("Pow")
def power(_: Reader, attrs: dict[str, Any], x: Item, exponent: Item) -> Item:
    base, by = _dtype(x), _dtype(exponent)
    if base is by:
        return compute(pow, x, exponent)
    if base.is_float or not by.is_float:
        return compute(pow, x, as_type(exponent, base))
    return as_type(compute(pow, as_type(x, by), exponent), base)  # type: ignore[no-any-return]


@rule("Mod")
def modulo(_: Reader, attrs: dict[str, Any], a: Item, b: Item) -> Item:
    return compute(mod, a, b, truncated=bool(attrs.get("fmod", 0)))


def _bits(kind: str) -> Rule:
    return lambda _, attrs, a, b: compute(bitwise, a, b, kind=kind)


RULES |= {"BitwiseAnd": _bits("and"), "BitwiseOr": _bits("or"), "BitwiseXor": _bits("xor")}


@rule("BitwiseNot")
def bitwise_not(_: Reader, attrs: dict[str, Any], x: Item) -> Item:
    return compute(bitwise, x, np.full((), -1).astype(_dtype(x).numpy), kind="xor")


@rule("BitShift")
def bit_shift(_: Reader, attrs: dict[str, Any], a: Item, b: Item) -> Item:
    return compute(bitwise, a, b, kind=attrs["direction"].lower())


@rule("Xor")
def xor(_: Reader, attrs: dict[str, Any], a: Item, b: Item) -> Item:
    return compute(logical_not, compute(equal, a, b))


@rule("IsInf")
def is_inf(_: Reader, attrs: dict[str, Any], x: Item) -> Item:
    signs = [s for s, n in ((np.inf, "positive"), (-np.inf, "negative"))
             if attrs.get(f"detect_{n}", 1)]  # fmt: skip
    found = [compute(equal, x, np.float32(s)) for s in signs]
    if not found:  # nothing is asked for: false everywhere
        return compute(logical_not, compute(logical_or, compute(equal, x, x), compute(is_nan, x)))
    return reduce(lambda a, b: compute(logical_or, a, b), found)


@rule("ai.onnx.ml.Binarizer")
def binarizer(_: Reader, attrs: dict[str, Any], x: Item) -> Item:
    above = compute(OPS["greater"], x, np.float32(attrs.get("threshold", 0.0)))
    return as_type(above, _dtype(x))  # type: ignore[no-any-return]


@rule("Neg")
def negative(_: Reader, attrs: dict[str, Any], x: Item) -> Item:
    return compute(neg, x)


@rule("Where")
def where_(_: Reader, attrs: dict[str, Any], condition: Item, a: Item, b: Item) -> Item:
    return compute(where, condition, a, b)


DIRECT: dict[str, Rule] = {o.onnx: _direct(o) for o in OPS.values() if o.onnx}
