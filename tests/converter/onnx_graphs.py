"""Small ONNX models written by hand, for what PyTorch's exporters do not emit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from ir.graph import Array

TYPES = {"f": TensorProto.FLOAT, "i": TensorProto.INT64, "b": TensorProto.BOOL}
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


def nested_functions(
    calls: Sequence[Sequence[str]], bytes_each: int = 0, x: Sequence[int | str] = (2,)
) -> bytes:
    """A model that calls the local function f0; f<i> calls those that `calls[i]` names, in a row,
    and is a Relu where there are none. Each node carries some bytes of text besides."""
    text = "." * bytes_each
    opset = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]

    def body(names: Sequence[str]) -> list[onnx.NodeProto]:
        kinds = [(name, "own") for name in names] or [("Relu", "")]
        places = ["x", *(f"v{i}" for i in range(len(kinds) - 1)), "y"]
        return [
            helper.make_node(kind, [a], [b], domain=domain, doc_string=text)
            for (kind, domain), a, b in zip(kinds, places[:-1], places[1:], strict=True)
        ]

    made = helper.make_model(
        helper.make_graph(
            body(["f0"]),
            "test",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, list(x))],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, list(x))],
        ),
        opset_imports=opset,
        ir_version=8,
        functions=[
            helper.make_function("own", f"f{i}", ["x"], ["y"], body(names), opset)
            for i, names in enumerate(calls)
        ],
    )
    return made.SerializeToString()  # type: ignore[no-any-return]


def inner(
    nodes: Sequence[Node],
    inputs: Mapping[str, str],
    outputs: Sequence[str],
    arrays: Mapping[str, Array] | None = None,
) -> onnx.GraphProto:
    """A graph inside; its inputs are names and types; but for the counter i and the condition c
    they have no shapes."""
    return helper.make_graph(
        [helper.make_node(k, i, o, **a) for k, i, o, a in nodes],
        "inner",
        [
            helper.make_tensor_value_info(n, TYPES[t], [] if n in "ic" else None)
            for n, t in inputs.items()
        ],
        [onnx.ValueInfoProto(name=n) for n in outputs],
        [numpy_helper.from_array(np.asarray(a), n) for n, a in (arrays or {}).items()],
    )


def quantized_net() -> bytes:
    """conv → relu → pool → matmul, with QuantizeLinear and DequantizeLinear around everything."""
    rng = np.random.default_rng(0)
    w, v = rng.integers(-127, 128, (4, 3, 3, 3)), rng.integers(-127, 128, (4, 5))
    zero, zeros = np.zeros((), np.uint8), np.zeros(4, np.int8)

    def ends(name: str, to: str, scale: str) -> list[Node]:
        pair = [scale, "zero"]
        return [("QuantizeLinear", [name, *pair], [f"{to}_q"], {}),
                ("DequantizeLinear", [f"{to}_q", *pair], [to], {})]  # fmt: skip

    return model(
        [*ends("x", "a", "s"),
         ("DequantizeLinear", ["w", "ws", "wz"], ["wf"], {"axis": 0}),
         ("Conv", ["a", "wf"], ["b"], {"pads": [1, 1, 1, 1]}), ("Relu", ["b"], ["c"], {}),
         *ends("c", "d", "t"),
         ("GlobalAveragePool", ["d"], ["e"], {}), ("Flatten", ["e"], ["f"], {}),
         ("DequantizeLinear", ["v", "s"], ["vf"], {}), ("MatMul", ["f", "vf"], ["y"], {})],
        {"x": (2, 3, 6, 6)}, ["y"],
        {"s": np.float32(0.02).reshape(()), "t": np.float32(0.05).reshape(()), "zero": zero,
         "w": w.astype(np.int8), "ws": np.float32([0.01, 0.02, 0.005, 0.01]), "wz": zeros,
         "v": v.astype(np.int8)},
    )  # fmt: skip


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
