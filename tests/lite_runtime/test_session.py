"""Sessions: what goes in, what comes out, what is refused and how it is said."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import lite_runtime as lite
from cloud import interpreter
from cloud.compile.program import runs_on_runtime
from ir import model_file
from ir.cases import TOLERANCE
from ir.graph import Constant, Graph, Model, Value, Weight
from ir.op import OPS
from ir.symbol import symbol
from tests.helpers import ROOT
from tests.lite_runtime.models import (
    BATCH,
    cnn_batch,
    every_dtype,
    indices,
    linear_model,
    open_model,
    small_cnn,
    two_weights,
)
from tests.random_graphs import random_arrays, random_graph, random_symbolic_graph


def assert_close(found: np.ndarray, want: np.ndarray, what: str) -> None:
    assert (found.shape, found.dtype) == (np.shape(want), np.asarray(want).dtype), what
    if found.dtype.kind == "f":
        scale = float(np.max(np.abs(want), initial=1.0, where=np.isfinite(want)))
        np.testing.assert_allclose(found, want, rtol=0, atol=TOLERANCE * scale, err_msg=what)
    else:
        np.testing.assert_array_equal(found, want, err_msg=what)


@pytest.mark.parametrize("seed", range(60))
def test_every_node_of_a_random_graph_computes_what_its_reference_does(seed: int) -> None:
    graph = random_graph(seed)
    if not runs_on_runtime(graph):
        pytest.skip("only numpy computes it")
    arrays = random_arrays(graph, seed)
    results = [v for n in graph.nodes for v in n.results]
    all_of_it = Graph(graph.inputs, (*results, *graph.outputs))
    names = [v.name for v in graph.inputs]
    found = list(open_model(all_of_it).run(dict(zip(names, arrays, strict=True))).values())

    env: dict[Value, np.ndarray] = dict(zip(graph.inputs, arrays, strict=True))
    env |= {v: v.data for v in graph.leaves if isinstance(v, (Constant, Weight))}
    env |= dict(zip(results, found, strict=False))
    for node in graph.nodes:  # each node on the runtime's own inputs: roundings do not add up
        with np.errstate(all="ignore"):  # both overflow alike
            want = node.op.ref(*(None if v is None else env[v] for v in node.inputs), **node.attrs)
        for v, y in zip(node.results, want if node.op.gives_tuple else (want,), strict=True):
            assert_close(env[v], y, f"{node}")

    # Kept values take memory of their own; the graph itself must give the same bits in less.
    outputs = open_model(graph).run(dict(zip(names, arrays, strict=True)))
    for y, same in zip(outputs.values(), found[len(results) :], strict=True):
        np.testing.assert_array_equal(y, same)


@pytest.mark.parametrize("seed", range(20))
def test_one_session_runs_a_symbolic_graph_at_many_sizes(seed: int) -> None:
    graph = random_symbolic_graph(seed)
    session = open_model(graph)
    for batch, seq in ((1, 1), (3, 2), (2, 5), (1, 1)):
        arrays = random_arrays(graph, seed, batch=batch, seq=seq)
        found = session.run({"x": arrays[0], "y": arrays[1]})
        want = interpreter.run(graph, *arrays)
        for y, w in zip(found.values(), want, strict=True):
            np.testing.assert_allclose(y, w, rtol=1e-4, atol=1e-4)


def test_one_array_gives_one_array_and_a_dict_gives_a_dict() -> None:
    session = open_model(linear_model())
    x = np.ones((3, 2), np.float32)
    assert session.run(x).shape == (3,)
    assert list(session.run({"x": x})) == ["y"]
    assert list(session.run({"x": x}, entry="infer")) == ["y"]


def test_a_session_says_what_its_entries_take_and_give() -> None:
    session = open_model(linear_model())
    assert session.entries == ["infer", "train"]
    assert [str(i) for i in session.inputs("train")] == [
        "x: float32[batch,2]",
        "target: float32[batch]",
        "lr: float32[]",
    ]
    assert session.outputs() == (lite.TensorInfo("y", ("batch",), np.dtype(np.float32)),)
    assert session.symbols == {"batch": (1, 2**31 - 1)}
    assert session.metadata == {"licence": "CC0"}


def test_sizes_are_told_as_the_model_writes_them() -> None:
    x = Value((symbol("h"), symbol("w"), 2), name="x")
    h, w = x.shape[:2]
    y = OPS["reshape"](OPS["pad"](x, before=(1, 0, 0), after=(0, 0, 0)), shape=((h + 1) * w, 2))
    session = open_model(Graph((x,), (y,)))
    (info,) = session.outputs()
    assert eval(str(info.shape[0]), {"h": 3, "w": 5}) == 20
    assert session.run(np.zeros((3, 5, 2), np.float32)).shape == (20, 2)


def test_every_element_type_goes_in_and_comes_out() -> None:
    graph = every_dtype()
    arrays = {str(v.name): np.arange(6).reshape(2, 3).astype(v.dtype.numpy) for v in graph.inputs}
    for name, y in open_model(graph).run(arrays).items():
        x = arrays[name.removesuffix(" out")]
        assert y.dtype == x.dtype
        np.testing.assert_array_equal(y, x.reshape(3, 2))


def test_numbers_of_another_width_are_converted_where_they_fit() -> None:
    session = open_model(indices())
    assert session.run(np.array([3, 0], np.int64)).tolist() == [[9, 10, 11], [0, 1, 2]]
    with pytest.raises(lite.LiteError, match=r"^input rows: 1099511627776 does not fit int32$"):
        session.run(np.array([2**40]))
    with pytest.raises(lite.LiteError, match=r"^input rows: float64\[1\], want int32$"):
        session.run(np.array([1.0]))
    assert open_model(linear_model()).run([[1, 2.5]]).dtype == np.float32


def test_arrays_that_are_not_contiguous_are_read_right() -> None:
    w = Weight(np.array([[1], [10]], np.float32), name="w")
    x = Value((BATCH, 2), name="x")
    session = open_model(Graph((x,), (x @ w,)))
    array = np.arange(12, dtype=np.float32).reshape(2, 6).T[::2]
    np.testing.assert_array_equal(session.run(array), array @ w.data)


@pytest.mark.parametrize(
    ("inputs", "words"),
    [
        (np.zeros((2, 3)), r"input x: shape \[2,3\], want \[2,2\] \(\[batch,2\]\)"),
        (np.zeros(2), r"input x: shape \[2\], want \[batch,2\]"),
        (np.zeros((0, 2)), r"input x: batch = 0: want 1 to 2147483647"),
        ({}, "input x is missing; want x"),
        ({"x": np.zeros((1, 2)), "z": 1}, "input z: no such input; want x"),
        ({"x": "words"}, r"input x: str\w*\[\], want float32"),
        ({"x": [[1, 2], [3]]}, "input x: not an array .*"),
    ],
)
def test_a_wrong_input_is_one_line_that_says_what_was_wanted(inputs: object, words: str) -> None:
    session = open_model(linear_model())
    with pytest.raises(lite.LiteError, match=f"^{words}$"):
        session.run(inputs)
    assert session.run(np.ones((1, 2))).tolist() == [0.0]  # and the session goes on


def test_inputs_that_disagree_on_a_size_are_refused() -> None:
    session = open_model(linear_model())
    inputs = {"x": np.zeros((3, 2)), "target": np.zeros(4), "lr": 0.1}
    with pytest.raises(lite.LiteError, match=r"^input x: shape \[3,2\], want \[4,2\]"):
        session.run(inputs, "train")
    session.run(inputs | {"target": np.zeros(3)}, "train")


def test_an_unknown_entry_is_refused() -> None:
    with pytest.raises(lite.LiteError, match=r"^entry test: the model has infer, train$"):
        open_model(linear_model()).run(np.zeros((1, 2)), "test")
    with pytest.raises(lite.LiteError, match=r"^one array for 3 inputs; want a dict of x, target"):
        open_model(linear_model()).run(np.zeros((1, 2)), "train")


def test_an_index_out_of_range_names_the_node_and_leaves_the_session_sound() -> None:
    session = open_model(indices())
    with pytest.raises(
        lite.LiteError,
        match=r"^entry infer, node 0 \(gather at \w+\.py:\d+\): an index or a label is out of",
    ):
        session.run(np.array([4]))
    assert session.run(np.array([1])).tolist() == [[3, 4, 5]]


def test_check_finite_stops_at_the_first_node_that_is_not_finite() -> None:
    x = Value((2,), name="x")
    graph = Graph((x,), (OPS["tanh"](OPS["log"](OPS["neg"](x))),))
    assert np.isnan(open_model(graph).run(np.ones(2))).all()
    with pytest.raises(lite.LiteError, match=r"node 1 \(log at .*: a result is NaN or infinite$"):
        open_model(graph, check_finite=True).run(np.ones(2))


def test_check_finite_refuses_inputs_that_an_int8_model_would_hide() -> None:
    x = Value((2,), name="x")
    graph = Graph((x,), (OPS["quantize"](x, scale=0.1, zero_point=0),))
    assert open_model(graph).run(np.float32([np.nan, 1])).tolist() == [-128, 10]
    session = open_model(graph, check_finite=True)
    for bad in (np.nan, np.inf):
        with pytest.raises(lite.LiteError, match=r"^input x: NaN or infinite; want finite"):
            session.run(np.float32([bad, 1]))
    assert session.run(np.ones(2)).tolist() == [10, 10]


def test_an_integer_that_does_not_fit_is_named() -> None:
    session = open_model(indices())
    with pytest.raises(lite.LiteError, match=r"^input rows: 1099511627776 does not fit int32$"):
        session.run(np.array([1, 2**40]))
    with pytest.raises(lite.LiteError, match=r"^input rows: -2147483649 does not fit int32$"):
        session.run(np.array([1, -(2**31) - 1]))


def test_with_check_finite_a_run_that_fails_changes_no_weight() -> None:
    """The two weights are updated one after the other; the second update overflows."""
    model = two_weights()
    inputs = {"x": 1.0, "lr": 1e30}
    careless = open_model(model)
    careless.run(inputs, "train")
    assert careless.weights()["a"] != 1
    assert not np.isfinite(careless.weights()["b"])
    session = open_model(model, check_finite=True)
    before = session.weights()
    for bad, words in ((inputs, "sgd_step"), (inputs | {"lr": np.nan}, "^input lr: NaN")):
        with pytest.raises(lite.LiteError, match=words):
            session.run(bad, "train")
        assert session.weights() == before
    session.run(inputs | {"lr": 0.5}, "train")
    assert session.weights() == {"a": 0.5, "b": -0.5e10}


def test_a_plan_beyond_the_limit_is_refused() -> None:
    x = Value((BATCH, 1000), name="x")
    session = open_model(Graph((x,), (OPS["exp"](x),)), most_memory=8192)
    session.run(np.zeros((2, 1000)))
    with pytest.raises(
        lite.LiteError, match=r"^entry infer: no memory for its plan of 12032 bytes"
    ):
        session.run(np.zeros((3, 1000)))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"threads": 0}, r"threads = 0: want 1 to 256"),
        ({"backend": "cuda"}, r"backend cuda: want auto, .*ref"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, object], words: str) -> None:
    with pytest.raises(lite.LiteError, match=words):
        open_model(linear_model(), **options)


def test_a_path_a_text_and_all_kinds_of_bytes_open_a_model(tmp_path: Path) -> None:
    file = model_file.write(linear_model())
    path = tmp_path / "größe.ms"
    path.write_bytes(file)
    x = np.ones((1, 2))
    for source in (path, str(path), file, bytearray(file), memoryview(file)):
        assert lite.load(source).run(x).shape == (1,)
    with pytest.raises(lite.LiteError, match=r"nothing\.ms: No such file or directory$"):
        lite.load(tmp_path / "nothing.ms")
    with pytest.raises(lite.LiteError, match=r"not a file$"):
        lite.load(tmp_path)


def test_resize_plans_ahead_and_inputs_resize_by_themselves() -> None:
    session = open_model(small_cnn())
    one = session.planned_bytes("infer")
    session.resize({"batch": 16})
    assert session.input_shapes("train")[0] == (16, 8, 8, 3)
    assert 6 * one < session.planned_bytes("infer") <= 16 * one
    assert session.run(cnn_batch(3)["image"]).shape == (3, 5)
    assert session.planned_bytes("infer") < 4 * one
    for sizes, words in (
        ({"batch": 0}, "batch = 0: want 1 to"),
        ({"b": 1}, "b: no free dimension"),
    ):
        with pytest.raises(lite.LiteError, match=f"^{words}"):
            session.resize(sizes)


@pytest.mark.parametrize("entry", ["infer", "train"])
def test_a_session_that_has_not_run_yet_refuses_sizes_that_it_cannot_run(entry: str) -> None:
    session = open_model(small_cnn())
    with pytest.raises(lite.LiteError, match="want less than 2\\^31 elements"):
        session.resize({"batch": 10**9})
    assert session.input_shapes(entry)[0] == (1, 8, 8, 3)
    session.resize({"batch": 2})
    assert session.input_shapes(entry)[0] == (2, 8, 8, 3)


def test_sizes_that_do_not_fit_leave_the_session_at_the_old_ones() -> None:
    x = Value((BATCH,), name="x")
    y = OPS["slice"](x, begin=(2,), end=(BATCH,), step=(1,))  # wants batch >= 2
    session = open_model(Graph((x,), (y,)))
    assert session.run(np.arange(5.0)).tolist() == [2, 3, 4]
    with pytest.raises(lite.LiteError, match=r"of shape \[batch \+ -2\]: size 0 is -1; want"):
        session.run(np.zeros(1))
    assert session.run(np.arange(5.0)).tolist() == [2, 3, 4]


def test_planned_memory_is_shared_by_results_that_do_not_live_together() -> None:
    x = Value((1000,), name="x")
    y = x
    for _ in range(10):
        y = OPS["softmax"](y, axis=0)
    session = open_model(Graph((x,), (y,)))
    assert session.planned_bytes() == session.least_bytes() == 2 * 4032


def test_an_elementwise_result_takes_the_place_of_an_input_that_nothing_reads_any_more() -> None:
    x, y = Value((20, 50), name="x"), Value((50,), name="y")
    z = x * y
    for _ in range(10):
        z = OPS["exp"](OPS["tanh"](z)) + y
    session = open_model(Graph((x, y), (z,)))
    assert session.planned_bytes() == session.least_bytes() == 4032


def test_a_result_stands_elsewhere_while_its_input_is_still_read_or_stretched() -> None:
    x = Value((2, 2), name="x")
    a = x + x
    row = OPS["slice"](a, begin=(0, 0), end=(1, 2), step=(1, 1))
    b = OPS["exp"](a)  # `a` is read again
    square = OPS["reshape"](b, shape=(1, 4))
    outer = square * OPS["reshape"](b, shape=(4, 1))  # each element of b is read four times
    graph = Graph((x,), (b - a, row, outer, OPS["tanh"](square)))
    arrays = random_arrays(graph, 0)
    found = open_model(graph).run({"x": arrays[0]})
    for y, want in zip(found.values(), interpreter.run(graph, *arrays), strict=True):
        assert_close(y, want, "graph")


def test_a_view_takes_no_memory_and_shows_the_same_elements() -> None:
    x = Value((6,), name="x")
    doubled = x + x
    view = OPS["reshape"](doubled, shape=(2, 3))
    graph = Graph((x,), (view, OPS["reshape"](x, shape=(3, 2)), OPS["exp"](doubled)))
    session = open_model(graph)
    a, b, c = session.run({"x": np.arange(6.0)}).values()
    assert a.tolist() == [[0, 2, 4], [6, 8, 10]]
    assert b.tolist() == [[0, 1], [2, 3], [4, 5]]
    np.testing.assert_allclose(c, np.exp(2 * np.arange(6)), rtol=1e-5)
    assert session.planned_bytes() == 2 * 64


def test_inputs_and_weights_can_be_outputs() -> None:
    x = Value((2,), name="x")
    w = Weight(np.array([5, 6], np.float32), name="w")
    session = open_model(Graph((x,), (x, w, Constant(np.int32(7)))))
    assert [y.tolist() for y in session.run({"x": [1, 2]}).values()] == [[1, 2], [5, 6], 7]


def test_the_number_of_threads_does_not_change_a_bit() -> None:
    model = small_cnn()
    batch = cnn_batch(16)
    sessions = [open_model(model, threads=n) for n in (1, 2, 4)]
    for _ in range(3):
        losses = {s.run(batch, "train")["loss"].tobytes() for s in sessions}
        assert len(losses) == 1
    assert len({s.to_bytes() for s in sessions}) == 1


def test_a_session_does_with_the_threads_that_the_system_gives() -> None:
    program = """
import resource
from tests.lite_runtime.models import cnn_batch, open_model, small_cnn
want = open_model(small_cnn()).run(cnn_batch(8)["image"])
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + 2**26, used + 2**26))  # stacks for a few threads
found = open_model(small_cnn(), threads=200).run(cnn_batch(8)["image"])
assert (found == want).all()
print("same")
"""
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.stdout == "same\n", done.stderr


def test_two_sessions_at_once_do_not_disturb_each_other() -> None:
    model = small_cnn()
    sessions = [open_model(model) for _ in range(2)]
    batches = [cnn_batch(8, seed) for seed in (1, 2)]
    alone = [[open_model(model).run(b, "train")["loss"] for b in batches]]

    def work(i: int) -> None:
        for _ in range(20):
            results[i].append(sessions[i].run(batches[i], "train")["loss"])

    results: list[list[np.ndarray]] = [[], []]
    threads = [threading.Thread(target=work, args=(i,)) for i in range(2)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert [r[0] for r in results] == alone[0]
    again = open_model(model)
    assert [again.run(batches[0], "train")["loss"] for _ in range(20)] == results[0]


def test_python_threads_can_share_one_session() -> None:
    session = open_model(small_cnn())
    images = [cnn_batch(n, n)["image"] for n in range(1, 7)]
    want = [session.run(x) for x in images]
    wrong = []

    def work(i: int) -> None:
        for _ in range(20):
            if not np.array_equal(session.run(images[i]), want[i]):
                wrong.append(i)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(len(images))]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert wrong == []


def test_the_reference_backend_agrees_with_the_fast_one() -> None:
    model, batch = small_cnn(), cnn_batch(4)
    fast, slow = open_model(model), open_model(model, backend="ref")
    assert {n.kernel for n in slow.nodes("train")} == {"ref"}
    np.testing.assert_allclose(fast.run(batch["image"]), slow.run(batch["image"]), atol=1e-5)


def test_a_profile_has_every_node_with_its_time_and_bytes() -> None:
    session = open_model(small_cnn())
    profile = session.profile(cnn_batch(4), "train", runs=3)
    assert [n.op for n in profile.nodes] == [n.op for n in session.nodes("train")]
    assert profile.time_us == pytest.approx(sum(us for _, _, us in profile.by_operator()))
    assert profile.nodes[0].op == "conv2d"
    assert profile.nodes[0].written_bytes == 4 * 8 * 8 * 6 * 4
    assert profile.nodes[0].multiply_adds == 4 * 8 * 8 * 6 * 3 * 3 * 3
    assert profile.nodes[0].time_us > 0
    first = str(profile).splitlines()[1].split()
    assert first[0] == "conv2d"
    assert float(first[6]) == pytest.approx(
        2e-3 * profile.nodes[0].multiply_adds / profile.nodes[0].time_us, abs=0.05
    )


def test_a_model_without_nodes_runs() -> None:
    x = Value((2,), name="x")
    assert open_model(Model({"infer": Graph((x,), (x,))})).run(np.ones(2)).tolist() == [1, 1]
