"""The element types of an ONNX model that are computed with in wider ones.

int16 and uint16 are computed as int32, uint32 and uint64 as int64, and what comes out wraps around
to their own range; float16 and bfloat16 as float32, rounded where the model casts to them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from converter.errors import ConvertError
from converter.items import wrapped_around
from ir.graph import Value

# By ONNX's numbers.
KINDS = {
    4: "uint16", 5: "int16", 10: "float16", 12: "uint32", 13: "uint64", 16: "bfloat16",
}  # fmt: skip
# What these give is among what they are given, or smaller: nothing to wrap around.
MOVES = frozenset((
    "ArrayFeatureExtractor", "Clip", "Compress", "Concat", "ConcatFromSequence", "Constant",
    "ConstantOfShape", "DepthToSpace", "DynamicQuantizeLinear", "Expand", "EyeLike", "Flatten",
    "Gather", "GatherElements", "GatherND", "Identity", "If", "Loop", "Max", "MaxPool", "Min",
    "Mod", "NonZero", "OneHot", "Pad", "QuantizeLinear", "ReduceMax", "ReduceMin", "Relu",
    "Reshape", "ReverseSequence", "Scan", "Sign", "Slice", "SpaceToDepth", "Split", "Squeeze",
    "TensorScatter", "Tile", "TopK", "Transpose", "Trilu", "Unique", "Unsqueeze", "Where",
))  # fmt: skip
# Right modulo 2^64 whatever the sign of what holds the bits.
_MODULAR = frozenset((
    "Add", "BitwiseAnd", "BitwiseNot", "BitwiseOr", "BitwiseXor", "Cast", "CastLike", "Equal",
    "Mul", "Sub", "Sum",
))  # fmt: skip
_BY_SIZE = frozenset((
    "Clip", "Max", "MaxPool", "Min", "Mod", "ReduceMax", "ReduceMin", "Relu", "Sign", "TopK",
    "Unique",
))  # fmt: skip


def kind_of_value(info: Any) -> str | None:
    """The kind that an ONNX ValueInfoProto declares, where it is one of KINDS."""
    return KINDS.get(info.type.tensor_type.elem_type)


def numpy_of(kind: str) -> np.dtype[Any]:
    """The numpy type of one of KINDS."""
    import onnx

    numbers = {name: number for number, name in KINDS.items()}
    return np.dtype(onnx.helper.tensor_dtype_to_np_dtype(numbers[kind]))


def kinds_of_results(
    onnx: Any, node: Any, opset: int, given: Sequence[str | None], inner: Sequence[str | None]
) -> list[str | None]:
    """Of each result of a node whose inputs are of the kinds `given`, its kind; `inner`: those of
    what the graph inside gives."""
    if node.op_type in ("If", "Loop", "Scan"):
        found = inner[node.op_type == "Loop" :]
        return [*found, *[None] * (len(node.output) - len(found))]
    asked = [KINDS.get(a.t.data_type if a.name == "value" else a.i) for a in node.attribute
             if a.name in ("to", "dtype", "output_dtype", "output_datatype", "value")]  # fmt: skip
    if not any(given) and not any(asked):
        return [None] * len(node.output)
    try:
        schema = onnx.defs.get_schema(node.op_type, opset, node.domain)
    except Exception:  # onnx's own error type is not public
        return [None] * len(node.output)
    known = dict(zip(_types(schema.inputs, len(given)), given, strict=True))
    free = asked[0] if asked else None
    found = _types(schema.outputs, len(node.output))
    return [None if t.startswith("tensor(") else known.get(t, free) for t in found]


def _types(formal: Sequence[Any], count: int) -> list[str]:
    """The types of `count` inputs or results, by their names in a schema; the last may be many."""
    names = [f.type_str for f in formal]
    return (names + names[-1:] * count)[:count] if names else [""] * count


def check_order(operator: str, given: Sequence[str | None], items: Sequence[Any]) -> None:
    """Raise ConvertError where numbers of uint64, whose bits an int64 holds, would be compared."""
    ordered = operator in _BY_SIZE or operator not in MOVES | _MODULAR
    for kind, item in zip(given, items, strict=True):
        if kind == "uint64" and ordered and isinstance(item, Value):
            raise ConvertError("elements of uint64 are not computed with; want int64")


def wrapped(operator: str, item: Any, kind: str | None) -> Any:
    """What a rule made, of numbers that its kind holds."""
    return item if kind is None or operator in MOVES else wrapped_around(item, kind)
