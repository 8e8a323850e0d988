"""Every rule of the algebra, on random tensors: what it says is so, and it is applied."""

from __future__ import annotations

import re
import zlib
from typing import Any

import numpy as np
import pytest

from cloud.compile.pattern import Rule, build, number_under, term
from cloud.compile.program import Program
from cloud.compile.rules import RULES
from cloud.compile.simplify import simplify
from cloud.interpreter import run
from ir.dtype import DType
from ir.errors import IrError
from ir.graph import Array, Constant, Graph, Value
from ir.op import OPS
from ir.symbol import symbol

CLOSE = 1e-5  # of float32 results that rounding may change, relative to the largest


def form_of(rule: Rule, *, free: bool = False, of: DType = DType.f32) -> tuple[Graph, list[Array]]:
    """The rule's pattern as a graph of its variables, and arrays for it."""
    rng = np.random.default_rng(zlib.crc32(str(rule).encode()))
    values: dict[str, Any] = {}
    arrays: dict[str, Array] = {}
    for v in rule.root.variables():
        if v.kind == "known":
            number = rule.samples[v.name]
            values[v.name] = number if of.is_float or number == int(number) else 7
        elif v.name not in values:
            shape = tuple(rule.samples.get(v.name, (3, 4)))
            array = elements(rng, shape, of, rule.low)
            is_truth = v.name == "c" and ("where" in rule.pattern or "logical" in rule.pattern)
            arrays[v.name] = array > 0 if is_truth else array
            dtype = DType.bool if is_truth else of
            values[v.name] = Value((symbol("n"), *shape[1:]) if free else shape, dtype, name=v.name)
    attributes = {k: of.name if k == "t" else a for k, a in rule.samples.items()}
    bound = {**{k: a for k, a in attributes.items() if k not in arrays}, **values}

    def make(name: str, inputs: Any, attrs: dict[str, Any]) -> Value:
        y: Value = OPS[name].node(inputs, attrs).results[0]
        return y

    made = build(rule.root, bound, make, of)
    return Graph(tuple(values[name] for name in arrays), (made,)), list(arrays.values())


def elements(rng: np.random.Generator, shape: tuple[int, ...], of: DType, low: float) -> Array:
    """Random floats from `low` to 2; random integers, the first the least and the last the largest
    of their type."""
    if of.is_float:
        return rng.uniform(low, 2, shape).astype(of.numpy)
    if of is DType.bool:
        return rng.integers(0, 2, shape) > 0
    info = np.iinfo(of.numpy)
    array = rng.integers(max(-9, info.min), 9, shape).astype(of.numpy)
    array.flat[0], array.flat[-1] = info.min, info.max
    return array


def alike(a: Array, b: Array) -> bool:
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


@pytest.mark.parametrize("rule", RULES, ids=str)
def test_a_rule_leaves_what_it_says(rule: Rule) -> None:
    graph, arrays = form_of(rule)
    before = graph.outputs[0].node
    assert before is not None
    new = rule.apply(
        before, before.inputs, lambda v: 1, lambda n, x, a: OPS[n].node(x, a).results[0]
    )
    assert new is not None, "the rule does not match its own pattern"
    alone = Graph(graph.inputs, (new,))
    if rule.exact:
        want, found = (Program(g, kernels="ref", passes=())(arrays)[0] for g in (graph, alone))
        assert alike(want[0], found[0])
    want, found = run(graph, *arrays), run(alone, *arrays)
    np.testing.assert_allclose(found[0], want[0], rtol=CLOSE, atol=CLOSE * np.abs(want[0]).max())


OTHERS = [d for d in DType if d not in (DType.f32, DType.tape)]


@pytest.mark.parametrize("of", OTHERS, ids=repr)
@pytest.mark.parametrize("rule", RULES, ids=str)
def test_a_rule_holds_in_every_type_that_its_operators_take(rule: Rule, of: DType) -> None:
    with np.errstate(all="ignore"):
        try:
            graph, arrays = form_of(rule, of=of)
            want = run(graph, *arrays)[0]
        except (TypeError, OverflowError, IrError):  # no operator or number of this type
            return
        after = simplify(graph, exact=rule.exact or not of.is_float)
        found = run(after, *arrays)[0]
    if of.is_float and not rule.exact:
        close = 100 * float(np.finfo(of.numpy).eps)
        np.testing.assert_allclose(found, want, rtol=close, atol=close * np.abs(want).max())
    else:
        np.testing.assert_array_equal(found, want)
    node = graph.outputs[0].node
    assert node is not None
    new = rule.apply(node, node.inputs, lambda v: 1, lambda n, x, a: OPS[n].node(x, a).results[0])
    assert (new is not None) == (graph.outputs[0].dtype in rule.dtypes)


def test_a_quotient_of_integers_has_no_fraction_left() -> None:
    x = Value((4,), DType.i32)
    array = np.array([16, -16, 7, -(2**31)], np.int32)
    for k, want in ((8, [2, -2, 0, -(2**28)]), (-2, [-8, 8, -3, 2**30])):
        graph = simplify(Graph((x,), (OPS["div"](x, Constant(k, dtype=DType.i32)),)), exact=False)
        assert run(graph, array)[0].tolist() == want


ZEROS_AND_INFINITIES = np.array(
    [[0.0, -0.0, np.inf, -np.inf], [1e-40, -1e-40, 1.0, -1.0], [3e38, -3e38, 0.5, -2.5]], np.float32
)


@pytest.mark.parametrize("rule", [r for r in RULES if r.exact and "x" not in r.samples], ids=str)
def test_an_exact_rule_keeps_the_bits_of_zeros_and_infinities_too(rule: Rule) -> None:
    graph, arrays = form_of(rule)
    arrays = [
        ZEROS_AND_INFINITIES if a.dtype == np.float32 and a.shape == (3, 4) else a for a in arrays
    ]
    after = simplify(graph)
    want, found = (Program(g, kernels="ref", passes=())(arrays)[0] for g in (graph, after))
    assert alike(want[0], found[0])


@pytest.mark.parametrize(
    "rule", [r for r in RULES if not r.samples.keys() - {"k", "k2", "a", "c"}], ids=str
)
def test_a_rule_holds_for_free_dimensions_or_leaves_them_alone(rule: Rule) -> None:
    fixed, arrays = form_of(rule)
    if any(isinstance(rule.samples.get(n), tuple) for n in ("a", "c")):
        return
    graph, _ = form_of(rule, free=True)
    after = simplify(graph, exact=rule.exact)
    assert [v.shape for v in after.outputs] == [v.shape for v in graph.outputs]
    np.testing.assert_allclose(
        run(after, *arrays)[0], run(fixed, *arrays)[0], rtol=CLOSE, atol=CLOSE
    )


def test_no_rule_stands_twice() -> None:
    texts = [str(r) for r in RULES]
    assert len(texts) == len(set(texts))


def test_a_number_in_a_pattern_is_that_very_number() -> None:
    x = Value((3,))
    plus = Graph((x,), (x + Constant(np.float32(-0.0)),))
    assert len(simplify(plus, exact=False).nodes) == 1  # the rule is of 0, and -0 is another


def test_a_stretched_number_is_the_number() -> None:
    one = OPS["broadcast_to"](Constant(np.float32(1)), shape=(2, 3))
    assert isinstance(number_under(one), Constant)
    x = Value((2, 3))
    assert simplify(Graph((x,), (x * one,))).outputs == (x,)


def test_a_rule_that_would_compute_twice_is_not_applied() -> None:
    x = Value((3, 4))
    total = OPS["reduce_sum"](x, axes=(1,))
    column = OPS["reshape"](total, shape=(3, 1))
    both = Graph((x,), (total, column))
    assert [n.op.name for n in simplify(both).nodes] == ["reduce_sum", "reshape"]
    assert [n.op.name for n in simplify(Graph((x,), (column,))).nodes] == ["reduce_sum"]


@pytest.mark.parametrize("text", ["x ** 2", "nothing(x)", "x if y else z"])
def test_a_text_that_is_no_term_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=re.escape(f"{text}: no term of a rule")):
        term(text)
