"""One small TFLite model for each operator and form that tests compare with LiteRT."""

from __future__ import annotations

from typing import Any

import numpy as np

from ir.graph import Array
from tests.converter.tflite_graphs import T, constant, floats, int8s, ints, one

ONE = {"stride_w": 1, "stride_h": 1, "dilation_w": 1, "dilation_h": 1}
TWO = {"stride_w": 2, "stride_h": 2, "dilation_w": 1, "dilation_h": 1}
POOL = {"stride_w": 2, "stride_h": 2, "filter_w": 3, "filter_h": 2}
RELU, RELU1, RELU6, TANH = 1, 2, 3, 4
SAME, VALID = 0, 1


def x(*shape: int) -> T:
    return T("x", shape)


def y(*shape: int, dtype: Any = np.float32) -> T:
    return T("y", shape, dtype)


def f(name: str, *shape: int, seed: int = 1) -> T:
    return constant(name, floats(*shape, seed=seed))


def i(name: str, *values: Any) -> T:
    return constant(name, ints(*values))


IMAGE = (1, 7, 6, 4)
FLOAT: dict[str, bytes] = {
    "conv": one("CONV_2D", [x(*IMAGE), f("w", 5, 3, 3, 4), f("b", 5)], y(1, 7, 6, 5), **ONE),
    "conv, valid, strides, relu6": one(
        "CONV_2D", [x(*IMAGE), f("w", 5, 3, 2, 4), f("b", 5)], y(1, 3, 3, 5),
        **{**TWO, "padding": VALID, "activation": RELU6},
    ),
    "conv, same, strides": one(
        "CONV_2D", [x(*IMAGE), f("w", 5, 3, 3, 4), f("b", 5)], y(1, 4, 3, 5), **TWO
    ),
    "conv, groups": one(
        "CONV_2D", [x(*IMAGE), f("w", 6, 3, 3, 2), f("b", 6)], y(1, 7, 6, 6), **ONE
    ),
    "conv, dilated": one(
        "CONV_2D", [x(1, 9, 9, 2), f("w", 3, 3, 3, 2), f("b", 3)], y(1, 5, 5, 3), version=2,
        stride_w=1, stride_h=1, padding=VALID, dilation_w=2, dilation_h=2,
    ),
    "depthwise": one(
        "DEPTHWISE_CONV_2D", [x(*IMAGE), f("w", 1, 3, 3, 4), f("b", 4)], y(1, 7, 6, 4),
        depth_multiplier=1, activation=RELU, **ONE,
    ),
    "depthwise, two filters a channel": one(
        "DEPTHWISE_CONV_2D", [x(*IMAGE), f("w", 1, 3, 3, 8), f("b", 8)], y(1, 4, 3, 8),
        depth_multiplier=2, **TWO,
    ),
    "transposed conv": one(
        "TRANSPOSE_CONV", [i("s", 1, 14, 12, 3), f("w", 3, 3, 3, 4), x(*IMAGE)], y(1, 14, 12, 3),
        stride_w=2, stride_h=2,
    ),
    "transposed conv, valid, bias": one(
        "TRANSPOSE_CONV", [i("s", 1, 15, 13, 3), f("w", 3, 3, 3, 4), x(*IMAGE), f("b", 3)],
        y(1, 15, 13, 3), stride_w=2, stride_h=2, padding=VALID, version=3,
    ),
    "fully connected": one("FULLY_CONNECTED", [x(3, 8), f("w", 5, 8), f("b", 5)], y(3, 5)),
    "fully connected, of an image": one(
        "FULLY_CONNECTED", [x(2, 2, 4), f("w", 5, 8)], y(2, 5), activation=RELU, version=6
    ),
    "fully connected, axes kept": one(
        "FULLY_CONNECTED", [x(2, 3, 8), f("w", 5, 8), f("b", 5)], y(2, 3, 5), keep_num_dims=True,
        version=5,
    ),
    "fully connected, of two inputs": one(
        "FULLY_CONNECTED", [x(3, 8), T("w", (5, 8))], y(3, 5), version=6
    ),
    "matmul": one("BATCH_MATMUL", [x(2, 3, 4), T("b", (2, 4, 5))], y(2, 3, 5)),
    "matmul, turned": one(
        "BATCH_MATMUL", [x(2, 4, 3), T("b", (2, 5, 4))], y(2, 3, 5), adj_x=True, adj_y=True
    ),
    "matmul, of a weight": one("BATCH_MATMUL", [x(2, 3, 4), f("b", 4, 5)], y(2, 3, 5)),
    "max pool": one("MAX_POOL_2D", [x(*IMAGE)], y(1, 4, 3, 4), **POOL),
    "average pool": one("AVERAGE_POOL_2D", [x(*IMAGE)], y(1, 4, 3, 4), activation=RELU, **POOL),
    "root mean square pool": one("L2_POOL_2D", [x(*IMAGE)], y(1, 3, 2, 4), **POOL, padding=VALID),
    "add, stretched": one("ADD", [x(2, 3, 4), f("b", 4)], y(2, 3, 4), activation=RELU6),
    "sub": one("SUB", [x(2, 3), T("b", (2, 3))], y(2, 3)),
    "mul, relu -1 to 1": one("MUL", [x(2, 3), f("b", 2, 3)], y(2, 3), activation=RELU1),
    "div": one("DIV", [x(2, 3), f("b", 2, 3)], y(2, 3)),
    "prelu": one("PRELU", [x(*IMAGE), f("a", 1, 1, 4)], y(*IMAGE)),
    "leaky relu": one("LEAKY_RELU", [x(3, 4)], y(3, 4), alpha=0.1),
    "gelu": one("GELU", [x(3, 4)], y(3, 4)),
    "gelu, by tanh": one("GELU", [x(3, 4)], y(3, 4), approximate=True),
    "softmax, beta": one("SOFTMAX", [x(3, 4)], y(3, 4), beta=0.5),
    "log softmax": one("LOG_SOFTMAX", [x(3, 4)], y(3, 4)),
    "l2 normalisation": one("L2_NORMALIZATION", [x(3, 4)], y(3, 4)),
    "local response": one(
        "LOCAL_RESPONSE_NORMALIZATION", [x(1, 2, 2, 9)], y(1, 2, 2, 9),
        radius=2, bias=1.0, alpha=0.3, beta=0.75,
    ),
    "mean": one("MEAN", [x(2, 3, 4), i("a", 1, -1)], y(2)),
    "sum, axes kept": one("SUM", [x(2, 3, 4), i("a", 0)], y(1, 3, 4), keep_dims=True),
    "largest": one("REDUCE_MAX", [x(2, 3, 4), i("a", 1)], y(2, 4)),
    "smallest": one("REDUCE_MIN", [x(2, 3, 4), i("a", 1)], y(2, 4)),
    "product": one("REDUCE_PROD", [x(2, 3, 4), i("a", 2)], y(2, 3)),
    "argmax": one(
        "ARG_MAX", [x(2, 5), constant("a", np.int32(1))], y(2, dtype=np.int32), output_type=2
    ),
    "cumulated": one(
        "CUMSUM", [x(2, 5), constant("a", np.int32(1))], y(2, 5), reverse=True, exclusive=True
    ),
    "concat": one("CONCATENATION", [x(2, 3), T("b", (2, 2))], y(2, 5), axis=-1),
    "pack": one("PACK", [x(2, 3), T("b", (2, 3))], y(2, 2, 3), axis=1, values_count=2),
    "pad": one("PAD", [x(2, 3), i("p", [1, 0], [0, 2])], y(3, 5)),
    "pad, of a number": one(
        "PADV2", [x(2, 3), i("p", [1, 0], [0, 2]), constant("v", np.float32(7))], y(3, 5)
    ),
    "pad, mirrored": one("MIRROR_PAD", [x(3, 4), i("p", [1, 2], [0, 3])], y(6, 7), mode=0),
    "pad, mirrored edge": one("MIRROR_PAD", [x(3, 4), i("p", [1, 2], [0, 3])], y(6, 7), mode=1),
    "reshape": one("RESHAPE", [x(2, 6), i("s", 3, -1)], y(3, 4), new_shape=[3, -1]),
    "squeeze": one("SQUEEZE", [x(1, 3, 1)], y(3), squeeze_dims=[]),
    "expand": one("EXPAND_DIMS", [x(2, 3), constant("a", np.int32(1))], y(2, 1, 3)),
    "transpose": one("TRANSPOSE", [x(2, 3, 4), i("p", 2, 0, 1)], y(4, 2, 3)),
    "slice": one("SLICE", [x(4, 5), i("b", 1, 2), i("s", 2, -1)], y(2, 3)),
    "strided slice": one(
        "STRIDED_SLICE", [x(4, 5, 6), i("b", 3, 0, -1), i("e", 0, 5, 0), i("s", -2, 1, -1)],
        y(2, 5, 5), begin_mask=1, end_mask=2,
    ),
    "strided slice, a place of an axis": one(
        "STRIDED_SLICE", [x(4, 5, 6), i("b", -1, 1), i("e", 0, 4), i("s", 1, 2)], y(2, 6),
        shrink_axis_mask=1,
    ),
    "strided slice, ellipsis and a new axis": one(
        "STRIDED_SLICE", [x(4, 5, 6), i("b", 0, 0, 1), i("e", 0, 0, 3), i("s", 1, 1, 1)],
        y(4, 5, 1, 2), ellipsis_mask=1, new_axis_mask=2, version=4,
    ),
    "gather": one("GATHER", [x(3, 5), i("i", 4, 0, 0)], y(3, 3), axis=1),
    "gather, a batch of indices": one(
        "GATHER", [x(2, 5), i("i", [4, 0], [1, 1])], y(2, 2), axis=1, batch_dims=1, version=5
    ),
    "gather of places": one("GATHER_ND", [x(3, 5, 2), i("i", [2, 4], [0, 1])], y(2, 2)),
    "tile": one("TILE", [x(2, 3), i("m", 2, 3)], y(4, 9)),
    "broadcast": one("BROADCAST_TO", [x(3, 1), i("s", 2, 3, 4)], y(2, 3, 4), version=2),
    "reversed": one("REVERSE_V2", [x(3, 4), i("a", 1)], y(3, 4)),
    "space to depth": one("SPACE_TO_DEPTH", [x(1, 4, 6, 3)], y(1, 2, 3, 12), block_size=2),
    "depth to space": one("DEPTH_TO_SPACE", [x(1, 2, 3, 12)], y(1, 4, 6, 3), block_size=2),
    "space to batch": one(
        "SPACE_TO_BATCH_ND", [x(1, 5, 6, 2), i("b", 2, 3), i("p", [1, 0], [0, 0])], y(6, 3, 2, 2)
    ),
    "batch to space": one(
        "BATCH_TO_SPACE_ND", [x(6, 3, 2, 2), i("b", 2, 3), i("c", [1, 0], [0, 2])], y(1, 5, 4, 2)
    ),
    "bilinear": one("RESIZE_BILINEAR", [x(1, 4, 5, 2), i("s", 7, 9)], y(1, 7, 9, 2)),
    "bilinear, corners": one(
        "RESIZE_BILINEAR", [x(1, 4, 5, 2), i("s", 7, 9)], y(1, 7, 9, 2), align_corners=True
    ),
    "bilinear, half pixels": one(
        "RESIZE_BILINEAR", [x(1, 4, 5, 2), i("s", 2, 11)], y(1, 2, 11, 2),
        half_pixel_centers=True, version=3,
    ),
    "nearest": one("RESIZE_NEAREST_NEIGHBOR", [x(1, 4, 5, 2), i("s", 7, 3)], y(1, 7, 3, 2)),
    "nearest, corners": one(
        "RESIZE_NEAREST_NEIGHBOR", [x(1, 4, 5, 2), i("s", 7, 9)], y(1, 7, 9, 2), align_corners=True
    ),
    "nearest, half pixels": one(
        "RESIZE_NEAREST_NEIGHBOR", [x(1, 4, 5, 2), i("s", 7, 9)], y(1, 7, 9, 2),
        half_pixel_centers=True, version=3,
    ),
    "one hot": one(
        "ONE_HOT",
        [T("x", (3,), np.int32), constant("d", np.int32(4)), constant("on", np.float32(2)),
         constant("off", np.float32(-1))],
        y(3, 4), axis=-1,
    ),
    "cast": one("CAST", [T("x", (3,), np.int32)], y(3), in_type=2, out_type=0),
    "lookup of rows": one("EMBEDDING_LOOKUP", [T("x", (3,), np.int32), f("w", 4, 2)], y(3, 2)),
    "shape": one("SHAPE", [x(2, 3)], y(2, dtype=np.int32), out_type=2),
    "add of three": one("ADD_N", [x(2, 3), T("b", (2, 3)), T("c", (2, 3))], y(2, 3)),
    "squared difference": one("SQUARED_DIFFERENCE", [x(2, 3), f("b", 3)], y(2, 3)),
    "floor div": one("FLOOR_DIV", [x(2, 3), f("b", 2, 3)], y(2, 3), version=2),
    "floor mod": one("FLOOR_MOD", [x(2, 3), f("b", 2, 3)], y(2, 3)),
    "fake quantization": one(
        "FAKE_QUANT", [x(5, 7)], y(5, 7), min=-1.0, max=1.5, num_bits=8, narrow_range=False
    ),
    "select": one(
        "SELECT_V2", [T("x", (2, 3), np.bool_), f("a", 3), f("b", 2, 1)], y(2, 3)
    ),
    "simple rnn": one(
        "UNIDIRECTIONAL_SEQUENCE_RNN",
        [x(2, 3, 4), f("w", 5, 4), f("r", 5, 5), f("b", 5), T("h", (2, 5), variable=True)],
        y(2, 3, 5), activation=TANH,
    ),
    "svdf": one(
        "SVDF",
        [x(2, 6), f("w", 8, 6), f("v", 8, 5), f("b", 4), T("h", (2, 40), variable=True)],
        y(2, 4), rank=2, activation=RELU,
    ),
}  # fmt: skip
FLOAT |= {
    kind.lower().replace("_", " "): one(kind, [x(3, 4)], y(3, 4))
    for kind in (
        "ABS", "CEIL", "COS", "ELU", "EXP", "FLOOR", "HARD_SWISH", "LOGISTIC", "NEG", "RELU",
        "RELU6", "RELU_N1_TO_1", "RELU_0_TO_1", "ROUND", "SIGN", "SIN", "SQUARE", "TANH",
    )
}  # fmt: skip
FLOAT |= {
    kind.lower().replace("_", " "): one(kind, [x(3, 4), f("b", 4)], y(3, 4))
    for kind in ("MAXIMUM", "MINIMUM")
}
FLOAT |= {
    kind.lower().replace("_", " "): one(kind, [x(3, 4), f("b", 4)], y(3, 4, dtype=np.bool_))
    for kind in ("EQUAL", "GREATER", "GREATER_EQUAL", "LESS", "LESS_EQUAL", "NOT_EQUAL")
}


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
        ("HARD_SWISH", {"scale": 0.02, "zero": -100}),
        ("RELU", {}),
        ("RELU6", {"scale": 6 / 255, "zero": -128}),
        ("RELU_N1_TO_1", {"scale": 2 / 255, "zero": 0}),
        ("ELU", {}),
        ("GELU", {}),
        ("ABS", {"scale": 0.05, "zero": 3}),
        ("EXP", {"scale": 2.0, "zero": -128}),
    )
}


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
}  # fmt: skip
