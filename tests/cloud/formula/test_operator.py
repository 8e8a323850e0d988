"""Formulas as operators: both modes, compiled, in files, with free sizes and rules of their own."""

from __future__ import annotations

import numpy as np
import pytest

import lite_runtime as lite
from cloud import grad, grad_source, jit, jvp, ops, set_mode
from cloud.autodiff import vjp
from cloud.formula import FormulaError, formula
from cloud.interpreter import run
from cloud.modes import settings
from ir.graph import Array, Graph, Model, Value
from ir.model_file import read, write
from ir.symbol import symbol
from ir.text import parse_text, to_text
from ir.verify import same_graph, verify
from tests.cloud.formula.operators import CONV2D, MAX_POOL, SOFTMAX

CONV = {"strides": (2, 2), "pads": (1, 1, 1, 1)}
ALL = (0, 1, 2, 3)


@pytest.fixture(params=["graph", "eager"])
def mode(request: pytest.FixtureRequest):
    before = settings()
    set_mode(request.param)
    yield request.param
    set_mode(before.mode)


def images() -> tuple[Array, Array]:
    rng = np.random.default_rng(0)
    shapes = (2, 7, 8, 3), (4, 3, 3, 3)
    x, w = (rng.standard_normal(s).astype(np.float32) for s in shapes)
    return x, w


def by_formula(x, w):
    return ops.reduce_sum(ops.tanh(CONV2D(x, w, stride=2, pad=1)), axes=ALL)


def by_operator(x, w):
    return ops.reduce_sum(ops.tanh(ops.conv2d(x, w, **CONV)), axes=ALL)


def close(a: Array, b: Array) -> None:
    np.testing.assert_allclose(a, b, rtol=0, atol=2e-5 * max(1.0, float(np.abs(b).max())))


@pytest.mark.parametrize("wrt", [0, 1])
def test_gradients_in_both_modes_are_those_of_the_hand_written_operator(mode, wrt) -> None:
    x, w = images()
    close(by_formula_on_arrays(x, w), np.asarray(ops.conv2d(x, w, **CONV)))
    close(grad(by_formula, wrt)(x, w), grad(by_operator, wrt)(x, w))

    def twice(f):
        return grad(lambda x, w: ops.reduce_sum(ops.sin(grad(f, 0)(x, w)), axes=ALL), wrt)

    close(twice(by_formula)(x, w), twice(by_operator)(x, w))


def by_formula_on_arrays(x: Array, w: Array) -> Array:
    y = CONV2D(x, w, stride=2, pad=1)
    assert isinstance(y, np.ndarray)
    return y


def test_a_formula_is_compiled_once(mode) -> None:
    x, w = images()
    step = jit(grad(by_formula))
    close(step(x, w), grad(by_operator)(x, w))
    step(x + 1, w)
    assert step.compilations == (0 if mode == "eager" else 1)


def test_forward_mode_is_reverse_mode_turned_over(mode) -> None:
    x, w = images()
    rng = np.random.default_rng(1)
    v, u = (rng.standard_normal(a.shape).astype(np.float32) for a in (x, w))
    _, got = jvp(by_formula, (x, w), (v, u))
    _, want = jvp(by_operator, (x, w), (v, u))
    close(got, want)


def test_the_gradient_as_source_runs_on_arrays() -> None:
    pool = formula("p = range(2)\ny[i] = reduce_max(p, x[2 * i + p])")
    source = grad_source(lambda x: ops.reduce_sum(pool(x), axes=(0,)), (5,))
    scope = {"np": np, "ops": ops}
    exec(source, scope)
    name = next(k for k in scope if k.startswith("grad_"))
    x = np.float32([3, 1, 2, 2, 9])
    np.testing.assert_array_equal(scope[name](x), np.float32([1, 0, 0.5, 0.5, 0]))


def test_a_graph_of_formulas_survives_file_and_text() -> None:
    x, w = Value((2, 7, 8, 3), name="x"), Value((4, 3, 3, 3), name="w")
    graph = vjp(Graph((x, w), (CONV2D(x, w, stride=2, pad=1),)))
    again = read(write(Model({"infer": graph}))).entries["infer"]
    assert same_graph(graph, again)
    assert same_graph(graph, parse_text(to_text(graph)))


@pytest.mark.parametrize(
    ("height", "attrs"),
    [(7, {"pad": 1}), (symbol("h"), {"pad": 1}), (symbol("h"), {"stride": 2, "pad": 1}),
     (symbol("h"), {"stride": 3})],
)  # fmt: skip
def test_one_program_serves_every_size_of_a_free_dimension(height, attrs) -> None:
    x, w = Value((symbol("batch"), height, 8, 3), name="x"), Value((4, 3, 3, 3), name="w")
    back = vjp(Graph((x, w), (CONV2D(x, w, **attrs),)))
    verify(back)
    session = lite.load(write(Model({"infer": back})))
    rng = np.random.default_rng(0)
    for batch, h in [(2, 7), (1, 7)] + [(3, 12), (1, 4)] * (height != 7):
        a, b = rng.standard_normal((batch, h, 8, 3)), rng.standard_normal((4, 3, 3, 3))
        fixed = Value(a.shape), Value(b.shape)
        pads = (attrs.get("pad", 0),) * 4
        y = ops.conv2d(*fixed, strides=(attrs.get("stride", 1),) * 2, pads=pads)
        g = rng.standard_normal(y.shape)
        want = run(vjp(Graph(fixed, (y,))), a, b, g)
        names = [str(v.name) for v in back.inputs]
        got = session.run({n: v.astype(np.float32) for n, v in zip(names, (a, b, g), strict=True)})
        for one, two, v in zip(got.values(), run(back, a, b, g), want, strict=True):
            close(one, v)
            np.testing.assert_allclose(two, v, atol=1e-9)


def test_a_formula_of_free_sizes_refuses_what_may_leave_a_tensor() -> None:
    f = formula("i = range(x.shape[0])\ny[i] = x[i] + x[i + 1]")
    with pytest.raises(FormulaError, match=r"an index of x, \[n\], leaves axis 0"):
        f(Value((symbol("n"),)))


def test_integers_choose_and_the_table_gets_a_gradient(mode) -> None:
    f = formula("y[i, k, j] = table[idx[i, k], j] * scale[j]")
    rng = np.random.default_rng(0)
    table, scale = (rng.standard_normal(s).astype(np.float32) for s in ((5, 3), (3,)))
    idx = np.int32([[0, 4], [1, 1]])
    np.testing.assert_array_equal(f(table, idx, scale), table[idx] * scale)
    got = grad(lambda t: ops.reduce_sum(f(t, idx, scale), axes=(0, 1, 2)))(table)
    want = np.zeros_like(table)
    np.add.at(want, idx, scale)
    np.testing.assert_allclose(got, want, rtol=1e-6)
    with pytest.raises(FormulaError, match="idx chooses, want int32"):
        f(table, idx.astype(np.float32), scale)


def test_truth_values_and_integers_are_read_as_numbers() -> None:
    f = formula("y[i] = where(keep[i] > 0, count[i] * x[i], 0 - 1)")
    keep, count = np.array([True, False, True]), np.int32([2, 3, 4])
    x = np.float32([0.5, 0.5, 0.5])
    np.testing.assert_array_equal(f(keep, count, x), np.float32([1, -1, 2]))


def test_a_decorated_function_is_a_formula() -> None:
    @formula
    def rows(x, *, step=2):
        """Every other row."""
        n = range((x.shape[0] - 1) // step + 1)
        y[n, j] = x[n * step, j]  # noqa: F821

    x = np.arange(10, dtype=np.float32).reshape(5, 2)
    np.testing.assert_array_equal(rows(x), x[::2])
    np.testing.assert_array_equal(rows(x, step=3), x[::3])
    assert rows.__name__ == "rows"
    assert rows.__doc__ == "Every other row."
    assert rows.inputs == ["x"]


def test_equal_maxima_share_the_gradient() -> None:
    x = np.zeros((1, 4, 4, 1), np.float32)
    x[0, 0, 0] = x[0, 0, 1] = 1
    g = grad(lambda x: ops.reduce_sum(MAX_POOL(x), axes=ALL))(x)
    np.testing.assert_array_equal(g[0, :2, :2, 0], [[0.5, 0.5], [0, 0]])
    np.testing.assert_array_equal(g[0, 2:, 2:, 0], 0.25)


def test_a_formula_trains_inside_of_a_module(mode) -> None:
    from cloud import nn

    class Scores(nn.Module):
        def __init__(self) -> None:
            self.dense = nn.Linear(3, 4, rng=np.random.default_rng(0))

        def forward(self, x):
            return SOFTMAX(self.dense(x))

    net = Scores()
    x = np.ones((2, 3), np.float32)
    g = grad(lambda x: ops.reduce_sum(net(x)[:, 0], axes=(0,)), wrt=net)(x)
    total = sum(np.abs(np.asarray(v)).sum() for v in g.values())
    assert total > 0.01


# rules of one's own


def test_a_rule_takes_the_place_of_the_automatic_gradient(mode) -> None:
    square = formula("y[i] = w[i] * x[i] * x[i]")

    @square.gradient("x")
    def _(g, x, w):
        return g * x * w * 7.0

    x, w = np.float32([1, 2, 3]), np.float32([1, 1, 2])

    def total(x, w):
        return ops.reduce_sum(square(w, x), axes=(0,))

    np.testing.assert_array_equal(grad(total, 0)(x, w), 7 * x * w)
    np.testing.assert_array_equal(grad(total, 1)(x, w), x * x)  # still automatic


def test_a_rule_may_be_a_formula_and_have_a_rule_itself(mode) -> None:
    square = formula("y[i] = x[i] * x[i]")
    slope = formula("d[i] = 5 * g[i] * x[i] + 0 * y[i]")
    square.gradient("x", slope)
    x = np.float32([1, 2, 3])

    def first(x):
        return grad(lambda x: ops.reduce_sum(square(x), axes=(0,)))(x)

    def second(x):
        return grad(lambda x: ops.reduce_sum(first(x), axes=(0,)))(x)

    np.testing.assert_array_equal(first(x), 5 * x)
    np.testing.assert_array_equal(second(x), [5, 5, 5])
    slope.gradient("x", formula("e[i] = 11 * g[i]"))
    np.testing.assert_array_equal(second(x), [11, 11, 11])


def test_wrong_rules_are_named() -> None:
    square = formula("y[i] = x[i] * x[i]")
    with pytest.raises(FormulaError, match=r"no input z, want one of \['x'\]"):
        square.gradient("z")
    square.gradient("x", lambda g, z: g)
    with pytest.raises(FormulaError, match="a rule reads z, want one of"):
        square(Value((3,)))
    square.gradient("x", formula("d[i, j] = g[i] * x[j]"))
    with pytest.raises(FormulaError, match=r"the rule for x gives \[3,3\], want \[3\]"):
        square(Value((3,)))
