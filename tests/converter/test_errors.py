"""What cannot be converted: one line says why, and nothing is written."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx.external_data_helper import convert_model_to_external_data

from converter import ConvertError, UnsupportedError, bisect, convert
from converter.passes import PASSES, Pass
from converter.pipeline import optimise
from ir.graph import Graph, Node, Value
from ir.op import OPS
from ir.passes.rewrite import rewrite
from tests.converter.conftest import Exported, samples
from tests.converter.onnx_graphs import floats, ints, model, nested_functions, one


def refused(source: object, folder: Path, **options: object) -> str:
    """The message; asserts that it is one line and that nothing was written."""
    before = set(folder.iterdir())
    with pytest.raises(ConvertError) as caught:
        convert(source, folder / "target.ms", **options)  # type: ignore[arg-type]
    message = str(caught.value)
    assert message
    assert "\n" not in message
    assert set(folder.iterdir()) == before
    return message


def test_unsupported_operators_are_listed_all_at_once(tmp_path: Path) -> None:
    source = model(
        [("Nothing", ["x"], ["a"], {"name": "first"}), ("Nothing", ["x"], ["b"], {}),
         ("StringSplit", ["a"], ["c"], {}), ("Add", ["b", "c"], ["y"], {})],
        {"x": (3, 3)}, ["y"],
    )  # fmt: skip
    with pytest.raises(UnsupportedError) as caught:
        convert(source, tmp_path / "m.ms")
    message = str(caught.value)
    assert message.startswith("unsupported operators: Nothing ×2 (first, node 1; ")
    assert ", StringSplit ×1 (node 2; " in message


def test_an_operator_of_another_domain_is_named_with_it(tmp_path: Path) -> None:
    proto = onnx.load_from_string(one("Relu", (2, 3)))
    proto.graph.node[0].domain = "com.example"
    message = refused(proto.SerializeToString(), tmp_path)
    assert message.startswith("unsupported operators: com.example.Relu ×1 (node 0; ")


@pytest.mark.parametrize(
    ("content", "wanted"),
    [
        (b"", "0 bytes; too short for any model"),
        (b"12345678", "8 bytes; too short for any model"),
        (b"this is a text, and no model at all\n" * 9, "not an ONNX model"),
        (bytes(100), "not an ONNX model"),
        (b"\x1c\x00\x00\x00TFL3" + bytes(100), "not a TFLite model"),
        (b"\x1c\x00\x00\x00MSPN" + bytes(100), "108 bytes without"),
        (b"\x89HDF\r\n\x1a\n" + bytes(100), "a file of HDF5, as of Keras; save the model as"),
        (b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19." * 9, "export the model"),
        (b"\x1f\x8b\x08\x00" + bytes(100), "a file of gzip; unpack it first"),
        (one("Nothing", (2, 3)), "unsupported operators: Nothing"),
        (one("MatMul", (2, 5), {"w": np.full((5, 3), np.nan)}), "initializer 'w': 15 of 15"),
        (one("Relu", (2, 3), opset=99), "opset 99: onnx "),
        (one("Softmax", (2, 3), axis=7), "node 0 Softmax '': "),
    ],
)
def test_a_file_that_is_no_model_is_refused(content: bytes, wanted: str, tmp_path: Path) -> None:
    source = tmp_path / "model.bin"
    source.write_bytes(content)
    message = refused(source, tmp_path)
    assert message.startswith(f"{source}: ")
    assert wanted in message or b"MSPN" in content


def test_a_missing_file_and_a_folder_are_refused(tmp_path: Path) -> None:
    none = tmp_path / "none.onnx"
    assert refused(none, tmp_path) == f"{none}: No such file or directory"
    (tmp_path / "folder").mkdir()
    assert "Is a directory" in refused(tmp_path / "folder", tmp_path)


def test_missing_external_data_is_refused(exported: Exported, tmp_path: Path) -> None:
    proto = onnx.load(exported("lenet"))
    convert_model_to_external_data(proto, location="weights.bin", size_threshold=0)
    onnx.save(proto, tmp_path / "m.onnx")
    assert convert(tmp_path / "m.onnx", tmp_path / "m.ms").source_bytes > 200_000
    (tmp_path / "m.ms").unlink()
    (tmp_path / "weights.bin").unlink()
    assert "weights.bin" in refused(tmp_path / "m.onnx", tmp_path)


def test_nan_weights_are_refused_with_their_place(tmp_path: Path) -> None:
    w = floats(5, 3)
    w[2, 1] = w[4, 0] = np.nan
    message = refused(one("MatMul", (2, 5), {"w": w}), tmp_path)
    assert message == "initializer 'w': 2 of 15 numbers are NaN, the first at [2, 1]"


@pytest.mark.parametrize(
    ("source", "wanted"),
    [
        (one("Conv", (1, 3, 4, 4, 4, 4), {"w": floats(2, 3, 1, 1, 1, 1)}), "input of rank 6"),
        (one("Conv", (1, 3, 4, 4), {"w": floats(2, 4, 1, 1)}), "node 0 Conv"),
        (one("Reshape", (2, 3), {"s": ints(4, 4)}), "node 0 Reshape"),
        (one("Softmax", (2, 3), axis=7), "axis 7 of rank 2"),
        (model([("Add", ["x", "z"], ["y"], {})], {"x": (2,)}, ["y"]), "'z' is read"),
        (one("ConstantOfShape", (2,)), "is used as sizes; want integers"),
        (model([("Constant", [], ["y"], {"value": 3})], {"x": (2,)}, ["y"]), "node 0 Constant"),
        (
            model([("ConstantOfShape", ["s"], ["y"], {})], {"x": (2,)}, ["y"], {"s": ints(2**40)}),
            "a constant of 1099511627776 elements",
        ),
        (one("Expand", (1,), {"s": ints(2**31 - 1)}), "want at most"),
        (
            model([("Relu", ["x"], ["y"], {})], {"x": (2,)}, ["y"], input_type=8),
            "elements of string",
        ),
        (
            model([("Abs", ["x"], ["y"], {})], {"x": (2,)}, ["y"], input_type=4),
            "elements of uint16",
        ),
        (
            one("QuantizeLinear", (2,), {"s": np.float32(1), "z": np.uint16(0)}, opset=21),
            "node 0 QuantizeLinear '': array of uint16: want one of ",
        ),
    ],
)
def test_what_a_rule_cannot_do_is_said_with_its_node(
    source: bytes, wanted: str, tmp_path: Path
) -> None:
    assert wanted in refused(source, tmp_path)


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ({"quantize": "int4"}, "quantize is 'int4', want one of none, fp16, int8"),
        ({"kind": "keras"}, "kind is 'keras', want one of onnx, tflite, pt2, ms"),
        ({"quantize": "int8"}, "quantize int8 needs calibration data"),
        ({"keep_float": ["*"]}, "keep_float and max_drop are for quantize"),
        ({"check": 0}, "check is 0, want at least 1 input"),
        ({"check_data": {"z": floats(2, 20)}}, r"check data: nothing for input ['x']; has ['z']"),
        ({"check_data": {"x": floats(2, 21)}}, "check data: x is [2, 21], want any number of [20]"),
        ({"check_data": {"x": floats(0, 20)}}, "check data: 0 examples, the model takes 1"),
        (
            {"quantize": "int8", "calibration": {"input": floats(2, 20)}},
            "calibration: nothing for input ['x']; has ['input']",
        ),
        (
            {"quantize": "int8", "calibration": {"x": floats(2, 20) * np.inf}},
            "is empty or not finite on the samples",
        ),
        ({"sign": b"short"}, "Ed25519 private key of 5 bytes, want 32"),
    ],
)
def test_options_that_do_not_fit_are_refused(
    options: dict[str, object], wanted: str, exported: Exported, tmp_path: Path
) -> None:
    assert wanted in refused(exported("mlp"), tmp_path, **options)


def test_a_target_that_cannot_be_written_is_refused(exported: Exported, tmp_path: Path) -> None:
    with pytest.raises(ConvertError, match=r"none/m\.ms: No such file or directory; nothing was"):
        convert(exported("mlp"), tmp_path / "none" / "m.ms")
    (tmp_path / "m.ms").mkdir()
    with pytest.raises(ConvertError, match=r"m\.ms: Is a directory"):
        convert(exported("mlp"), tmp_path / "m.ms")
    assert [p.name for p in tmp_path.iterdir()] == ["m.ms"]


def doubled(graph: Graph) -> Graph:
    """A wrong pass: every layer's result twice as large."""

    def change(node: Node, inputs: list[Value | None]) -> Value | None:
        if node.op.name != "linear":
            return None
        return OPS["mul"](node.op.node(inputs, node.attrs).results[0], 2.0)  # type: ignore[no-any-return]

    return rewrite(graph, change)  # type: ignore[arg-type]


@pytest.mark.parametrize("place", [0, 3, len(PASSES)])
def test_a_wrong_pass_is_found_wherever_it_stands(
    place: int, exported: Exported, tmp_path: Path
) -> None:
    passes: tuple[Pass, ...] = (*PASSES[:place], doubled, *PASSES[place:])
    source = exported("mlp")
    assert bisect(source, passes=passes) == "doubled"
    assert "tolerance 0.0001; nothing was written" in refused(source, tmp_path, passes=passes)


def test_right_passes_are_not_accused(exported: Exported) -> None:
    assert bisect(exported("mobilenet_v2")) is None
    options = {"quantize": "int8", "calibration": samples("lenet")}
    assert bisect(exported("lenet"), **options) is None
    assert bisect(exported("lenet"), **options, tol=1e-6) == "quantize"


def test_the_passes_are_run_in_their_order(exported: Exported) -> None:
    graph = Graph.trace(lambda x: OPS["relu"](x), (2,))
    assert [name for name, _ in optimise(graph)] == [p.__name__ for p in PASSES]


@given(data=st.data())
@settings(max_examples=300, deadline=None, derandomize=True)
def test_a_damaged_model_is_converted_right_or_refused_in_one_line(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory, exported: Exported
) -> None:
    name = data.draw(st.sampled_from(["mlp", "lenet", "dscnn"]))
    whole = bytearray(exported(name, opset=17).read_bytes())
    places = st.one_of(st.integers(0, len(whole) - 1), st.integers(0, 900))  # the graph is in front
    for _ in range(data.draw(st.integers(1, 4))):
        whole[data.draw(places)] = data.draw(st.integers(0, 255))
    cut = data.draw(st.one_of(st.just(len(whole)), st.integers(0, len(whole))))
    target = tmp_path_factory.getbasetemp() / "damaged.ms"
    target.unlink(missing_ok=True)
    report = message = None
    try:
        report = convert(bytes(whole[:cut]), target)
    except ConvertError as e:
        message = str(e)
    assert target.exists() == (report is not None)
    assert report.agrees if report else "\n" not in str(message)


def doubling(levels: int) -> list[list[str]]:
    return [[f"f{i + 1}"] * 2 for i in range(levels)] + [[]]


@pytest.mark.parametrize(
    ("source", "wanted"),
    [
        (nested_functions(doubling(40)), "written out are 1.1e+12 nodes of "),
        (nested_functions(doubling(12), bytes_each=300_000), "want at most 262144 of "),
        (nested_functions([["f1"], ["f2"], ["f1"]]), "the local function 'f1' calls itself"),
        (nested_functions([["f0"]]), "the local function 'f0' calls itself"),
        (nested_functions([[f"f{i + 1}"] for i in range(3000)] + [[]]), "3001 local functions in"),
    ],
    ids=["doubled", "large", "in a ring", "itself", "in a chain"],
)
def test_local_functions_without_end_are_refused(
    source: bytes, wanted: str, tmp_path: Path
) -> None:
    assert wanted in refused(source, tmp_path)


def test_local_functions_of_functions_are_written_out(tmp_path: Path) -> None:
    report = convert(nested_functions(doubling(5)), tmp_path / "m.ms")
    assert report.nodes_read == 32
    assert report.agrees


@pytest.mark.parametrize(
    "attributes",
    [
        {"value": onnx.numpy_helper.from_array(np.array([1, np.nan, 2], np.float32))},
        {"value": onnx.numpy_helper.from_array(np.array([1, np.nan, 2], np.float16))},
        {"value_floats": [1.0, float("nan"), 2.0]},
    ],
    ids=["float32", "float16", "floats"],
)
def test_a_constant_that_holds_nan_is_refused(
    attributes: dict[str, object], tmp_path: Path
) -> None:
    source = model(
        [("Constant", [], ["c"], attributes), ("Add", ["x", "c"], ["y"], {})], {"x": (3,)}, ["y"]
    )
    message = refused(source, tmp_path)
    assert message.endswith("constant: 1 of 3 numbers are NaN, the first at [1]")


def test_a_source_whose_answers_are_nan_is_refused_and_a_part_of_them_is_reported(
    tmp_path: Path,
) -> None:
    source = tmp_path / "log.onnx"
    source.write_bytes(one("Log", (1, 4)))
    low = -np.ones((2, 4), np.float32)
    assert "all 8 numbers of the source's own answers are NaN" in refused(
        source, tmp_path, check_data={"x": low}
    )
    report = convert(source, tmp_path / "m.ms", check_data={"x": low * [1, -1, -1, -1]})
    assert "; 2 of the source's 8 numbers are NaN or infinite, here too" in str(report)


def test_a_name_that_moves_the_cursor_is_not_printed_as_it_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from converter.cli import main

    source = tmp_path / "m.onnx"
    source.write_bytes(model([("Mystery", ["x"], ["y"], {"name": "a\x1b[2J"})], {"x": (3,)}, ["y"]))
    assert main([str(source)]) == 1
    assert capsys.readouterr().err.count("Mystery ×1 (a\\x1b[2J; ") == 1


def test_an_opset_that_nobody_knows_is_named(exported: Exported, tmp_path: Path) -> None:
    import onnx

    model = onnx.load(exported("mlp"))
    model.opset_import[0].version = 99
    with pytest.raises(ConvertError, match=r"opset 99: onnx [0-9.]+ knows none beyond 2\d"):
        convert(model.SerializeToString(), tmp_path / "m.ms")
