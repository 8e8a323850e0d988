"""Small ONNX models written by hand, for what PyTorch's exporters do not emit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from ir.graph import Array

Node = tuple[str, Sequence[str], Sequence[str], Mapping[str, object]]


def model(
    nodes: Sequence[Node],
    inputs: Mapping[str, Sequence[int | str]],
    outputs: Sequence[str],
    arrays: Mapping[str, Array] | None = None,
    opset: int = 17,
    input_type: int = TensorProto.FLOAT,
) -> bytes:
    """The bytes of a model; a node is (kind, inputs, outputs, attributes)."""
    graph = helper.make_graph(
        [helper.make_node(k, list(i), list(o), **a) for k, i, o, a in nodes],
        "test",
        [helper.make_tensor_value_info(n, input_type, list(s)) for n, s in inputs.items()],
        [onnx.ValueInfoProto(name=n) for n in outputs],
        [numpy_helper.from_array(a, n) for n, a in (arrays or {}).items()],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    return made.SerializeToString()  # type: ignore[no-any-return]


def one(
    kind: str,
    shape: Sequence[int | str],
    arrays: Mapping[str, Array] | None = None,
    opset: int = 17,
    **attrs: object,
) -> bytes:
    """A model of one node on `x` and the arrays in order."""
    names = ["x", *(arrays or {})]
    return model([(kind, names, ["y"], attrs)], {"x": shape}, ["y"], arrays, opset)


def floats(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def ints(*numbers: int) -> Array:
    return np.array(numbers, np.int64)
