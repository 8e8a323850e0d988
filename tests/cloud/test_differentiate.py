"""Derivatives of Python functions: grad, value_and_grad, vjp, jvp, nesting, and their source."""

from __future__ import annotations

import inspect
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cloud import grad, grad_source, jit, jvp, modes, ops, remat, stop_gradient, value_and_grad, vjp
from cloud.autodiff.reverse import Reverse, differentiated_again
from ir.dtype import DType
from ir.errors import DTypeError, ShapeError
from ir.graph import Graph, Value, Weight
from tests.cloud.test_emit import compiled

RNG = np.random.default_rng(0)
X = RNG.standard_normal((4, 3))
W = RNG.standard_normal((2, 3))


def loss(w: Value, x: Value) -> Value:
    """A net whose derivatives of every order are not zero."""
    y = ops.linear(x, w)
    return ops.reduce_mean(ops.tanh(y) * ops.sin(y), axes=(0, 1))


def slope(f: Callable[[Any], Any], x: Any, direction: Any, step: float = 1e-5) -> Any:
    """A central difference along `direction`."""
    return (f(x + step * direction) - f(x - step * direction)) / (2 * step)


def test_grad_is_the_derivative_by_the_first_argument() -> None:
    d = RNG.standard_normal(W.shape)
    want = slope(lambda w: value_and_grad(loss)(w, X)[0], W, d)
    assert np.vdot(grad(loss)(W, X), d) == pytest.approx(want, rel=1e-8)


def test_grad_by_several_arguments_gives_a_tuple() -> None:
    gx, gw = grad(loss, wrt=(1, 0))(W, X)
    np.testing.assert_array_equal(gx, grad(loss, wrt=1)(W, X))
    np.testing.assert_array_equal(gw, grad(loss)(W, X))


def test_grad_by_a_weight_that_the_function_closes_over() -> None:
    w = Weight(W.astype(np.float32), name="w")
    g = grad(lambda x: loss(w, x), wrt=w)(X.astype(np.float32))
    np.testing.assert_allclose(g, grad(loss)(W, X), rtol=2e-4, atol=1e-6)


def test_value_and_grad_gives_both() -> None:
    y, g = value_and_grad(lambda x: x * x * x)(2.0)
    assert (y, g) == (8, 12)


def test_grad_of_a_function_that_is_not_scalar_is_refused_by_name() -> None:
    def rows(x: Value) -> Value:
        return x * 2

    with pytest.raises(ShapeError, match=r"grad: rows gives shape \[3\], want a scalar"):
        grad(rows)(np.ones(3))


@pytest.mark.parametrize("x", [0.3, -1.2])
def test_third_derivatives_of_known_functions(x: float) -> None:
    assert grad(grad(grad(ops.sin)))(x) == pytest.approx(-np.cos(x), rel=1e-12)
    assert grad(grad(grad(lambda v: v * v * v * v)))(x) == pytest.approx(24 * x, rel=1e-12)
    t = np.tanh(x)
    third = -2 * (1 - t * t) * (1 - 3 * t * t)
    assert grad(grad(grad(ops.tanh)))(x) == pytest.approx(third, rel=1e-10)


def test_the_third_derivative_of_a_net_agrees_with_differences_of_the_second() -> None:
    d = RNG.standard_normal(W.shape).astype(np.float64)

    def along(order: int) -> Callable[[Any], Any]:
        def f(t: Any) -> Any:
            return loss(W + t * d, X) if isinstance(t, Value) else None

        for _ in range(order):
            f = grad(f)
        return f

    assert along(3)(0.1) == pytest.approx(slope(along(2), 0.1, 1.0), rel=1e-7)


def test_a_derivative_inside_a_function_is_differentiated_with_it() -> None:
    def f(x: Value) -> Value:
        inner = grad(lambda y: y * y * x)(x)  # 2 y x at y = x: 2 x^2
        return inner * x

    assert grad(f)(3.0) == pytest.approx(6 * 9)


def test_an_inner_derivative_at_a_number_still_depends_on_the_outer_argument() -> None:
    def f(x: Value) -> Value:
        return grad(lambda y: x * y * y)(np.float64(5.0)) * x  # 10 x^2

    assert grad(f)(3.0) == pytest.approx(60)


def test_vjp_pulls_cotangents_of_every_output_back() -> None:
    def f(a: Value, b: Value) -> tuple[Value, Value]:
        return a * b, ops.sin(a)

    a, b = X, RNG.standard_normal(X.shape)
    (p, s), pull = vjp(f, a, b)
    np.testing.assert_allclose(p, a * b)
    np.testing.assert_allclose(s, np.sin(a))
    ga, gb = pull(np.ones_like(a), b)
    np.testing.assert_allclose(ga, b + b * np.cos(a))
    np.testing.assert_allclose(gb, a)


def test_vjp_leaves_integer_inputs_out() -> None:
    labels = np.array([0, 2, 1, 1], np.int32)
    _, pull = vjp(ops.softmax_cross_entropy, X, labels)
    (g,) = pull(np.ones(4))
    p = np.exp(X) / np.exp(X).sum(1, keepdims=True)
    np.testing.assert_allclose(g, p - np.eye(3)[labels], rtol=1e-10)


@pytest.mark.parametrize(
    ("cotangents", "message"),
    [
        ([], "vjp: cotangents: 0 given, want 1, one for each result"),
        ([np.ones(3)], r"vjp: cotangent 0 is \[3\], want \[2\], the shape of the result"),
        ([1.0], r"vjp: cotangent 0 is \[\], want \[2\]"),
    ],
)
def test_cotangents_that_do_not_fit_are_refused(cotangents: list[Any], message: str) -> None:
    _, pull = vjp(lambda x: x * x, np.ones(2))
    with pytest.raises(ShapeError, match=message):
        pull(*cotangents)


def test_tangents_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ShapeError, match=r"jvp: tangent 0 is \[3\], want \[2\]"):
        jvp(lambda x: x * x, (np.ones(2),), (np.ones(3),))
    with pytest.raises(ShapeError, match="jvp: 1 tangents for 2 primals; want the same structure"):
        jvp(lambda d: d["a"] * d["b"], ({"a": 2.0, "b": 3.0},), ({"a": 1.0},))


def test_cotangents_and_tangents_take_the_type_of_what_they_belong_to() -> None:
    _, pull = vjp(lambda x: x * x, np.array([1.0, 2.0]))
    (g,) = pull(np.array([1, 1], np.float32))
    assert g.dtype == np.float64
    np.testing.assert_array_equal(g, [2, 4])
    _, along = jvp(lambda x: x * x, (np.array([1.0, 2.0]),), (np.array([1, 0]),))
    np.testing.assert_array_equal(along, [2, 0])


def test_jvp_is_the_derivative_along_the_tangents() -> None:
    dw, dx = RNG.standard_normal(W.shape), RNG.standard_normal(X.shape)
    y, dy = jvp(loss, (W, X), (dw, dx))
    gw, gx = grad(loss, wrt=(0, 1))(W, X)
    assert y == pytest.approx(value_and_grad(loss)(W, X)[0])
    assert dy == pytest.approx(np.vdot(gw, dw) + np.vdot(gx, dx), rel=1e-10)


def test_jvp_of_several_outputs_gives_tuples() -> None:
    (a, b), (da, db) = jvp(lambda x: (x * x, ops.exp(x)), (1.5,), (2.0,))
    assert (a, da) == (2.25, 6)
    assert (b, db) == pytest.approx((np.exp(1.5), 2 * np.exp(1.5)))


def test_a_hessian_vector_product_is_the_jvp_of_a_gradient() -> None:
    d = RNG.standard_normal(W.shape)
    _, hv = jvp(grad(loss), (W, X), (d, np.zeros_like(X)))
    np.testing.assert_allclose(hv, slope(lambda w: grad(loss)(w, X), W, d), rtol=1e-6, atol=1e-9)


def test_stop_gradient_makes_a_constant_of_its_argument() -> None:
    assert grad(lambda x: stop_gradient(ops.sin(x)) * x)(0.7) == pytest.approx(np.sin(0.7))


def test_float32_arguments_give_float32_gradients() -> None:
    g = grad(loss)(W.astype(np.float32), X.astype(np.float32))
    assert g.dtype == np.float32


def test_grad_on_values_adds_to_their_graph() -> None:
    graph = Graph.trace(grad(loss), (2, 3), (4, 3))
    assert graph.outputs[0].shape == (2, 3)


def test_the_source_of_a_gradient_runs_by_itself_and_gives_the_same_numbers() -> None:
    source = grad_source(loss, W, X)
    assert source.startswith("import numpy as np\n")
    assert "\ndef grad_loss(w, x):\n" in source
    np.testing.assert_array_equal(compiled(source, "grad_loss")(W, X), grad(loss)(W, X))


def decayed(x: Any) -> Any:
    for i in remat(range(20), every=5):
        x = ops.sin(x) * x + 0.1 * i
    return x


def squared_until_large(x: Any) -> Any:
    while x < 100:
        x = x * x + 0.1
    return x


def down(x: Any) -> Any:
    return x if x > 100 else down(x * x + 0.5) * x


def mixed(x: Any) -> Any:
    total = 0.0
    for i in range(5):
        if x > 2:
            x = x / 2
            if i > 3:
                break
        else:
            x = x * 1.7
        total = total + x
    return total


def classified(x: Any) -> Any:
    logits = np.stack([ops.silu(x), ops.gelu(x * 2.0), x[::-1]])
    filtered = ops.softmax(np.pad(logits, 1) @ np.ones((5, 2)), axis=1)
    return ops.reduce_sum(filtered[1:3, 0] * np.max(logits, axis=1)[:2], axes=(0,))


@pytest.mark.parametrize(
    ("f", "x"),
    [
        (decayed, np.float64(0.3)),
        (squared_until_large, np.float64(1.3)),
        (down, np.float64(1.3)),
        (mixed, np.float64(1.3)),
        (mixed, np.float64(3.5)),
        (classified, np.array([0.5, -1.0, 2.0])),
        (grad(decayed), np.float64(0.3)),
        (grad(down), np.float64(1.1)),
        (grad(grad(squared_until_large)), np.float64(1.3)),
    ],
)
def test_the_source_runs_where_there_is_numpy_alone(
    f: Callable[..., Any], x: Any, tmp_path: Path
) -> None:
    """In a Python of its own that cannot see this project, to the last bit."""
    if x.ndim == 0 and f in (decayed, squared_until_large):
        assert "while" in grad_source(f, x)
    name = f"grad_{f.__name__}"
    np.save(tmp_path / "x.npy", x)
    (tmp_path / "emitted.py").write_text(grad_source(f, x))
    code = f"import numpy as np, emitted; np.save('y', emitted.{name}(np.load('x.npy')))"
    paths = [str(Path(np.__file__).parents[1]), str(tmp_path)]
    subprocess.run(
        [sys.executable, "-S", "-c", f"import sys; sys.path += {paths}; {code}"],
        check=True, cwd=tmp_path, capture_output=True, env={"PATH": ""},
    )  # fmt: skip
    assert np.load(tmp_path / "y.npy").tobytes() == np.asarray(grad(f)(x)).tobytes()


def test_the_source_of_a_scalar_function_needs_no_examples() -> None:
    def f(x: Value, y: Value) -> Value:
        return ops.sin(x) * y

    source = grad_source(f, wrt=(0, 1))
    gx, gy = compiled(source, "grad_f")(0.3, 2.0)
    assert (gx, gy) == pytest.approx((2 * np.cos(0.3), np.sin(0.3)))


def test_the_source_of_a_second_derivative_runs_too() -> None:
    def f(x: Value) -> Value:
        return ops.sin(x) * x

    g = compiled(grad_source(grad(f)), "grad_grad_f")
    assert g(0.3) == pytest.approx(2 * np.cos(0.3) - 0.3 * np.sin(0.3), rel=1e-12)


def test_the_source_takes_arrays_in_order_then_weights_and_gives_gradients_in_order() -> None:
    w = Weight(np.arange(3.0), name="w")

    def f(d: Any, n: int, x: Any) -> Any:
        return (d["a"] * x * w * n).sum() + d["b"][0]

    examples = {"a": np.ones(3), "b": (2.0,)}, 4, np.full(3, 5.0)
    g = compiled(grad_source(f, *examples, wrt=("x", w, 0)), "grad_f")
    assert list(inspect.signature(g).parameters) == ["x0", "x1", "x", "w"]
    found = g(np.ones(3), 2.0, np.full(3, 5.0), w.data)
    want = 4 * w.data, np.full(3, 20.0), 20 * w.data, 1.0
    for a, b in zip(found, want, strict=True):
        np.testing.assert_array_equal(a, b)


def test_shapes_serve_as_examples() -> None:
    source = grad_source(loss, (2, 3), (4, 3))
    np.testing.assert_allclose(compiled(source, "grad_loss")(W, X), grad(loss)(W, X), rtol=1e-12)


def test_labels_are_examples_by_their_array() -> None:
    def f(logits: Value, labels: Value) -> Value:
        assert labels.dtype is DType.i32
        return ops.reduce_sum(ops.softmax_cross_entropy(logits, labels), axes=(0,))

    labels = np.array([0, 2, 1, 1], np.int32)
    g = compiled(grad_source(f, X, labels), "grad_f")(X, labels)
    np.testing.assert_array_equal(g, grad(f)(X, labels))


def test_an_argument_that_is_left_at_its_default_may_be_differentiated_by() -> None:
    def f(x: Any, scale: Any = 2.0, *, more: Any = 3.0) -> Any:
        return x * scale * more

    assert grad(f, ("scale", "more"))(5.0) == (15, 10)
    assert grad(f, "scale")(5.0, more=4.0) == 20
    with pytest.raises(ShapeError, match="wrt 'nothing': no such argument"):
        grad(f, "nothing")(5.0)


X2 = np.ones(2)


def doubled(x: Any) -> Any:
    return x * 2.0


@pytest.mark.parametrize("mode", modes.MODES)
@pytest.mark.parametrize(
    ("f", "message"),
    [
        (lambda: vjp(doubled, X2)[1](np.ones(3)), r"vjp: cotangent 0 is \[3\], want \[2\]"),
        (lambda: vjp(doubled, X2)[1]("a"), r"vjp: cotangent 0 is 'a', want f64\[2\]"),
        (lambda: vjp(doubled, X2)[1](X2, X2), "vjp: cotangents: 2 given, want 1"),
        (lambda: jvp(doubled, (X2,), (np.ones(3),)), r"jvp: tangent 0 is \[3\], want \[2\]"),
        (lambda: jvp(doubled, (X2,), ("a",)), r"jvp: tangent 0 is 'a', want f64\[2\]"),
        (lambda: vjp(lambda x: (x, "a"), X2), "vjp: f gives 'a', want arrays or numbers"),
        (lambda: jvp(lambda x: (x, None), (X2,), (X2,)), "jvp: f gives None, want arrays"),
        (lambda: jvp(doubled, X2, X2), r"jvp: primals is f64\[2\], want a tuple"),
        (lambda: grad(doubled, 2.5)(1.0), "wrt 2.5: want an argument's number or name"),
        (
            lambda: grad(lambda x: x[0] * 2.0)([1, 2]),
            "argument 0 is a list of 2, which holds no floats",
        ),
        (lambda: grad(doubled)(X2 * 1j), "argument 'x' is an array of complex128; want floats"),
    ],
)
def test_errors_name_the_argument_its_value_and_what_was_wanted(
    f: Callable[[], Any], message: str, mode: str
) -> None:
    with modes.using(mode=mode), pytest.raises((ShapeError, DTypeError), match=message):
        f()


@pytest.mark.parametrize("mode", modes.MODES)
def test_arrays_of_another_library_are_not_taken(mode: str) -> None:
    torch = pytest.importorskip("torch")
    t = torch.ones(2)
    refused = {
        "argument 'x' is a torch.Tensor; want an array of numpy": lambda: grad(doubled)(t),
        "jvp: tangent 0 is a torch.Tensor": lambda: jvp(doubled, (X2,), (t,)),
        "vjp: cotangent 0 is a torch.Tensor": lambda: vjp(doubled, X2)[1](t),
        "an argument or result is a torch.Tensor": lambda: jit(doubled)(t),
        "argument 'x' is a torch": lambda: grad(lambda x: x["a"].sum())({"a": t}),
    }
    for message, f in refused.items():
        with modes.using(mode=mode), pytest.raises(TypeError, match=message):
            f()


def test_an_error_inside_says_which_line_of_the_users_it_comes_from() -> None:
    def inner(x: Any) -> Any:
        return x @ np.ones((2, 2))  # of three

    with modes.using(mode="graph"), pytest.raises(ShapeError, match="matmul") as caught:
        grad(lambda x: inner(x).sum() if np.sum(x) > 0 else 0.0)(np.ones((3, 3)))
    note, hint = caught.value.__notes__
    assert "test_differentiate.py" in note
    assert ": in inner" in note
    assert "return x @ np.ones((2, 2))  # of three" in note
    assert "hint: x.shape" in hint


def test_a_whole_number_to_differentiate_by_is_data() -> None:
    assert grad(lambda x: x * x)(3) == 6.0


def test_a_second_derivative_that_fails_leaves_the_next_gradient_as_it_was() -> None:
    def fails(x: Any) -> Any:
        raise ValueError("no")

    def f(x: Any) -> Any:
        for _ in range(300):
            x = np.sin(x) * 1.5
        return x

    before = grad(f)(np.float64(0.5))
    with pytest.raises(ValueError, match="no"):
        grad(grad(fails))(np.float64(0.5))
    assert not Reverse(()).again
    with differentiated_again():
        assert Reverse(()).again
    assert grad(f)(np.float64(0.5)).tobytes() == before.tobytes()
