"""Loops, branches, calls and tapes in the runtime: what they compute and where they are stopped."""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import lite_runtime as lite
from cloud import interpreter
from cloud.autodiff import vjp
from ir import model_file
from ir.dtype import DType
from ir.graph import Constant, Function, Graph, Model, Value, Weight
from ir.op import OPS
from ir.ops.control import new_tape
from ir.symbol import symbol
from tests.lite_runtime.control_models import (
    I32,
    call,
    cond,
    counted,
    factorial,
    less,
    newton,
    number,
    pop,
    push,
    reversed_sum,
    trace,
    while_loop,
)
from tests.lite_runtime.found_models import collecting_loop
from tests.lite_runtime.models import open_model
from tests.native import native_build
from tests.random_control import random_control_graph
from tests.random_graphs import random_arrays


def same_as_interpreter(graph: Graph, *arrays: object, **options: object) -> None:
    given = [np.asarray(a, v.dtype.numpy) for a, v in zip(arrays, graph.inputs, strict=True)]
    names = [str(v.name) for v in graph.inputs]
    session = open_model(graph, backend="ref", **options)
    want = interpreter.run(graph, *given)
    for _ in range(2):  # the second time in memory that the first has used
        found = session.run(dict(zip(names, given, strict=True)))
        for y, w in zip(found.values(), want, strict=True):
            np.testing.assert_allclose(y, w, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("seed", range(40))
def test_random_control_flow_computes_what_the_interpreter_does(seed: int) -> None:
    graph = random_control_graph(seed)
    same_as_interpreter(graph, *random_arrays(graph, seed))


@pytest.mark.parametrize("seed", range(10))
def test_derivatives_of_random_control_flow_do_too(seed: int) -> None:
    graph = vjp(random_control_graph(seed, statements=3))
    same_as_interpreter(graph, *random_arrays(graph, seed))


def test_a_loop_runs_as_often_as_its_data_says() -> None:
    for a in (2.0, 1e6, 1.0):
        same_as_interpreter(newton(), a)
    assert open_model(newton()).run({"a": np.float32(1)})["steps"] == 0


@pytest.mark.parametrize(
    "body",
    [
        lambda a, b, c: (b, c, a),  # all state moves
        lambda a, b, c: (b, a, c + a),
        lambda a, b, c: (a + b, a, c),  # the new a stands before the old one is read
        lambda a, b, c: (a * b, a * b, c),
        lambda a, b, c: (OPS["reshape"](c, shape=(2, 3)), b - a, a + c),
        lambda a, b, c: (a + 1.0, OPS["concat"](a, axis=0), c),
        lambda a, b, c: (a, a, a),
        lambda a, b, c: (a + OPS["reduce_sum"](a, axes=(0,), keep_dims=True), a * a, b),
        lambda a, b, c: (Constant(np.ones((2, 3), np.float32)), a, OPS["sin"](c) + a),
    ],
)
@pytest.mark.parametrize("turns", [0, 1, 2, 5])
def test_state_is_replaced_as_if_all_at_once(body: Callable[..., tuple], turns: int) -> None:
    state = [Value((2, 3), name=n) for n in "abc"]
    rng = np.random.default_rng(0)
    same_as_interpreter(counted(state, body, turns), *rng.uniform(-1, 1, (3, 2, 3)))


def test_loops_stand_in_loops_and_branches_in_both() -> None:
    def inner(x, y):
        then = trace(lambda x, y: (x * 0.5 + y, y * 0.9), x, y)
        otherwise = trace(lambda x, y: (y, x + 1.0), x, y)
        above = OPS["greater"](OPS["reduce_sum"](x, axes=(0,)), 0.0)
        return cond(above, x, y, then=then, otherwise=otherwise)

    def outer(x, y):
        out = counted([Value((4,)), Value((4,))], inner, 3)
        return OPS["call"](x, y, body=Function.of("inner", out))

    state = [Value((4,), name="x"), Value((4,), name="y")]
    same_as_interpreter(counted(state, outer, 4), [1, -2, 3, 0.5], [-0.3, 0.2, -1, 1])


def test_a_function_calls_itself() -> None:
    for n in (0, 1, 5, 12):
        same_as_interpreter(factorial(), n)


def test_functions_call_each_other() -> None:
    even, odd = (Function(n, (((), I32),), (((), DType.bool),)) for n in ("even", "odd"))

    def body(other, at_zero):
        def f(n):
            done = trace(lambda n: (Constant(np.bool_(at_zero)),), n)
            return cond(
                less(n, 1), n, then=done, otherwise=trace(lambda n: call(n - 1, body=other), n)
            )

        return trace(f, number(I32))

    even.graph, odd.graph = body(odd, True), body(even, False)
    n = number(I32, "n")
    graph = Graph((n,), call(n, body=even), ("is even",))
    for k in (0, 1, 6, 7):
        same_as_interpreter(graph, k)


def test_a_tape_gives_what_was_pushed_and_zeros_below() -> None:
    for turns in (0, 1, 7):
        same_as_interpreter(reversed_sum(turns), [0.3, -1, 2])
    # far more than a stack of calls would bear, in time that a loop takes
    session = open_model(reversed_sum(100_000))
    assert np.isfinite(session.run({"x": np.float32([0.3, -1, 2])})["output0"]).all()


def test_what_a_graph_inside_pushed_is_given_back_when_it_ends() -> None:
    """Where no tape is among its results: a call, a branch, each turn of a loop."""
    total = reversed_sum(200)
    f = Function.of("total", Graph(total.inputs, total.outputs[:1]))
    x = Value((3,), name="x")
    whole = open_model(Graph((x,), call(x, body=f)))
    whole.run({"x": np.float32([0.3, -1, 2])})

    def turn(y: Value) -> tuple[Value, ...]:
        (y,) = call(y, body=f)
        return cond(
            OPS["less"](OPS["reduce_sum"](y, axes=(0,)), 0.0),
            y,
            then=trace(lambda y: call(y * 0.1, body=f), y),
            otherwise=trace(lambda y: (OPS["tanh"](y),), y),
        )

    many = counted([x], turn, 50)
    same_as_interpreter(many, [0.3, -1, 2])
    session = open_model(many)
    session.run({"x": np.float32([0.3, -1, 2])})
    assert session.peak_bytes("infer") < 2 * whole.peak_bytes("infer")


def test_a_tape_that_two_share_stays_what_it_was() -> None:
    x, y = Value((2,), name="x"), Value((2,), name="y")
    base = push(new_tape(), x)
    left, right = push(base, x + y), push(base, x * y)
    _, a = pop(left, shape=(2,))
    below, b = pop(right, shape=(2,))
    _, c = pop(below, shape=(2,))
    _, d = pop(base, shape=(2,))
    same_as_interpreter(Graph((x, y), (a, b, c, d)), [1, 2], [3, 4])


def test_a_pop_of_another_shape_than_was_pushed_is_an_error() -> None:
    x = Value((2, 3), name="x")
    _, y = pop(push(new_tape(), x), shape=(3, 2))
    session = open_model(Graph((x,), (y,)))
    with pytest.raises(lite.LiteError, match=r"\(pop .*the tape holds f32\[2,3\], not f32\[3,2\]$"):
        session.run({"x": np.ones((2, 3))})


def endless() -> Graph:
    x = number(name="x")
    body = trace(lambda x: (x * 0.5 + 1.0,), x)
    forever = trace(lambda x: (OPS["less"](x, 100.0),), x)
    return Graph((x,), while_loop(x, condition=forever, body=body), ("y",))


def test_a_loop_without_end_is_stopped_by_a_limit_or_from_another_thread() -> None:
    start = {"x": np.float32(0)}
    where = r"^entry infer, node 0 \(while_loop at test_control.py:\d+\): "
    steps = open_model(endless(), most_steps=10_000)
    with pytest.raises(lite.LiteError, match=where + "stopped, .* more than 10000 nodes"):
        steps.run(start)
    timed = open_model(endless(), timeout_s=0.05)
    began = time.monotonic()
    with pytest.raises(lite.LiteError, match=where + r"stopped after 0.05 s$"):
        timed.run(start)
    assert time.monotonic() - began < 60

    session = open_model(endless())
    ended: list[str] = []

    def run() -> None:
        try:
            session.run(start)
        except lite.LiteError as error:
            ended.append(str(error))

    thread = threading.Thread(target=run)
    thread.start()
    session.cancel()
    thread.join(10)
    assert len(ended) == 1
    assert ended[0].endswith("cancelled")
    session.cancel()  # nothing runs: the next one is meant
    with pytest.raises(lite.LiteError, match="cancelled"):
        session.run(start)
    assert open_model(newton(), most_steps=10_000).run({"a": np.float32(4)})["root"] == 2


def test_recursion_is_as_deep_as_the_session_allows() -> None:
    session = open_model(factorial(), most_depth=100)
    assert session.run({"n": np.int32(30)})["y"] > 1e32
    with pytest.raises(
        lite.LiteError, match=r"^entry infer, node 0 \(call .*stopped, more than 100 graphs run"
    ):
        session.run({"n": np.int32(60)})
    deep = open_model(factorial())
    assert np.isinf(deep.run({"n": np.int32(40_000)})["y"])
    with pytest.raises(lite.LiteError, match="more than 100000 graphs run inside of each other"):
        deep.run({"n": np.int32(2**31 - 1)})
    assert deep.run({"n": np.int32(4)})["y"] == 24


def growing() -> Graph:
    """Pushes a kilobyte in every turn of a loop without end."""
    tape, x = Value((), DType.tape), Value((256,), name="x")
    out = while_loop(
        new_tape(),
        x,
        condition=trace(lambda t, x: (Constant(np.bool_(True)),), tape, x),
        body=trace(lambda t, x: (push(t, x), x), tape, x),
    )
    return Graph((x,), (out[1],))


def test_tapes_and_frames_stay_within_the_memory_that_is_allowed() -> None:
    x = np.ones(256, np.float32)
    with pytest.raises(lite.LiteError, match=r"body node 0 \(push.*no memory to push 1024 bytes"):
        open_model(growing(), most_memory=1 << 20).run({"x": x})
    session = open_model(factorial(), most_memory=1 << 16)
    with pytest.raises(lite.LiteError, match=r"no memory for a frame of \d+ bytes, \d+ gr"):
        session.run({"n": np.int32(10_000)})
    assert session.run({"n": np.int32(4)})["y"] == 24


def test_errors_inside_of_sub_graphs_name_the_entrys_node_and_their_own() -> None:
    session = open_model(
        counted([number(name="x")], lambda x: (OPS["log"](x - 1.0),), 5), check_finite=True
    )
    place = r"^entry infer, node 0 \(while_loop at control_models.py:\d+\), body node 2 \(log at "
    with pytest.raises(lite.LiteError, match=place + r".*: a result is NaN or infinite$"):
        session.run({"x": np.float32(2)})


def test_a_profile_has_the_nodes_of_sub_graphs_and_how_often_they_ran() -> None:
    session = open_model(newton())
    profile = session.profile({"a": np.float32(2)}, runs=3)
    steps = int(session.run({"a": np.float32(2)})["steps"])
    calls = {(n.graph.split(" ")[0], n.op): n.calls for n in profile.nodes}
    assert calls["body", "div"] == steps
    assert calls["condition", "logical_and"] == steps + 1
    assert calls["", "while_loop"] == 1
    assert profile.time_us == pytest.approx(profile.nodes[0].time_us)
    assert "in body" in str(profile)


def test_free_dimensions_reach_into_sub_graphs() -> None:
    n = symbol("n")
    state = [Value((n, 2), name="x"), Value((n, 2), name="y")]
    session = open_model(counted(state, lambda x, y: (x + y, x * 0.5), 3))
    for size in (1, 5, 2):
        x, y = np.random.default_rng(size).uniform(-1, 1, (2, size, 2)).astype(np.float32)
        found = session.run({"x": x, "y": y})
        for _ in range(3):
            x, y = x + y, x * np.float32(0.5)
        np.testing.assert_allclose(found["output0"], x, rtol=1e-5)


def test_the_number_of_threads_changes_no_bit_of_a_loop() -> None:
    state = [Value((300, 300), name="x")]
    graph = counted(state, lambda x: (OPS["tanh"](x @ x) + x * 0.1,), 4)
    x = np.random.default_rng(0).uniform(-0.1, 0.1, (300, 300)).astype(np.float32)
    found = {open_model(graph, threads=n).run({"x": x})["output0"].tobytes() for n in (1, 2, 3)}
    assert len(found) == 1


def recurrent_training() -> Model:
    """y = w applied five times in a loop; the entry `train` steps w towards a target."""
    w = Weight(np.float32(0.5), name="w")
    x, lr, target = number(name="x"), number(name="lr"), number(name="target")
    (y,) = counted([x], lambda x: (x * w,), 5).outputs
    # d y / d w = 5 y / w
    g = (y - target) * y * 5.0 / w
    loss = (y - target) * (y - target)
    return Model(
        {
            "infer": Graph((x,), (y,), ("y",)),
            "train": Graph((x, target, lr), (loss,), ("loss",), ((w, OPS["sgd_step"](w, g, lr)),)),
        }
    )


def test_an_entry_trains_a_weight_that_a_loop_reads() -> None:
    session = open_model(recurrent_training())
    for _ in range(200):
        loss = session.run({"x": 1.0, "target": 2.0, "lr": 0.005}, "train")["loss"]
    assert loss < 1e-6
    assert session.weights()["w"] == pytest.approx(2 ** (1 / 5), abs=1e-3)
    assert session.run(np.float32(1)) == pytest.approx(2, abs=1e-2)


@pytest.mark.parametrize("graph", [newton(), factorial(), reversed_sum(50), collecting_loop(9)])
def test_runs_take_no_memory_after_the_first(graph: Graph, tmp_path: Path) -> None:
    model = tmp_path / "model.ms"
    model.write_bytes(model_file.write(Model({"train": graph})))
    tool = native_build("lite_unit_tests") / "bin/lite_unit_tests"
    done = subprocess.run([tool, model], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout) == (0, "")
