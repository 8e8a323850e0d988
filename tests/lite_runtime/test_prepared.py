"""What kernels make of weights that never change: once a session, the same results."""

from __future__ import annotations

import numpy as np
import pytest

import lite_runtime as lite
from ir.dtype import DType
from ir.graph import Constant, Graph, Model, Value, Weight
from ir.op import OPS
from ir.quantization import add_attrs, quantize_multiplier
from ir.symbol import symbol
from tests.lite_runtime.models import open_model

BATCH = symbol("batch")


def layers(frozen: bool = True, entries: tuple[str, ...] = ("infer",), x_zero: int = 5) -> Model:
    """A convolution and a linear layer on int8 over the same weights in every entry."""
    rng = np.random.default_rng(3)

    def leaf(name: str, low: int, high: int, *shape: int, dtype: type) -> Value:
        data = rng.integers(low, high, shape).astype(dtype)
        return Constant(data) if frozen else Weight(data, name=name, trainable=False, state=True)

    def weights(name: str, k: int, *shape: int) -> list[Value]:
        return [
            leaf(f"{name}.w", -127, 128, k, *shape, dtype=np.int8),
            leaf(f"{name}.b", -900, 900, k, dtype=np.int32),
            leaf(f"{name}.m", 2**30, 2**31 - 1, k, dtype=np.int32),
            leaf(f"{name}.s", -10, -7, k, dtype=np.int32),
        ]

    conv, linear = weights("conv", 20, 3, 3, 4), weights("linear", 10, 20)
    graphs = {}
    for i, name in enumerate(entries):
        x = Value((BATCH, 6, 6, 4), DType.i8, name="x")
        y = OPS["quantized_conv2d"](x, *conv, pads=(1, 1, 1, 1), x_zero=x_zero + i)
        graphs[name] = Graph((x,), (OPS["quantized_linear"](y, *linear, y_zero=-3),), ("y",))
    return Model(graphs)


def images(batch: int) -> np.ndarray:
    return np.random.default_rng(batch).integers(-128, 128, (batch, 6, 6, 4)).astype(np.int8)


def packed_bytes(session: lite.Session, *entries: str) -> int:
    """What is kept beside the weights once these entries are planned."""
    return [session.weight_bytes(entry) for entry in entries][-1] - sum(
        w.size_bytes for w in session.weight_infos
    )


@pytest.mark.parametrize("frozen", [True, False])
def test_results_are_those_of_the_reference_at_all_sizes(frozen: bool) -> None:
    fast, slow = open_model(layers(frozen)), open_model(layers(frozen), backend="ref")
    for batch in (3, 1, 40, 3):
        assert np.array_equal(fast.run(images(batch)), slow.run(images(batch)))


def test_packed_weights_are_kept_and_counted_where_weights_never_change() -> None:
    assert packed_bytes(open_model(layers()), "infer") > 0
    assert packed_bytes(open_model(layers(frozen=False)), "infer") == 0
    assert packed_bytes(open_model(layers(), backend="ref"), "infer") == 0


def test_entries_share_packed_weights_where_their_attributes_agree() -> None:
    session = open_model(layers(entries=("infer", "again")))
    one, both = (packed_bytes(session, *names) for names in (("infer",), ("infer", "again")))
    conv_alone = both - one  # x_zero differs, so it is packed again
    assert 0 < conv_alone < one
    for entry, x_zero in (("infer", 5), ("again", 6)):
        expected = open_model(layers(x_zero=x_zero), backend="ref").run(images(2))
        assert np.array_equal(session.run(images(2), entry=entry), expected)


def test_a_state_that_is_set_is_what_the_next_run_multiplies() -> None:
    session, slow = (
        open_model(layers(frozen=False)),
        open_model(layers(frozen=False), backend="ref"),
    )
    session.run(images(2))
    w = np.random.default_rng(9).integers(-127, 128, (20, 3, 3, 4)).astype(np.int8)
    for each in (session, slow):
        each.set_weights({"conv.w": w})
    assert np.array_equal(session.run(images(2)), slow.run(images(2)))


def float_layers(seed: int = 0) -> Model:
    """Convolutions by every way there is, without a bias, too, and a linear layer behind them."""
    rng = np.random.default_rng(seed)

    def leaf(*shape: int) -> Value:
        scale = np.prod(shape[1:]) ** -0.5
        return Constant((scale * rng.standard_normal(shape)).astype(np.float32))

    x = Value((BATCH, 16, 16, 3), DType.f32, name="x")
    y = OPS["conv2d"](x, leaf(36, 3, 3, 3), leaf(36), pads=(0, 0, 1, 1), strides=(2, 2))
    y = OPS["conv2d"](y, leaf(36, 3, 3, 36), pads=(1, 1, 1, 1), activation="relu6")
    y = OPS["depthwise_conv2d"](y, leaf(5, 5, 36), leaf(36), pads=(2, 2, 2, 2), activation="relu")
    y = OPS["conv2d"](y, leaf(24, 1, 1, 36), leaf(24), activation="hard_swish")
    y = OPS["conv2d"](y, leaf(26, 3, 3, 12), leaf(26), groups=2, pads=(1, 1, 1, 1))
    y = OPS["linear"](OPS["reshape"](y, shape=(BATCH, 8 * 8 * 26)), leaf(21, 8 * 8 * 26), leaf(21))
    return Model({"infer": Graph((x,), (y,), ("y",))})


@pytest.mark.parametrize("first", [1, 9])
def test_packed_float32_weights_serve_sizes_that_go_another_way(first: int) -> None:
    fast, slow = open_model(float_layers()), open_model(float_layers(), backend="ref")
    for batch in (first, 1, 2, 17):
        x = np.random.default_rng(batch).standard_normal((batch, 16, 16, 3)).astype(np.float32)
        np.testing.assert_allclose(fast.run(x), slow.run(x), rtol=0, atol=1e-5)
    assert packed_bytes(fast, "infer") > 0


def test_results_on_packed_float32_weights_are_the_same_on_any_number_of_threads() -> None:
    x = np.random.default_rng(1).standard_normal((9, 16, 16, 3)).astype(np.float32)
    runs = [open_model(float_layers(), threads=n).run(x) for n in (1, 2, 3)]
    assert np.array_equal(runs[0], runs[1])
    assert np.array_equal(runs[0], runs[2])


@pytest.mark.parametrize("width", [16, 48, 49, 64, 65, 97, 112, 113, 160, 481, 496, 497, 545])
@pytest.mark.parametrize("frozen", [True, False])
def test_products_have_the_bits_of_the_reference_at_any_width(width: int, frozen: bool) -> None:
    """By w^T and by w, packed before and just now; whole numbers have one sum in any order."""
    rng = np.random.default_rng(width)

    def leaf(name: str, *shape: int) -> Value:
        data = rng.integers(-4, 5, shape).astype(np.float32)
        return Constant(data) if frozen else Weight(data, name=name, trainable=False, state=True)

    x = Value((BATCH, 300), DType.f32, name="x")
    turned = OPS["linear"](x, leaf("w", width, 300), leaf("b", width), activation="relu")
    y = OPS["concat"](turned, OPS["matmul"](x, leaf("m", 300, width)), axis=1)
    model = Model({"infer": Graph((x,), (y,), ("y",))})
    slow, fast = open_model(model, backend="ref"), [open_model(model, threads=n) for n in (1, 3)]
    for batch in (7, 31, 128, 300):
        data = rng.integers(-4, 5, (batch, 300)).astype(np.float32)
        for session in fast:
            assert np.array_equal(session.run(data), slow.run(data))


@pytest.mark.parametrize("results", [33, 49, 64, 65, 112])
def test_transformed_weights_of_any_number_of_results_are_those_of_the_reference(
    results: int,
) -> None:
    rng = np.random.default_rng(results)
    w = Constant(0.06 * rng.standard_normal((results, 3, 3, 32)).astype(np.float32))
    x = Value((BATCH, 16, 16, 32), DType.f32, name="x")
    model = Model({"infer": Graph((x,), (OPS["conv2d"](x, w, pads=(1, 1, 1, 1)),), ("y",))})
    data = rng.standard_normal((3, 16, 16, 32)).astype(np.float32)
    fast, slow = open_model(model), open_model(model, backend="ref")
    np.testing.assert_allclose(fast.run(data), slow.run(data), rtol=0, atol=2e-5)


@pytest.mark.parametrize("backend", ["auto", "ref"])
@pytest.mark.parametrize("bad", [np.inf, np.nan, -1.0, -0.0, -1])
def test_a_multiplier_that_is_none_is_refused_in_a_run(bad: float, backend: str) -> None:
    whole = isinstance(bad, int)
    numbers = [np.array([0, bad], np.int32 if whole else np.float16)]
    shift = [np.zeros(2, np.int32)] if whole else []
    w, bias = np.ones((2, 3), np.int8), np.zeros(2, np.int32)
    x = Value((BATCH, 3), DType.i8, name="x")
    y = OPS["quantized_linear"](x, *map(Constant, [w, bias, *numbers, *shift]))
    session = open_model(Graph((x,), (y,)), backend=backend)
    with pytest.raises(lite.LiteError, match=r"\(quantized_linear.*: its inputs do not fit$"):
        session.run(np.ones((4, 3), np.int8))


def test_sums_and_products_keep_what_was_made_of_their_attributes() -> None:
    rng = np.random.default_rng(7)
    x, z = (Value((BATCH, 256), DType.i8, name=n) for n in "xz")
    y, count = x, 40
    for _ in range(count):
        a, b, scale = (float(s) for s in rng.uniform(0.01, 0.1, 3))
        multiplier, shift = quantize_multiplier(a * b / scale)
        y = OPS["quantized_add"](y, z, a_zero=3, b_zero=-9, **add_attrs(a, b, scale))
        y = OPS["quantized_mul"](y, z, b_zero=5, y_zero=1, multiplier=multiplier, shift=shift)
    model = Model({"infer": Graph((x, z), (y,), ("y",))})
    fast, slow = open_model(model), open_model(model, backend="ref")
    for batch in (256, 1, 300):
        numbers = np.arange(-128, 128).astype(np.int8)
        feed = {
            "x": np.tile(numbers, (batch, 1)),
            "z": np.resize(numbers, (batch, 1)).repeat(256, 1),
        }
        assert np.array_equal(fast.run(feed)["y"], slow.run(feed)["y"])
        assert packed_bytes(fast, "infer") == 2 * count * 64


@pytest.mark.parametrize("op", ["conv2d_add", "linear_add"])
def test_layers_with_sums_share_packed_weights_whatever_they_add(op: str) -> None:
    shape = (40, 1, 1, 40) if op == "conv2d_add" else (40, 40)
    w = Weight(
        np.random.default_rng(0).standard_normal(shape).astype(np.float32) / 40,
        name="w",
        trainable=False,
    )

    def net(sums: int) -> Graph:
        x = Value((BATCH, 8, 8, 40), name="x")
        y = x
        for _ in range(sums):
            y = OPS[op](OPS["tanh"](y), y, w)
        return Graph((x,), (y,), ("y",))

    one, three = (open_model(net(sums)) for sums in (1, 3))
    assert packed_bytes(three, "infer") == packed_bytes(one, "infer") > 0
    x = np.random.default_rng(1).standard_normal((4, 8, 8, 40)).astype(np.float32)
    slow = open_model(net(3), backend="ref").run(x)
    np.testing.assert_allclose(three.run(x), slow, rtol=1e-4, atol=1e-5)
