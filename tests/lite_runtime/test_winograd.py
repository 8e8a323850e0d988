"""3x3 convolutions by squares of results: near float64, the same bits on any number of threads."""

from __future__ import annotations

import numpy as np
import pytest

from ir.dtype import DType
from ir.graph import Constant, Graph, Model, Value
from ir.op import OPS
from ir.ops.activation import Activation
from tests.lite_runtime.models import open_model

PADS = (1, 1, 1, 1)


def normal(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def error(got: np.ndarray, want: np.ndarray) -> tuple[float, float]:
    """The largest difference and the root of their mean square, over the deviation of `want`."""
    off = np.abs(got - want) / want.std()
    return float(off.max()), float(np.sqrt(np.square(off).mean()))


@pytest.mark.parametrize("channels", [64, 128, 256])
def test_squares_stay_as_near_float64_as_their_points_allow(channels: int) -> None:
    x, w = normal(1, 1, 20, 20, channels), normal(2, 48, 3, 3, channels)
    image = Value(x.shape, DType.f32, name="x")
    y = OPS["conv2d"](image, Constant(w), pads=PADS)
    session = open_model(Model({"infer": Graph((image,), (y,), ("y",))}))
    want = OPS["conv2d"].ref(x.astype(np.float64), w.astype(np.float64), pads=PADS)
    largest, root = error(session.run(x), want)
    assert largest <= 1.5e-5  # points 1 and 2 in place of sqrt(1/2) and sqrt(2): 4e-5 with 256
    assert root <= 1.3e-7 * channels**0.5  # 2e-7


def test_a_batch_with_sums_is_the_same_on_any_number_of_threads() -> None:
    x, r, w, b = (
        normal(3, 9, 33, 35, 33), normal(4, 9, 31, 35, 50), normal(5, 50, 3, 3, 33), normal(6, 50),
    )  # fmt: skip
    w /= np.float32(w[0].size ** 0.5)
    inputs = [Value(a.shape, DType.f32, name=n) for a, n in ((x, "x"), (r, "r"))]
    attrs = {"pads": (0, 1, 0, 1), "activation": Activation.relu6}
    y = OPS["conv2d_add"](*inputs, Constant(w), Constant(b), **attrs)
    model = Model({"infer": Graph(tuple(inputs), (y,), ("y",))})
    runs = [open_model(model, threads=n).run({"x": x, "r": r})["y"] for n in (1, 2, 3)]
    want = OPS["conv2d_add"].ref(*(a.astype(np.float64) for a in (x, r, w, b)), **attrs)
    assert error(runs[0], want)[0] <= 2.5e-5
    assert np.array_equal(runs[0], runs[1])
    assert np.array_equal(runs[0], runs[2])
