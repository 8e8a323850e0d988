"""Comparing answers, and the inputs to compare on."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from converter import ConvertError
from converter.check import _evaluator, _session, compare, sample_inputs
from converter.child import in_a_child
from converter.errors import SourceTimeout
from converter.options import Options
from ir.dtype import DType
from ir.graph import Graph, Model, Value
from ir.op import OPS
from ir.symbol import symbol
from tests.converter.conftest import Exported, samples
from tests.helpers import ROOT


def test_the_error_is_that_of_all_inputs_together() -> None:
    want = [[np.float32([1, -10])], [np.float32([2, 5])]]
    got = [[np.float32([1, -10.5])], [np.float32([2.25, 5])]]
    (found,) = compare(["y"], want, got)
    assert found.output == "y"
    assert found.max_difference == 0.5
    assert found.relative == pytest.approx(0.05)
    assert found.rms == pytest.approx(np.sqrt((0.25 + 0.0625) / 130))


@pytest.mark.parametrize("odd", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_on_one_side_alone_is_infinitely_far(odd: float) -> None:
    for a, b in ((odd, 1.0), (1.0, odd)):
        (found,) = compare(["y"], [[np.float32([a, 2])]], [[np.float32([b, 2])]])
        assert found.relative == found.rms == np.inf
    (same,) = compare(["y"], [[np.float32([odd, 2])]], [[np.float32([odd, 2])]])
    assert same.relative == same.rms == 0
    assert (same.odd, same.count) == (1, 2)


def test_answers_of_nothing_but_nan_agree_with_nothing() -> None:
    nothing = [[np.float32([np.nan, np.inf])]]
    with pytest.raises(ConvertError, match="output y: all 2 numbers of the source's own answers"):
        compare(["y"], nothing, nothing)
    (empty,) = compare(["y"], [[np.zeros(0)]], [[np.zeros(0)]])
    assert (empty.odd, empty.relative) == (0, 0)


def test_another_shape_is_refused() -> None:
    with pytest.raises(ConvertError, match=r"output y is \[1, 2\], the source gives \[2\]"):
        compare(["y"], [[np.zeros(2)]], [[np.zeros((1, 2))]])


def graph_of(*shape: object) -> Graph:
    x = Value(shape, name="x")  # type: ignore[arg-type]
    return Graph((x,), (OPS["relu"](x),))


def test_random_inputs_fit_free_sizes_and_are_the_same_every_time() -> None:
    graph = graph_of(symbol("batch"), 3, symbol("width"))
    first, second = sample_inputs(graph, 2), sample_inputs(graph, 2)
    assert [x["x"].shape for x in first] == [(2, 3, 64)] * 2
    assert not np.array_equal(first[0]["x"], first[1]["x"])
    np.testing.assert_array_equal(first[1]["x"], second[1]["x"])


def test_random_inputs_keep_to_the_sizes_that_a_model_was_made_for() -> None:
    graph = graph_of(symbol("batch"), symbol("width"))
    model = Model({"infer": graph}, symbol_ranges={"width": (4, 16), "batch": (5, 9)})
    assert sample_inputs(graph, 1, model=model)[0]["x"].shape == (5, 16)


def test_real_inputs_are_taken_in_the_batches_of_the_model() -> None:
    data = {"x": np.arange(14, dtype=np.float64).reshape(7, 2)}
    found = sample_inputs(graph_of(3, 2), 9, data)
    assert [x["x"][0, 0] for x in found] == [0, 6]
    assert found[0]["x"].dtype == np.float32
    assert len(sample_inputs(graph_of(symbol("n"), 2), 4, data)) == 4


def test_data_of_another_kind_is_refused() -> None:
    with pytest.raises(ConvertError, match="x holds <U1, want real numbers"):
        sample_inputs(graph_of(1, 2), 1, {"x": np.array([["a", "b"]])})


def test_a_value_that_no_memory_holds_is_refused() -> None:
    x = Value((symbol("n"), 4), DType.f32, name="x")
    graph = Graph((x,), (OPS["broadcast_to"](x, shape=(2**30, *x.shape)),))
    with pytest.raises(ConvertError, match=r"elements at .*; want at most"):
        sample_inputs(graph, 1)


def test_onnx_runtime_and_the_evaluator_of_onnx_agree(exported: Exported) -> None:
    model = str(exported("lenet", free_batch=False))
    x = {"x": samples("lenet", 3)["x"]}
    shapes = {"x": [3, 1, 28, 28]}
    for wanted in (["y"], ["y", "/2/MaxPool_output_0"]):
        fast, slow = _session(model, wanted, shapes), _evaluator(model, wanted, shapes)
        assert fast is not None
        for a, b in zip(fast(x), slow(x), strict=True):
            assert len(a) == 3
            np.testing.assert_allclose(a, b, atol=1e-5)


def test_a_source_that_ends_its_runtime_is_an_error_of_one_line() -> None:
    with pytest.raises(ConvertError, match="the source model ends ONNX Runtime by signal 9"):
        in_a_child("ONNX Runtime", lambda: os.kill(os.getpid(), signal.SIGKILL), 60)


def test_the_child_leaves_alone_what_its_parent_has_thrown_away() -> None:
    parent, ended = os.getpid(), []

    class Thrown:
        def __init__(self) -> None:
            self.itself = self

        def __del__(self) -> None:
            ended.append(os.getpid() != parent)

    def work() -> list[bool]:
        gc.collect()
        return ended

    gc.disable()
    try:
        Thrown()
        assert in_a_child("ONNX Runtime", work, 60) == []
    finally:
        gc.enable()
    gc.collect()
    assert ended == [False]


def test_nothing_is_collected_while_a_child_begins() -> None:
    collects: list[bool] | None = []

    def look() -> None:
        if collects is not None:
            collects.append(gc.isenabled())

    os.register_at_fork(after_in_child=look)
    assert in_a_child("ONNX Runtime", lambda: (collects, gc.isenabled()), 60) == ([False], True)
    assert gc.isenabled()
    collects = None


INTERRUPTED = """
import os, signal, time
from converter.child import in_a_child

def work():
    os.kill(os.getppid(), signal.SIGINT)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # as deaf as native code is
    time.sleep(600)

try:
    in_a_child("ONNX Runtime", work, 600)
except KeyboardInterrupt:
    print("interrupted")
"""


def test_an_interrupt_does_not_wait_for_a_source_that_runs() -> None:
    run = subprocess.run(
        [sys.executable, "-c", INTERRUPTED], cwd=ROOT, capture_output=True, text=True, timeout=120
    )
    assert (run.stdout, run.stderr) == ("interrupted\n", "")


def test_an_interrupt_while_a_child_begins_is_not_lost() -> None:
    """Python reports what is raised there, and goes on."""
    interrupts = True

    def interrupt() -> None:
        if interrupts:
            signal.raise_signal(signal.SIGINT)

    os.register_at_fork(after_in_parent=interrupt)
    try:
        with pytest.raises(KeyboardInterrupt):
            in_a_child("ONNX Runtime", lambda: time.sleep(600), 600)
    finally:
        interrupts = False
    assert in_a_child("ONNX Runtime", lambda: 5, 60) == 5


TERMINATED = """
import os, signal, time
from converter.child import in_a_child

def work():
    os.kill(os.getppid(), signal.SIGTERM)
    time.sleep(600)

in_a_child("ONNX Runtime", work, 600)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="other systems cannot tie processes together")
def test_a_source_that_runs_ends_with_the_converter() -> None:
    command = [sys.executable, "-c", TERMINATED]
    # The child has the same standard output, which is at its end when both are gone.
    run = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, timeout=120)
    assert run.returncode == -signal.SIGTERM


def test_an_interrupt_ends_the_child_itself() -> None:
    with pytest.raises(ConvertError, match="by signal 2"):
        in_a_child("ONNX Runtime", lambda: os.kill(os.getpid(), signal.SIGINT), 60)


def test_seconds_that_no_alarm_takes_are_refused() -> None:
    with pytest.raises(ConvertError, match="check_seconds is 2147483648, want 1 to 2147483647"):
        Options(check_seconds=2**31)


@pytest.mark.parametrize("tol", [-1e-4, float("nan"), float("inf")])
def test_a_tolerance_that_agrees_with_anything_or_nothing_is_refused(tol: float) -> None:
    with pytest.raises(ConvertError, match=f"tol is {tol}, want a finite number of at least 0"):
        Options(tol=tol)


def test_a_source_that_never_ends_is_stopped_and_said_so() -> None:
    with pytest.raises(SourceTimeout, match="runs for more than 1 s on ONNX Runtime"):
        in_a_child("ONNX Runtime", lambda: time.sleep(60), 1)
