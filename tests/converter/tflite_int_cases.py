"""One small TFLite model for each operator on integers that tests compare with LiteRT."""

from __future__ import annotations

from typing import Any

import numpy as np

from ir.graph import Array
from tests.converter.tflite_cases import IMAGE, ONE, POOL, RELU, RELU6, TANH, TWO, VALID, i, x, y
from tests.converter.tflite_graphs import G, O, T, constant, file_of, int8s, ints, one


def qx(*shape: int, scale: float = 0.05, zero: int = 3, dtype: Any = np.int8) -> T:
    return T("x", shape, dtype, scale=scale, zero=zero)


def qy(*shape: int, scale: float = 0.07, zero: int = -5, dtype: Any = np.int8) -> T:
    return T("y", shape, dtype, scale=scale, zero=zero)


def qw(data: Array, axis: int = 0, channels: bool = True, seed: int = 2) -> T:
    n = data.shape[axis] if channels else 1
    scale = np.random.default_rng(seed).uniform(0.002, 0.02, n).astype(np.float32)
    return constant("w", data, scale=scale, axis=axis)


def qb(w: T, n: int, x_scale: float = 0.05) -> T:
    data = np.random.default_rng(4).integers(-2000, 2000, n).astype(np.int32)
    scale = np.asarray(w.scale, np.float32) * np.float32(x_scale)
    return constant("b", data, scale=scale)


def q(name: str, *shape: int, scale: float = 0.03, zero: int = -9) -> T:
    return constant(name, int8s(*shape, seed=5), scale=scale, zero=zero)


CONV_W, DEPTH_W, DENSE_W = (
    int8s(5, 3, 3, 4, low=-127),
    int8s(1, 3, 3, 8, low=-127),
    int8s(5, 8, low=-127),
)
INT8: dict[str, bytes] = {
    "conv": one("CONV_2D", [qx(*IMAGE), qw(CONV_W), qb(qw(CONV_W), 5)], qy(1, 4, 3, 5), **TWO),
    "conv, relu6": one(
        "CONV_2D", [qx(*IMAGE), qw(CONV_W), qb(qw(CONV_W), 5)], qy(1, 7, 6, 5, scale=0.05),
        activation=RELU6, **ONE,
    ),
    "conv, one scale": one(
        "CONV_2D", [qx(*IMAGE), qw(CONV_W, channels=False), qb(qw(CONV_W, channels=False), 5)],
        qy(1, 7, 6, 5), activation=RELU, **ONE,
    ),
    "depthwise": one(
        "DEPTHWISE_CONV_2D",
        [qx(*IMAGE), qw(DEPTH_W[..., :4], 3), qb(qw(DEPTH_W[..., :4], 3), 4)], qy(1, 7, 6, 4),
        depth_multiplier=1, **ONE,
    ),
    "depthwise, two filters a channel": one(
        "DEPTHWISE_CONV_2D", [qx(*IMAGE), qw(DEPTH_W, 3), qb(qw(DEPTH_W, 3), 8)], qy(1, 4, 3, 8),
        depth_multiplier=2, **TWO,
    ),
    "fully connected": one(
        "FULLY_CONNECTED",
        [qx(3, 8), qw(DENSE_W, channels=False), qb(qw(DENSE_W, channels=False), 5)],
        qy(3, 5), activation=RELU,
    ),
    "fully connected, a scale each": one(
        "FULLY_CONNECTED", [qx(3, 8), qw(DENSE_W), qb(qw(DENSE_W), 5)], qy(3, 5), version=12
    ),
    "transposed conv": one(
        "TRANSPOSE_CONV",
        [i("s", 1, 14, 12, 5), qw(CONV_W), qx(*IMAGE)], qy(1, 14, 12, 5), stride_w=2, stride_h=2,
    ),
    "transposed conv, valid, strides 3 and 1": one(
        "TRANSPOSE_CONV",
        [i("s", 1, 21, 8, 5), qw(CONV_W), qx(*IMAGE), qb(qw(CONV_W), 5)], qy(1, 21, 8, 5),
        stride_w=1, stride_h=3, padding=VALID, version=3,
    ),
    "add": one("ADD", [qx(3, 40), q("b", 3, 40)], qy(3, 40), activation=RELU),
    "add, stretched": one("ADD", [qx(3, 40), q("b", 40)], qy(3, 40)),
    "sub": one("SUB", [qx(3, 40), T("b", (3, 40), np.int8, scale=0.03, zero=7)], qy(3, 40)),
    "mul": one("MUL", [qx(3, 40), q("b", 1, 40)], qy(3, 40), activation=RELU6),
    "prelu": one("PRELU", [qx(*IMAGE), q("a", 1, 1, 4)], qy(*IMAGE)),
    "leaky relu": one("LEAKY_RELU", [qx(3, 400)], qy(3, 400), alpha=0.1),
    "max pool": one("MAX_POOL_2D", [qx(*IMAGE)], qy(1, 4, 3, 4, scale=0.05, zero=3), **POOL),
    "average pool": one(
        "AVERAGE_POOL_2D", [qx(*IMAGE)], qy(1, 4, 3, 4, scale=0.05, zero=3), activation=RELU, **POOL
    ),
    "mean": one("MEAN", [qx(2, 7, 5, 6), i("a", 1, 2)], qy(2, 6, scale=0.02), keep_dims=False),
    "mean, axes kept": one("MEAN", [qx(2, 7, 5, 6), i("a", 2)], qy(2, 7, 1, 6), keep_dims=True),
    "mean, far axes": one("MEAN", [qx(2, 7, 5, 6), i("a", 1, 3)], qy(2, 5), keep_dims=False),
    "sum": one("SUM", [qx(2, 7, 6), i("a", 1)], qy(2, 6, scale=0.2)),
    "largest": one("REDUCE_MAX", [qx(2, 7, 6), i("a", 1)], qy(2, 6, scale=0.05, zero=3)),
    "softmax": one("SOFTMAX", [qx(4, 40)], qy(4, 40, scale=1 / 256, zero=-128), beta=1.0),
    "log softmax": one(
        "LOG_SOFTMAX", [qx(4, 40)], qy(4, 40, scale=16 / 256, zero=127)
    ),
    "matmul": one(
        "BATCH_MATMUL", [qx(2, 3, 40), T("b", (2, 40, 5), np.int8, scale=0.02, zero=9)],
        qy(2, 3, 5, scale=0.15),
    ),
    "concat, other scales": one(
        "CONCATENATION", [qx(2, 30), T("b", (2, 20), np.int8, scale=0.05, zero=3)],
        qy(2, 50, scale=0.05, zero=3), axis=1,
    ),
    "pad": one("PAD", [qx(3, 4), i("p", [1, 0], [0, 2])], qy(4, 6, scale=0.05, zero=3)),
    "quantize again": one("QUANTIZE", [qx(3, 400)], qy(3, 400, scale=0.03)),
    "quantize without a sign": one(
        "QUANTIZE", [qx(3, 400)], qy(3, 400, scale=0.03, zero=140, dtype=np.uint8)
    ),
    "quantize": one("QUANTIZE", [x(3, 400)], qy(3, 400, scale=0.02)),
    "dequantize": one("DEQUANTIZE", [qx(3, 400)], y(3, 400)),
    "bilinear": one(
        "RESIZE_BILINEAR", [qx(1, 5, 6, 3), i("s", 10, 12)], qy(1, 10, 12, 3, scale=0.05, zero=3),
        half_pixel_centers=True, version=3,
    ),
    "bilinear, odd": one(
        "RESIZE_BILINEAR", [qx(1, 5, 6, 3), i("s", 7, 13)], qy(1, 7, 13, 3, scale=0.05, zero=3)
    ),
    "nearest": one(
        "RESIZE_NEAREST_NEIGHBOR", [qx(1, 5, 6, 3), i("s", 7, 13)],
        qy(1, 7, 13, 3, scale=0.05, zero=3),
    ),
    "maximum": one(
        "MAXIMUM", [qx(3, 40), q("b", 40, scale=0.05, zero=3)], qy(3, 40, scale=0.05, zero=3)
    ),
    "argmax": one(
        "ARG_MAX", [qx(3, 40), constant("a", np.int32(1))], y(3, dtype=np.int32), output_type=2
    ),
    "l2 normalisation": one(
        "L2_NORMALIZATION", [qx(4, 9, zero=0)], qy(4, 9, scale=1 / 128, zero=0)
    ),
    "strided slice": one(
        "STRIDED_SLICE", [qx(4, 6), i("b", 1, 0), i("e", 4, 6), i("s", 1, 2)],
        qy(3, 3, scale=0.05, zero=3),
    ),
    "squared difference": one(
        "SQUARED_DIFFERENCE", [qx(3, 40), q("b", 3, 40)], qy(3, 40), version=2
    ),
    "greater": one(
        "GREATER", [qx(3, 40), q("b", 3, 40, scale=0.05, zero=3)], y(3, 40, dtype=np.bool_)
    ),
}  # fmt: skip
INT8 |= {
    kind.lower().replace("_", " "): one(kind, [qx(3, 400)], qy(3, 400, **rest))
    for kind, rest in (
        ("LOGISTIC", {"scale": 1 / 256, "zero": -128}),
        ("TANH", {"scale": 1 / 128, "zero": 0}),
        ("HARD_SWISH", {}),
        ("RELU", {}),
        ("RELU6", {"scale": 6 / 255, "zero": -128}),
        ("RELU_N1_TO_1", {"scale": 2 / 255, "zero": 0}),
        ("ELU", {}),
        ("GELU", {}),
        ("ABS", {"scale": 0.05, "zero": 3}),
        ("EXP", {"scale": 2.0, "zero": -128}),
    )
}
INT8["hard swish, other scale"] = one("HARD_SWISH", [qx(3, 400)], qy(3, 400, scale=0.02, zero=-100))


def u8(data: Array) -> Array:
    return (data.astype(np.int16) + 128).astype(np.uint8)


def unsigned_layer(kind: str, data: Array, shape: tuple[int, ...], n: int, **attrs: Any) -> bytes:
    """A layer of an old file: without a sign, one scale, and a zero point of the weights too."""
    w = constant("w", u8(data), scale=0.01, zero=151)
    b = constant("b", qb(w, n, 0.05).data, scale=np.float32(0.05) * np.float32(0.01))
    given = (
        qx(3, 8, zero=131, dtype=np.uint8)
        if len(shape) == 2
        else qx(*IMAGE, zero=131, dtype=np.uint8)
    )
    return one(
        kind, [given, w, b], qy(*shape, scale=0.09, zero=120, dtype=np.uint8), version=1, **attrs
    )


def scaled(name: str, data: Array, scale: float) -> T:
    return constant(name, data, scale=np.float32(scale))


def lstm_case(inner: int = 8, units: int = 16) -> bytes:
    """Weights and outputs of 8 bits, cells of 16, biases of 32."""
    rng = np.random.default_rng(0)
    weights, biases = [], []
    for kind, width in (("w", inner), ("r", units)):
        for g in "ifco":
            scale = rng.uniform(0.002, 0.006)
            weights.append(
                scaled(f"{kind}{g}", int8s(units, width, low=-127, seed=len(weights)), scale)
            )
    for g, w in zip("ifco", weights, strict=False):
        data = rng.integers(-2000, 2000, units).astype(np.int32)
        biases.append(scaled(f"b{g}", data, np.float32(1 / 64) * np.float32(w.scale)))
    states = [
        T("h", (1, units), np.int8, scale=1 / 128, variable=True),
        T("c", (1, units), np.int16, scale=2.0**-11, variable=True),
    ]
    between = [T(f"m{k}", (1,), np.int16, scale=2.0**-12) for k in range(4)]
    between.append(T("m4", (1,), np.int8, scale=1 / 128))
    ends = qx(1, 12, inner, scale=1 / 64), qy(1, 12, units, scale=1 / 128, zero=0)
    names = ["x", *(t.name for t in weights), "", "", "", *(t.name for t in biases)]
    op = O(
        "UNIDIRECTIONAL_SEQUENCE_LSTM", [*names, "", "", "h", "c", "", "", "", ""], ["y"],
        {"activation": TANH}, between=[t.name for t in between],
    )  # fmt: skip
    tensors = [ends[0], *weights, *biases, *states, *between, ends[1]]
    return file_of(G(tensors, [op], ["x"], ["y"]))


INT8["lstm"] = lstm_case()
INT8["svdf"] = one(
    "SVDF",
    [
        qx(2, 6, scale=1 / 64),
        scaled("w", int8s(8, 6, low=-127), 0.01),
        scaled("v", int8s(8, 5, seed=3).astype(np.int16) * 100, 1e-4),
        scaled("b", ints(30, -20, 400, 5), 2.0**-11 * 1e-4),
        T("h", (2, 40), np.int16, scale=2.0**-11, variable=True),
    ],
    qy(2, 4, scale=0.02, zero=-128),
    rank=2,
    activation=RELU,
    version=3,
)
UINT8: dict[str, bytes] = {
    "conv": unsigned_layer("CONV_2D", int8s(5, 3, 3, 4), (1, 4, 3, 5), 5, **TWO, activation=RELU6),
    "depthwise": unsigned_layer(
        "DEPTHWISE_CONV_2D", int8s(1, 3, 3, 4), (1, 7, 6, 4), 4, depth_multiplier=1, **ONE
    ),
    "fully connected": unsigned_layer("FULLY_CONNECTED", DENSE_W, (3, 5), 5),
    "add": one(
        "ADD",
        [qx(3, 40, zero=131, dtype=np.uint8), constant("b", u8(int8s(3, 40)), scale=0.03, zero=90)],
        qy(3, 40, zero=120, dtype=np.uint8), version=1,
    ),
    "concat, other scales": one(
        "CONCATENATION",
        [qx(2, 30, zero=131, dtype=np.uint8), T("b", (2, 20), np.uint8, scale=0.03, zero=9)],
        qy(2, 50, zero=120, dtype=np.uint8), axis=1, version=1,
    ),
    "average pool": one(
        "AVERAGE_POOL_2D", [qx(*IMAGE, zero=131, dtype=np.uint8)],
        qy(1, 4, 3, 4, scale=0.05, zero=131, dtype=np.uint8), version=1, **POOL,
    ),
    "softmax": one(
        "SOFTMAX", [qx(4, 40, zero=131, dtype=np.uint8)],
        qy(4, 40, scale=1 / 256, zero=0, dtype=np.uint8), beta=1.0, version=1,
    ),
    "logistic": one(
        "LOGISTIC", [qx(4, 40, zero=131, dtype=np.uint8)],
        qy(4, 40, scale=1 / 256, zero=0, dtype=np.uint8), version=1,
    ),
    "bilinear": one(
        "RESIZE_BILINEAR", [qx(1, 5, 6, 3, zero=131, dtype=np.uint8), i("s", 10, 12)],
        qy(1, 10, 12, 3, scale=0.05, zero=131, dtype=np.uint8), version=1,
    ),
    "reshape": one(
        "RESHAPE", [qx(4, 6, zero=131, dtype=np.uint8), i("s", 3, 8)],
        qy(3, 8, scale=0.05, zero=131, dtype=np.uint8), version=1, new_shape=[3, 8],
    ),
    "dequantize": one("DEQUANTIZE", [qx(3, 40, zero=131, dtype=np.uint8)], y(3, 40), version=1),
}  # fmt: skip


def wide(name: str, *shape: int, scale: float) -> T:
    return T(name, shape, np.int16, scale=scale)


def wide_bias(w: T, n: int, x_scale: float) -> T:
    data = np.random.default_rng(4).integers(-200000, 200000, n).astype(np.int64)
    return constant("b", data, scale=np.asarray(w.scale, np.float32) * np.float32(x_scale))


def wide_constant(name: str, *shape: int, scale: float) -> T:
    data = np.random.default_rng(6).integers(-30000, 30000, shape).astype(np.int16)
    return constant(name, data, scale=scale)


INT16: dict[str, bytes] = {
    "conv": one(
        "CONV_2D",
        [wide("x", *IMAGE, scale=1e-4), qw(CONV_W), wide_bias(qw(CONV_W), 5, 1e-4)],
        wide("y", 1, 4, 3, 5, scale=4e-4), **TWO, version=8,
    ),
    "fully connected": one(
        "FULLY_CONNECTED",
        [wide("x", 3, 8, scale=1e-4), qw(DENSE_W, channels=False),
         wide_bias(qw(DENSE_W, channels=False), 5, 1e-4)],
        wide("y", 3, 5, scale=4e-4), version=11,
    ),
    "depthwise": one(
        "DEPTHWISE_CONV_2D",
        [wide("x", *IMAGE, scale=1e-4), qw(DEPTH_W[..., :4], 3),
         wide_bias(qw(DEPTH_W[..., :4], 3), 4, 1e-4)],
        wide("y", 1, 7, 6, 4, scale=4e-4), depth_multiplier=1, **ONE, version=5,
    ),
    "requantize": one(
        "QUANTIZE", [wide("x", 3, 40, scale=1e-4)], wide("y", 3, 40, scale=1.3e-4), version=3
    ),
    "average pool": one(
        "AVERAGE_POOL_2D", [wide("x", *IMAGE, scale=1e-4)], wide("y", 1, 4, 3, 4, scale=1e-4),
        version=3, **POOL,
    ),
    "mean": one(
        "MEAN", [wide("x", 2, 7, 5, 6, scale=1e-4), i("a", 1, 2)],
        wide("y", 2, 6, scale=4e-5), keep_dims=False, version=3,
    ),
    "add": one(
        "ADD", [wide("x", 3, 40, scale=1e-4), wide("b", 3, 40, scale=3e-4)],
        wide("y", 3, 40, scale=4e-4), version=3,
    ),
    "mul": one(
        "MUL", [wide("x", 3, 40, scale=1e-4), wide("b", 3, 40, scale=3e-4)],
        wide("y", 3, 40, scale=1e-3), version=4,
    ),
    "quantize": one("QUANTIZE", [x(3, 40)], wide("y", 3, 40, scale=1e-4), version=2),
    "dequantize": one("DEQUANTIZE", [wide("x", 3, 40, scale=1e-4)], y(3, 40), version=3),
    "reshape": one(
        "RESHAPE", [wide("x", 4, 6, scale=1e-4), i("s", 3, 8)], wide("y", 3, 8, scale=1e-4),
        new_shape=[3, 8], version=1,
    ),
    "max pool": one(
        "MAX_POOL_2D", [wide("x", *IMAGE, scale=1e-4)], wide("y", 1, 4, 3, 4, scale=1e-4),
        version=3, **POOL,
    ),
    "add, a constant": one(
        "ADD", [wide("x", 3, 40, scale=1e-4), wide_constant("b", 40, scale=3e-4)],
        wide("y", 3, 40, scale=4e-4), version=3,
    ),
    "add, one number": one(
        "ADD", [wide_constant("b", 1, scale=3e-4), wide("x", 3, 40, scale=1e-4)],
        wide("y", 3, 40, scale=4e-4), version=3,
    ),
    "mul, a constant": one(
        "MUL", [wide("x", 3, 40, scale=1e-4), wide_constant("b", 3, 40, scale=3e-4)],
        wide("y", 3, 40, scale=1e-3), version=4,
    ),
    "concat, a constant": one(
        "CONCATENATION", [wide("x", 2, 30, scale=1e-4), wide_constant("b", 2, 20, scale=1e-4)],
        wide("y", 2, 50, scale=1e-4), axis=1, version=3,
    ),
    "select, a constant": one(
        "SELECT_V2",
        [constant("c", np.arange(120).reshape(3, 40) % 3 == 0), wide("x", 3, 40, scale=1e-4),
         wide_constant("b", 3, 40, scale=1e-4)],
        wide("y", 3, 40, scale=1e-4),
    ),
}  # fmt: skip
