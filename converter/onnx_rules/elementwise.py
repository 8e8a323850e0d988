"""Operators that work number by number."""

from __future__ import annotations

from functools import reduce
from typing import Any

import numpy as np

from converter.errors import ConvertError
from converter.onnx_rules.common import RULES, Item, Reader, Rule, compute, narrow, number, rule
from ir.dtype import DType
from ir.op import OPS, Op


def _direct(op: Op) -> Rule:
    def apply(_: Reader, attrs: dict[str, Any], *items: Item) -> Item:
        if unknown := attrs.keys() - op.attrs.keys():
            raise ConvertError(f"attributes {sorted(unknown)} have no counterpart in {op.name}")
        return compute(op, *items, **attrs)

    return apply


@rule("Div")
def div(_: Reader, attrs: dict[str, Any], a: Item, b: Item) -> Item:
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray) and a.dtype.kind in "iO":
        return np.asarray(a // b)
    return compute(OPS["div"], a, b)


@rule("Clip")
def clip(_: Reader, attrs: dict[str, Any], x: Item, low: Item = None, high: Item = None) -> Item:
    lowest = attrs.get("min", -np.inf) if low is None else number(low, "min")
    highest = attrs.get("max", np.inf) if high is None else number(high, "max")
    return compute(OPS["clip"], x, low=lowest, high=highest)


@rule("LeakyRelu")
def leaky_relu(_: Reader, attrs: dict[str, Any], x: Item) -> Item:
    return compute(OPS["leaky_relu"], x, alpha=attrs.get("alpha", 0.01))


@rule("Elu")
def elu(_: Reader, attrs: dict[str, Any], x: Item) -> Item:
    return compute(OPS["elu"], x, alpha=attrs.get("alpha", 1.0))


@rule("HardSigmoid")
def hard_sigmoid(_: Reader, attrs: dict[str, Any], x: Item) -> Item:
    return compute(
        OPS["hard_sigmoid"], x, alpha=attrs.get("alpha", 0.2), beta=attrs.get("beta", 0.5)
    )


@rule("Gelu")
def gelu(_: Reader, attrs: dict[str, Any], x: Item) -> Item:
    return compute(OPS["gelu"], x, approximate=attrs.get("approximate", "none"))


def _fold(op: str) -> Rule:
    return lambda _, attrs, *items: reduce(lambda a, b: compute(OPS[op], a, b), items)


RULES |= {"Sum": _fold("add"), "Max": _fold("maximum"), "Min": _fold("minimum")}


@rule("Mean")
def mean(_: Reader, attrs: dict[str, Any], *items: Item) -> Item:
    total = reduce(lambda a, b: compute(OPS["add"], a, b), items)
    return compute(OPS["mul"], total, np.float32(1 / len(items)))


@rule("Identity", "Dropout")
def identity(_: Reader, attrs: dict[str, Any], x: Item, *rest: Item) -> Item:
    return x


@rule("Cast")
def cast(_: Reader, attrs: dict[str, Any], x: Item) -> Item:
    import onnx

    dtype = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(attrs["to"]))
    if isinstance(x, np.ndarray):
        return x if x.dtype == object else x.astype(dtype)
    return compute(OPS["cast"], x, to=DType.of(narrow(np.zeros(0, dtype))).name)


@rule("Pow")
def power(_: Reader, attrs: dict[str, Any], x: Item, exponent: Item) -> Item:
    if isinstance(exponent, np.ndarray) and exponent.dtype.kind == "i":
        exponent = exponent.astype(np.float32)
    return compute(OPS["pow"], x, exponent)


DIRECT: dict[str, Rule] = {o.onnx: _direct(o) for o in OPS.values() if o.onnx}
