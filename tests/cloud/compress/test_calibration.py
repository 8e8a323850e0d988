"""How ranges follow from samples, and what is done to weights before they are rounded."""

from __future__ import annotations

import numpy as np
import pytest

from cloud import nn, ops
from cloud.compress.calibrate import channel_means, observe
from cloud.compress.equalize import equalized
from cloud.compress.forms import INT16
from cloud.compress.noise import sqnr_db
from cloud.compress.quantize import calibrated, quantize
from cloud.compress.ranges import METHODS, Histogram, method_from_text
from cloud.interpreter import run
from converter.passes import PASSES
from converter.training import choose_weights
from ir.graph import Graph, Value, Weight
from ir.passes import applied
from ir.symbol import symbol
from tests.cloud.compress.tasks import accuracy, graph_of, textures
from tests.converter.random_nets import random_net

RNG = np.random.default_rng


def histogram(x: np.ndarray, bins: int = 2048) -> Histogram:
    counts, _ = np.histogram(x, bins, (x.min(), x.max()))
    return Histogram(float(x.min()), float(x.max()), counts)


def stored_error(x: np.ndarray, bounds: tuple[float, float]) -> float:
    scale = (bounds[1] - bounds[0]) / 255
    return float(np.mean(np.square(np.clip(np.round(x / scale) * scale, *bounds) - x)))


def frozen(data: np.ndarray, name: str) -> Weight:
    return Weight(data.astype(np.float32), name=name, trainable=False)


def test_min_max_cuts_nothing_off() -> None:
    x = RNG(0).standard_normal(1000)
    assert method_from_text("min-max").range(histogram(x)) == (x.min(), x.max())


@pytest.mark.parametrize("percent", [90.0, 99.0, 99.9])
def test_a_percentile_leaves_as_many_numbers_within(percent: float) -> None:
    x = RNG(1).standard_normal(200_000)
    low, high = method_from_text(f"percentile:percentile={percent}").range(histogram(x))
    inside = np.mean((x >= low) & (x <= high)) * 100
    assert inside == pytest.approx(percent, abs=0.3)


def test_a_percentile_does_not_cut_where_the_numbers_pile_up() -> None:
    x = np.maximum(RNG(2).standard_normal(100_000), 0)  # half of them 0
    low, high = method_from_text("percentile:percentile=99").range(histogram(x))
    assert low == 0
    assert 2.0 < high < x.max()


def test_least_squares_beats_every_other_method_in_squares() -> None:
    x = RNG(3).laplace(size=200_000)
    x[:3] = 60, -40, 50  # outliers that all others have to share a scale with
    seen = histogram(x)
    errors = {name: stored_error(x, method_from_text(name).range(seen)) for name in METHODS}
    assert errors["mse"] < 1.05 * min(errors.values())  # as far as bins tell numbers apart
    assert errors["mse"] < 0.8 * errors["min-max"]


def test_divergence_cuts_outliers_and_keeps_the_bulk() -> None:
    x = np.concatenate([RNG(4).standard_normal(100_000), [100.0, -80.0]])
    low, high = method_from_text("kl").range(histogram(x))
    assert -40 < low < -2
    assert 2 < high < 50


def test_even_numbers_are_not_cut_by_least_squares() -> None:
    x = RNG(5).uniform(-1, 3, 100_000)
    assert method_from_text("mse").range(histogram(x)) == pytest.approx((x.min(), x.max()))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("median", "no such method; there are min-max, percentile, mse, kl"),
        ("percentile:share=3", r"no setting \['share'\]; has \['percentile'\]"),
        ("percentile:percentile=120", "percentile is 120, want 50 to 100"),
        ("percentile:percentile=x", "could not convert"),
        ("mse:bins=3", r"no setting \['bins'\]; has none"),
    ],
)
def test_a_method_that_is_none_is_named(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        method_from_text(text)


def test_a_method_is_written_as_it_is_read() -> None:
    for text in ("min-max", "percentile:percentile=99.9", "mse", "kl"):
        assert str(method_from_text(text)) == text


@pytest.mark.parametrize("name", METHODS)
def test_ranges_lie_within_what_was_seen(name: str) -> None:
    graph = applied(PASSES, choose_weights(random_net(3), None))
    x = {"x": RNG(6).standard_normal((40, 3, 6, 5)).astype(np.float32)}
    widest, found = observe(graph, x), observe(graph, x, method=method_from_text(name))
    assert found.keys() == widest.keys()
    for v, (low, high) in found.items():
        a, b = widest[v]
        assert min(a, 0) - 1e-6 <= low <= high <= max(b, 0) + 1e-6


@pytest.mark.parametrize("name", ["percentile", "kl"])
def test_outliers_among_the_samples_cost_less(name: str, trained: nn.Module) -> None:
    graph = applied(PASSES, choose_weights(graph_of(trained), None))
    data, test = textures(256, 1), textures(600, 9)
    samples = data.columns["image"].copy()
    samples[7, 0, 0] = 300
    x = test.columns["image"]
    (want,) = run(graph, x)
    noise = {
        method: sqnr_db([want], run(quantize(graph, {"image": samples}, method=method), x))
        for method in ("min-max", name)
    }
    assert noise[name] > noise["min-max"] + 3
    (got,) = run(quantize(graph, {"image": samples}, method=name), x)
    assert accuracy(got, test) >= accuracy(want, test) - 0.02


def uneven_pair() -> tuple[Graph, np.ndarray]:
    """Two layers with channels between them that differ by a factor of 1000."""
    rng = RNG(7)
    scale = 10.0 ** rng.uniform(-1.5, 1.5, 16)
    x = Value((symbol("batch"), 8), name="x")
    w1 = rng.standard_normal((16, 8)) * scale[:, None]
    w2 = rng.standard_normal((4, 16)) / scale
    h = ops.relu(ops.linear(x, frozen(w1, "w1"), frozen(rng.standard_normal(16) * scale, "b1")))
    graph = Graph((x,), (ops.linear(h, frozen(w2, "w2")),), ("y",))
    return graph, rng.standard_normal((64, 8)).astype(np.float32)


def test_equalising_keeps_the_function_and_evens_out_the_weights() -> None:
    graph, x = uneven_pair()
    even = equalized(graph)
    np.testing.assert_allclose(run(even, x)[0], run(graph, x)[0], rtol=1e-3, atol=1e-3)
    w1, w2 = ({w.name: w for w in even.weights}[n].data for n in ("w1", "w2"))
    np.testing.assert_allclose(np.abs(w1).max(axis=1), np.abs(w2).max(axis=0), rtol=2e-3)
    before = {w.name: w for w in graph.weights}["w2"]
    assert before.data.max() != w2.max()  # the source is left alone


def test_equalised_layers_lose_less() -> None:
    graph, x = uneven_pair()
    (want,) = run(graph, x)
    plain, even = (quantize(graph, {"x": x}, equalize=e) for e in (False, True))
    assert sqnr_db([want], run(even, x)) > sqnr_db([want], run(plain, x)) + 3


@pytest.mark.parametrize("seed", range(12))
def test_equalising_random_nets_keeps_their_function(seed: int) -> None:
    graph = applied(PASSES, choose_weights(random_net(seed), None))
    x = RNG(seed).standard_normal((3, 3, 6, 5)).astype(np.float32)
    for want, got in zip(run(graph, x), run(equalized(graph), x), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-3, atol=1e-4 * max(1, np.abs(want).max()))


def test_a_clamp_between_layers_is_left_alone() -> None:
    x = Value((symbol("batch"), 8), name="x")
    h = ops.linear(x, frozen(RNG(0).standard_normal((16, 8)), "a"), activation="relu6")
    graph = Graph((x,), (ops.linear(h, frozen(RNG(1).standard_normal((4, 16)), "b")),), ("y",))
    assert equalized(graph) is graph


def test_means_are_those_of_all_samples_and_places() -> None:
    x = Value((symbol("batch"), 5, 3), name="x")
    graph = Graph((x,), (x * 2.0,), ("y",))
    data = RNG(8).standard_normal((70, 5, 3)).astype(np.float32)
    found = channel_means(graph, graph.outputs, {"x": data})
    np.testing.assert_allclose(found[graph.outputs[0]], 2 * data.mean((0, 1)), atol=1e-6)


@pytest.mark.parametrize("kind", ["linear", "conv2d", "grouped", "depthwise"])
def test_corrected_biases_bring_back_the_means(kind: str) -> None:
    rng = RNG(9)
    shape = (8,) if kind == "linear" else (6, 5, 8)
    x = Value((symbol("batch"), *shape), name="x")
    data = (rng.standard_normal((64, *shape)) + 3).astype(np.float32)  # far from 0 on average
    w = {"linear": (6, 8), "conv2d": (6, 1, 1, 8), "grouped": (6, 1, 1, 4), "depthwise": (3, 3, 8)}
    weight = rng.standard_normal(w[kind])
    weight.reshape(-1)[::7] *= 12  # outliers, so that the others are rounded coarsely
    operator = {"linear": ops.linear, "depthwise": ops.depthwise_conv2d}.get(kind, ops.conv2d)
    attrs = {"groups": 2} if kind == "grouped" else {}
    graph = Graph((x,), (operator(x, frozen(weight, "w"), **attrs),), ("y",))
    axes = tuple(range(len(shape)))
    want = run(graph, data)[0].mean(axes)
    off = {}
    for correct in (False, True):
        found = calibrated(graph, {"x": data}, correct_bias=correct).quantized().graph
        off[correct] = np.abs(run(found, data)[0].mean(axes) - want).max()
    assert off[True] < off[False] / 2


def test_kl_does_not_cut_because_of_many_zeros() -> None:
    x = np.random.default_rng(0).standard_normal(200_000) * 2
    _, high = method_from_text("kl").range(histogram(np.clip(x, 0, 6)))
    assert high > 5


@pytest.mark.parametrize("end", [1.0, 1.001])
def test_kl_finds_the_zeros_where_both_ends_are_alike(end: float) -> None:
    x = Value((symbol("batch"), 100), name="x")
    data = np.random.default_rng(0).normal(0, 0.1, (320, 100)).astype(np.float32)
    data[:, 10:] = 0
    data[0, :2] = -1, end
    low, high = observe(Graph((x,), (x,)), {"x": data}, method=method_from_text("kl"))[x]
    assert low < -0.25
    assert high > 0.25


def test_kl_counts_all_numbers_of_a_range_without_0() -> None:
    found = []
    for least in (0, 100_000):  # more numbers in the bin that is nearest to 0
        counts = (np.exp(-np.arange(2048) / 100) * 1000).astype(np.int64)
        counts[[0, -1]] += [least, 1]
        found.append(method_from_text("kl").range(Histogram(1.0, 2.0, counts)))
    assert found[0] != found[1]


def test_least_squares_of_16_bits_cut_off_next_to_nothing() -> None:
    seen = histogram(np.append(RNG(0).standard_normal(2_000_000), [-20, 20]))
    assert method_from_text("mse").range(seen)[1] < 0.7 * seen.high
    assert method_from_text("mse").range(seen, INT16.step) == (seen.low, seen.high)


@pytest.mark.parametrize("name", ["kl", "percentile"])
def test_methods_that_cut_are_refused_for_16_bits(name: str) -> None:
    x = Value((symbol("batch"), 3), name="x")
    with pytest.raises(ValueError, match=f"calibration '{name}': cuts off .* min-max or mse"):
        calibrated(Graph((x,), (x,)), {"x": np.ones((4, 3), np.float32)}, method=name, form=INT16)


@pytest.mark.parametrize("method", ["min-max", "mse"])
def test_16_bits_of_samples_with_outliers_are_as_good_as_float(method: str) -> None:
    w = frozen(RNG(1).standard_normal((8, 16)), "w")
    graph = Graph.trace(lambda x: ops.relu(ops.linear(x, w)), (40, 16))
    x = RNG(2).standard_normal((40, 16)).astype(np.float32)
    x[3, 4] = 60
    small = calibrated(graph, {"input0": x}, method=method, form=INT16).quantized().graph
    assert sqnr_db(run(graph, x), run(small, x)) > 38
