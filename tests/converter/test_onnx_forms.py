"""What ONNX's own node tests leave open: types, old opsets, free sizes, models of many layers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import lite_runtime as lite
from converter import convert
from tests.converter.conformance import converted
from tests.converter.onnx_graphs import floats, ints, model, one, quantized_net

RNG = np.random.default_rng(0)
VOLUME = (1, 4, 5, 6, 7)
GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}


def typed(
    kind: str, inputs: dict[str, np.ndarray], result: int, opset: int = 20,
    known: dict[str, np.ndarray] | None = None, **attrs: object,
):  # fmt: skip
    """One node whose inputs, with their types, are the model's own and then arrays."""
    arrays = known or {}
    graph = helper.make_graph(
        [helper.make_node(kind, [*inputs, *arrays], ["y"], **attrs)],
        "test",
        [
            helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
            for n, a in inputs.items()
        ],
        [helper.make_tensor_value_info("y", result, None)],
        [onnx.numpy_helper.from_array(a, n) for n, a in arrays.items()],
    )
    opsets = [helper.make_opsetid("", opset)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10).SerializeToString()


def run(
    source: bytes, inputs: dict[str, np.ndarray], folder: Path, **options: object
) -> np.ndarray:
    convert(source, folder / "m.ms", check_data=inputs, check=1, **options)
    return lite.load(folder / "m.ms").run(inputs, entry="infer")["y"]


FAR = np.array([[2**40 + 1, -(2**50), 7, -7]])


@pytest.mark.parametrize(
    ("kind", "other", "want"),
    [
        ("Add", 2**41, FAR + 2**41),
        ("Mul", 3, FAR * 3),
        ("Div", 2, np.array([[2**39, -(2**49), 3, -3]])),
        ("Mod", 5, FAR % 5),
        ("Max", 2**40, np.maximum(FAR, 2**40)),
    ],
)
def test_integers_of_64_bits_are_computed_as_such(
    kind: str, other: int, want: np.ndarray, tmp_path: Path
) -> None:
    inputs = {"x": FAR, "z": np.array([[other]])}
    y = run(typed(kind, inputs, TensorProto.INT64), inputs, tmp_path)
    assert y.dtype == np.int64
    np.testing.assert_array_equal(y, want)


def test_a_constant_beyond_32_bits_is_kept(tmp_path: Path) -> None:
    source = model(
        [("Cast", ["x"], ["i"], {"to": TensorProto.INT64}), ("Add", ["i", "c"], ["s"], {}),
         ("Sub", ["s", "c"], ["d"], {}), ("Cast", ["d"], ["y"], {"to": TensorProto.FLOAT})],
        {"x": (2, 3)}, ["y"], {"c": ints(2**45)},
    )  # fmt: skip
    assert convert(source, tmp_path / "m.ms", tol=1e-6).agrees


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
def test_small_integers_wrap_around_in_their_own_width(dtype: type, tmp_path: Path) -> None:
    x = np.array([[100, 127, 3]], dtype)
    inputs = {"x": x, "z": x}
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    y = run(typed("Add", inputs, kind), inputs, tmp_path)
    np.testing.assert_array_equal(y, x + x)
    assert y.dtype == dtype


def test_inputs_and_outputs_of_float64_and_float16_stay_so(tmp_path: Path) -> None:
    for dtype in (np.float64, np.float16):
        inputs = {"x": floats(2, 3).astype(dtype)}
        kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        y = run(typed("Exp", inputs, kind), inputs, tmp_path, tol=2e-3)
        assert y.dtype == dtype


@pytest.mark.parametrize("kind", [TensorProto.FLOAT16, TensorProto.BFLOAT16])
def test_weights_of_half_the_bits_become_single(kind: int, tmp_path: Path) -> None:
    w = helper.make_tensor("w", kind, (4, 3), floats(4, 3).ravel())
    proto = onnx.load_from_string(
        model([("Cast", ["w"], ["v"], {"to": 1}), ("MatMul", ["x", "v"], ["y"], {})],
              {"x": (2, 4)}, ["y"])
    )  # fmt: skip
    proto.graph.initializer.append(w)
    assert convert(proto.SerializeToString(), tmp_path / "m.ms", tol=1e-2).agrees


def test_a_model_with_quantizers_around_its_layers_is_computed_as_it_says(tmp_path: Path) -> None:
    # ONNX Runtime joins layers with their quantizers, and so rounds a little differently.
    assert convert(quantized_net(), tmp_path / "m.ms", tol=2e-3).agrees


FORMS = {
    **{f"determinants of {n} rows": one("Det", (2, 3, n, n)) for n in (1, 2, 3, 5, 8)},
    "clip of opset 7": one("Clip", (3, 4), opset=7, min=-0.5),
    "softmax of opset 7": one("Softmax", (2, 3, 4), opset=7),
    "upsample of opset 7": one("Upsample", (1, 2, 3, 4), opset=7, scales=[1.0, 1.0, 2.0, 3.0]),
    "upsample of opset 9": one(
        "Upsample", (1, 2, 3, 4), {"s": np.float32([1, 1, 2, 2])}, opset=9, mode="linear"
    ),
    "resize of opset 10": one("Resize", (1, 2, 3, 4), {"s": np.float32([1, 1, 2, 2])}, opset=10),
    "batch norm of opset 7": one(
        "BatchNormalization",
        (2, 3, 4, 4),
        {n: np.abs(floats(3, seed=i)) for i, n in enumerate("sbmv")},
        opset=7,
    ),
    "pad of opset 7": one("Pad", (3, 4), opset=7, pads=[1, 0, 0, 2], value=1.5),
    "topk of opset 7": model(
        [("TopK", ["x"], ["y", "i"], {"k": 3})], {"x": (3, 7)}, ["y", "i"], opset=7),
    "conv over three axes": one("Conv", VOLUME, {"w": floats(6, 2, 3, 2, 3)}, group=2,
                                pads=[1, 0, 1, 1, 2, 0], strides=[2, 1, 2], dilations=[1, 2, 1]),
    "transposed conv": one("ConvTranspose", (1, 4, 5, 6), {"w": floats(4, 3, 3, 2)}, group=2,
                           strides=[2, 3], pads=[1, 0, 0, 1], output_padding=[1, 0]),
    "transposed conv, 1-D": one("ConvTranspose", (1, 4, 5), {"w": floats(4, 3, 3), "b": floats(3)},
                                strides=[2]),
    "transposed conv, same": one("ConvTranspose", (1, 2, 5, 6), {"w": floats(2, 3, 3, 3)},
                                 strides=[2, 2], auto_pad="SAME_UPPER"),
    "max pool over three axes": one("MaxPool", VOLUME, kernel_shape=[2, 3, 2], strides=[2, 2, 1],
                                    pads=[0, 1, 0, 1, 1, 1], ceil_mode=1),
    "average pool, padded and in ceil mode": one(
        "AveragePool", (1, 2, 9, 8), kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1,
        pads=[1, 1, 1, 1], count_include_pad=1, opset=19),
    "average pool, dilated": one("AveragePool", (1, 2, 9, 8), kernel_shape=[2, 3],
                                 dilations=[2, 2], opset=19),
    "layer norm over two axes": one("LayerNormalization", (2, 3, 4), {"s": floats(3, 4),
                                    "b": floats(3, 4)}, axis=1),
    "group norm": one("GroupNormalization", (2, 6, 5), {"s": floats(3), "b": floats(3)},
                      num_groups=3, opset=18),
    "instance norm": one("InstanceNormalization", (2, 3, 5), {"s": floats(3), "b": floats(3)}),
    "lrn": one("LRN", (2, 7, 3, 4), size=5, alpha=0.3),
    "einsum, batches": one("Einsum", (2, 3, 4), {"b": floats(2, 4, 5)}, equation="bij,bjk->bki"),
    "einsum, one": one("Einsum", (2, 3, 4), equation="...ij->...ji"),
    "resize, half pixel":
    model([("Resize", ["x", "", "s"], ["y"], {"mode": "linear"})], {"x": (1, 2, 5, 7)}, ["y"],
          {"s": np.float32([1, 1, 2, 0.5])}),
    "resize of free sizes": model([("Resize", ["x", "", "s"], ["y"], {"mode": "nearest"})],
                                  {"x": (1, 2, "h", "w")}, ["y"], {"s": np.float32([1, 1, 2, 2])}),
    "resize, cubic": model([("Resize", ["x", "", "", "t"], ["y"], {"mode": "cubic"})],
                           {"x": (1, 2, 5, 7)}, ["y"], {"t": ints(1, 2, 9, 4)}),
    "cumsum of integers": model([("Cast", ["x"], ["i"], {"to": 7}),
                                 ("CumSum", ["i", "a"], ["c"], {}),
                                 ("Cast", ["c"], ["y"], {"to": 1})],
                                {"x": (3, 4)}, ["y"], {"a": np.int64(1).reshape(())}),
    "gather of computed indices": model(
        [("ArgMax", ["x"], ["i"], {"axis": 1, "keepdims": 0}), ("Gather", ["t", "i"], ["y"], {})],
        {"x": (5, 4)}, ["y"], {"t": floats(4, 3)}),
    "one hot on axis 1": model([("ArgMax", ["x"], ["i"], {"axis": 1, "keepdims": 0}),
                                ("OneHot", ["i", "d", "v"], ["y"], {"axis": 0})],
                               {"x": (5, 4)}, ["y"], {"d": ints(4), "v": np.float32([-1, 2])}),
}  # fmt: skip


@pytest.mark.parametrize("name", FORMS)
def test_a_form_gives_what_onnx_runtime_gives(name: str, tmp_path: Path) -> None:
    assert convert(FORMS[name], tmp_path / "m.ms", tol=2e-5).agrees


def recurrent(
    kind: str, direction: str = "forward", steps: int | str = 5, **attrs: object
) -> bytes:
    ways = 2 if direction == "bidirectional" else 1
    g, h, i = GATES[kind], 4, 3
    weights = {"w": floats(ways, g * h, i), "r": floats(ways, g * h, h, seed=1),
               "b": floats(ways, 2 * g * h, seed=2)}  # fmt: skip
    lengths = {"l": np.array([3, 5], np.int32)} if attrs.pop("lengths", False) else {}
    names = ["x", "w", "r", "b", *lengths]
    outputs = ["y", "h", *(["c"] if kind == "LSTM" else [])]
    node = (kind, names, outputs, {"hidden_size": h, "direction": direction, **attrs})
    return model([node], {"x": (steps, 2, i)}, outputs, weights | lengths)


@pytest.mark.parametrize("kind", GATES)
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("lengths", [False, True])
def test_recurrent_layers_in_all_directions(
    kind: str, direction: str, lengths: bool, tmp_path: Path
) -> None:
    source = recurrent(kind, direction, lengths=lengths)
    assert convert(source, tmp_path / "m.ms", tol=1e-5).agrees


@pytest.mark.parametrize("kind", GATES)
@pytest.mark.parametrize("steps", ["steps", 30])
def test_recurrent_layers_of_many_steps_or_a_free_number_are_loops(
    kind: str, steps: int | str, tmp_path: Path
) -> None:
    source = recurrent(kind, "reverse", steps, clip=0.7)
    report = convert(source, tmp_path / "m.ms", tol=1e-5)
    assert report.agrees
    assert "while_loop" in report.nodes


def test_two_layers_both_ways_are_the_runtime_s_own(tmp_path: Path) -> None:
    for kind in ("GRU", "LSTM"):
        options = {"linear_before_reset": 1} if kind == "GRU" else {}
        report = convert(recurrent(kind, "bidirectional", "steps", **options), tmp_path / "m.ms")
        assert report.agrees
        assert report.nodes[kind.lower()] == 2
        assert "while_loop" not in report.nodes


def test_initial_states_and_peepholes(tmp_path: Path) -> None:
    h = 4
    arrays = {
        "w": floats(1, 4 * h, 3), "r": floats(1, 4 * h, h, seed=1), "b": floats(1, 8 * h, seed=2),
        "h0": floats(1, 2, h, seed=3), "c0": floats(1, 2, h, seed=4), "p": floats(1, 3 * h, seed=5),
    }  # fmt: skip
    node = ("LSTM", ["x", "w", "r", "b", "", "h0", "c0", "p"], ["y"], {"hidden_size": h})
    assert convert(model([node], {"x": (5, 2, 3)}, ["y"], arrays), tmp_path / "m.ms").agrees


def test_a_table_that_two_layers_share_is_stored_once(tmp_path: Path) -> None:
    """As in language models: the rows of the first layer are the columns of the last."""
    table = floats(300, 16)
    source = model(
        [("Cast", ["x"], ["i"], {"to": 7}), ("Gather", ["table", "i"], ["e"], {}),
         ("Transpose", ["table"], ["t"], {"perm": [1, 0]}), ("MatMul", ["e", "t"], ["y"], {})],
        {"x": (1, 3)}, ["y"], {"table": table},
    )  # fmt: skip
    data = {"x": np.float32([[1, 299, 0]])}
    report = convert(source, tmp_path / "m.ms", check_data=data, check=1)
    assert report.agrees
    assert report.target_bytes < table.nbytes + 4000


@pytest.mark.parametrize("kind", ["ReduceSum", "ReduceMean", "ReduceLogSumExp", "ReduceMin"])
@pytest.mark.parametrize("keep", [0, 1])
@pytest.mark.parametrize("axes", [[-1], [0, 2]])
def test_axes_that_only_a_run_knows(kind: str, keep: int, axes: list[int]) -> None:
    x = {"x": floats(2, 3, 4), "a": np.array(axes)}
    source = typed(kind, x, TensorProto.FLOAT, keepdims=keep)
    session = lite.load(converted(onnx.load_from_string(source)))
    joined = {"ReduceSum": np.sum, "ReduceMean": np.mean, "ReduceMin": np.min,
              "ReduceLogSumExp": lambda v, **w: np.log(np.exp(v).sum(**w))}[kind]  # fmt: skip
    for other in [axes, [1, 0]] if len(axes) == 2 else [axes, [1]]:
        y = session.run({"x": x["x"], "a": np.array(other)}, entry="infer")["y"]
        want = joined(x["x"], axis=tuple(other), keepdims=bool(keep))
        np.testing.assert_allclose(y, want, rtol=1e-5)


def test_numbers_of_int16_are_int32_between_the_ends_of_a_model(tmp_path: Path) -> None:
    x, c = np.array([3, -(2**15), 2**15 - 1, 7], np.int16), np.array([5, -9], np.int16)
    source = typed("Concat", {"x": x}, TensorProto.INT16, known={"c": c}, axis=0)
    assert run(source, {"x": x}, tmp_path).tolist() == [*x.tolist(), *c.tolist()]


def test_a_model_may_give_int16(tmp_path: Path) -> None:
    x = np.array([[-3.2, 7.9, 1e4, -1e4]], np.float32)
    source = typed("Cast", {"x": x}, TensorProto.INT16, to=TensorProto.INT16)
    assert run(source, {"x": x}, tmp_path).tolist() == [[-3, 7, 10000, -10000]]


def test_a_quantizer_to_int16_saturates_where_that_does(tmp_path: Path) -> None:
    x = np.array([[-3.2, 7.9, 1e6, -1e6]], np.float32)
    known = {"scale": np.array(0.5, np.float32), "zero": np.array(0, np.int16)}
    source = typed("QuantizeLinear", {"x": x}, TensorProto.INT16, opset=21, known=known)
    assert run(source, {"x": x}, tmp_path).tolist() == [[-6, 16, 2**15 - 1, -(2**15)]]


@pytest.mark.parametrize("mode", ["linear", "nearest", "cubic"])
@pytest.mark.parametrize("rows", [5, "rows"])
def test_aligned_corners_are_those_of_the_rounded_size(
    mode: str, rows: int | str, tmp_path: Path
) -> None:
    attrs = {"mode": mode, "coordinate_transformation_mode": "align_corners"}
    scales = np.float32([1, 1, 1.75, 0.7])
    source = model(
        [("Resize", ["x", "", "s"], ["y"], attrs)], {"x": (1, 2, rows, 7)}, ["y"], {"s": scales}
    )
    report = convert(source, tmp_path / "m.ms")
    assert report.reference == "ONNX Runtime"
    assert report.agrees


def test_pads_that_wrap_leave_free_axes_without_them(tmp_path: Path) -> None:
    source = model(
        [("Pad", ["x", "p"], ["y"], {"mode": "wrap"})], {"x": ("batch", 4)}, ["y"],
        {"p": ints(0, 2, 0, 1)}, opset=19,
    )  # fmt: skip
    convert(source, tmp_path / "m.ms")
    x = floats(3, 4)
    (y,) = lite.load(tmp_path / "m.ms").run({"x": x}, entry="infer").values()
    np.testing.assert_array_equal(y, np.pad(x, ((0, 0), (2, 1)), mode="wrap"))


def test_constants_of_one_element_keep_the_axis_that_they_add(tmp_path: Path) -> None:
    nodes = [
        ("Add", ["x", "three"], ["a"], {}),
        ("Clip", ["a", "low", "high"], ["c"], {}),
        ("Mul", ["x", "c"], ["p"], {}),
        ("Div", ["p", "six"], ["y"], {}),
    ]
    arrays = {
        "three": np.float32([3]), "six": np.float32([6]), "low": np.array(0, np.float32),
        "high": np.array(6, np.float32),
    }  # fmt: skip
    convert(model(nodes, {"x": ()}, ["y"], arrays), tmp_path / "m.ms")
    (y,) = lite.load(tmp_path / "m.ms").run({"x": np.float32(1)}, entry="infer").values()
    np.testing.assert_allclose(y, [4 / 6], rtol=1e-6)
