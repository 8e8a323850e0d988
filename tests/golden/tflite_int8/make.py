"""Write int8.npz: what TFLite's reference kernels make of random int8 calls.

Run with `pip install ai-edge-litert==2.3.0`, from the project's root:
`python tests/golden/tflite_int8/make.py`. The test reads only the file.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import flatbuffers
import numpy as np
from ai_edge_litert import schema_py_generated as tfl
from ai_edge_litert.interpreter import Interpreter, OpResolverType

from ir import quantization
from ir.graph import Array

RNG = np.random.default_rng(3)
TYPES = {
    "float32": tfl.TensorType.FLOAT32,
    "int8": tfl.TensorType.INT8,
    "int32": tfl.TensorType.INT32,
}
VERSIONS = {"CONV_2D": 3, "DEPTHWISE_CONV_2D": 3, "FULLY_CONNECTED": 4}  # that take int8
Scale = tuple[Any, int, int]  # scale (or one a channel), zero point, axis of the channels


def int8s(*shape: int, low: int = -128) -> Array:
    return RNG.integers(low, 128, shape).astype(np.int8)


def f32(low: float, high: float) -> float:
    return float(np.float32(RNG.uniform(low, high)))


def tensor(shape: tuple[int, ...], dtype: str, scale: Scale | None, buffer: int) -> Any:
    t = tfl.TensorT()
    t.shape, t.type, t.buffer = list(shape), TYPES[dtype], buffer
    if scale:
        t.quantization = tfl.QuantizationParametersT()
        t.quantization.scale = np.atleast_1d(scale[0]).astype(np.float32).tolist()
        t.quantization.zeroPoint = [scale[1]] * len(t.quantization.scale)
        t.quantization.quantizedDimension = scale[2]
    return t


def run(
    code: str,
    options: tuple[str, dict[str, Any]],
    inputs: list[tuple[Array, Scale | None]],
    result: tuple[tuple[int, ...], str, Scale | None],
) -> Array:
    """What one operator makes of its inputs on the reference kernels."""
    variable = 2 if code in ("ADD", "MUL") else 1  # the others are constants of the model
    interpreter = Interpreter(
        model_content=model_of(code, options, inputs, result, variable),
        experimental_op_resolver_type=OpResolverType.BUILTIN_REF,
    )
    interpreter.allocate_tensors()
    for detail, (x, _) in zip(interpreter.get_input_details(), inputs, strict=False):
        interpreter.set_tensor(detail["index"], x)
    interpreter.invoke()
    return interpreter.get_tensor(interpreter.get_output_details()[0]["index"])


def model_of(
    code: str, options: tuple[str, dict[str, Any]], inputs: list[Any], result: Any, variable: int
) -> bytes:
    model, graph = tfl.ModelT(), tfl.SubGraphT()
    model.version, model.buffers, graph.tensors = 3, [tfl.BufferT()], []
    for i, (array, scale) in enumerate(inputs):
        if i >= variable:
            model.buffers.append(tfl.BufferT())
            model.buffers[-1].data = np.frombuffer(array.tobytes(), np.uint8)
        buffer = len(model.buffers) - 1
        graph.tensors.append(tensor(array.shape, array.dtype.name, scale, buffer))
    graph.tensors.append(tensor(*result, 0))
    graph.inputs, graph.outputs = list(range(variable)), [len(inputs)]
    graph.operators = [operator_of(options, list(range(len(inputs))), graph.outputs)]
    opcode = tfl.OperatorCodeT()
    opcode.builtinCode = opcode.deprecatedBuiltinCode = getattr(tfl.BuiltinOperator, code)
    opcode.version = 1 if inputs[0][0].dtype == np.float32 else VERSIONS.get(code, 2)
    model.operatorCodes, model.subgraphs = [opcode], [graph]
    builder = flatbuffers.Builder()
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())


def operator_of(options: tuple[str, dict[str, Any]], inputs: list[int], outputs: list[int]) -> Any:
    op = tfl.OperatorT()
    op.opcodeIndex, op.inputs, op.outputs = 0, inputs, outputs
    op.builtinOptionsType = getattr(tfl.BuiltinOptions, options[0])
    op.builtinOptions = getattr(tfl, options[0] + "T")()
    for name, value in options[1].items():
        setattr(op.builtinOptions, name, value)
    return op


Sample = tuple[str, list[Array], dict[str, Any], Array]  # operator, inputs, attributes, result


def layers() -> list[Sample]:
    sx, sy, k = f32(0.02, 0.04), f32(0.4, 0.9), 9
    scales = RNG.uniform(0.002, 0.02, k).astype(np.float32)
    bias = RNG.integers(-3000, 3000, k).astype(np.int32)
    zeros = {"x_zero": 4, "y_zero": -7}
    window = {
        "padding": tfl.Padding.SAME, "strideH": 1, "strideW": 1,
        "dilationHFactor": 1, "dilationWFactor": 1,
    }  # fmt: skip
    one = np.full(k, f32(0.008, 0.012), np.float32)
    out = []
    for name, code, options, x, w, shape, axis, s in (
        ("quantized_conv2d", "CONV_2D", ("Conv2DOptions", window),
         int8s(1, 6, 5, 5), int8s(k, 3, 3, 5, low=-127), (1, 6, 5, k), 0, scales),
        ("quantized_depthwise_conv2d", "DEPTHWISE_CONV_2D",
         ("DepthwiseConv2DOptions", {**window, "depthMultiplier": 1}),
         int8s(1, 6, 5, k), int8s(1, 3, 3, k, low=-127), (1, 6, 5, k), 3, scales),
        ("quantized_linear", "FULLY_CONNECTED", ("FullyConnectedOptions", {}),
         int8s(7, 40), int8s(k, 40, low=-127), (7, k), 0, one),
    ):  # fmt: skip
        given = s[:1] if s is one else s
        inputs = [(x, (sx, 4, 0)), (w, (given, 0, axis)), (bias, (sx * given, 0, 0))]
        y = run(code, options, inputs, (shape, "int8", (sy, -7, 0)))
        multiplier, shift = quantization.channel_multipliers(sx, s, sy)
        pads = {} if name == "quantized_linear" else {"pads": (1, 1, 1, 1)}
        own = w[0] if "depthwise" in name else w
        out.append((name, [x, own, bias, multiplier, shift], {**zeros, **pads}, y))
    return out


def elementwise() -> list[Sample]:
    a, b, sa, sb = int8s(200), int8s(200), f32(0.01, 0.05), f32(0.01, 0.05)
    sy, sp = f32(0.02, 0.06), f32(0.03, 0.08)
    zeros = {"a_zero": 4, "b_zero": -30, "y_zero": 9}
    inputs: list[tuple[Array, Scale | None]] = [(a, (sa, 4, 0)), (b, (sb, -30, 0))]
    added = run("ADD", ("AddOptions", {}), inputs, (a.shape, "int8", (sy, 9, 0)))
    product = run("MUL", ("MulOptions", {}), inputs, (a.shape, "int8", (sp, 9, 0)))
    multiplier, shift = quantization.quantize_multiplier(sa * sb / sp)
    return [
        ("quantized_add", [a, b], {**zeros, **quantization.add_attrs(sa, sb, sy)}, added),
        ("quantized_mul", [a, b], {**zeros, "multiplier": multiplier, "shift": shift}, product),
    ]


def pools() -> list[Sample]:
    x, sx, sy = int8s(1, 7, 5, 60), f32(0.02, 0.04), f32(0.005, 0.01)
    axes = np.array([1, 2], np.int32)
    mean = run(
        "MEAN", ("ReducerOptions", {"keepDims": False}),
        [(x, (sx, 4, 0)), (axes, None)], ((1, 60), "int8", (sy, -9, 0)),
    )  # fmt: skip
    multiplier, shift = quantization.mean_multiplier(sx, sy, 35)
    z = int8s(1, 8, 8, 5)
    window = {
        "padding": tfl.Padding.SAME, "strideH": 2, "strideW": 2,
        "filterHeight": 3, "filterWidth": 3,
    }  # fmt: skip
    pooled = run(
        "AVERAGE_POOL_2D", ("Pool2DOptions", window),
        [(z, (sx, 4, 0))], ((1, 4, 4, 5), "int8", (sx, 4, 0)),
    )  # fmt: skip
    numbers = {"x_zero": 4, "y_zero": -9, "multiplier": multiplier, "shift": shift}
    places = {"size": (3, 3), "strides": (2, 2), "pads": (0, 0, 1, 1)}
    return [
        ("quantized_mean", [x], numbers, mean),
        ("quantized_avg_pool2d", [z], places, pooled),
    ]


def conversions() -> list[Sample]:
    v, q = RNG.uniform(-6, 6, 200).astype(np.float32), int8s(200)
    s, t = f32(0.03, 0.05), f32(0.03, 0.06)
    scale = {"scale": s, "zero_point": 5}
    multiplier, shift = quantization.quantize_multiplier(s / t)
    moved = {"x_zero": 5, "y_zero": -11, "multiplier": multiplier, "shift": shift}
    n, to = v.shape, ("QuantizeOptions", {})
    back = run("DEQUANTIZE", ("DequantizeOptions", {}), [(q, (s, 5, 0))], (n, "float32", None))
    return [
        ("quantize", [v], scale, run("QUANTIZE", to, [(v, None)], (n, "int8", (s, 5, 0)))),
        ("dequantize", [q], scale, back),
        ("requantize", [q], moved,
         run("QUANTIZE", to, [(q, (s, 5, 0))], (n, "int8", (t, -11, 0)))),
    ]  # fmt: skip


def main() -> None:
    parts = [layers, elementwise, pools, conversions]
    calls = [sample for _ in range(3) for part in parts for sample in part()]
    arrays: dict[str, Array] = {}
    for i, (_, inputs, _, y) in enumerate(calls):
        arrays |= {f"{i}_x{j}": x for j, x in enumerate(inputs)} | {f"{i}_y": y}
    index = json.dumps([[name, len(inputs), attrs] for name, inputs, attrs, _ in calls])
    np.savez_compressed(Path(__file__).with_name("int8.npz"), index=np.array(index), **arrays)


if __name__ == "__main__":
    main()
