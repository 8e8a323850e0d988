"""The state of layers while they are traced: running means and random keys."""

from __future__ import annotations

import numpy as np
import pytest

from cloud import nn, ops
from cloud.interpreter import step
from ir.errors import GraphError
from ir.graph import Graph, Value, Weight
from ir.in_place import in_place_order


def state(*numbers: float) -> Weight:
    return Weight(np.array(numbers, np.float32), name="state", state=True)


def test_a_second_average_starts_from_the_first_and_can_run_in_place() -> None:
    w = state(1.0)
    a, b = Value((1,)), Value((1,))
    t = nn.Tracing(training=True)
    t.average(w, a, 0.5)
    t.average(w, b, 0.5)
    graph = Graph((a, b), (), updates=tuple(t.updates.items()))
    _, new = step(graph, np.array([3.0]), np.array([10.0]))
    assert new[w] == (2 + 10) / 2
    assert in_place_order(graph)


def test_one_average_is_one_node() -> None:
    t = nn.Tracing(training=True)
    x = Value((1,))
    t.average(state(0.0), x, 0.1)
    assert [n.op.name for n in Graph((x,), (), updates=tuple(t.updates.items())).nodes] == [
        "ema_step"
    ]


def test_an_update_is_seen_by_who_reads_the_state_later() -> None:
    w = state(2.0)
    t = nn.Tracing(training=True)
    t.update(w, t.state(w) * 3)
    graph = Graph((), (t.state(w) + 1.0,), updates=tuple(t.updates.items()))
    (y,), new = step(graph)
    assert (y, new[w]) == (7, 6)
    assert in_place_order(graph)


def test_keys_of_one_trace_differ_and_the_next_run_takes_new_ones() -> None:
    w = Weight(np.array([5, 9], np.int32), name="key", state=True)
    t = nn.Tracing(training=True)
    graph = Graph((), tuple(t.next_key(w) + 0 for _ in range(3)), updates=tuple(t.updates.items()))
    graph = Graph((), graph.outputs, updates=tuple(t.updates.items()))
    keys, new = step(graph)
    np.testing.assert_array_equal(keys, [[5, 9], [6, 10], [7, 11]])
    np.testing.assert_array_equal(new[w], [8, 12])
    assert in_place_order(graph)


def test_only_states_of_the_same_shape_can_be_updated() -> None:
    t = nn.Tracing(training=True)
    with pytest.raises(GraphError, match="weight w: a layer updates it, want one with state=True"):
        t.update(Weight(np.zeros(1, np.float32), name="w"), Value((1,)))
    with pytest.raises(GraphError, match=r"weight state: its update is f32\[2\], want f32\[1\]"):
        t.update(state(0.0), Value((2,)))


def dropped(layers: list[nn.Module], runs: int, n: int = 10_000) -> list[np.ndarray]:
    """What ones become in each run of a training graph of dropout layers one after the other."""
    x = Value((n,), name="x")
    with nn.tracing(training=True) as t:
        y = x
        for layer in layers:
            y = layer(y)
    graph = Graph((x,), (y,), updates=tuple(t.updates.items()))
    found, weights = [], {w: w.data for w in graph.weights}
    for _ in range(runs):
        (y0,), new = step(graph, np.ones(n, np.float32), weights=weights)
        weights.update(new)
        found.append(y0)
    return found


def test_dropout_keeps_the_mean_and_draws_anew_each_step() -> None:
    a, b = dropped([nn.Dropout(0.25, rng=np.random.default_rng(0))], 2)
    for y in (a, b):
        assert set(np.unique(y)) == {0, np.float32(1 / 0.75)}
        assert y.mean() == pytest.approx(1, abs=0.02)
    assert np.mean((a == 0) & (b == 0)) == pytest.approx(0.0625, abs=0.01)


def test_the_same_seed_drops_the_same_elements() -> None:
    a, b = (dropped([nn.Dropout(0.5, rng=np.random.default_rng(3))], 3) for _ in range(2))
    np.testing.assert_array_equal(a, b)


def test_a_dropout_used_twice_drops_different_elements() -> None:
    layer = nn.Dropout(0.5, rng=np.random.default_rng(3))
    (y,) = dropped([layer, layer], 1)
    assert np.mean(y > 0) == pytest.approx(0.25, abs=0.02)


def test_dropout_is_the_identity_in_inference_and_at_p_0() -> None:
    x = np.ones(3, np.float32)
    assert nn.Dropout(0.9, rng=np.random.default_rng(0))(x) is not None
    np.testing.assert_array_equal(nn.Dropout(0.9, rng=np.random.default_rng(0))(x), x)
    np.testing.assert_array_equal(
        dropped([nn.Dropout(0.0, rng=np.random.default_rng(0))], 1, n=3)[0], x
    )


@pytest.mark.parametrize("p", [1.0, -0.1])
def test_a_probability_that_drops_everything_is_refused(p: float) -> None:
    with pytest.raises(ValueError, match="want at least 0 and below 1"):
        nn.Dropout(p, rng=np.random.default_rng(0))


def test_the_gradient_flows_through_what_was_kept() -> None:
    from cloud.autodiff import gradients, ones_like

    x = Value((100,), name="x")
    with nn.tracing(training=True):
        y = nn.Dropout(0.5, rng=np.random.default_rng(0))(x)
    total = ops.reduce_sum(y, axes=(0,))
    graph = Graph((x,), (y, *gradients([total], [ones_like(total)], [x])))
    (kept, g), _ = step(graph, np.ones(100, np.float32))
    np.testing.assert_array_equal(kept, g)
