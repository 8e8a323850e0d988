"""Layers on large batches run for one example after the other: the same results, less memory."""

from __future__ import annotations

import numpy as np
import pytest

import lite_runtime as lite
from ir.dtype import DType
from ir.graph import Constant, Graph, Value, Weight
from ir.op import OPS
from ir.ops.activation import Activation
from ir.passes.fuse_activation import fuse_trained_activation
from ir.passes.fuse_residual import fuse_residual
from ir.symbol import symbol
from tests.lite_runtime.models import open_model

BATCH = symbol("batch")
SIZE, CHANNELS = 64, 20
IMAGE = (SIZE, SIZE, CHANNELS)
IMAGE_BYTES = 4 * SIZE * SIZE * CHANNELS


def conv(x: Value, seed: int, *, activation: Activation = Activation.relu) -> Value:
    rng = np.random.default_rng(seed)
    w = Weight(
        (rng.standard_normal((CHANNELS, 1, 1, CHANNELS)) / CHANNELS**0.5).astype(np.float32),
        name=f"w{seed}",
        trainable=False,
    )
    bias = Constant(rng.standard_normal(CHANNELS).astype(np.float32))
    return OPS["conv2d"](x, w, bias, activation=activation)


def depthwise(x: Value, seed: int) -> Value:
    w = np.random.default_rng(seed).standard_normal((3, 3, CHANNELS)).astype(np.float32)
    frozen = Weight(w / 3, name=f"w{seed}", trainable=False)
    return OPS["depthwise_conv2d"](x, frozen, pads=(1, 1, 1, 1))


def image_input() -> Value:
    return Value((BATCH, *IMAGE), name="x")


def images(batch: int) -> np.ndarray:
    rng = np.random.default_rng(batch)
    return rng.standard_normal((batch, *IMAGE)).astype(np.float32)


def chain() -> Graph:
    """A block with a sum beside it, in the middle of layers."""
    x = image_input()
    first = conv(x, 0)
    inner = conv(depthwise(conv(first, 1), 2), 3, activation=Activation.none)
    last = conv(OPS["relu"](first + inner), 4)
    return Graph((x,), (OPS["reduce_mean"](last, axes=(1, 2)),), ("y",))


def fused_chain() -> Graph:
    """The same with the sum inside the layer before it."""
    graph = fuse_trained_activation(fuse_residual(chain()))
    assert "conv2d_add" in [n.op.name for n in graph.nodes]
    return graph


def read_later() -> Graph:
    """Values between the layers that others read, too: behind them, or as outputs."""
    x = image_input()
    first = conv(x, 0)
    second = OPS["relu"](depthwise(first, 1))
    third = conv(second + x, 2)
    later = OPS["reduce_mean"](first, axes=(0, 1, 2)) * OPS["reduce_sum"](third, axes=(0, 1, 2))
    return Graph((x,), (third, second, later), ("third", "second", "later"))


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize(
    "graph", [chain(), fused_chain(), read_later()], ids=["chain", "fused chain", "read later"]
)
def test_results_are_those_of_the_reference_at_all_sizes(graph: Graph, threads: int) -> None:
    fast, slow = open_model(graph, threads=threads), open_model(graph, backend="ref")
    for batch in (8, 1, 16, 8, 3):
        found, want = (s.run_arrays([images(batch)]) for s in (fast, slow))
        for a, b in zip(found, want, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4 * np.abs(b).max())


@pytest.mark.parametrize("graph", [chain(), fused_chain()], ids=["chain", "fused chain"])
def test_a_batch_gives_the_bits_of_its_examples(graph: Graph) -> None:
    session, x = open_model(graph), images(8)
    whole = session.run(x).copy()
    for i in range(8):
        assert np.array_equal(session.run(x[i : i + 1])[0], whole[i])


@pytest.mark.parametrize("graph", [chain(), fused_chain()], ids=["chain", "fused chain"])
def test_what_only_the_layers_see_takes_memory_for_one_example(graph: Graph) -> None:
    session = open_model(graph)
    session.run(images(16))
    # the result of the last layer is read by the mean, all of it
    assert 16 * IMAGE_BYTES <= session.planned_bytes() <= (16 + 4) * IMAGE_BYTES
    assert session.peak_bytes() == session.planned_bytes()


def test_a_profile_counts_a_layer_once_an_example() -> None:
    session = open_model(chain())
    nodes = session.profile(images(8), runs=2).nodes
    assert [n.calls for n in nodes if n.op == "conv2d"] == [8, 8, 8, 8]
    assert [n.calls for n in nodes if n.op == "reduce_mean"] == [1]
    nodes = open_model(fused_chain()).profile(images(8), runs=2).nodes
    assert [n.calls for n in nodes if n.op.startswith("conv2d")] == [8, 8, 8, 8]


def test_layers_on_another_batch_may_follow_at_once() -> None:
    inputs = [Value((symbol(name), *IMAGE), name=name) for name in "ab"]
    outputs = [conv(conv(x, 2 * i), 2 * i + 1) for i, x in enumerate(inputs)]
    session = open_model(Graph(inputs, outputs, ("y", "z")))
    given = {"a": images(8), "b": images(16)}
    assert [n.calls for n in session.profile(given, runs=1).nodes] == [8, 8, 16, 16]
    slow = open_model(Graph(inputs, outputs, ("y", "z")), backend="ref").run(given)
    for name, y in session.run(given).items():
        np.testing.assert_allclose(y, slow[name], rtol=1e-4, atol=1e-4)


def calls(
    size: int, channels: int, *, batch: int, window: int = 3, trains: bool = False
) -> list[float]:
    """How often each of two layers runs for a batch of images [size,size,channels]."""
    rng = np.random.default_rng(0)
    x = y = Value((BATCH, size, size, channels), name="x")
    for i in range(2):
        w = rng.standard_normal((channels, window, window, channels)).astype(np.float32)
        frame = (window // 2,) * 4
        y = OPS["conv2d"](y, Weight(w, name=f"w{i}", trainable=trains), pads=frame)
    session = open_model(Graph((x,), (y,)))
    images = rng.standard_normal((batch, size, size, channels)).astype(np.float32)
    return [n.calls for n in session.profile(images, runs=1).nodes]


def test_weights_that_training_changes_are_packed_once_a_run() -> None:
    assert calls(64, 20, batch=8) == [8, 8]
    assert calls(64, 20, batch=8, trains=True) == [1, 1]


def test_weights_larger_than_the_cache_are_read_once_a_run() -> None:
    assert calls(16, 512, batch=8, window=1) == [8, 8]  # 1 MiB
    assert calls(16, 528, batch=8, window=1) == [1, 1]


def test_layers_of_few_squares_run_at_once() -> None:
    assert calls(14, 128, batch=32) == [32, 32]
    assert calls(12, 128, batch=32) == [1, 1]
    assert calls(12, 128, batch=32, window=1) == [32, 32]


def test_a_number_that_is_not_finite_is_found_in_every_example() -> None:
    session = open_model(chain(), check_finite=True)
    session.run(images(8))
    huge = images(8)
    huge[7, 5] = 3e38
    with pytest.raises(lite.LiteError, match=r"node 0 \(conv2d.*: a result is NaN or infinite$"):
        session.run(huge)
    session.run(images(8))


def test_layers_on_int8_do_so_as_well() -> None:
    rng, x = np.random.default_rng(0), Value((BATCH, *IMAGE), DType.i8, name="x")
    y = x
    for i in range(2):
        w = rng.integers(-127, 128, (CHANNELS, 1, 1, CHANNELS)).astype(np.int8)
        numbers = (np.full(CHANNELS, n, np.int32) for n in (7, 2**30, -8))
        frozen = Weight(w, name=f"w{i}", trainable=False)
        y = OPS["quantized_conv2d"](y, frozen, *map(Constant, numbers), x_zero=3, y_zero=-3)
    graph = Graph((x,), (y,))
    fast, slow = open_model(graph), open_model(graph, backend="ref")
    batch = rng.integers(-128, 128, (32, *IMAGE)).astype(np.int8)
    assert np.array_equal(fast.run(batch), slow.run(batch))
    assert fast.planned_bytes() < 33 * SIZE * SIZE * CHANNELS + 2**17
