"""Operators that work number by number, on real numbers and plain integers."""

from __future__ import annotations

from functools import reduce

import numpy as np

from converter.errors import ConvertError
from converter.items import Item, axis_of, check_count, known, number, shape_of, wrapped_around
from converter.tflite.rules.common import (
    MOVES,
    PLAIN,
    Call,
    Reader,
    Rule,
    activated,
    as_value,
    compute,
    is_stored,
    plain,
    rank_of,
    real,
    rule,
    sizes,
)
from ir.dtype import DType
from ir.graph import Value
from ir.op import OPS


def _one(name: str, **attrs: object) -> Rule:
    return lambda _, call, x: compute(OPS[name], x, **attrs)


def _two(name: str) -> Rule:
    return lambda _, call, a, b: compute(OPS[name], *_alike(a, b))


PLAIN |= {
    tflite: _one(ours)
    for tflite, ours in (
        ("ABS", "abs"),
        ("CEIL", "ceil"),
        ("COS", "cos"),
        ("ELU", "elu"),
        ("EXP", "exp"),
        ("FLOOR", "floor"),
        ("HARD_SWISH", "hard_swish"),
        ("LOG", "log"),
        ("LOGICAL_NOT", "logical_not"),
        ("LOGISTIC", "sigmoid"),
        ("NEG", "neg"),
        ("RELU", "relu"),
        ("ROUND", "round"),
        ("SIGN", "sign"),
        ("SIN", "sin"),
        ("SQRT", "sqrt"),
        ("TANH", "tanh"),
    )
}
PLAIN |= {
    tflite: _two(ours)
    for tflite, ours in (
        ("EQUAL", "equal"),
        ("GREATER", "greater"),
        ("GREATER_EQUAL", "greater_equal"),
        ("LESS", "less"),
        ("LESS_EQUAL", "less_equal"),
        ("LOGICAL_AND", "logical_and"),
        ("LOGICAL_OR", "logical_or"),
        ("MAXIMUM", "maximum"),
        ("MINIMUM", "minimum"),
        ("POW", "pow"),
    )
}
PLAIN |= {
    "RELU6": _one("clip", low=0.0, high=6.0),
    "RELU_N1_TO_1": _one("clip", low=-1.0, high=1.0),
    "RELU_0_TO_1": _one("clip", low=0.0, high=1.0),
}


def _alike(a: Item, b: Item) -> tuple[Item, Item]:
    """Two known integers of different widths as one type: exporters mix 32 and 64 bits."""
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray) and a.dtype != b.dtype:
        kind = np.result_type(a, b)
        return a.astype(kind), b.astype(kind)
    return a, b


def _arithmetic(name: str) -> Rule:
    return lambda _, call, a, b: activated(call, compute(OPS[name], *_alike(a, b)))


PLAIN |= {"ADD": _arithmetic("add"), "SUB": _arithmetic("sub"), "MUL": _arithmetic("mul")}


@rule(PLAIN, "DIV")
def div(_: Reader, call: Call, a: Item, b: Item) -> Item:
    y = compute(OPS["div"], *_alike(a, b))  # of integers rounded towards 0
    return y if is_integer(a) else activated(call, y)


@rule(PLAIN, "FLOOR_DIV")
def floor_div(_: Reader, call: Call, a: Item, b: Item) -> Item:
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray) and a.dtype.kind in "iO":
        return np.asarray(a // b)
    y = compute(OPS["div"], a, b)
    if not is_integer(a):
        return compute(OPS["floor"], y)
    rests = (compute(OPS["mod"], a, b, truncated=t) for t in (False, True))
    rounded_up = compute(OPS["logical_not"], compute(OPS["equal"], *rests))
    return compute(OPS["sub"], y, compute(OPS["cast"], rounded_up, to="i32"))


@rule(PLAIN, "FLOOR_MOD")
def floor_mod(_: Reader, call: Call, a: Item, b: Item) -> Item:
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray) and a.dtype.kind in "iO":
        return np.asarray(a % b)
    return compute(OPS["mod"], a, b)


def is_integer(x: Item) -> bool:
    kind = x.dtype
    return kind is DType.i32 if isinstance(x, Value) else np.dtype(kind).kind in "iuO"  # type: ignore[union-attr, arg-type]


@rule(PLAIN, "NOT_EQUAL")
def not_equal(_: Reader, call: Call, a: Item, b: Item) -> Item:
    return compute(OPS["logical_not"], compute(OPS["equal"], *_alike(a, b)))


@rule(PLAIN, "SQUARE")
def square(_: Reader, call: Call, x: Item) -> Item:
    return compute(OPS["mul"], x, x)


@rule(PLAIN, "SQUARED_DIFFERENCE")
def squared_difference(_: Reader, call: Call, a: Item, b: Item) -> Item:
    d = compute(OPS["sub"], a, b)
    return compute(OPS["mul"], d, d)


@rule(PLAIN, "RSQRT")
def rsqrt(_: Reader, call: Call, x: Item) -> Item:
    return compute(OPS["reciprocal"], compute(OPS["sqrt"], x))


@rule(PLAIN, "ADD_N")
def add_n(_: Reader, call: Call, *items: Item) -> Item:
    return reduce(lambda a, b: compute(OPS["add"], a, b), items)


@rule(PLAIN, "LEAKY_RELU")
def leaky_relu(_: Reader, call: Call, x: Item) -> Item:
    return compute(OPS["leaky_relu"], x, alpha=call.attrs["alpha"])


@rule(PLAIN, "GELU")
def gelu(_: Reader, call: Call, x: Item) -> Item:
    kind = "tanh" if call.attrs["approximate"] else "none"
    return compute(OPS["gelu"], x, approximate=kind)


@rule(PLAIN, "PRELU")
def prelu(_: Reader, call: Call, x: Item, alpha: Item) -> Item:
    """x above 0, alpha x below; alpha stretches and may train."""
    below = compute(OPS["minimum"], x, np.float32(0))
    return compute(OPS["add"], compute(OPS["relu"], x), compute(OPS["mul"], below, alpha))


@rule(MOVES, "CAST")
def cast(_: Reader, call: Call, x: Item) -> Item:
    """To the type of the result; a stored number is cast as what is stored."""
    t, element = call.input(0), call.y.element
    if is_stored(t) and t.element == np.uint8 and t.scales is not None:
        x = compute(OPS["add"], compute(OPS["cast"], x, to="i32"), np.int32(128))
    if element is None:
        raise ConvertError(f"a cast to {call.y.problem or 'a resource'}; want numbers")
    if isinstance(x, np.ndarray):
        return x if x.dtype == object else plain(x.astype(element))
    return wrapped_around(compute(OPS["cast"], x, to=plain_type(element).name), element.name)


def plain_type(element: np.dtype[np.generic]) -> DType:
    """What plain numbers of a file are here: float32 and int32 for those of other widths."""
    if element.kind == "f":
        return DType.f32
    if element.kind in "iu" and element.itemsize > 1:
        return DType.i32
    return DType.of(np.zeros(0, element))


@rule(MOVES, "DEQUANTIZE")
def dequantize(_: Reader, call: Call, x: Item) -> Item:
    """The real numbers; weights of 16 bits are float32 here already."""
    return real(x, call.input(0))


@rule(MOVES, "DENSIFY")
def densify(_: Reader, call: Call, x: Item) -> Item:
    """Weights without their zeros are written out when the file is read."""
    return x


@rule(PLAIN, "FAKE_QUANT")
def fake_quant(_: Reader, call: Call, x: Item) -> Item:
    attrs = call.attrs
    steps = 2 ** attrs["num_bits"] - 1 - attrs["narrow_range"]
    scale = (attrs["max"] - attrs["min"]) / steps if steps > 0 else 0.0
    if scale <= 0 or not attrs["min"] <= 0 <= attrs["max"]:
        raise ConvertError(f"from {attrs['min']} to {attrs['max']} in {steps} steps")
    zero = round(-attrs["min"] / scale)
    y = compute(OPS["fake_quantize"], x, scale=scale, zero_point=0, low=-zero, high=steps - zero)
    return y


@rule(MOVES, "RANGE")
def range_(_: Reader, call: Call, start: Item, limit: Item, delta: Item) -> Item:
    a, b, step = (known(v, "bound").item() for v in (start, limit, delta))
    check_count((b - a) // step)
    return np.arange(a, b, step, dtype=known(start, "start").dtype)


@rule(PLAIN, "ONE_HOT")
def one_hot(_: Reader, call: Call, x: Item, depth: Item, on: Item, off: Item) -> Item:
    if axis_of(call.attrs["axis"], rank_of(x) + 1) != rank_of(x):
        raise ConvertError(f"axis {call.attrs['axis']}; want the last one")
    count = int(number(depth, "depth"))
    y = compute(
        OPS["one_hot"], x, depth=count, on=number(on, "on_value"), off=number(off, "off_value")
    )
    return y if call.y.element == np.float32 else compute(OPS["cast"], y, to="i32")


@rule(PLAIN, "DYNAMIC_UPDATE_SLICE")
def dynamic_update_slice(_: Reader, call: Call, x: Item, update: Item, starts: Item) -> Item:
    """The update in its place, which must be known: zeros around it, and x elsewhere."""
    first, inner, outer = sizes(starts, "start_indices"), shape_of(update), shape_of(x)
    places = [min(max(s, 0), int(n) - int(u)) for s, n, u in zip(first, outer, inner, strict=True)]
    after = tuple(int(n) - s - int(u) for n, s, u in zip(outer, places, inner, strict=True))
    options = {"before": tuple(places), "after": after}
    mask = np.pad(np.ones([int(u) for u in inner], np.bool_), list(zip(places, after, strict=True)))
    return compute(OPS["where"], mask, compute(OPS["pad"], as_value(update), **options), x)
