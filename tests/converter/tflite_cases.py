"""One small TFLite model for each operator on floats that tests compare with LiteRT."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.converter.tflite_graphs import G, O, T, constant, file_of, floats, ints, one

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


def lstm_case(time_major: bool) -> bytes:
    """Four gates of 5 units over 3 steps of 4 numbers, without peepholes, projection or norms."""
    gates = "ifco"
    weights = [f(f"w{g}", 5, 4, seed=k) for k, g in enumerate(gates)]
    weights += [f(f"r{g}", 5, 5, seed=k + 9) for k, g in enumerate(gates)]
    biases = [f(f"b{g}", 5, seed=k + 20) for k, g in enumerate(gates)]
    shape = (3, 2) if time_major else (2, 3)
    states = [T("h", (2, 5), variable=True), T("c", (2, 5), variable=True)]
    tensors = [x(*shape, 4), *weights, *biases, *states, y(*shape, 5)]
    names = [
        "x",
        *(t.name for t in weights),
        "",
        "",
        "",
        *(t.name for t in biases),
        "",
        "",
        "h",
        "c",
    ]
    op = O(
        "UNIDIRECTIONAL_SEQUENCE_LSTM", [*names, "", "", "", ""], ["y"],
        {"activation": TANH, "time_major": time_major},
    )  # fmt: skip
    return file_of(G(tensors, [op], ["x"], ["y"]))


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
    "lstm": lstm_case(False),
    "lstm, time first": lstm_case(True),
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
