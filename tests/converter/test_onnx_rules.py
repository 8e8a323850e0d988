"""Operators of ONNX one by one, in their odd forms, against ONNX Runtime."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from converter import ConvertError, TrainSpec, convert
from tests.converter.onnx_graphs import floats, ints, model, one

IMAGE = (2, 3, 9, 8)
W = {"w": floats(4, 3, 3, 2)}
CASES = {
    "conv, same upper": one("Conv", IMAGE, W, auto_pad="SAME_UPPER", strides=[2, 2]),
    "conv, same lower": one("Conv", IMAGE, W, auto_pad="SAME_LOWER"),
    "conv, valid": one("Conv", IMAGE, W, auto_pad="VALID", dilations=[2, 3]),
    "conv, odd pads": one("Conv", IMAGE, W, pads=[0, 1, 2, 3], strides=[2, 1]),
    "conv, groups": one("Conv", (1, 4, 6, 6), {"w": floats(6, 2, 3, 3)}, group=2),
    "conv, two filters a channel": one("Conv", (1, 3, 6, 6), {"w": floats(6, 1, 3, 3)}, group=3),
    "conv, 1-D": one("Conv", (2, 3, 12), {"w": floats(4, 3, 5), "b": floats(4)}, pads=[1, 2]),
    "max pool, ceil": one(
        "MaxPool", IMAGE, kernel_shape=[3, 3], strides=[2, 3], ceil_mode=1, pads=[1, 1, 0, 0]
    ),
    "max pool, dilated": one("MaxPool", IMAGE, kernel_shape=[2, 3], dilations=[2, 2]),
    "average pool, ceil": one(
        "AveragePool", IMAGE, kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1
    ),
    "average pool, with pads": one(
        "AveragePool", IMAGE, kernel_shape=[3, 3], pads=[1, 1, 1, 1], count_include_pad=1
    ),
    "average pool, 1-D": one("AveragePool", (2, 3, 9), kernel_shape=[3], strides=[2]),
    "global max pool": one("GlobalMaxPool", IMAGE),
    "global average pool, 1-D": one("GlobalAveragePool", (2, 3, 7)),
    "batch norm, 1-D": one(
        "BatchNormalization",
        (2, 3, 7),
        {n: np.abs(floats(3, seed=i)) for i, n in enumerate("sbmv")},
        epsilon=1e-3,
    ),
    "layer norm": one("LayerNormalization", (2, 3, 7), {"s": floats(7)}, axis=-1),
    "gemm, transposed": one(
        "Gemm", (5, 2), {"b": floats(5, 3), "c": floats(1, 3)}, transA=1, alpha=0.5, beta=2.0
    ),
    "gemm, of a column": one("Gemm", (2, 5), {"b": floats(3, 5), "c": floats(2, 1)}, transB=1),
    "matmul, batches": one("MatMul", (2, 4, 5), {"b": floats(2, 5, 3)}),
    "matmul, matrix": one("MatMul", (2, 4, 5), {"b": floats(5, 3)}),
    "softmax, old": one("Softmax", (2, 3, 4), opset=11, axis=1),
    "log softmax": one("LogSoftmax", (2, 3, 4), axis=1),
    "clip, one side": model([("Clip", ["x", "", "h"], ["y"], {})], {"x": (3, 4)}, ["y"],
                            {"h": np.float32(0.5).reshape(())}),
    "clip, attributes": one("Clip", (3, 4), opset=10, min=-0.5, max=0.25),
    "pow of an integer": one("Pow", (3, 4), {"e": np.int64(2).reshape(())}),
    "reduce, axes as input": one("ReduceSum", (2, 3, 4), {"a": ints(-1, 0)}, keepdims=0),
    "reduce, all": one("ReduceMax", (2, 3, 4), keepdims=0),
    "reduce, nothing": one("ReduceSum", (2, 3, 4), noop_with_empty_axes=1),
    "argmax": one("ArgMax", (2, 3, 4), axis=1, keepdims=0),
    "cumsum": one("CumSum", (2, 3, 4), {"a": np.int64(-1).reshape(())}, reverse=1),
    "slice, backwards": one(
        "Slice", (5, 6), {"s": ints(4, 1), "e": ints(-10, 5), "a": ints(0, 1), "t": ints(-2, 3)}
    ),
    "slice, far": one("Slice", (5, 6), {"s": ints(-3), "e": ints(2**62), "a": ints(1)}),
    "slice, old": one("Slice", (5, 6), opset=9, starts=[1], ends=[-1], axes=[0]),
    "gather": one("Gather", (5, 6), {"i": np.array([[0, -1], [2, 1]])}, axis=1),
    "pad, reflected": one("Pad", (3, 4), {"p": ints(1, 0, 0, 2)}, mode="reflect"),
    "pad, of a number": one("Pad", (3, 4), {"p": ints(1, 0, 0, 2), "v": np.float32([7])}),
    "expand": one("Expand", (3, 1), {"s": ints(2, 1, 4)}),
    "reshape, zero and minus one": one("Reshape", (2, 3, 4), {"s": ints(0, -1)}),
    "flatten, of the last axis": one("Flatten", (2, 3, 4), axis=-1),
    "squeeze, all": one("Squeeze", (1, 3, 1, 2)),
    "unsqueeze, mixed": one("Unsqueeze", (3, 2), {"a": ints(-1, 0)}),
    "transpose, default": one("Transpose", (2, 3, 4)),
    "mean of two": one("Mean", (2, 3), {"b": floats(2, 3)}),
    "max of three": one("Max", (2, 3), {"b": floats(2, 3), "c": floats(3)}),
    "where": model([("Greater", ["x", "z"], ["c"], {}), ("Where", ["c", "x", "z"], ["y"], {})],
                   {"x": (3, 4)}, ["y"], {"z": np.float32([0.2, 0, -1, 1])}),
    "one hot": model([("Cast", ["x"], ["i"], {"to": 7}),
                      ("OneHot", ["i", "d", "v"], ["y"], {})],
                     {"x": (6,)}, ["y"], {"d": ints(3), "v": np.float32([-1, 2])}),
    "shapes": model([("Shape", ["x"], ["s"], {}), ("Gather", ["s", "one"], ["n"], {}),
                     ("Unsqueeze", ["n", "zero"], ["m"], {}),
                     ("Concat", ["m", "minus"], ["t"], {"axis": 0}),
                     ("Reshape", ["x", "t"], ["y"], {})],
                    {"x": ("batch", 3, 4)}, ["y"],
                    {"one": np.int64(1).reshape(()), "zero": ints(0), "minus": ints(-1)}),
    "range and constant of shape": model(
        [("ConstantOfShape", ["s"], ["c"], {}), ("Add", ["x", "c"], ["z"], {}),
         ("Range", ["a", "b", "d"], ["r"], {}), ("Mul", ["z", "r"], ["y"], {})],
        {"x": (2, 4)}, ["y"],
        {"s": ints(2, 1), "a": np.float32(0).reshape(()), "b": np.float32(4).reshape(()),
         "d": np.float32(1).reshape(())}),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_an_operator_gives_what_onnx_runtime_gives(name: str, tmp_path: Path) -> None:
    report = convert(CASES[name], tmp_path / "m.ms", tol=1e-5)
    assert report.agrees


def test_a_split_gives_parts_that_join_again(tmp_path: Path) -> None:
    for extra, opset in (({"num_outputs": 3}, 18), ({"split": [1, 2, 4]}, 11)):
        source = model(
            [("Split", ["x"], ["a", "b", "c"], {"axis": 1, **extra}),
             ("Concat", ["c", "a", "b"], ["y"], {"axis": -1})],
            {"x": (2, 7)}, ["y"], opset=opset,
        )  # fmt: skip
        assert convert(source, tmp_path / "m.ms").agrees


def test_outputs_can_be_cut_before_what_is_not_supported(tmp_path: Path) -> None:
    source = model(
        [("Relu", ["x"], ["a"], {}), ("Neg", ["a"], ["b"], {}), ("Bernoulli", ["b"], ["y"], {})],
        {"x": (2, 3, 3)},
        ["y"],
    )
    assert convert(source, tmp_path / "m.ms", outputs=["b", "a"]).nodes == {"relu": 1, "neg": 1}
    with pytest.raises(ConvertError, match=r"no output \['z'\]; there are a, b, y"):
        convert(source, tmp_path / "m.ms", outputs=["z"])


def test_input_shapes_can_be_replaced(tmp_path: Path) -> None:
    source = one("Softmax", (1, 5))
    report = convert(source, tmp_path / "m.ms", shapes={"x": ["rows", 5]})
    assert report.agrees
    with pytest.raises(ConvertError, match=r"no input \['z'\]; has \['x'\]"):
        convert(source, tmp_path / "m.ms", shapes={"z": [2]})


def test_half_and_double_precision_weights_become_single(tmp_path: Path) -> None:
    for dtype in (np.float16, np.float64):
        source = model(
            [("Cast", ["w"], ["v"], {"to": 1}), ("MatMul", ["x", "v"], ["y"], {})],
            {"x": (2, 5)},
            ["y"],
            {"w": floats(5, 3).astype(dtype)},
        )
        assert convert(source, tmp_path / "m.ms", tol=1e-3).agrees


def test_a_weight_that_two_layers_share_is_stored_once(tmp_path: Path) -> None:
    source = model(
        [("MatMul", ["x", "w"], ["a"], {}), ("MatMul", ["a", "w"], ["y"], {})],
        {"x": (2, 40)},
        ["y"],
        {"w": floats(40, 40)},
    )
    assert convert(source, tmp_path / "m.ms").target_bytes < 40 * 40 * 4 + 3000


def test_a_weight_that_two_layers_fold_differently_is_stored_twice(tmp_path: Path) -> None:
    norms = {f"{n}{i}": np.abs(floats(3, seed=i)) for i in (1, 2) for n in "sbmv"}
    source = model(
        [("Conv", ["x", "w"], ["a"], {}),
         ("BatchNormalization", ["a", "s1", "b1", "m1", "v1"], ["c"], {}),
         ("Conv", ["c", "w"], ["d"], {}),
         ("BatchNormalization", ["d", "s2", "b2", "m2", "v2"], ["y"], {})],
        {"x": (1, 3, 4, 4)}, ["y"], {"w": floats(3, 3, 1, 1), **norms},
    )  # fmt: skip
    assert convert(source, tmp_path / "m.ms").nodes == {"transpose": 2, "conv2d": 2}
    with pytest.raises(ConvertError, match="no weight that can train matches 'z'"):
        convert(source, tmp_path / "m.ms", train=TrainSpec(trainable=["z"]))


def test_a_weight_in_two_layouts_cannot_train(tmp_path: Path) -> None:
    source = model(
        [("MatMul", ["x", "w"], ["a"], {}), ("Gemm", ["a", "w"], ["y"], {"transB": 1})],
        {"x": (2, 5)}, ["y"], {"w": floats(5, 5)},
    )  # fmt: skip
    assert convert(source, tmp_path / "m.ms").agrees
    with pytest.raises(ConvertError, match="w: used in two layouts, which would train apart"):
        convert(source, tmp_path / "m.ms", train=TrainSpec())
