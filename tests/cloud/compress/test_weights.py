"""Weights in 16, 8 and 4 bits under float32 arithmetic."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cloud import ops
from cloud.autodiff import vjp
from cloud.compress.noise import layer_noise, sqnr_db
from cloud.compress.weights import Scheme, compressed_weights
from cloud.interpreter import run
from cloud.train.engine import engine_for
from converter.passes import PASSES
from converter.training import choose_weights
from ir import model_file
from ir.compression import compress, expand, stored_size
from ir.dtype import DType
from ir.errors import GraphError
from ir.graph import Graph, Model, Value, Weight
from ir.passes import applied
from ir.symbol import symbol
from ir.verify import verify
from tests.converter.random_nets import random_net

SCHEMES = [Scheme(16), Scheme(8), Scheme(8, 20), Scheme(4, 32), Scheme(4, 64), Scheme(4)]
LEAST_DB = {16: 60, 8: 35, 4: 13}


def frozen(*shape: int, seed: int = 0, name: str = "w") -> Weight:
    data = np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
    return Weight(data, name=name, trainable=False)


def small_text_net() -> Graph:
    """An embedding, two layers and a product that reads the embedding once more."""
    at = Value((symbol("batch"), 6), DType.i32, name="at")
    table = frozen(50, 40, name="table")
    h = ops.gather(table, at)
    h = ops.linear(h, frozen(70, 40, seed=1, name="up"), frozen(70, seed=2, name="b"))
    h = ops.linear(ops.relu(h), frozen(40, 70, seed=3, name="down"))
    return Graph((at,), (ops.linear(h, table),), ("y",))


@given(
    rows=st.integers(1, 5), n=st.integers(1, 200), bits=st.sampled_from([4, 8, 16]),
    groups=st.integers(0, 3), seed=st.integers(0, 2**31),
)  # fmt: skip
@settings(max_examples=60, deadline=None)
def test_what_is_stored_is_read_back_within_half_a_step(
    rows: int, n: int, bits: int, groups: int, seed: int
) -> None:
    group = 32 * groups
    w = np.random.default_rng(seed).standard_normal((rows, n)).astype(np.float32)
    stored, scale = compress(w, bits, group)
    assert stored.shape == (rows, stored_size(n, bits))
    got = expand(stored, scale, n, bits, group)
    if scale is None:
        np.testing.assert_allclose(got, w, rtol=5e-4, atol=1e-7)
    else:
        steps = np.repeat(scale.astype(np.float32), group or n, axis=1)[:, :n]
        outside = np.abs(w) > 7.5 * steps if bits == 4 else np.zeros(w.shape, bool)
        assert np.all((np.abs(got - w) <= 0.502 * steps) | outside)


def test_four_bits_choose_the_scale_with_the_least_error() -> None:
    w = np.random.default_rng(0).standard_normal((100, 32)).astype(np.float32)
    stored, scale = compress(w, 4, 32)
    step = np.abs(w).max(axis=1, keepdims=True) / 7
    plain = np.round(w / step) * step
    assert np.square(expand(stored, scale, 32, 4, 32) - w).sum() < 0.95 * np.square(plain - w).sum()


def test_scales_are_halves_only_where_these_are_fine_enough() -> None:
    w = np.random.default_rng(1).standard_normal((4, 64)).astype(np.float32)
    assert compress(w, 8)[1].dtype == np.float16
    assert compress(w * 1e-6, 8)[1].dtype == np.float32
    assert compress(w * 1e9, 8)[1].dtype == np.float32


def test_a_number_beyond_float16_is_refused() -> None:
    with pytest.raises(ValueError, match="70000 is beyond float16, want at most 65504"):
        compress(np.full((1, 2), 7e4, np.float32), 16)


@pytest.mark.parametrize("scheme", SCHEMES, ids=str)
def test_an_embedding_and_layers_read_stored_rows(scheme: Scheme) -> None:
    graph = small_text_net()
    small = compressed_weights(graph, scheme).graph
    verify(small)
    names = [n.op.name for n in small.nodes]
    assert names.count("compressed_linear") == 3
    assert names.count("compressed_gather") == 1
    stored = [w.name for w in small.weights if w.dtype in (DType.i8, DType.f16)]
    assert sorted(n for n in stored if not n.endswith(".scale")) == ["down", "table", "up"]
    at = np.random.default_rng(0).integers(0, 50, (3, 6)).astype(np.int32)
    want, got = run(graph, at), run(small, at)
    assert sqnr_db(want, got) > LEAST_DB[scheme.bits]
    on_lite = engine_for(Model({"infer": small}), "lite").run("infer", {"at": at})
    np.testing.assert_allclose(on_lite["y"], got[0], rtol=1e-4, atol=1e-4 * np.abs(got[0]).max())


@given(seed=st.integers(0, 2**31), which=st.integers(0, len(SCHEMES) - 1))
@settings(max_examples=25, deadline=None)
def test_random_nets_answer_nearly_the_same_and_alike_on_the_runtime(seed: int, which: int) -> None:
    graph = applied(PASSES, choose_weights(random_net(seed, width=16), None))
    x = np.random.default_rng(seed).standard_normal((3, 3, 6, 5)).astype(np.float32)
    small = compressed_weights(graph, SCHEMES[which]).graph
    verify(small)
    on_lite = engine_for(Model({"infer": small}), "lite").run("infer", {"x": x})
    for name, want, got in zip(small.output_names, run(graph, x), run(small, x), strict=True):
        assert sqnr_db([want], [got]) > LEAST_DB[SCHEMES[which].bits] / 3
        scale = max(1e-3, np.abs(got).max())
        np.testing.assert_allclose(on_lite[name], got, rtol=1e-3, atol=1e-4 * scale)


def file_size(graph: Graph) -> int:
    return len(model_file.write(Model({"infer": graph})))


def test_a_file_of_four_bits_is_a_seventh() -> None:
    x = Value((symbol("batch"), 512), name="x")
    graph = Graph((x,), (ops.linear(x, frozen(512, 512)),), ("y",))
    whole = file_size(graph)
    schemes = (Scheme(4, 32), Scheme(8), Scheme(16))
    size = {s.bits: file_size(compressed_weights(graph, s).graph) for s in schemes}
    assert size[4] < whole / 7 + 2000
    assert size[8] < whole * 0.26
    assert size[16] < whole * 0.51


def test_layers_are_kept_float_by_name() -> None:
    graph = small_text_net()
    small = compressed_weights(graph, Scheme(8), keep_float=["up"]).graph
    assert next(w for w in small.weights if w.name == "up").dtype is DType.f32
    with pytest.raises(GraphError, match="keep_float: no node or weight matches 'z'"):
        compressed_weights(graph, Scheme(8), keep_float=["z"])


def test_what_trains_stays_float_and_learns_through_what_is_stored() -> None:
    x = Value((symbol("batch"), 20), name="x")
    first = Weight(frozen(20, 20).data, name="first")
    b = Value((30,), name="b")
    graph = Graph((x, b), (ops.linear(ops.linear(x, first), frozen(30, 20, seed=1), b),), ("y",))
    small = compressed_weights(graph, Scheme(8)).graph
    assert [n.op.name for n in small.nodes] == ["linear", "compressed_linear"]
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(s).astype(np.float32) for s in ((4, 20), (30,), (4, 30))]
    for want, got in zip(run(vjp(graph), *arrays), run(vjp(small), *arrays), strict=True):
        np.testing.assert_allclose(got, want, rtol=0.05, atol=0.05 * np.abs(want).max())


def test_infinite_weights_and_those_beyond_float16_stay() -> None:
    x = Value((symbol("batch"), 20), name="x")
    w, v = frozen(20, 20, name="w"), frozen(20, 20, name="v")
    w.data[0, 0], v.data[0, 0] = -np.inf, 1e6
    graph = Graph((x,), (ops.linear(ops.linear(x, w), v),), ("y",))
    names = [n.op.name for n in compressed_weights(graph, Scheme(16)).graph.nodes]
    assert names == ["linear", "linear"]
    names = [n.op.name for n in compressed_weights(graph, Scheme(8)).graph.nodes]
    assert names == ["linear", "compressed_linear"]


def test_the_noise_of_every_changed_layer_is_told() -> None:
    graph = small_text_net()
    at = np.random.default_rng(0).integers(0, 50, (16, 6)).astype(np.int32)
    found = layer_noise(compressed_weights(graph, Scheme(4, 32)), {"at": at})
    assert [n.operator for n in found] == ["gather", "linear", "linear", "linear"]
    assert all(12 < n.sqnr_db < 30 and n.added >= 0 for n in found)


@pytest.mark.parametrize(
    ("bits", "group", "message"),
    [(5, 0, "5 bits"), (4, 20, "want a multiple of 32"), (8, -1, "want at least 0")],
)
def test_a_scheme_that_is_none_is_refused(bits: int, group: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Scheme(bits, group)
