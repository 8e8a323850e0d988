"""The converter's passes: random graphs compute the same, and each pass does its work."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cloud import ops
from cloud.interpreter import run, step
from converter.passes import LAST_PASSES, PASSES, Pass
from converter.passes.find_activation import find_activation
from converter.passes.fuse_bias import fuse_bias
from converter.passes.fuse_pad import fuse_pad
from converter.passes.share_weights import share_weights
from converter.passes.unique_names import unique_names
from ir.graph import Constant, Graph, Value, Weight
from ir.ops.activation import Activation
from ir.passes.fold_batch_norm import fold_batch_norm
from ir.passes.fuse_activation import fuse_activation, fuse_trained_activation
from ir.passes.fuse_residual import fuse_residual, split_residual
from ir.passes.layout import layout
from ir.passes.move_int8 import move_int8
from ir.verify import verify
from tests.converter.random_nets import random_net
from tests.random_graphs import random_arrays, random_symbolic_graph, random_training_graph

OURS = [
    fuse_pad, layout, fold_batch_norm, fuse_bias, find_activation, fuse_activation,
    fuse_trained_activation, fuse_residual, split_residual, move_int8, share_weights, unique_names,
]  # fmt: skip
LIMIT = 1e-5  # relative: folded weights are rounded once more
Net = Callable[..., Value]


def op_names(graph: Graph) -> list[str]:
    return [n.op.name for n in graph.nodes]


def frozen(*shape: int, name: str = "w", seed: int = 0) -> Weight:
    data = np.random.default_rng(seed).uniform(0.5, 1.5, shape).astype(np.float32)
    return Weight(data, name=name, trainable=False)


def trained(*shape: int, name: str = "w") -> Weight:
    return Weight(frozen(*shape).data, name=name)


def assert_same(before: Graph, after: Graph, seed: int, **sizes: int) -> None:
    verify(after)
    arrays = random_arrays(before, seed, **sizes)
    with np.errstate(all="ignore"):
        (y, new), (y_after, new_after) = step(before, *arrays), step(after, *arrays)
    assert new.keys() == new_after.keys()
    for a, b in zip((*y, *new.values()), (*y_after, *new_after.values()), strict=True):
        assert a.dtype == b.dtype
        size = np.abs(a[np.isfinite(a)]).max(initial=1.0) if a.dtype.kind == "f" else 0
        np.testing.assert_allclose(b, a, rtol=LIMIT, atol=LIMIT * size)


@pytest.mark.parametrize("change", OURS)
@given(seed=st.integers(0, 2**31))
@settings(max_examples=25, deadline=None)
def test_random_graphs_of_the_table_compute_the_same(change: Pass, seed: int) -> None:
    graph = random_training_graph(seed)
    assert_same(graph, change(graph), seed)
    graph = random_symbolic_graph(seed)
    assert_same(graph, change(graph), seed, batch=2, seq=3)


@pytest.mark.parametrize("change", OURS)
@given(seed=st.integers(0, 2**31))
@settings(max_examples=25, deadline=None)
def test_random_channels_first_nets_compute_the_same(change: Pass, seed: int) -> None:
    graph = random_net(seed)
    assert_same(graph, change(graph), seed, batch=2)


@given(seed=st.integers(0, 2**31))
@settings(max_examples=40, deadline=None)
def test_all_passes_in_turn_compute_the_same(seed: int) -> None:
    before = after = random_net(seed)
    for change in (*PASSES, *LAST_PASSES):
        after = change(after)
    assert_same(before, after, seed, batch=2)
    assert "batch_norm" not in op_names(after)


@given(seed=st.integers(0, 2**31))
@settings(max_examples=40, deadline=None)
def test_layout_never_leaves_more_transposes(seed: int) -> None:
    before = random_net(seed)
    count = op_names(layout(before)).count("transpose")
    assert count <= op_names(before).count("transpose")


@pytest.mark.parametrize("change", OURS)
def test_a_pass_leaves_the_graph_that_it_was_given_as_it_was(change: Pass) -> None:
    for seed in range(20):
        graph = random_net(seed)
        text, sources = str(graph), [n.source for n in graph.nodes]
        change(graph)
        assert str(graph) == text
        assert [n.source for n in graph.nodes] == sources


@pytest.mark.parametrize("change", OURS)
def test_new_nodes_keep_the_source_of_those_in_whose_place_they_stand(change: Pass) -> None:
    for seed in range(20):
        graph = random_net(seed)
        for i, node in enumerate(graph.nodes):
            node.source = f"node {i}"
        assert all(n.source.startswith("node ") for n in change(graph).nodes)


def test_transposes_sink_through_a_residual_block_and_vanish() -> None:
    w = frozen(3, 1, 1, 3)

    def conv(x: Value) -> Value:
        y = ops.conv2d(ops.transpose(x, perm=(0, 2, 3, 1)), w)
        return ops.transpose(y, perm=(0, 3, 1, 2))

    graph = Graph.trace(lambda x: ops.relu(conv(ops.relu(conv(x))) + x), (2, 3, 4, 5))
    assert op_names(layout(graph)).count("transpose") == 2  # at the input and at the output


def test_the_columns_of_a_fixed_layer_behind_a_flatten_are_reordered() -> None:
    w = frozen(4, 30)

    def net(x: Value) -> Value:
        y = ops.transpose(ops.relu(x), perm=(0, 3, 1, 2))
        return ops.linear(ops.reshape(y, shape=(2, 30)), w)

    graph = Graph.trace(net, (2, 2, 3, 5))
    after = layout(graph)
    assert op_names(after) == ["relu", "reshape", "linear"]
    assert_same(graph, after, 1)


def test_the_columns_of_a_layer_that_trains_stay() -> None:
    w = trained(4, 30)

    def net(x: Value) -> Value:
        return ops.linear(ops.reshape(ops.transpose(x, perm=(0, 3, 1, 2)), shape=(2, 30)), w)

    assert layout(Graph.trace(net, (2, 2, 3, 5))).weights == (w,)


def test_a_transpose_of_axes_of_size_one_is_a_reshape() -> None:
    graph = Graph.trace(lambda x: ops.transpose(x, perm=(0, 2, 3, 1)), (2, 1, 4, 5))
    assert op_names(layout(graph)) == ["reshape"]


def _norm(x: Value, channels: int, *, fixed: bool = True) -> Value:
    make = frozen if fixed else trained
    parts = [make(channels, name=n) for n in ("scale", "bias", "mean", "variance")]
    return ops.batch_norm(x, *parts)  # type: ignore[no-any-return]


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(
    ("op", "x", "w", "channels"),
    [
        ("conv2d", (2, 4, 5, 3), (6, 3, 3, 3), 6),
        ("depthwise_conv2d", (2, 4, 5, 3), (3, 3, 3), 3),
        ("linear", (2, 5), (4, 5), 4),
    ],
)
def test_batch_norm_is_folded_into_the_layer_before_it(
    op: str, x: tuple[int, ...], w: tuple[int, ...], channels: int, bias: bool
) -> None:
    b = frozen(channels, name="b") if bias else None
    graph = Graph.trace(lambda v: _norm(getattr(ops, op)(v, frozen(*w), b), channels), x)
    after = fold_batch_norm(graph)
    assert op_names(after) == [op]
    assert_same(graph, after, 0)
    assert [v.name for v in after.weights] == ["w", "b" if bias else "bias"]


def test_batch_norm_stays_where_something_trains_or_reads_the_layer() -> None:
    def shared(x: Value) -> tuple[Value, Value]:
        y = ops.linear(x, frozen(4, 5))
        return _norm(y, 4), ops.relu(y)

    nets: list[Callable[[Value], object]] = [
        shared,
        lambda x: _norm(ops.linear(x, trained(4, 5)), 4),
        lambda x: _norm(ops.linear(x, frozen(4, 5)), 4, fixed=False),
        lambda x: _norm(ops.linear(x, frozen(4, 5), activation=Activation.relu), 4),
        lambda x: _norm(ops.relu(x), 5),
    ]
    for net in nets:
        assert "batch_norm" in op_names(fold_batch_norm(Graph.trace(net, (2, 5))))


def test_an_added_vector_becomes_the_bias() -> None:
    for b in (frozen(4, name="b"), trained(4, name="b"), Constant(np.ones((1, 4), np.float32))):
        for net in (
            lambda x, b=b: ops.linear(x, frozen(4, 5)) + b,
            lambda x, b=b: b + ops.linear(x, frozen(4, 5)),
        ):
            graph = Graph.trace(net, (2, 5))
            after = fuse_bias(graph)
            assert op_names(after) == ["linear"]
            assert_same(graph, after, 0)


def test_what_is_no_bias_stays_an_addition() -> None:
    def twice(x: Value) -> tuple[Value, Value]:
        y = ops.linear(x, frozen(4, 5))
        return y + frozen(4, name="b"), y

    nets: list[Callable[[Value], object]] = [
        twice,
        lambda x: ops.linear(x, frozen(4, 5)) + Constant(np.float32(1)),
        lambda x: ops.linear(x, frozen(1, 5)) + frozen(4, name="b"),
        lambda x: ops.linear(x, frozen(4, 5)) + Constant(np.ones((1, 1, 4), np.float32)),
        lambda x: ops.linear(x, frozen(4, 5), frozen(4, name="b")) + frozen(4, name="c"),
        lambda x: ops.linear(x, frozen(4, 5)) + trained(1, 4, name="b"),
    ]
    for net in nets:
        assert "add" in op_names(fuse_bias(Graph.trace(net, (2, 5))))


PERM = (0, 2, 3, 1)


def test_a_border_of_zeros_becomes_padding() -> None:
    w = frozen(2, 2, 3, 3)

    def last(x: Value) -> Value:
        y = ops.pad(x, before=(0, 1, 2, 0), after=(0, 3, 0, 0))
        return ops.conv2d(y, w, pads=(1, 1, 1, 1))

    def first(x: Value) -> Value:
        y = ops.pad(x, before=(0, 0, 1, 2), after=(0, 0, 3, 0))
        return ops.conv2d(ops.transpose(y, perm=PERM), w)

    for net, shape in ((last, (1, 4, 5, 3)), (first, (1, 3, 4, 5))):
        graph = Graph.trace(net, shape)
        after = fuse_pad(graph)
        assert "pad" not in op_names(after)
        assert_same(graph, after, 0)


@pytest.mark.parametrize(
    "attrs",
    [
        {"before": (0, 1, 1, 0), "after": (0, 1, 1, 0), "value": 1.0},
        {"before": (0, 1, 1, 0), "after": (0, 1, 1, 0), "mode": "reflect"},
        {"before": (1, 1, 1, 0), "after": (0, 1, 1, 0)},
        {"before": (0, 0, 0, 1), "after": (0, 0, 0, 0)},
    ],
    ids=["ones", "reflected", "more examples", "more channels"],
)
def test_another_border_stays(attrs: dict[str, object]) -> None:
    channels = 3 + attrs["before"][3]  # type: ignore[index]
    graph = Graph.trace(
        lambda x: ops.conv2d(ops.pad(x, **attrs), frozen(2, 2, 3, channels)), (1, 4, 5, 3)
    )
    assert op_names(fuse_pad(graph)) == ["pad", "conv2d"]


def test_relu_is_fused_into_a_fixed_layer_that_nothing_else_reads() -> None:
    w = frozen(4, 5)
    fused = fuse_activation(Graph.trace(lambda x: ops.relu(ops.linear(x, w)), (2, 5)))
    assert op_names(fused) == ["linear"]

    def shared(x: Value) -> tuple[Value, Value]:
        y = ops.linear(x, w)
        return ops.relu(y), y

    for net in (shared, lambda x: ops.relu(ops.linear(x, w, activation=Activation.tanh))):
        assert op_names(fuse_activation(Graph.trace(net, (2, 5)))) == ["linear", "relu"]


def test_relu_is_fused_into_a_layer_that_trains_only_at_the_end() -> None:
    graph = Graph.trace(lambda x: ops.relu(ops.linear(x, trained(4, 5))), (2, 5))
    assert op_names(fuse_activation(graph)) == ["linear", "relu"]
    assert op_names(fuse_trained_activation(graph)) == ["linear"]


def block(x: Value) -> Value:
    """A residual block of two convolutions."""
    y = ops.relu(ops.conv2d(x, frozen(3, 3, 3, 3), frozen(3), pads=(1, 1, 1, 1)))
    return ops.relu(ops.conv2d(y, frozen(3, 1, 1, 3, seed=1)) + x)


def test_the_sum_of_a_residual_block_and_its_activation_are_fused_into_the_layer_before() -> None:
    graph = Graph.trace(block, (1, 5, 5, 3))
    fused = fuse_trained_activation(fuse_residual(graph))
    assert op_names(fused) == ["conv2d", "conv2d_add"]
    assert fused.nodes[1].attrs["activation"] is Activation.relu
    assert_same(graph, fused, seed=3)
    apart = split_residual(fused)
    assert op_names(apart) == ["conv2d", "conv2d", "add", "relu"]
    assert_same(graph, apart, seed=3)


def test_of_two_layers_that_are_added_the_later_one_takes_the_sum() -> None:
    def net(x: Value) -> Value:
        short = ops.linear(x, frozen(4, 5))
        return short + ops.linear(ops.tanh(x), frozen(4, 5, seed=1), frozen(4))

    graph = Graph.trace(net, (2, 5))
    fused = fuse_residual(graph)
    assert sorted(op_names(fused)) == ["linear", "linear_add", "tanh"]
    assert_same(graph, fused, seed=3)


def test_a_sum_stays_where_others_read_the_layer_or_it_stretches() -> None:
    w = frozen(5, 5)

    def read_twice(x: Value) -> tuple[Value, Value]:
        y = ops.linear(x, w)
        return y + x, y

    for net in (
        read_twice,
        lambda x: ops.linear(x, w) + frozen(1, 5),
        lambda x: ops.linear(x, w, activation=Activation.relu) + x,
        lambda x: ops.linear(x, w) - x,
    ):
        graph = Graph.trace(net, (2, 5))
        assert op_names(fuse_residual(graph)) == op_names(graph)


ROOT2, SLOPE = np.float32(np.sqrt(2)), np.float32(np.sqrt(2 / np.pi))
PATTERNS: dict[str, tuple[Net, str]] = {
    "silu": (lambda x: x * ops.sigmoid(x), "silu"),
    "silu, reversed": (lambda x: ops.sigmoid(x) * x, "silu"),
    "hard_sigmoid": (lambda x: ops.clip(x + 3) / 6, "hard_sigmoid"),
    "hard_swish": (lambda x: x * ops.clip(x + 3) / 6, "hard_swish"),
    "hard_swish, grouped": (lambda x: x * (ops.clip(3 + x) * np.float32(1 / 6)), "hard_swish"),
    "hard_swish of a gate": (
        lambda x: x * ops.hard_sigmoid(x, alpha=1 / 6, beta=0.5),
        "hard_swish",
    ),
    "gelu": (lambda x: 0.5 * x * (1 + ops.erf(x / ROOT2)), "gelu"),
    "gelu, half last": (lambda x: x * (ops.erf(x / ROOT2) + 1) * 0.5, "gelu"),
    "gelu by tanh": (
        lambda x: 0.5 * x * (1 + ops.tanh(SLOPE * (x + 0.044715 * (x * x * x)))),
        "gelu",
    ),
    "gelu by tanh and pow": (
        lambda x: 0.5 * (x * (1 + ops.tanh((x + ops.pow(x, 3.0) * 0.044715) * SLOPE))),
        "gelu",
    ),
}


@pytest.mark.parametrize("name", PATTERNS)
def test_an_activation_that_was_written_out_is_found(name: str) -> None:
    net, op = PATTERNS[name]
    graph = Graph.trace(net, (3, 50))
    after = find_activation(graph)
    assert op_names(after) == [op]
    x = np.linspace(-6, 6, 150, dtype=np.float32).reshape(3, 50)
    np.testing.assert_allclose(run(after, x)[0], run(graph, x)[0], atol=1e-5)


@pytest.mark.parametrize(
    "net",
    [
        lambda x: x * ops.sigmoid(x * 1.7),
        lambda x: x * ops.sigmoid(x) * 2,
        lambda x: x * ops.clip(x + 3) / 5,
        lambda x: x * ops.clip(x + 3, high=5.0) / 6,
        lambda x: x * ops.clip(x + 2) / 6,
        lambda x: 0.5 * x * (1 + ops.erf(x / 2)),
        lambda x: 0.5 * x * (2 + ops.erf(x / ROOT2)),
        lambda x: x / ops.sigmoid(x),
    ],
)
def test_what_only_looks_like_an_activation_is_left(net: Net) -> None:
    graph = Graph.trace(net, (3, 50))
    after = find_activation(graph)
    x = np.linspace(-6, 6, 150, dtype=np.float32).reshape(3, 50)
    np.testing.assert_allclose(run(after, x)[0], run(graph, x)[0], atol=1e-5)


def test_a_transpose_before_a_sum_with_more_axes_stays() -> None:
    wide = Constant(np.ones((2, 1, 1, 1), np.float32))
    graph = Graph.trace(lambda x: ops.transpose(x, perm=(0, 2, 1)) + wide, (2, 3, 4))
    assert_same(graph, layout(graph), 0)


def test_fixed_weights_of_the_same_content_are_kept_once() -> None:
    tied = Weight(frozen(4, 4).data.copy(), name="again", trainable=False)
    own = Weight(frozen(4, 4).data.copy(), name="trains")
    graph = Graph.trace(
        lambda x: ops.linear(ops.linear(ops.linear(x, frozen(4, 4)), tied), own), (2, 4)
    )
    after = share_weights(graph)
    assert [v.name for v in after.weights] == ["w", "trains"]
    assert_same(graph, after, 0)


def test_weights_that_were_made_of_one_are_named_apart() -> None:
    w = frozen(4, 4)

    def net(x: Value) -> Value:
        return _norm(ops.linear(_norm(ops.linear(x, w), 4), w), 4)

    after = unique_names(fold_batch_norm(Graph.trace(net, (2, 4))))
    names = [v.name for v in after.weights]
    assert names == ["w", "bias", "w.2", "bias.2"]
    assert unique_names(after) is after
    assert w.name == "w"


def test_what_is_moved_beside_a_conversion_is_int8() -> None:
    def net(x: Value) -> tuple[Value, ...]:
        image = ops.transpose(ops.reshape(x, shape=(1, 3, 4, 5)), perm=(0, 2, 3, 1))
        pooled = ops.max_pool2d(ops.quantize(image, scale=0.1), size=(2, 2), strides=(2, 2))
        y = ops.dequantize(pooled, scale=0.1)
        return ops.reshape(ops.transpose(y, perm=(0, 3, 1, 2)), shape=(12,)), image

    def alone(x: Value) -> Value:
        return net(x)[0]

    moved = move_int8(Graph.trace(alone, (3, 4, 5)))
    assert op_names(moved) == [
        "quantize", "reshape", "transpose", "max_pool2d", "transpose", "reshape", "dequantize",
    ]  # fmt: skip
    assert_same(Graph.trace(alone, (3, 4, 5)), moved, 3)
    # What something else reads as float32 stays.
    assert op_names(move_int8(Graph.trace(net, (3, 4, 5))))[:3] == [
        "reshape",
        "transpose",
        "quantize",
    ]
