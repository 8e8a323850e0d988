"""Sizes that a run finds among its data: what it computes with them, and where it is stopped."""

from __future__ import annotations

import numpy as np
import pytest

import lite_runtime as lite
from cloud import interpreter
from cloud.autodiff import ones_like, value_and_gradients
from ir import model_file
from ir.graph import Constant, Graph, Model, Value
from ir.op import OPS
from ir.symbol import symbol
from tests.lite_runtime.control_models import I32
from tests.lite_runtime.found_models import AFTER, BIND, collecting_loop, found_rows, rows_graph
from tests.lite_runtime.models import open_model


def with_rows(n: int, found: int) -> np.ndarray:
    x = -np.abs(np.random.default_rng(n).standard_normal((n, 3))).astype(np.float32) - 0.1
    x[np.random.default_rng(found).permutation(n)[:found], 0] = 1.0
    return x


def agrees(session: lite.Session, graph: Graph, *arrays: np.ndarray) -> None:
    names = [str(v.name) for v in graph.inputs]
    found = session.run(dict(zip(names, arrays, strict=True)))
    for y, want in zip(found.values(), interpreter.run(graph, *arrays), strict=True):
        np.testing.assert_allclose(y, want, rtol=1e-6)
        assert y.shape == want.shape


def test_a_result_is_as_long_as_what_was_found_in_every_run() -> None:
    graph = rows_graph()
    session = open_model(graph)
    for n, found in [(4, 2), (4, 2), (4, 0), (4, 4), (9, 1), (9, 7), (4, 2)]:
        x = with_rows(n, found)
        agrees(session, graph, x)
        assert session.run({"x": x})["y"].shape == (found, 3)


def test_a_new_size_of_the_inputs_forgets_what_was_found() -> None:
    graph = rows_graph()
    session = open_model(graph)
    assert session.outputs()[0].shape == ("k", 3)
    agrees(session, graph, with_rows(5, 3))
    session.resize({"n": 6})
    agrees(session, graph, with_rows(6, 3))


def test_what_has_a_size_to_be_found_has_no_bytes_before_a_run() -> None:
    session = open_model(rows_graph())
    (y, _) = session.output_ids()
    assert session.value_bytes()[y] == 0
    session.run({"x": with_rows(5, 2)})
    assert session.value_bytes()[y] == 2 * 3 * 4
    session.resize({"n": 7})
    assert session.value_bytes()[y] == 0


def test_a_file_and_its_text_keep_what_binds_sizes() -> None:
    model = Model({"infer": rows_graph()})
    again = model_file.read(model_file.write(model))
    assert model_file.write(again) == model_file.write(model)
    assert again.symbol_ranges["k"] == (0, 2**31 - 1)


def test_a_size_beyond_what_the_model_allows_stops_the_run() -> None:
    model = Model({"infer": rows_graph()}, symbol_ranges={"k": (1, 2), "n": (1, 8)})
    session = open_model(model)
    for found in (0, 3):
        with pytest.raises(lite.LiteError, match=rf"bind_sizes.*: k = {found}: want 1 to 2"):
            session.run({"x": with_rows(4, found)})
    assert session.run({"x": with_rows(4, 2)})["y"].shape == (2, 3)


def test_a_user_does_not_choose_a_size_that_the_run_finds() -> None:
    session = open_model(rows_graph())
    with pytest.raises(lite.LiteError, match="k = 3: a run finds this size itself"):
        session.resize({"k": 3})
    assert session.run({"x": with_rows(4, 2)})["y"].shape == (2, 3)


def filled(limit: int = 2**31 - 1) -> Model:
    """As many ones as the input says, and their sum."""
    n = Value((1,), I32, name="n")
    k = symbol("k")
    ones = AFTER(OPS["broadcast_to"](Constant(np.float32(1)), shape=(k,)), BIND(n, sizes=(k,)))
    graph = Graph((n,), (OPS["reduce_sum"](OPS["exp"](ones) * 0.0 + ones, axes=(0,)),), ("sum",))
    return Model({"infer": graph}, symbol_ranges={"k": (0, limit)})


def test_memory_is_bounded_by_what_the_user_allows_whatever_the_data_say() -> None:
    session = open_model(filled(), most_memory=1 << 20)
    assert session.run({"n": np.array([1000], np.int32)})["sum"] == 1000
    for n in (2**20, 2**30, 2**31 - 1, -1, -(2**31)):
        with pytest.raises(lite.LiteError, match="bind_sizes"):
            session.run({"n": np.array([n], np.int32)})
    assert session.run({"n": np.array([1000], np.int32)})["sum"] == 1000


def test_sizes_that_do_not_fit_each_other_stop_the_run() -> None:
    x, n = Value((6,), name="x"), Value((2,), I32, name="n")
    a, b = symbol("a"), symbol("b")
    bound = BIND(n, sizes=(a, b))
    flat = AFTER(OPS["broadcast_to"](Constant(np.float32(0)), shape=(a * b,)), bound)
    graph = Graph((x, n), (OPS["reshape"](flat, shape=(a, b)), OPS["fit_shape"](x, shape=(a, b))))
    session = open_model(graph)
    feed = {"x": np.ones(6, np.float32), "n": np.array([2, 3], np.int32)}
    assert session.run(feed)["output1"].shape == (2, 3)
    with pytest.raises(lite.LiteError, match="shapes, types or attributes do not fit"):
        session.run(feed | {"n": np.array([2, 2], np.int32)})


def test_each_turn_of_a_loop_finds_sizes_of_its_own() -> None:
    graph = collecting_loop(6)
    session = open_model(graph)
    x = np.random.default_rng(3).uniform(0, 1.2, (5, 3)).astype(np.float32)
    for _ in range(2):
        agrees(session, graph, x)


def test_a_loop_takes_no_more_memory_for_more_turns() -> None:
    peaks = []
    for turns in (3, 300):
        session = open_model(collecting_loop(turns))
        session.run({"x": np.full((5, 3), 100.0, np.float32)})
        peaks.append(session.peak_bytes() - turns * 3 * 4)
    assert peaks[1] < peaks[0] + 512


def test_gradients_flow_through_what_was_found() -> None:
    x = Value((symbol("n"), 3), name="x")
    loss = OPS["reduce_sum"](OPS["tanh"](found_rows(x)), axes=(0, 1))
    outputs, found = value_and_gradients([loss], [ones_like(loss)], [x])
    graph = Graph((x,), (*outputs, *found), ("loss", "gradient"))
    session = open_model(graph)
    for n, rows in [(6, 4), (6, 0), (3, 3)]:
        array = with_rows(n, rows)
        agrees(session, graph, array)
        slope = (array[:, :1] > 0) / np.cosh(array) ** 2
        np.testing.assert_allclose(session.run({"x": array})["gradient"], slope, rtol=1e-5)
