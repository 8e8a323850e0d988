"""TFLite files as wholes: names, free sizes, state, graphs inside of graphs, training, errors."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lite_runtime as lite
from converter import ConvertError, TrainSpec, UnsupportedError, convert
from converter.child import in_a_child
from converter.cli import main
from converter.tflite.file import Signature, parse_tflite
from converter.tflite.litert import litert_answers
from converter.tflite.reader import names_of, read_tflite
from ir.graph import Array
from tests.converter.tflite_cases import FLOAT, ONE, i
from tests.converter.tflite_graphs import (
    RESOURCE,
    G,
    O,
    T,
    constant,
    file_of,
    floats,
    int8s,
    one,
)
from tests.converter.tflite_int_cases import INT8, qb, qw, qx, qy
from tests.helpers import ROOT

BATCH = (-1, 4)


def dense(units: int, inner: int, name: str = "w") -> list[T]:
    return [constant(name, floats(units, inner)), constant(f"{name}_b", floats(units, seed=2))]


def prelu_net() -> bytes:
    """Two layers with a PRELU between them, and a softmax, for any number of rows."""
    tensors = [
        T("x", (1, 4), free=BATCH), *dense(8, 4), T("h", (1, 8), free=(-1, 8)),
        constant("slope", np.full(8, 0.25, np.float32)), T("p", (1, 8), free=(-1, 8)),
        *dense(3, 8, "v"), T("z", (1, 3), free=(-1, 3)), T("y", (1, 3), free=(-1, 3)),
    ]  # fmt: skip
    operators = [
        O("FULLY_CONNECTED", ["x", "w", "w_b"], ["h"]),
        O("PRELU", ["h", "slope"], ["p"]),
        O("FULLY_CONNECTED", ["p", "v", "v_b"], ["z"]),
        O("SOFTMAX", ["z"], ["y"], {"beta": 1.0}),
    ]
    return file_of(
        G(tensors, operators, ["x"], ["y"]),
        signatures=[("serving_default", 0, {"features": "x"}, {"classes": "y"})],
    )


def counter() -> bytes:
    """y = x + what all calls before had as x, from 10 on: a variable with a first value."""
    main = G(
        [T("h", (), RESOURCE), T("x", (2,)), T("old", (2,)), T("y", (2,))],
        [
            O("CALL_ONCE", [], [], {"init_subgraph": 1}),
            O("VAR_HANDLE", [], ["h"], {"shared_name": "total"}),
            O("READ_VARIABLE", ["h"], ["old"]),
            O("ADD", ["old", "x"], ["y"]),
            O("ASSIGN_VARIABLE", ["h", "y"], []),
        ],
        ["x"],
        ["y"],
    )
    first = G(
        [T("g", (), RESOURCE), constant("ten", np.full(2, 10, np.float32))],
        [
            O("VAR_HANDLE", [], ["g"], {"shared_name": "total"}),
            O("ASSIGN_VARIABLE", ["g", "ten"], []),
        ],
        [],
        [],
    )
    return file_of(main, first)


def loop() -> bytes:
    """x doubled until its first number is 100 or more, and how often that was."""
    state = [T("n", (), np.int32), T("v", (2,)), T("w", (2, 2))]
    main = G(
        [T("x", (2,)), constant("zero", np.int32(0)),
         constant("m", 2 * np.eye(2, dtype=np.float32)), *state],
        [O("WHILE", ["zero", "x", "m"], ["n", "v", "w"], {"cond_subgraph": 1, "body_subgraph": 2})],
        ["x"], ["n", "v"],
    )  # fmt: skip
    condition = G(
        [*state, i("a", 0), i("s", 1), T("first", (1,)), constant("limit", np.float32(100)),
         T("low", (1,), np.bool_), T("all", (), np.bool_), constant("to", np.zeros(0, np.int32))],
        [O("SLICE", ["v", "a", "s"], ["first"]), O("LESS", ["first", "limit"], ["low"]),
         O("RESHAPE", ["low", "to"], ["all"], {"new_shape": []})],
        ["n", "v", "w"], ["all"],
    )  # fmt: skip
    body = G(
        [*state, constant("one", np.int32(1)), T("n2", (), np.int32), T("row", (1, 2)),
         i("rs", 1, 2), T("row2", (1, 2)), i("vs", 2), T("v2", (2,))],
        [O("ADD", ["n", "one"], ["n2"]), O("RESHAPE", ["v", "rs"], ["row"], {"new_shape": [1, 2]}),
         O("FULLY_CONNECTED", ["row", "w"], ["row2"], version=6),
         O("RESHAPE", ["row2", "vs"], ["v2"], {"new_shape": [2]})],
        ["n", "v", "w"], ["n2", "v2", "w"],
    )  # fmt: skip
    return file_of(main, condition, body)


def choice() -> bytes:
    """x + 1 where c holds, else -x."""
    main = G(
        [T("c", (), np.bool_), T("x", (3,)), T("y", (3,))],
        [O("IF", ["c", "x"], ["y"], {"then_subgraph": 1, "else_subgraph": 2})],
        ["c", "x"],
        ["y"],
    )
    then = G(
        [T("a", (3,)), constant("one", np.float32(1)), T("b", (3,))],
        [O("ADD", ["a", "one"], ["b"])],
        ["a"],
        ["b"],
    )
    otherwise = G([T("a", (3,)), T("b", (3,))], [O("NEG", ["a"], ["b"])], ["a"], ["b"])
    return file_of(main, then, otherwise)


def run(data: bytes, folder: Path, **options: Any) -> lite.Session:
    convert(data, folder / "m.ms", **options)
    return lite.load(folder / "m.ms", threads=1)


def refused(data: bytes, folder: Path, **options: Any) -> str:
    with pytest.raises(ConvertError) as caught:
        convert(data, folder / "m.ms", **options)
    assert not (folder / "m.ms").exists()
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_names_are_those_of_the_signature_and_free_rows_stay_free(tmp_path: Path) -> None:
    session = run(prelu_net(), tmp_path)
    x = floats(5, 4, seed=9)
    y = session.run({"features": x})["classes"]
    assert y.shape == (5, 3)
    np.testing.assert_allclose(y.sum(1), 1, rtol=1e-6)


def test_a_model_with_prelu_trains(tmp_path: Path) -> None:
    spec = TrainSpec(optimizer="sgd:lr=0.5", trainable=["*"])
    report = convert(prelu_net(), tmp_path / "m.ms", train=spec)
    assert {"w", "slope", "v"} <= set(report.trainable)
    session = lite.load(tmp_path / "m.ms", threads=1)
    feed = {
        "features": floats(30, 4),
        "label": np.arange(30, dtype=np.int32) % 3,
        "lr": np.float32(0.5),
    }
    losses = [float(session.run(feed, entry="train")["loss"]) for _ in range(40)]
    assert losses[-1] < 0.8 * losses[0]


def test_a_float_model_becomes_int8_on_request(tmp_path: Path) -> None:
    x = floats(64, 4, seed=3)
    report = convert(prelu_net(), tmp_path / "m.ms", quantize="int8", calibration={"features": x})
    assert report.int8_nodes
    assert report.agrees


def test_a_variable_lives_from_call_to_call(tmp_path: Path) -> None:
    session = run(counter(), tmp_path)
    x = np.array([1, 2], np.float32)
    assert [session.run(x).tolist() for _ in range(3)] == [[11, 12], [12, 14], [13, 16]]
    assert lite.load(tmp_path / "m.ms", threads=1).run(x).tolist() == [11, 12]


def test_the_check_of_a_stream_is_one_call_after_the_other(tmp_path: Path) -> None:
    report = convert(counter(), tmp_path / "m.ms", check=5)
    assert report.agrees
    assert report.agreement[0].max_difference == 0


@pytest.mark.parametrize(("first", "count"), [(30.0, 2), (60.0, 1), (200.0, 0)])
def test_a_loop_runs_as_often_as_its_condition_holds(
    first: float, count: int, tmp_path: Path
) -> None:
    data = {"x": np.array([3, 1, 40, 2], np.float32)}  # others may not end
    y = run(loop(), tmp_path, check_data=data).run(np.array([first, 1], np.float32))
    assert y["n"] == count
    assert y["v"].tolist() == [first * 2**count, 2**count]


@pytest.mark.parametrize("holds", [True, False])
def test_a_choice_runs_one_of_two_graphs(holds: bool, tmp_path: Path) -> None:
    x = np.array([1, 2, 3], np.float32)
    y = run(choice(), tmp_path).run({"c": np.array(holds), "x": x})["y"]
    np.testing.assert_array_equal(y, x + 1 if holds else -x)


def test_each_signature_is_an_entry(tmp_path: Path) -> None:
    add, double = (
        G([T("x", (2,)), T("y", (2,))], [O("ADD", ["x", "x"], ["y"])], ["x"], ["y"]),
        G([T("x", (2,)), T("y", (2,))], [O("MUL", ["x", "x"], ["y"])], ["x"], ["y"]),
    )
    names = {"x": "x"}, {"y": "y"}
    data = file_of(add, double, signatures=[("sum", 0, *names), ("square", 1, *names)])
    session = run(data, tmp_path)
    x = np.array([3, 4], np.float32)
    assert session.run(x, entry="infer").tolist() == [6, 8]
    assert session.run(x, entry="square").tolist() == [9, 16]


def quantized_chain() -> bytes:
    w = int8s(5, 3, 3, 4, low=-127)
    layer = [qw(w), qb(qw(w), 5)]
    tensors = [
        qx(1, 7, 6, 4),
        *layer,
        T("h", (1, 7, 6, 5), np.int8, scale=0.07, zero=-5),
        qy(1, 7, 6, 5, scale=1 / 256, zero=-128),
    ]
    operators = [
        O("CONV_2D", ["x", "w", "b"], ["h"], ONE),
        O("LOGISTIC", ["h"], ["y"]),
    ]
    return file_of(G(tensors, operators, ["x"], ["y"]))


def test_an_output_may_be_any_tensor(tmp_path: Path) -> None:
    report = convert(quantized_chain(), tmp_path / "m.ms", outputs=["h"])
    assert report.nodes == {"quantized_conv2d": 1}
    assert "no output ['q']; there are h, y" in refused(
        quantized_chain(), tmp_path / "n", outputs=["q"]
    )


def test_an_input_takes_the_sizes_that_are_asked_for(tmp_path: Path) -> None:
    session = run(FLOAT["tanh"], tmp_path, shapes={"x": ["rows", 4]})
    assert session.run(floats(9, 4)).shape == (9, 4)
    assert "no input ['z']; has ['x']" in refused(FLOAT["tanh"], tmp_path / "n", shapes={"z": [1]})


def test_sizes_are_fixed_where_an_operator_wants_them(tmp_path: Path) -> None:
    data = one(
        "RESIZE_NEAREST_NEIGHBOR",
        [T("x", (1, 4, 5, 2), free=(-1, -1, -1, 2)), i("s", 8, 10)],
        T("y", (1, 8, 10, 2), free=(-1, 8, 10, 2)),
    )
    (x,) = read_tflite(data).entries["infer"].inputs
    assert x.shape == (1, 4, 5, 2)


def test_numbers_of_16_bits_are_int16_outside_too(tmp_path: Path) -> None:
    data = one(
        "RELU", [T("x", (4,), np.int16, scale=0.5)], T("y", (4,), np.int16, scale=0.25), version=4
    )
    convert(data, tmp_path / "m.ms", tol=1e9)
    y = lite.load(tmp_path / "m.ms", threads=1).run(np.array([-3, 0, 5, 32767], np.int16))
    assert y.tolist() == [0, 0, 10, 32767]


def test_a_weight_of_8_bits_behind_floats_is_held_to_the_tolerance_of_int8(tmp_path: Path) -> None:
    w = constant("w", int8s(16, 32, low=-127), scale=0.01)
    data = one("FULLY_CONNECTED", [T("x", (3, 32)), w], T("y", (3, 16)), version=9)
    report = convert(data, tmp_path / "m.ms")
    assert report.rounds
    assert report.tolerance == 0.1
    exact = floats(3, 32) @ (w.data.astype(np.float32) * np.float32(0.01)).T  # type: ignore[union-attr]
    y = lite.load(tmp_path / "m.ms", threads=1).run(floats(3, 32))
    np.testing.assert_allclose(y, exact, rtol=1e-5, atol=1e-5)


def test_every_unsupported_operator_is_listed_with_its_first_place(tmp_path: Path) -> None:
    tensors = [T("x", (2, 2)), T("a", (2, 2)), T("b", (2, 2)), T("y", (2, 2))]
    operators = [
        O("MATRIX_DIAG", ["x"], ["a"]),
        O("custom.Mine", ["a"], ["b"]),
        O("MATRIX_DIAG", ["b"], ["y"]),
    ]
    with pytest.raises(UnsupportedError) as caught:
        convert(file_of(G(tensors, operators, ["x"], ["y"])), tmp_path / "m.ms")
    wanted = "unsupported operators: MATRIX_DIAG ×2 (first: a), custom.Mine ×1 (first: b)"
    assert str(caught.value) == wanted


def small(op: O) -> bytes:
    """One operator among three vectors, from x to y."""
    return file_of(G([T("x", (2,)), T("z", (2,)), T("y", (2,))], [op], ["x"], ["y"]))


BROKEN = {
    "a fused activation that is none": (
        one("ADD", [T("x", (2,)), T("b", (2,))], T("y", (2,)), activation=9),
        "fused activation number 9",
    ),
    "a tensor that nothing makes": (
        small(O("ADD", ["x", "z"], ["y"])),
        "tensor 1 'z' is read, but nothing before makes it",
    ),
    "a weight that is no number": (
        one("ADD", [T("x", (2,)), constant("w", np.float32([1, np.nan]))], T("y", (2,))),
        "tensor 'w': 1 of 2 numbers are NaN",
    ),
    "windows of nothing": (
        one("MAX_POOL_2D", [T("x", (1, 4, 4, 1))], T("y", (1, 4, 4, 1)), stride_w=1, stride_h=1),
        "windows of [0, 0]",
    ),
    "a graph that runs itself": (
        small(O("CALL", ["x"], ["y"], {"subgraph": 0})),
        "graphs inside of graphs",
    ),
    "axes that are not there": (
        one("MEAN", [T("x", (2, 3)), i("a", 5)], T("y", (2,))), "axis 5 of rank 2"
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_a_model_that_makes_no_sense_is_refused_in_one_line(name: str, tmp_path: Path) -> None:
    data, wanted = BROKEN[name]
    assert wanted in refused(data, tmp_path)


def test_damaged_files_give_one_line_or_a_model() -> None:
    command = [sys.executable, "-m", "tests.converter.tflite_mutations", "250", "1"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-500:]
    found = json.loads(done.stdout)
    assert sum(n for kind, n in found["counts"].items() if kind.endswith("written")) > 10
    assert sum(n for kind, n in found["counts"].items() if kind.endswith("refused")) > 100
    assert found["peak_bytes"] < 1 << 30


def test_the_command_takes_a_tflite_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "net.tflite"
    source.write_bytes(prelu_net())
    data = {"features": floats(6, 4)}
    np.savez(tmp_path / "d.npz", **data)
    assert main([str(source), "--check-data", str(tmp_path / "d.npz"), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["source_kind"] == "tflite"
    assert report["agrees"]
    assert (tmp_path / "net.ms").exists()
    source.write_bytes(prelu_net()[:500])
    assert main([str(source), "-o", str(tmp_path / "none.ms")]) == 1
    assert capsys.readouterr().err.count("\n") == 1
    assert not (tmp_path / "none.ms").exists()


def test_what_the_reference_kernels_say_comes_from_a_process_of_its_own() -> None:
    pytest.importorskip("ai_edge_litert")
    x: dict[str, Array] = {"x": int8s(3, 40, seed=8)}
    found = litert_answers(INT8["add"], [], [x, x], 60)
    assert found is not None
    name, answers = found
    assert name == "LiteRT's reference kernels"
    np.testing.assert_array_equal(answers[0][0], answers[1][0])


def test_the_same_file_gives_the_same_bytes(tmp_path: Path) -> None:
    for name in ("a", "b"):
        convert(quantized_chain(), tmp_path / f"{name}.ms")
    assert (tmp_path / "a.ms").read_bytes() == (tmp_path / "b.ms").read_bytes()


def test_tensors_of_one_name_are_told_apart_in_no_time() -> None:
    graph = G([T("x", (1,)), *(T("x", (1,)) for _ in range(20_000))], [], ["x"], ["x"])
    names = names_of(parse_tflite(file_of(graph)).subgraphs[0], Signature("", 0, [], []))
    assert len(set(names.values())) == len(names) == 20_001


def test_what_lies_behind_the_outputs_that_are_asked_for_is_not_read(tmp_path: Path) -> None:
    tensors = [T("x", (1, 4)), *dense(8, 4), T("h", (1, 8)), T("y", (1, 8))]
    operators = [
        O("FULLY_CONNECTED", ["x", "w", "w_b"], ["h"]),
        O("custom.Mine", ["h"], ["y"]),
    ]
    data = file_of(G(tensors, operators, ["x"], ["y"]))
    with pytest.raises(UnsupportedError, match=r"custom\.Mine ×1"):
        convert(data, tmp_path / "m.ms")
    assert convert(data, tmp_path / "m.ms", outputs=["h"]).agrees


def test_whatever_goes_wrong_in_the_child_is_an_error_of_the_caller() -> None:
    with pytest.raises(ConvertError, match="KeyError: 'x'"):
        in_a_child("LiteRT", lambda: {}["x"], 60)
