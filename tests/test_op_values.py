"""What the samples of the table leave open: ties, zeros, published vectors, rules of optimisers."""

from __future__ import annotations

import numpy as np
import pytest

from cloud.autodiff import vjp
from cloud.interpreter import run
from ir.errors import ShapeError
from ir.graph import Array, Graph, Value
from ir.op import OPS
from ir.ops.random import _philox
from ir.ops.shaping import flatten, resolved_shape, slice_axis, split, squeeze, tile, unsqueeze
from ir.symbol import symbol


def gradient(fn, *arrays: Array) -> list[Array]:
    """The gradients of the sum of fn's result."""
    graph = Graph.trace(fn, *(x.shape for x in arrays))
    (y,) = run(graph, *arrays)
    return run(vjp(graph), *arrays, np.ones_like(y))


@pytest.mark.parametrize("name", ["maximum", "minimum"])
def test_two_equal_inputs_have_half_of_the_gradient_each(name: str) -> None:
    a, b = np.array([1.0, 2.0, 3.0]), np.array([1.0, 3.0, 2.0])
    to_a, to_b = gradient(OPS[name], a, b)
    np.testing.assert_array_equal(to_a, [0.5, 0, 1] if name == "maximum" else [0.5, 1, 0])
    np.testing.assert_array_equal(to_a + to_b, np.ones(3))


@pytest.mark.parametrize("name", ["reduce_max", "reduce_min"])
def test_equal_extremes_share_the_gradient(name: str) -> None:
    (g,) = gradient(lambda x: OPS[name](x, axes=(0,)), np.array([2.0, 5.0, 2.0, 5.0]))
    share = np.array([0, 0.5, 0, 0.5])
    np.testing.assert_array_equal(g, share if name == "reduce_max" else 0.5 - share)


def test_the_gradient_of_a_product_holds_where_elements_are_zero() -> None:
    x = np.array([[2.0, 3.0, 4.0], [2.0, 0.0, 4.0], [0.0, 0.0, 4.0]])
    (g,) = gradient(lambda x: OPS["reduce_prod"](x, axes=(1,)), x)
    np.testing.assert_array_equal(g, [[12, 8, 6], [0, 8, 0], [0, 0, 0]])


def test_kinks_have_the_derivative_that_is_stated() -> None:
    zero, limits = np.array([0.0]), np.array([-0.5, 0.0, 3.0, 6.0, 6.5])
    assert gradient(OPS["relu"], zero)[0] == 0
    assert gradient(OPS["abs"], zero)[0] == 0
    np.testing.assert_array_equal(gradient(OPS["clip"], limits)[0], [0, 0, 1, 0, 0])


def test_a_power_of_zero_has_finite_gradients() -> None:
    to_base, to_exponent = gradient(OPS["pow"], np.array([0.0, 0.0]), np.array([1.0, 2.0]))
    np.testing.assert_array_equal(to_base, [1, 0])
    np.testing.assert_array_equal(to_exponent, [0, 0])


def test_stop_gradient_stops_the_gradient() -> None:
    (g,) = gradient(lambda x: x * OPS["stop_gradient"](x), np.array([3.0]))
    assert g == 3


def test_a_mean_over_a_free_dimension_differentiates() -> None:
    x = Value((symbol("n"), 2))
    graph = Graph((x,), (OPS["reduce_mean"](x, axes=(0, 1)),))
    for n in (1, 5):
        (g,) = run(vjp(graph), np.ones((n, 2)), np.array(1.0))
        np.testing.assert_allclose(g, np.full((n, 2), 1 / (2 * n)), rtol=1e-6)


def test_slices_and_splits_of_a_free_dimension_know_their_sizes() -> None:
    n = symbol("n")
    x = Value((n, 3))
    parts = split(OPS["concat"](x, x, axis=0), [n, n], axis=0)
    assert [p.shape for p in parts] == [(n, 3), (n, 3)]
    backwards = OPS["slice"](x, begin=(n - 1, 0), end=(-1, 3), step=(-1, 1))
    assert backwards.shape == (n, 3)
    arrays = np.arange(12.0).reshape(4, 3)
    (y,) = run(Graph((x,), (backwards,)), arrays)
    np.testing.assert_array_equal(y, arrays[::-1])


@pytest.mark.parametrize(
    ("begin", "end", "step"), [(-1, 2, 1), (0, 5, 1), (4, -1, -1), (3, -2, -1), (0, 4, 0)]
)
def test_a_slice_that_leaves_its_axis_is_refused(begin: int, end: int, step: int) -> None:
    with pytest.raises(ShapeError, match=r"slice: .*want"):
        OPS["slice"](Value((4,)), begin=(begin,), end=(end,), step=(step,))


def test_arrangements_agree_with_numpy() -> None:
    x = np.arange(24.0).reshape(2, 3, 4)
    same = {
        "flatten": (lambda v: flatten(v), x.reshape(2, 12)),
        "unsqueeze": (lambda v: unsqueeze(v, axes=(0, 2)), x[None, :, None]),
        "squeeze": (lambda v: squeeze(unsqueeze(v, axes=(1,)), axes=(1,)), x),
        "slice_axis": (lambda v: slice_axis(v, 1, 4, axis=2, step=2), x[:, :, 1:4:2]),
        "tile": (lambda v: tile(v, repeats=(2, 1, 3)), np.tile(x, (2, 1, 3))),
        "reshape": (
            lambda v: OPS["reshape"](v, shape=resolved_shape(v.shape, (4, -1))),
            x.reshape(4, 6),
        ),
    }
    for name, (fn, want) in same.items():
        (got,) = run(Graph.trace(fn, x.shape), x)
        np.testing.assert_array_equal(got, want, err_msg=name)


def test_random_bits_are_those_of_the_published_vector() -> None:
    words = [int(w[0]) for w in _philox(np.array([0], np.uint64), (0, 0))]
    assert words == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]


def test_random_numbers_are_uniform_and_move_with_the_key() -> None:
    a, b = (OPS["random_uniform"].ref(np.array([k, 7], np.int32), shape=(100_000,)) for k in (1, 2))
    assert a.min() >= 0
    assert a.max() < 1
    for x in (a, b):
        counts, _ = np.histogram(x, bins=20, range=(0, 1))
        assert np.abs(counts - 5000).max() < 5 * np.sqrt(5000)
    assert abs(np.corrcoef(a, b)[0, 1]) < 0.02


@pytest.mark.parametrize(
    "kind", ["sgd", "momentum", "nesterov", "adam", "adam with decay", "adamw"]
)
def test_ten_steps_of_an_optimiser_are_those_of_pytorch(kind: str) -> None:
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    w, gradients = rng.standard_normal(5), rng.standard_normal((10, 5))
    theirs = torch.tensor(w.copy(), requires_grad=True)
    decay = 0.1
    optimizer = {
        "sgd": lambda p: torch.optim.SGD(p, 0.1, weight_decay=decay),
        "momentum": lambda p: torch.optim.SGD(p, 0.1, momentum=0.9, weight_decay=decay),
        "nesterov": lambda p: torch.optim.SGD(p, 0.1, momentum=0.9, nesterov=True),
        "adam": lambda p: torch.optim.Adam(p, 0.1),
        "adam with decay": lambda p: torch.optim.Adam(p, 0.1, weight_decay=decay),
        "adamw": lambda p: torch.optim.AdamW(p, 0.1, weight_decay=decay),
    }[kind]([theirs])
    m, v, lr = np.zeros(5), np.zeros(5), np.array(0.1)
    for t, g in enumerate(gradients, start=1):
        if kind == "sgd":
            w = OPS["sgd_step"](w, g, lr, weight_decay=decay)
        elif kind in ("momentum", "nesterov"):
            nesterov = kind == "nesterov"
            w, m = OPS["momentum_step"](
                w, m, g, lr, nesterov=nesterov, weight_decay=0.0 if nesterov else decay
            )
        else:
            w, m, v = OPS["adam_step"](
                w, m, v, np.array(t, np.int32), g, lr,
                weight_decay=0.0 if kind == "adam" else decay, decoupled=kind == "adamw",
            )  # fmt: skip
        theirs.grad = torch.tensor(g)
        optimizer.step()
        np.testing.assert_allclose(w, theirs.detach().numpy(), rtol=1e-12, atol=1e-14)
