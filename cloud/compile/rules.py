"""The algebra that the simplification pass knows, one rule a line."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from cloud.compile.pattern import ANY, NUMBERS, SIGNED, Rule

_MATRICES = {"x": (2, 3, 4), "y": (4, 5), "p": (0, 2, 1)}

ARITHMETIC = (
    Rule("x * 1", "x", dtypes=NUMBERS),
    Rule("x / 1", "x", dtypes=NUMBERS),
    Rule("x - 0", "x", dtypes=NUMBERS),
    Rule("x + 0", "x", dtypes=NUMBERS, exact=False),  # -0 + 0 is 0
    Rule("0 - x", "-x", dtypes=NUMBERS, exact=False),
    Rule("x * -1", "-x", dtypes=SIGNED),
    Rule("x / -1", "-x", dtypes=SIGNED),
    Rule("x / k", "x * (1 / k)", when="is_power_of_two(k, x.dtype)", samples={"k": 8.0}),
    Rule("x / k", "x * (1 / k)", when="k != 0", exact=False, samples={"k": 3.0}),
    Rule("x * k * k2", "x * (k * k2)", dtypes=NUMBERS, exact=False, samples={"k": 3.0, "k2": 0.7}),
    Rule("x + k + k2", "x + (k + k2)", dtypes=NUMBERS, exact=False, samples={"k": 3.0, "k2": 0.7}),
    Rule("x + k - k2", "x + (k - k2)", dtypes=NUMBERS, exact=False, samples={"k": 3.0, "k2": 0.7}),
    Rule("pow(x, 1)", "x", dtypes=NUMBERS),
    Rule("pow(x, 2)", "x * x", dtypes=NUMBERS, exact=False),
    Rule("pow(x, 3)", "x * x * x", dtypes=NUMBERS, exact=False),
    Rule("pow(x, 0.5)", "sqrt(x)", exact=False, low=0.1),
    Rule("pow(x, -1)", "reciprocal(x)", exact=False, low=0.1),
)

SIGNS = (
    Rule("-(-x)", "x", dtypes=NUMBERS),
    Rule("x + -y", "x - y", dtypes=NUMBERS),
    Rule("-x - y", "-(x + y)", dtypes=NUMBERS, exact=False, once=True),
    Rule("x - -y", "x + y", dtypes=NUMBERS),
    Rule("-x * -y", "x * y", dtypes=NUMBERS),
    Rule("-x / -y", "x / y", low=0.1),
    Rule("-(x - y)", "y - x", dtypes=NUMBERS, exact=False),  # where x is y, -0 and 0
    Rule("-(x * k)", "x * -k", dtypes=NUMBERS, once=True, samples={"k": 0.3}),
    Rule("-x * k", "x * -k", dtypes=NUMBERS, samples={"k": 0.3}),
    Rule("abs(-x)", "abs(x)", dtypes=SIGNED),
    Rule("cos(-x)", "cos(x)"),
    Rule("abs(x) * abs(x)", "x * x", dtypes=NUMBERS),
)

REPEATED = (
    Rule("relu(relu(x))", "relu(x)"),
    Rule("abs(abs(x))", "abs(x)", dtypes=NUMBERS),
    Rule("sign(sign(x))", "sign(x)", dtypes=NUMBERS),
    Rule("floor(floor(x))", "floor(x)"),
    Rule("ceil(ceil(x))", "ceil(x)"),
    Rule("round(round(x))", "round(x)"),
    Rule("maximum(x, x)", "x", dtypes=ANY),
    Rule("minimum(x, x)", "x", dtypes=ANY),
    Rule("relu(abs(x))", "abs(x)"),
    Rule("relu(exp(x))", "exp(x)"),
    Rule("abs(exp(x))", "exp(x)"),
    Rule("relu(sigmoid(x))", "sigmoid(x)"),
    Rule(
        "clip(clip(x, low=a, high=b), low=c, high=d)",
        "clip(x, low=max(a, c), high=min(b, d))",
        when="max(a, c) <= min(b, d)",
        samples={"a": -1.0, "b": 1.5, "c": 0.0, "d": 6.0},
    ),
    Rule("where(c, x, x)", "x", dtypes=ANY),
    Rule("logical_not(logical_not(c))", "c", dtypes=ANY),
    Rule("where(logical_not(c), x, y)", "where(c, y, x)", dtypes=ANY),
)

LOGARITHMS = (
    Rule("log(exp(x))", "x", exact=False),
    Rule("exp(x) * exp(y)", "exp(x + y)", exact=False, once=True),
    Rule("log(softmax(x, axis=i))", "log_softmax(x, axis=i)", exact=False, samples={"i": 1}),
    Rule("log(sigmoid(x))", "-softplus(-x)", exact=False),
    Rule("sqrt(x * x)", "abs(x)", exact=False),
    Rule("reciprocal(reciprocal(x))", "x", exact=False, low=0.1),
    Rule("x * y + x * z", "x * (y + z)", dtypes=NUMBERS, exact=False, once=True),
    Rule("x * y - x * z", "x * (y - z)", dtypes=NUMBERS, exact=False, once=True),
    Rule("x / y / z", "x / (y * z)", exact=False, once=True, low=0.1),
)

SHAPES = (
    Rule("reshape(x, shape=a)", "x", dtypes=ANY, when="a == x.shape", samples={"a": (3, 4)}),
    Rule(
        "reshape(reshape(x, shape=a), shape=b)",
        "reshape(x, shape=b)",
        dtypes=ANY,
        samples={"a": (2, 6), "b": (12,)},
    ),
    Rule("broadcast_to(x, shape=a)", "x", dtypes=ANY, when="a == x.shape", samples={"a": (3, 4)}),
    Rule(
        "broadcast_to(broadcast_to(x, shape=a), shape=b)",
        "broadcast_to(x, shape=b)",
        dtypes=ANY,
        samples={"x": (3, 1), "a": (3, 4), "b": (2, 3, 4)},
    ),
    Rule(
        "transpose(x, perm=p)",
        "x",
        dtypes=ANY,
        when="p == tuple(range(len(p)))",
        samples={"p": (0, 1)},
    ),
    Rule(
        "transpose(transpose(x, perm=p), perm=q)",
        "transpose(x, perm=tuple(p[i] for i in q))",
        dtypes=ANY,
        samples={"x": (2, 3, 4), "p": (2, 0, 1), "q": (0, 2, 1)},
    ),
    Rule(
        "slice(x, begin=a, end=b, step=s)",
        "x",
        dtypes=ANY,
        when="not any(a) and b == x.shape and set(s) <= {1}",
        samples={"a": (0, 0), "b": (3, 4), "s": (1, 1)},
    ),
    Rule(
        "pad(x, before=a, after=b)",
        "x",
        dtypes=ANY,
        when="not any(a) and not any(b)",
        samples={"a": (0, 0), "b": (0, 0)},
    ),
    Rule("cast(x, to=t)", "x", dtypes=ANY, when="t.value == x.dtype.name", samples={"t": "f32"}),
    Rule("concat(x)", "x", dtypes=ANY),
    Rule(
        "matmul(transpose(x, perm=p), y, transpose_a=i, transpose_b=j)",
        "matmul(x, y, transpose_a=not i, transpose_b=j)",
        dtypes=ANY,
        when="swaps_last_two(p)",
        samples={**_MATRICES, "x": (2, 4, 3), "i": False, "j": False},
    ),
    Rule(
        "matmul(x, transpose(y, perm=p), transpose_a=i, transpose_b=j)",
        "matmul(x, y, transpose_a=i, transpose_b=not j)",
        dtypes=ANY,
        when="swaps_last_two(p)",
        samples={**_MATRICES, "y": (2, 5, 4), "i": False, "j": False},
    ),
)


def _of_reduction(name: str) -> Iterator[Rule]:
    yield Rule(
        f"{name}(x, axes=a, keep_dims=k0)",
        "x",
        dtypes=ANY,
        when="a == ()",
        exact=name not in ("reduce_sum", "reduce_mean"),  # whose sum of -0 alone is 0
        samples={"a": (), "k0": False},
    )
    kept = {"x": (3, 4), "a": (1,), "k0": False, "s": (3, 1)}
    yield Rule(
        f"reshape({name}(x, axes=a, keep_dims=k0), shape=s)",
        f"{name}(x, axes=a, keep_dims=True)",
        dtypes=ANY,
        when="s == with_units(x.shape, a)",
        once=True,
        samples=kept,
    )
    yield Rule(
        f"reshape({name}(x, axes=a, keep_dims=k0), shape=s)",
        f"{name}(x, axes=a, keep_dims=False)",
        dtypes=ANY,
        when="s == without(x.shape, a)",
        once=True,
        samples={**kept, "k0": True, "s": (3,)},
    )


REDUCTIONS = tuple(
    chain.from_iterable(
        _of_reduction(name)
        for name in ("reduce_sum", "reduce_mean", "reduce_max", "reduce_min", "reduce_prod")
    )
)

RULES = (*ARITHMETIC, *SIGNS, *REPEATED, *LOGARITHMS, *SHAPES, *REDUCTIONS)
